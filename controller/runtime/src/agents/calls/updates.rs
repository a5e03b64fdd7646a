//! What an agent reports of updates of firmware.

use rackhand_core::remediation::{FirmwareUpdate, UpdateStatus};
use rackhand_proto::v1;

/// The first update that runs. What could not be read may hide one.
pub(super) fn status(updates: &v1::FirmwareUpdates) -> UpdateStatus {
    let running = |update: &&v1::FirmwareUpdate| update.phase() != v1::UpdatePhase::AtNextStart;
    if let Some(update) = updates.updates.iter().find(running) {
        return UpdateStatus::Running(firmware_update(update));
    }
    match updates.unread.is_empty() {
        true => UpdateStatus::Idle,
        false => UpdateStatus::Unknown(updates.unread.join("; ")),
    }
}

/// An update as the agent reports it.
pub(super) fn firmware_update(update: &v1::FirmwareUpdate) -> FirmwareUpdate {
    FirmwareUpdate {
        source: update.source.clone(),
        name: update.name.clone(),
        state: update.state.clone(),
        percent: update
            .percent
            .and_then(|percent| u8::try_from(percent).ok()),
        message: update.message.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(phase: v1::UpdatePhase) -> v1::FirmwareUpdate {
        v1::FirmwareUpdate {
            source: "job JID_1".into(),
            phase: phase.into(),
            state: "Running".into(),
            percent: Some(40),
            ..v1::FirmwareUpdate::default()
        }
    }

    #[test]
    fn scheduled_job_is_no_update_and_an_unread_list_is_not_idle() {
        let of = |updates, unread: &[&str]| {
            status(&v1::FirmwareUpdates {
                updates,
                unread: unread.iter().map(|&text| text.to_owned()).collect(),
                ..v1::FirmwareUpdates::default()
            })
        };
        let scheduled = || update(v1::UpdatePhase::AtNextStart);
        assert_eq!(of(Vec::new(), &[]), UpdateStatus::Idle);
        assert_eq!(of(vec![scheduled()], &[]), UpdateStatus::Idle);
        let unread = of(vec![scheduled()], &["tasks: timeout"]);
        assert_eq!(unread, UpdateStatus::Unknown("tasks: timeout".into()));
        // A phase of a later version may write firmware.
        for phase in [v1::UpdatePhase::Running, v1::UpdatePhase::Unspecified] {
            let found = of(vec![scheduled(), update(phase)], &["tasks: timeout"]);
            let UpdateStatus::Running(found) = found else {
                panic!("{found:?}")
            };
            assert_eq!(found.to_string(), "job JID_1, Running, 40 %");
        }
    }
}
