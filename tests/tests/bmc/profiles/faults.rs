//! Faults between the client and a BMC: no command is sent twice, no state is assumed, and no
//! credentials are sent to another host.

use std::collections::BTreeMap;
use std::time::Duration;

use rackhand_bmc::operation::{
    DuringUpdate, Expected, Goal, Hooks, OperationRequest, Outcome, Timing, run,
};
use rackhand_bmc::{
    AuthPolicy, BmcError, ErrorKind, KeepAlive, PowerCommand, PowerState, redfish::connect,
};
use rackhand_tests::rack::redfish::{ActionMatch, Profile, Vendor};
use rackhand_tests::rack::{Action, Counters, PowerState as Real, ResetType, Rule, SimHost};

use super::client::{
    SETTLED, Seen, client, config, count, done, expecting, off, operate, received, stepped,
    stepped_with, watched,
};

const RESET: &str = "/redfish/v1/Systems/*/Actions/ComputerSystem.Reset";

/// Off after a command.
const OFF: Outcome = Outcome::Confirmed {
    state: PowerState::Off,
    commanded: true,
};

fn reset_once() -> Counters {
    Counters {
        resets: 1,
        ..received(&[(ResetType::ForceRestart, 1)])
    }
}

#[tokio::test]
async fn status_503_is_busy_with_retry_after_and_sends_nothing() {
    for vendor in Vendor::ALL {
        let sim = stepped(vendor).await;
        let (host, bmc) = (&sim.host, client(&sim));
        let not_now = || {
            let headers = BTreeMap::from([("Retry-After".to_owned(), "7".to_owned())]);
            Rule::always(Action::Status {
                status: 503,
                body: None,
                headers,
            })
            .times(1)
        };
        host.inject(not_now().on("GET", &sim.system()));
        let reading = bmc.power().await.unwrap_err();
        host.inject(not_now().on("POST", RESET));
        let command = bmc.command(PowerCommand::Reset).await.unwrap_err();
        for error in [reading, command] {
            assert_eq!(error.kind, ErrorKind::Busy, "{vendor:?}: {error}");
            assert_eq!(
                error.retry_after,
                Some(Duration::from_secs(7)),
                "{vendor:?}"
            );
            assert!(!error.maybe_sent, "{vendor:?}: {error}");
        }
        assert_eq!(done(host), Counters::default(), "{vendor:?}");
        bmc.command(PowerCommand::Reset).await.unwrap();
        assert_eq!(done(host), reset_once(), "{vendor:?}");
    }
}

#[tokio::test]
async fn reset_with_a_lost_response_is_not_sent_again() {
    for vendor in Vendor::ALL {
        let sim = stepped(vendor).await;
        let (host, bmc) = (&sim.host, client(&sim));
        host.lose_next_answer();
        let error = bmc.command(PowerCommand::Reset).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unreachable, "{vendor:?}: {error}");
        assert!(error.maybe_sent, "{vendor:?}: {error}");
        assert_eq!(done(host), reset_once(), "{vendor:?}");
        host.advance(SETTLED);

        host.lose_next_answer();
        let report = operate(bmc.as_ref(), host, Goal::Reset).await;
        let unknown = matches!(
            report.outcome,
            Outcome::Unknown {
                command: PowerCommand::Reset,
                ..
            }
        );
        assert!(unknown, "{vendor:?}: {report:?}");
        assert_eq!(host.counters().resets, 2, "{vendor:?}");
        assert_eq!(host.counters().received(ResetType::ForceRestart), 2);
    }
}

/// How a power-off ends that nothing but the uptime of the manager can prove.
fn proven_by_uptime(vendor: Vendor) -> Outcome {
    match Profile::of(vendor).last_reset_time {
        true => OFF,
        false => Outcome::Unproven { uptime: None },
    }
}

