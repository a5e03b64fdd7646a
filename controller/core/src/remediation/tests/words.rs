//! What an operator reads at night.

use super::super::Because;

fn all() -> Vec<Because> {
    let x = || "metal/host-7".to_owned();
    vec![
        Because::Started,
        Because::Working,
        Because::Holding,
        Because::Tainting,
        Because::InvalidSpec("spec.strategy is not set".into()),
        Because::MachineNotFound("the Machine is gone".into()),
        Because::HostNotFound(x()),
        Because::HostAmbiguous(x()),
        Because::Paused,
        Because::HostPaused(x()),
        Because::HostOffline(x()),
        Because::HostNotProvisioned(x()),
        Because::HostServicing(x()),
        Because::HostDeleting(x()),
        Because::UnsupportedHost(x()),
        Because::HeldByOthers("reboot.metal3.io/other".into()),
        Because::OtherRemediation("Metal3Remediation default/m1".into()),
        Because::RivalController("reboot.metal3.io/metal3-remediation-u1".into()),
        Because::ControlPlaneQuorum("1 of 3".into()),
        Because::AgentUnreachable("rack r1 is not connected".into()),
        Because::BmcAccessMissing("Secret metal/bmc-7 does not exist".into()),
        Because::ClusterGone("metal/c".into()),
        Because::HostGone(x()),
        Because::StateLost("node-7 is tainted".into()),
        Because::PowerOffRunning,
        Because::FenceUnconfirmed("no answer".into()),
        Because::IdentityMismatch("serial X, not Y".into()),
        Because::NodeReplaced("node-7".into()),
        Because::NodeMismatch("node-7 was registered anew".into()),
        Because::LeaseRenewed("node-7".into()),
        Because::WaitingForQuietLease,
        Because::WorkloadUnreachable("connection refused".into()),
        Because::PowerUnreadable("no answer".into()),
        Because::FenceViolated("\"On\"".into()),
        Because::HoldLost(x()),
        Because::DrainSkipped("1 pod (a/b)".into()),
        Because::Draining("1 pod (a/b)".into()),
        Because::DrainBlocked("1 pod (a/b)".into()),
        Because::PowerOnRunning,
        Because::PowerOnStaged("waits for the turn of its PDU a, 3 before it".into()),
        Because::PowerOnUnconfirmed("no answer".into()),
        Because::Booting,
        Because::OffAgain,
        Because::StaysOff(4),
        Because::BootTimeout,
        Because::WaitingForHealth,
        Because::Recovered,
        Because::Withdrawn,
        Because::WithdrawnAfterOff,
        Because::Exhausted(2),
        Because::Cycling,
        Because::Fenced,
        Because::DeletingNode("node-7".into()),
        Because::NodeGone("node-7".into()),
        Because::NodeNotFound("node-7".into()),
        Because::TaintSkipped("connection refused".into()),
        Because::DrainGivenUp("1 pod (a/b)".into()),
        Because::TimedOut,
        Because::ExhaustedKeptOff(2),
        Because::ExhaustedTold(2),
        Because::ActionFailed("BareMetalHost metal/host-7: 403".into()),
        Because::StateUnreadable("status.cursor: missing field".into()),
        Because::OperationLost("agent a has another journal".into()),
        Because::OtherAgentBusy("agent a until 10:00:00".into()),
    ]
}

#[test]
fn every_because_is_one_line_without_a_full_stop_and_survives_being_stored() {
    for because in all() {
        let text = because.to_string();
        assert!(
            !text.contains('\n') && !text.contains("  ") && !text.ends_with('.'),
            "{text}"
        );
        assert!(
            because.label().chars().all(char::is_alphanumeric),
            "{}",
            because.label()
        );
        let stored = serde_json::to_string(&because).unwrap();
        assert_eq!(
            serde_json::from_str::<Because>(&stored).unwrap(),
            because,
            "{stored}"
        );
        assert!(
            stored.contains(&format!("\"{}\"", because.label())),
            "{stored}"
        );
    }
}

#[test]
fn f8_an_unconfirmed_fence_says_what_a_person_can_do() {
    let text = Because::FenceUnconfirmed("no answer from 10.0.0.7".into()).to_string();
    assert_eq!(
        text,
        "the host is not confirmed off, so no workload is moved: no answer from 10.0.0.7. Retrying; \
         or make sure yourself that it is off and annotate this object with \
         rackhand.dev/confirm-fenced=<its UID>"
    );
}

#[test]
fn one_attempt_is_not_several() {
    let text = |attempts| Because::ExhaustedTold(attempts).to_string();
    assert!(text(1).starts_with("not healthy after 1 attempt; "));
    assert!(text(2).starts_with("not healthy after 2 attempts; "));
}
