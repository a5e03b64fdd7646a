//! Tests of the messages of all reasons.

use super::{super::*, build::*};

fn all() -> Vec<Reason> {
    let x = || "metal/host-7".to_owned();
    vec![
        Reason::Started,
        Reason::Working,
        Reason::CollectingEvidence,
        Reason::WaitingForDump,
        Reason::Holding,
        Reason::Evicting("1 pod (a/b)".into()),
        Reason::EvictionBlocked("1 pod (a/b), kept by PodDisruptionBudget a/c".into()),
        Reason::EvictionWaits("1 pod (a/b), kept by PodDisruptionBudget a/c".into()),
        Reason::EvictionUnfinished("1 pod (a/b)".into()),
        Reason::EvictionAborted("1 pod (a/b)".into()),
        Reason::ApiServerSlow(x()),
        Reason::Evicted,
        Reason::EvictedInPart("1 pod (a/b)".into()),
        Reason::SilentHostLeftOn("node n is shown as Unknown; left on it: 1 pod (a/b)".into()),
        Reason::CordonRemoved("node n was uncordoned by somebody else 3 times".into()),
        Reason::FailedWithPods("1 pod (a/b)".into()),
        Reason::Tainting,
        Reason::InvalidSpec("spec.strategy is not set".into()),
        Reason::MachineNotFound("the Machine is gone".into()),
        Reason::HostNotFound(x()),
        Reason::HostAmbiguous(x()),
        Reason::Paused,
        Reason::HostPaused(x()),
        Reason::HostOffline(x()),
        Reason::HostNotProvisioned(x()),
        Reason::HostServicing(x()),
        Reason::HostDeleting(x()),
        Reason::UnsupportedHost(x()),
        Reason::HeldByOthers("reboot.metal3.io/other".into()),
        Reason::OtherRemediation("Metal3Remediation default/m1".into()),
        Reason::RivalController("reboot.metal3.io/metal3-remediation-u1".into()),
        Reason::OrphanedHold("reboot.metal3.io/rackhand-9a72".into()),
        Reason::MovedAway,
        Reason::MachineUpdating("annotation a, until 2027-01-15T08:00:00Z".into()),
        Reason::CheckingFirmware,
        Reason::FirmwareUpdateRunning("job JID_1, Running, 40 %".into()),
        Reason::FirmwareUpdateUnknown("the BMC does not answer".into()),
        Reason::UpdateDuringPowerOff("job JID_1, Running".into()),
        Reason::BootingThroughUpdate("job JID_1, Running".into()),
        Reason::ControlPlaneQuorum("1 of 3".into()),
        Reason::AgentUnreachable("rack r1 is not connected".into()),
        Reason::BmcAccessMissing("Secret metal/bmc-7 does not exist".into()),
        Reason::ClusterGone("metal/c".into()),
        Reason::HostGone(x()),
        Reason::StateLost("node-7 is tainted".into()),
        Reason::AskingToShutDown,
        Reason::ShuttingDown,
        Reason::SettingMarks("HostMaintenance ns/m".into()),
        Reason::WaitingForMarks("HostMaintenance ns/m".into()),
        Reason::PowerOffRunning,
        Reason::FenceUnconfirmed("no answer".into()),
        Reason::IdentityMismatch("serial X, not Y".into()),
        Reason::NodeReplaced("node-7".into()),
        Reason::NodeMismatch("node-7 was registered anew".into()),
        Reason::OtherNodeOnHost("node-7 is stale".into()),
        Reason::CheckingOtherNode("node-7".into()),
        Reason::LeaseRenewed("node-7".into()),
        Reason::WaitingForQuietLease,
        Reason::WaitingForRenewal,
        Reason::WorkloadUnreachable("connection refused".into()),
        Reason::PowerUnreadable("no answer".into()),
        Reason::FenceViolated("\"On\"".into()),
        Reason::HoldLost(x()),
        Reason::DrainSkipped("1 pod (a/b)".into()),
        Reason::Draining("1 pod (a/b)".into()),
        Reason::DrainBlocked("1 pod (a/b)".into()),
        Reason::PowerOnRunning,
        Reason::PowerOnStaged("waits for the turn of its PDU a, 3 before it".into()),
        Reason::PowerOnUnconfirmed("no answer".into()),
        Reason::Booting,
        Reason::OffAgain,
        Reason::StaysOff(4),
        Reason::BootTimeout,
        Reason::WaitingForHealth,
        Reason::Recovered,
        Reason::Withdrawn,
        Reason::WithdrawnAfterOff,
        Reason::KeptOffUntilDeleted,
        Reason::EmptiedUntilDeleted,
        Reason::Exhausted(2),
        Reason::Cycling,
        Reason::Fenced,
        Reason::DeletingNode("node-7".into()),
        Reason::NodeGone("node-7".into()),
        Reason::NodeNotFound("node-7".into()),
        Reason::TaintSkipped("connection refused".into()),
        Reason::DrainGivenUp("1 pod (a/b)".into()),
        Reason::TimedOut,
        Reason::ExhaustedKeptOff(2),
        Reason::ExhaustedTold(2),
        Reason::ActionFailed("BareMetalHost metal/host-7: 403".into()),
        Reason::StateUnreadable("status.cursor: missing field".into()),
        Reason::StateOutdated,
        Reason::OperationLost("agent a has another journal".into()),
        Reason::OtherAgentBusy("agent a until 10:00:00".into()),
    ]
}