/// The loss interrupts the observation of the BMC.
#[tokio::test]
async fn f1_power_off_with_a_lost_response_is_proven_by_the_uptime_of_the_manager() {
    for vendor in Vendor::ALL {
        let sim = stepped(vendor).await;
        let (host, bmc) = (&sim.host, client(&sim));
        host.lose_next_answer();
        let report = operate(bmc.as_ref(), host, off()).await;
        let expected = proven_by_uptime(vendor);
        assert_eq!(report.outcome, expected, "{vendor:?}: {report:?}");
        assert_eq!(host.real_power(), Real::Off, "{vendor:?}");
        assert!(report.error.is_some_and(|error| error.maybe_sent));
        assert_eq!(host.counters().offs, 1, "{vendor:?}");
    }
}

/// A power-off is sent whatever the BMC reports. What it took while it reported off already proves nothing by
/// itself.
#[tokio::test]
async fn f1_power_off_that_redfish_took_while_it_reported_off_is_proven_by_uptime() {
    for vendor in Vendor::ALL {
        let sim = stepped(vendor).await;
        let (host, bmc) = (&sim.host, client(&sim));
        host.off_until_commanded();
        assert_eq!(bmc.power().await.unwrap().state, PowerState::Off);
        assert_eq!(host.real_power(), Real::On, "{vendor:?}");
        let report = operate(bmc.as_ref(), host, off()).await;
        let expected = proven_by_uptime(vendor);
        assert_eq!(report.outcome, expected, "{vendor:?}: {report:?}");
        assert_eq!(host.real_power(), Real::Off, "{vendor:?}");
        assert_eq!(host.counters().offs, 1, "{vendor:?}");
    }
}

#[tokio::test]
async fn f1_off_waits_for_the_chassis() {
    let sim = stepped(Vendor::Idrac9).await;
    let (host, bmc) = (&sim.host, client(&sim));
    host.inject(
        Rule::always(Action::State {
            state: "On".to_owned(),
        })
        .on("GET", "/redfish/v1/Chassis/*")
        .times(2),
    );
    host.switch(ResetType::ForceOff, "a person");
    host.advance(SETTLED);
    let reading = bmc.power().await.unwrap();
    assert_eq!(reading.state, PowerState::Unknown, "{reading:?}");
    assert_eq!(reading.raw, "Off, but chassis System.Embedded.1 On");
    let report = operate(bmc.as_ref(), host, off()).await;
    assert_eq!(report.outcome, OFF, "{report:?}");
    assert_eq!(host.faults()[0].rule.remaining, Some(0), "it was read");
}

#[tokio::test]
async fn reset_connection_retries_a_read_but_not_a_command() {
    for action in [Action::Reset, Action::Drop] {
        let sim = stepped(Vendor::Generic).await;
        let (host, bmc) = (&sim.host, client(&sim));
        host.inject(
            Rule::always(action.clone())
                .on("GET", &sim.system())
                .times(1),
        );
        assert_eq!(
            bmc.power().await.unwrap().state,
            PowerState::On,
            "{action:?}"
        );
        host.inject(
            Rule::always(action.clone())
                .on("GET", &sim.system())
                .times(2),
        );
        let error = bmc.power().await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unreachable, "{error}");
        assert!(!error.maybe_sent, "{error}");

        host.inject(Rule::always(action.clone()).on("POST", RESET).times(1));
        let report = operate(bmc.as_ref(), host, Goal::Reset).await;
        let unknown = Outcome::Unknown {
            command: PowerCommand::Reset,
            state: Some(PowerState::On),
        };
        assert_eq!(report.outcome, unknown, "{action:?}: {report:?}");
        assert_eq!(done(host), Counters::default(), "{action:?}");
    }
}

#[tokio::test]
async fn html_page_is_an_error() {
    for vendor in Vendor::ALL {
        let sim = stepped(vendor).await;
        let (host, bmc) = (&sim.host, client(&sim));
        let page = |status| Rule::always(Action::Html { status }).times(1);
        for (status, kind) in [(200, ErrorKind::Protocol), (503, ErrorKind::Busy)] {
            host.inject(page(status).on("GET", &sim.system()));
            let error = bmc.power().await.unwrap_err();
            assert_eq!(error.kind, kind, "{vendor:?} {status}: {error}");
            assert!(!error.message.contains('<'), "{error}");
        }
        // Rejected by a proxy before the service, or accepted and answered by it.
        host.inject(page(503).on("POST", RESET));
        let error = bmc.command(PowerCommand::Reset).await.unwrap_err();
        assert_eq!(
            (error.kind, error.maybe_sent),
            (ErrorKind::Busy, false),
            "{error}"
        );
        host.inject(page(200).on("POST", RESET).afterwards());
        let error = bmc.command(PowerCommand::Reset).await.unwrap_err();
        assert_eq!(
            (error.kind, error.maybe_sent),
            (ErrorKind::Protocol, true),
            "{error}"
        );
        assert_eq!(done(host), reset_once(), "{vendor:?}");
    }
}

