//! Commands that a BMC did not accept in the form in which they were sent.
//!
//! Whatever the form is, a command is sent again by the operation alone, which looks at updates, identity and caller
//! before each one.

use std::time::Duration;

use rackhand_bmc::{
    AuthPolicy, Bmc, PowerCommand,
    operation::{
        DuringUpdate, Expected, Goal, Hooks, OperationRequest, Outcome, Report, Signal, Timing, run,
    },
    redfish::connect,
};
use serde_json::json;

use crate::bmc::{RESET, Reply, SYSTEM, TestBmc};

const SERVICE: &str = "/redfish/v1/UpdateService";

/// How the BMC does not accept the first command.
const REFUSALS: [u16; 6] = [401, 403, 406, 412, 428, 308];

/// Whether the command was refused for its precondition, and surely not carried out.
fn is_precondition(status: u16) -> bool {
    matches!(status, 412 | 428)
}

/// How a BMC is used that refuses a command like this. With HTTP Basic a 401 is a failed login, and is not repeated.
fn policies(status: u16) -> Vec<AuthPolicy> {
    match status {
        401 => vec![AuthPolicy::Session],
        _ => vec![AuthPolicy::Session, AuthPolicy::Basic],
    }
}

/// What happens at the moment of the refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meanwhile {
    Nothing,
    UpdateBegins,
    OtherSystem,
}

/// A BMC that does not accept the first power command, and takes the next one.
async fn refusing_once(status: u16, meanwhile: Meanwhile) -> TestBmc {
    let mut is_first = true;
    let bmc = TestBmc::with(move |seen, world| {
        if seen.method != "POST" || !seen.path.starts_with(RESET) {
            return None;
        }
        if !std::mem::take(&mut is_first) {
            world.power = json!("Off");
            return Some(Reply::status(204));
        }
        match meanwhile {
            Meanwhile::Nothing => {}
            Meanwhile::UpdateBegins => {
                let writing = json!({"Id": "UpdateService", "Oem": {"Hpe": {"State": "Writing"}}});
                world.documents.insert(SERVICE.to_owned(), writing);
            }
            Meanwhile::OtherSystem => {
                let system = &mut world.systems[0];
                system.1["UUID"] = json!("11111111-2222-4333-8444-555555555555");
                system.1["SerialNumber"] = json!("OTHER");
            }
        }
        let reply = Reply::status(status);
        Some(match status {
            308 => reply.header("Location", format!("{RESET}/")),
            _ => reply,
        })
    })
    .await;
    bmc.world(|world| world.root = json!({"UpdateService": {"@odata.id": SERVICE}}));
    bmc.put(SERVICE, json!({"Id": "UpdateService"}));
    bmc
}

fn client(bmc: &TestBmc, auth: AuthPolicy) -> Box<dyn Bmc> {
    let mut config = bmc.config();
    config.auth = auth;
    connect(config).unwrap()
}

async fn off(bmc: &TestBmc, auth: AuthPolicy, hooks: &mut impl Hooks) -> Report {
    let request = OperationRequest {
        goal: Goal::Off {
            confirmations: 1,
            confirm_interval: Duration::from_millis(10),
            command_after: Duration::ZERO,
        },
        deadline: Duration::from_secs(20),
        expected: Expected::default(),
        timing: Timing {
            retry_after: Duration::from_millis(10),
            ..Timing::default()
        },
        during_update: DuringUpdate::Refuse,
    };
    run(client(bmc, auth).as_ref(), request, hooks).await
}

fn commands(bmc: &TestBmc) -> usize {
    let posts = bmc.sent("POST").into_iter();
    posts.filter(|seen| seen.path.starts_with(RESET)).count()
}

#[tokio::test]
async fn command_in_another_form_is_sent_by_the_operation() {
    for status in REFUSALS {
        for auth in policies(status) {
            let bmc = refusing_once(status, Meanwhile::Nothing).await;
            let report = off(&bmc, auth, &mut ()).await;
            assert!(report.outcome.is_done(), "{status} {auth:?}: {report:?}");
            assert_eq!(commands(&bmc), 2, "{status} {auth:?}");
            let counted = if is_precondition(status) { 1 } else { 2 };
            assert_eq!(report.commands, counted, "{status} {auth:?}");
            let seen = bmc.seen();
            let is_command = |path: &str| path.starts_with(RESET);
            let sent: Vec<usize> = (0..seen.len())
                .filter(|at| is_command(&seen[*at].path))
                .collect();
            let between = &seen[sent[0]..sent[1]];
            for path in [SYSTEM, SERVICE] {
                assert!(
                    between.iter().any(|seen| seen.is("GET", path)),
                    "{status} {auth:?}: {path} was not read again"
                );
            }
        }
    }
}

#[tokio::test]
async fn update_that_begins_while_the_form_is_refused_is_not_cut() {
    for status in REFUSALS {
        for auth in policies(status) {
            let bmc = refusing_once(status, Meanwhile::UpdateBegins).await;
            let report = off(&bmc, auth, &mut ()).await;
            // A command that was surely not carried out does not let anybody wait for its effect.
            let counted = u32::from(!is_precondition(status));
            assert!(
                matches!(report.outcome, Outcome::FirmwareUpdate { commands, .. } if commands == counted),
                "{status} {auth:?}: {report:?}"
            );
            assert_eq!(commands(&bmc), 1, "{status} {auth:?}");
        }
    }
}

#[tokio::test]
async fn other_system_gets_no_command_in_another_form() {
    for status in REFUSALS {
        let bmc = refusing_once(status, Meanwhile::OtherSystem).await;
        let report = off(&bmc, AuthPolicy::Session, &mut ()).await;
        assert!(
            matches!(report.outcome, Outcome::IdentityMismatch(_)),
            "{status}: {report:?}"
        );
        assert_eq!(commands(&bmc), 1, "{status}");
    }
}

/// A caller that withdraws once its first command is on its way.
#[derive(Default)]
struct Withdraws {
    has_sent: bool,
}

impl Hooks for Withdraws {
    fn sending(&mut self, _: PowerCommand) {
        self.has_sent = true;
    }

    fn signal(&self) -> Signal {
        match self.has_sent {
            true => Signal::Cancel,
            false => Signal::Continue,
        }
    }
}

#[tokio::test]
async fn caller_that_withdraws_is_heard_before_another_form_is_sent() {
    for status in REFUSALS {
        let bmc = refusing_once(status, Meanwhile::Nothing).await;
        let report = off(&bmc, AuthPolicy::Session, &mut Withdraws::default()).await;
        assert_eq!(report.outcome, Outcome::Cancelled, "{status}");
        assert_eq!(commands(&bmc), 1, "{status}");
    }
}
