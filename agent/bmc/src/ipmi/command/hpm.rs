//! Upgrades of firmware by HPM.1 (PICMG HPM.1 R1.0, chapter 3), where the BMC supports it.

use ipmi_rs_core::connection::NetFn;

use super::Raw;
use crate::{
    FirmwareUpdate, FirmwareUpdates, UpdatePhase,
    ipmi::requester::{RequestError, Requester},
};

/// Identifier of PICMG, the first byte of every request and response.
const PICMG: u8 = 0x00;
/// Network function of group extensions.
const GROUP: u8 = 0x2c;
const GET_TARGET_UPGRADE_CAPABILITIES: u8 = 0x2e;
const GET_UPGRADE_STATUS: u8 = 0x34;
/// A completion code of HPM.1: the command goes on.
const IN_PROGRESS: u8 = 0x80;
const DONE: u8 = 0x00;
const UPLOAD_FIRMWARE_BLOCK: u8 = 0x32;
/// Where it was read.
const SOURCE: &str = "HPM.1";

/// Reads whether an upgrade goes on; `None`: the BMC does not support HPM.1.
///
/// # Errors
///
/// The BMC supports it, and does not report its status.
pub(in crate::ipmi) async fn upgrade<A: Requester>(
    ask: &A,
) -> Result<Option<FirmwareUpdates>, RequestError> {
    match ask.ask(request(GET_TARGET_UPGRADE_CAPABILITIES)).await {
        Ok(data) if data.first() == Some(&PICMG) => {}
        Ok(_) | Err(RequestError::Code(_) | RequestError::Data(_)) => return Ok(None),
        Err(error) => return Err(error),
    }
    let status = ask.ask(request(GET_UPGRADE_STATUS)).await?;
    let status = of_status(&status).ok_or(RequestError::Data("malformed upgrade status"))?;
    let (update, unread) = match status {
        Status::None => (None, None),
        Status::GoesOn(update) => (Some(update), None),
        Status::Unknown(why) => (None, Some(format!("{SOURCE}: {why}"))),
    };
    Ok(Some(FirmwareUpdates {
        updates: update.into_iter().collect(),
        read: vec![SOURCE.to_owned()],
        unread: unread.into_iter().collect(),
        silence: None,
        needs: None,
    }))
}

fn request(command: u8) -> Raw {
    Raw::new(NetFn::Reserved(GROUP), command, [PICMG])
}

/// What Get Upgrade Status tells.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Status {
    /// No upgrade goes on.
    None,
    GoesOn(FirmwareUpdate),
    /// It may go on, with the reason.
    Unknown(String),
}

/// The upgrade that goes on (Get Upgrade Status); `None`: the response is malformed.
///
/// Between two blocks of an upload, the last command is complete although the image is not. After a block that was
/// refused, it is sent again, or the upload has failed.
fn of_status(status: &[u8]) -> Option<Status> {
    let [PICMG, command, code, rest @ ..] = status else {
        return None;
    };
    let is_block = *command == UPLOAD_FIRMWARE_BLOCK;
    match *code {
        IN_PROGRESS => {}
        DONE if is_block => {}
        DONE => return Some(Status::None),
        code if is_block => {
            let why = format!("the last block of an upload failed ({code:#04x}), which may go on");
            return Some(Status::Unknown(why));
        }
        // A command that failed writes nothing more.
        _ => return Some(Status::None),
    }
    Some(Status::GoesOn(FirmwareUpdate {
        source: SOURCE.to_owned(),
        name: String::new(),
        phase: UpdatePhase::Running,
        state: name(*command).to_owned(),
        percent: rest.first().copied().filter(|percent| *percent <= 100),
        message: String::new(),
    }))
}

/// What a long command of an upgrade does.
fn name(command: u8) -> &'static str {
    match command {
        0x30 => "aborting",
        0x31 => "preparing or backing up components",
        UPLOAD_FIRMWARE_BLOCK => "uploading",
        0x33 => "finishing the upload",
        0x35 => "activating",
        0x38 => "rolling back",
        _ => "in progress",
    }
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    #[test]
    fn upgrade_goes_on_while_its_command_does_and_between_blocks() {
        let of = |status: &[u8]| match of_status(status).expect("well-formed") {
            Status::GoesOn(update) => Some((update.state, update.percent)),
            Status::None => None,
            Status::Unknown(why) => panic!("{why}"),
        };
        let some = |state: &str, percent| Some((state.to_owned(), percent));
        assert_eq!(of(&[0, 0x35, 0x80]), some("activating", None));
        assert_eq!(of(&[0, 0x35, 0x80, 40]), some("activating", Some(40)));
        assert_eq!(of(&[0, 0x32, 0x00]), some("uploading", None));
        assert_eq!(of(&[0, 0x33, 0x00]), None, "uploaded");
        assert_eq!(of(&[0, 0x35, 0x81]), None, "failed");
        assert_eq!(of(&[0, 0x00, 0x00]), None, "none since the start");
    }

    #[test]
    fn upload_whose_last_block_failed_may_go_on() {
        for code in [0x81, 0x82, 0xc0, 0xff] {
            let status = of_status(&[0, 0x32, code]);
            let Some(Status::Unknown(why)) = status else {
                panic!("{status:?}")
            };
            assert!(why.contains(&format!("{code:#04x}")), "{why}");
        }
    }

    #[test]
    fn malformed_status_is_not_one_without_an_upgrade() {
        for status in [&[][..], &[0], &[0, 0x32], &[0xdc, 0x32, 0x80]] {
            assert_eq!(of_status(status), None, "{status:?}");
        }
    }

    proptest! {
        #[test]
        fn parsing_arbitrary_bytes_does_not_panic(bytes in vec(any::<u8>(), 0..9)) {
            if let Some(Status::GoesOn(update)) = of_status(&bytes) {
                prop_assert!(update.percent.is_none_or(|done| done <= 100));
            }
        }
    }
}