/// Number of readings that must confirm nothing.
const ENOUGH: usize = 3;

/// Off is confirmed only once the BMC reports `Off`.
#[tokio::test]
async fn stale_power_state_is_not_confirmed_until_off() {
    let takes = Duration::from_secs(30);
    for (action, shown) in [
        (Action::Stale { age: takes }, PowerState::On),
        (Action::PoweringOff { takes }, PowerState::PoweringOff),
    ] {
        for vendor in Vendor::ALL {
            let sim = stepped(vendor).await;
            let (host, bmc) = (&sim.host, client(&sim));
            host.inject(Rule::always(action.clone()));
            let mut waited = 0;
            let mut seen = Seen::with(host, |host, readings| {
                let is_off = host.real_power() == Real::Off;
                waited += usize::from(is_off && count(readings, PowerState::Off) == 0);
                if waited == ENOUGH {
                    host.advance(takes);
                }
            });
            let report = watched(bmc.as_ref(), &mut seen, off()).await;
            assert_eq!(report.outcome, OFF, "{vendor:?} {action:?}: {report:?}");
            assert!(seen.shown(shown) >= ENOUGH, "{vendor:?} {action:?}");
            assert_eq!(count(&report.readings, PowerState::Off), 2, "{vendor:?}");
            let expected = Counters {
                offs: 1,
                ..received(&[(ResetType::ForceOff, 1)])
            };
            assert_eq!(done(host), expected, "{vendor:?} {action:?}");
        }
    }
}

/// The host itself stays in PoweringOff, which is not off.
#[tokio::test]
async fn host_stuck_in_powering_off_is_not_confirmed() {
    let sim = stepped(Vendor::Generic).await;
    let (host, bmc) = (&sim.host, client(&sim));
    host.stuck_powering_off(true);
    let mut seen = Seen::with(host, |host, readings| {
        let is_last = readings
            .last()
            .is_some_and(|last| last.state != PowerState::Off);
        if is_last && count(readings, PowerState::PoweringOff) == ENOUGH {
            assert_eq!(host.counters().offs, 0);
            host.stuck_powering_off(false);
            host.step();
        }
    });
    let report = watched(bmc.as_ref(), &mut seen, off()).await;
    assert_eq!(report.outcome, OFF, "{report:?}");
    assert_eq!(seen.shown(PowerState::PoweringOff), ENOUGH);
    assert_eq!(host.counters().offs, 1);
}

#[tokio::test]
async fn f5_address_that_moves_to_another_bmc_never_confirms_off() {
    // Right before the power-off, and right after it, which the machine did not carry out.
    for after in [1, 2] {
        for vendor in Vendor::ALL {
            let sim = stepped(vendor).await;
            let (host, bmc) = (&sim.host, client(&sim));
            host.ignore_commands();
            let mut seen = Seen::with(host, |host, readings| {
                if readings.len() == after {
                    host.address_moves();
                }
            });
            let report = expecting(bmc.as_ref(), &mut seen, off(), Expected::default()).await;
            assert!(
                matches!(report.outcome, Outcome::IdentityMismatch(_)),
                "{vendor:?}: {report:?}"
            );
            // On a slow machine the reading is renewed before the command, and shows it then.
            assert!(
                report.proof.is_none() && report.commands <= 1,
                "{vendor:?}: {report:?}"
            );
            assert_eq!(host.real_power(), Real::On, "{vendor:?}");
        }
    }
}