#[test]
fn every_reason_is_one_line_and_survives_serialization() {
    for reason in all() {
        let text = reason.to_string();
        assert!(
            !text.contains('\n') && !text.contains("  ") && !text.ends_with('.'),
            "{text}"
        );
        assert!(
            reason.label().chars().all(char::is_alphanumeric),
            "{}",
            reason.label()
        );
        let stored = serde_json::to_string(&reason).unwrap();
        assert_eq!(
            serde_json::from_str::<Reason>(&stored).unwrap(),
            reason,
            "{stored}"
        );
        assert!(
            stored.contains(&format!("\"{}\"", reason.label())),
            "{stored}"
        );
    }
}

#[test]
fn f8_fence_unconfirmed_message_names_the_confirmation_annotation() {
    let text = Reason::FenceUnconfirmed("no answer from 10.0.0.7".into()).to_string();
    assert_eq!(
        text,
        "the host is not confirmed off, so no workload is moved: no answer from 10.0.0.7. Retrying; \
         or verify yourself that it is off and annotate this object with \
         rackhand.dev/confirm-fenced=<its UID>"
    );
}

#[test]
fn attempt_count_uses_singular_and_plural() {
    let text = |attempts| Reason::ExhaustedTold(attempts).to_string();
    assert!(text(1).starts_with("not healthy after 1 attempt; "));
    assert!(text(2).starts_with("not healthy after 2 attempts; "));
}

#[test]
fn a_webhook_that_is_away_names_its_owner() {
    let why = "failed calling webhook \"baremetalhost.metal3.io\": connection refused";
    let text = Reason::ActionFailed(why.into()).to_string();
    assert!(text.contains("start baremetal-operator"), "{text}");
    let other = Reason::ActionFailed("no answer".into()).to_string();
    assert!(!other.contains("webhook"), "{other}");
}

/// The message of the reason where words of persons are ignored, in the decision and in its Event.
fn where_words_are_ignored(reason: Reason) -> String {
    let policy = Policy {
        words_of_persons: WordsOfPersons::Ignored,
        ..Policy::default()
    };
    let note = Note {
        warning: true,
        reason: reason.label(),
        step: None,
        message: reason.to_string(),
    };
    let decision = Decision {
        state: mk_state(Step::Pending),
        next: Next::Write,
        reason,
        notes: vec![note],
        begins: false,
    };
    let decision = decision.explained(&policy);
    let text = decision.reason.to_string();
    for note in &decision.notes {
        assert_eq!(note.message, text);
    }
    text
}

#[test]
fn f15_ignored_words_of_persons_are_said_with_another_way_out() {
    let held = |what: &str| format!("PowerPolicy p: {what}: kubectl rackhand approve");
    let more = [
        Reason::OwnerDoesNotReportOff("poweredOn is true".into()),
        Reason::OwnerDoesNotSwitchOn("poweredOn is false".into()),
        Reason::HeldByPolicy(held("it requires the approval of a person")),
        Reason::HeldBySharedCause(held("3 of 4 hosts failed")),
        Reason::PolicyLimitReached(held("4 attempts on this host")),
    ];
    let asks = |text: &str| {
        ["rackhand.dev/override-", "rackhand.dev/confirm-", "approve"]
            .iter()
            .any(|word| text.contains(word))
    };
    let mut asking = 0;
    for reason in all().into_iter().chain(more) {
        let before = reason.to_string();
        let told = where_words_are_ignored(reason);
        if !asks(&before) {
            assert!(!told.contains("words"), "{told}");
            continue;
        }
        asking += 1;
        assert!(told.contains("(--words-of-persons=ignored)"), "{told}");
        assert!(
            told.contains("delete this object") || told.contains("--words-of-persons=accepted"),
            "{told}"
        );
    }
    assert_eq!(asking, 11);
}