#[tokio::test]
async fn redirect_to_another_origin_is_not_followed() {
    let other = stepped(Vendor::Generic).await;
    for vendor in Vendor::ALL {
        let sim = stepped(vendor).await;
        let (host, bmc) = (&sim.host, client(&sim));
        let away = |path: &str| {
            let to = format!("{}{path}", other.base);
            Rule::always(Action::Redirect { status: 307, to }).times(1)
        };
        let login = "/redfish/v1/SessionService/Sessions";
        host.inject(away(login).on("POST", login));
        let session = bmc.power().await.unwrap_err();
        host.inject(away("/redfish/v1/Systems/1").on("GET", &sim.system()));
        let reading = bmc.power().await.unwrap_err();
        host.inject(away("/redfish/v1/Systems/1/Actions/ComputerSystem.Reset").on("POST", RESET));
        let command = bmc.command(PowerCommand::Reset).await.unwrap_err();
        for error in [session, reading, command] {
            assert_eq!(error.kind, ErrorKind::Protocol, "{vendor:?}: {error}");
            assert!(error.message.contains("no credentials sent"), "{error}");
            assert!(!error.maybe_sent, "{vendor:?}: {error}");
        }
        assert_eq!(done(host), Counters::default(), "{vendor:?}");
        assert_eq!(other.host.counters().requests, 0, "{vendor:?}");

        // A redirect within the BMC is followed for a read.
        let to = format!("{}/redfish/v1/Systems", sim.base);
        let moved = Rule::always(Action::Redirect { status: 308, to });
        host.inject(moved.on("GET", "/redfish/v1/Systems").times(1));
        assert_eq!(client(&sim).power().await.unwrap().state, PowerState::On);
    }
}

#[tokio::test]
async fn full_session_table_falls_back_to_basic_on_every_profile() {
    for vendor in Vendor::ALL {
        let sim = stepped(vendor).await;
        let (host, bmc) = (&sim.host, client(&sim));
        let full = host.session_table_full();
        assert_eq!(
            bmc.power().await.unwrap().state,
            PowerState::On,
            "{vendor:?}"
        );
        bmc.off().await.unwrap();
        let mut strict = config(&sim);
        strict.auth = AuthPolicy::Session;
        let error = connect(strict).unwrap().power().await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Busy, "{vendor:?}: {error}");
        assert!(error.message.contains("sessions"), "{error}");
        bmc.close().await.unwrap();
        assert_eq!(host.sessions_opened(), 0, "{vendor:?}");
        assert_eq!(done(host), received(&[(ResetType::ForceOff, 1)]));

        // Not permanently: after close the client tries sessions again.
        host.clear_fault(full);
        bmc.power().await.unwrap();
        assert_eq!(host.sessions_opened(), 1, "{vendor:?}");
    }
}

/// Two rejections would lock the account: the password is tried once per call.
#[tokio::test]
async fn wrong_password_is_an_error_and_switches_nothing() {
    for vendor in Vendor::ALL {
        let sim = stepped(vendor).await;
        let mut wrong = config(&sim);
        wrong.password = "wrong".into();
        let bmc = connect(wrong).unwrap();
        let error = bmc.off().await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Authentication, "{vendor:?}: {error}");
        assert!(!error.to_string().contains("wrong"), "{error}");
        assert_eq!(done(&sim.host), Counters::default(), "{vendor:?}");
    }
}

/// A system that is answered with the name of another one, or refused while the session works, is read as nothing, and
/// no command goes to it; the next reading is right.
#[tokio::test]
async fn system_that_is_misnamed_or_refused_is_neither_read_nor_commanded() {
    for vendor in [Vendor::Idrac9, Vendor::Ilo5, Vendor::Xcc] {
        let sim = stepped(vendor).await;
        let (host, bmc) = (&sim.host, client(&sim));
        assert_eq!(bmc.power().await.unwrap().state, PowerState::On);
        let misnamed = host.misname(&sim.system(), "/redfish/v1/Systems/other");
        let error = bmc.power().await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Protocol, "{vendor:?}: {error}");
        for name in ["other", &*sim.system()] {
            let (said, name) = (error.message.to_lowercase(), name.to_lowercase());
            assert!(said.contains(&name), "{vendor:?}: {error}");
        }
        bmc.command(PowerCommand::Off).await.unwrap_err();
        host.clear_fault(misnamed);
        let refused = host.refuse_auth_at(&sim.system());
        for _ in 0..2 {
            let error = bmc.power().await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Privilege, "{vendor:?}: {error}");
        }
        host.clear_fault(refused);
        assert_eq!(done(host), Counters::default(), "{vendor:?}");
        assert_eq!(bmc.power().await.unwrap().state, PowerState::On);
        assert!(host.sessions_open() <= 1, "{vendor:?}");
    }
}

#[tokio::test]
async fn off_of_a_bmc_that_requires_a_precondition_is_sent_with_one() {
    for vendor in [Vendor::Generic, Vendor::Ilo5, Vendor::OpenBmc] {
        let sim = stepped_with(vendor, |profile| {
            profile.if_match_on_actions = ActionMatch::Required;
        })
        .await;
        let (host, bmc) = (&sim.host, client(&sim));
        let report = operate(bmc.as_ref(), host, off()).await;
        assert!(report.outcome.is_done(), "{vendor:?}: {report:?}");
        let expected = received(&[(ResetType::ForceOff, 1)]);
        assert_eq!(done(host).commands, expected.commands, "{vendor:?}");
    }
}

/// Begins to write firmware when a command fails.
struct FlashesAtFailure<'a>(&'a SimHost);

impl Hooks for FlashesAtFailure<'_> {
    fn failed(&mut self, _: &BmcError) {
        self.0.flash(Some(Duration::from_secs(3600)));
    }
}

#[tokio::test]
async fn flash_that_begins_while_the_form_of_a_power_off_is_refused_is_not_cut() {
    for (vendor, status) in [
        (Vendor::Idrac9, 412),
        (Vendor::Ilo5, 403),
        (Vendor::OpenBmc, 428),
    ] {
        let sim = stepped(vendor).await;
        let (host, bmc) = (&sim.host, client(&sim));
        let refused = Rule::always(Action::Status {
            status,
            body: None,
            headers: BTreeMap::new(),
        });
        host.inject(refused.on_reset(ResetType::ForceOff).times(1));
        let request = OperationRequest {
            goal: off(),
            deadline: Duration::from_secs(60),
            expected: Expected::default(),
            timing: Timing::default(),
            during_update: DuringUpdate::Refuse,
        };
        let report = run(bmc.as_ref(), request, &mut FlashesAtFailure(host)).await;
        assert!(
            matches!(report.outcome, Outcome::FirmwareUpdate { .. }),
            "{vendor:?} {status}: {report:?}"
        );
        assert_eq!(done(host), Counters::default(), "{vendor:?} {status}");
    }
}

#[tokio::test]
async fn bmc_that_does_not_bear_a_used_connection_is_read_and_switched_in_time() {
    let status = |status| Action::Status {
        status,
        body: None,
        headers: BTreeMap::new(),
    };
    for (action, keep_alive) in [
        (status(503), KeepAlive::Auto),
        (status(401), KeepAlive::Auto),
        (Action::Reset, KeepAlive::Auto),
        (Action::Hang, KeepAlive::Auto),
        (Action::Hang, KeepAlive::Always),
        (status(503), KeepAlive::Always),
    ] {
        let sim = stepped(Vendor::Generic).await;
        let host = &sim.host;
        let mut config = config(&sim);
        config.keep_alive = keep_alive;
        config.timeouts.connect = Duration::from_secs(1);
        config.timeouts.request = Duration::from_secs(20);
        let bmc = connect(config).unwrap();
        host.inject(Rule::always(action.clone()).on_used_connections());
        let begun = std::time::Instant::now();
        for _ in 0..3 {
            let reading = bmc.power().await.unwrap();
            assert_eq!(reading.state, PowerState::On, "{action:?} {keep_alive:?}");
        }
        bmc.command(PowerCommand::Off).await.unwrap();
        let took = begun.elapsed();
        assert!(
            took < Duration::from_secs(10),
            "{action:?} {keep_alive:?}: {took:?}"
        );
        let expected = received(&[(ResetType::ForceOff, 1)]);
        assert_eq!(
            done(host).commands,
            expected.commands,
            "{action:?} {keep_alive:?}"
        );
    }
}
