//! The Redfish client against every profile of the simulated BMC: requests, results of the client
//! and real power changes must agree. The simulator itself is tested with third-party clients and
//! validators.

mod button;
pub(crate) mod client;
mod extras;
mod faults;
mod updates;

use std::time::Duration;

use client::{SETTLED, client, config, config_at, done, off, operate, received, refusal, stepped};
use rackhand_bmc::operation::{Goal, Outcome};
use rackhand_bmc::{
    AuthPolicy, ErrorKind, PowerCommand, PowerSource, PowerState, redfish::connect,
};
use rackhand_tests::rack::redfish::Vendor;
use rackhand_tests::rack::{Action, Counters, ResetType, Rule};
use serde_json::json;

/// Expected results of the client for a profile.
struct Facts {
    vendor: Vendor,
    /// Response to an accepted command.
    taken: &'static str,
    /// Response to off while the host is off.
    already_off: &'static str,
    /// Response to on while the host is on.
    already_on: &'static str,
    /// Whether On is rejected for a while after off.
    settles: bool,
}

const GENERIC: Facts = Facts {
    vendor: Vendor::Generic,
    taken: "204",
    already_off: "204",
    already_on: "204",
    settles: false,
};

const IDRAC9: Facts = Facts {
    vendor: Vendor::Idrac9,
    already_off: "409: already off",
    already_on: "409: already on",
    ..GENERIC
};

const ILO5: Facts = Facts {
    vendor: Vendor::Ilo5,
    taken: "200",
    already_off: "400: already off",
    already_on: "400: already on",
    ..GENERIC
};

const X13: Facts = Facts {
    vendor: Vendor::SupermicroX13,
    taken: "202: no task named",
    already_off: "202: no task named",
    already_on: "202: no task named",
    ..GENERIC
};

const TABLE: [Facts; 10] = [
    GENERIC,
    IDRAC9,
    Facts {
        vendor: Vendor::Idrac10,
        settles: true,
        ..IDRAC9
    },
    ILO5,
    Facts {
        vendor: Vendor::Ilo6,
        ..ILO5
    },
    Facts {
        vendor: Vendor::Xcc,
        ..GENERIC
    },
    X13,
    Facts {
        vendor: Vendor::SupermicroX12,
        ..X13
    },
    Facts {
        vendor: Vendor::DgxH100,
        ..GENERIC
    },
    Facts {
        vendor: Vendor::OpenBmc,
        ..GENERIC
    },
];

#[test]
fn table_covers_every_profile() {
    let mut listed = TABLE.map(|facts| facts.vendor);
    let mut known = Vendor::ALL;
    listed.sort_unstable();
    known.sort_unstable();
    assert_eq!(listed, known);
}

/// All requests that a host needs, and no more arrive.
#[tokio::test]
async fn each_command_switches_every_profile_once() {
    for facts in TABLE {
        let vendor = facts.vendor;
        let sim = stepped(vendor).await;
        let (host, bmc) = (&sim.host, client(&sim));
        let bmc = bmc.as_ref();

        let reading = bmc.power().await.unwrap();
        assert_eq!(reading.state, PowerState::On, "{vendor:?}");
        assert_eq!(reading.raw, "On", "{vendor:?}");
        assert_eq!(reading.source, PowerSource::Redfish, "{vendor:?}");
        let identity = bmc.identity().await.unwrap();
        assert_eq!(reading.identity, identity, "{vendor:?}");
        let profile = &host.config().bmc.profile;
        assert_eq!(identity.system_uuid, Some(host.config().uuid.clone()));
        assert_eq!(identity.serial, Some(host.config().serial.clone()));
        assert_eq!(identity.vendor.as_ref(), Some(&profile.manufacturer));
        assert_eq!(identity.model.as_ref(), Some(&profile.model));

        // An accepted command is not complete.
        let accepted = bmc.off().await.unwrap();
        assert_eq!(accepted.command, "ForceOff", "{vendor:?}");
        assert_eq!(accepted.answer, facts.taken, "{vendor:?}");
        let reading = bmc.power().await.unwrap();
        assert_eq!(reading.state, PowerState::PoweringOff, "{vendor:?}");
        assert_eq!(host.step().len(), 1, "{vendor:?}");
        assert_eq!(bmc.power().await.unwrap().state, PowerState::Off);
        let again = bmc.off().await.unwrap();
        assert_eq!(again.answer, facts.already_off, "{vendor:?}");

        // Commands that require power are not sent to a host that is off.
        let soft = bmc.command(PowerCommand::SoftOff).await.unwrap();
        assert_eq!(soft.answer, "already off", "{vendor:?}");
        for command in [PowerCommand::Reset, PowerCommand::Nmi] {
            assert_eq!(
                refusal(bmc, command).await,
                ErrorKind::Refused,
                "{vendor:?}"
            );
        }

        if facts.settles {
            let error = bmc.on().await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Busy, "{vendor:?}: {error}");
            assert_eq!(error.retry_after, Some(Duration::from_secs(5)));
            assert!(!error.maybe_sent);
            host.advance(SETTLED);
        }
        let on = operate(bmc, host, Goal::On).await;
        let commanded = |state| Outcome::Confirmed {
            state,
            commanded: true,
        };
        assert_eq!(on.outcome, commanded(PowerState::On), "{vendor:?}: {on:?}");
        let again = bmc.on().await.unwrap();
        assert_eq!(again.answer, facts.already_on, "{vendor:?}");
        host.advance(SETTLED);

        let off = operate(bmc, host, off()).await;
        assert_eq!(
            off.outcome,
            commanded(PowerState::Off),
            "{vendor:?}: {off:?}"
        );
        assert_eq!((off.commands, off.readings.len()), (1, 2), "{vendor:?}");
        host.advance(SETTLED);
        let on = operate(bmc, host, Goal::On).await;
        assert_eq!(on.outcome, commanded(PowerState::On), "{vendor:?}: {on:?}");
        host.advance(SETTLED);

        let soft = Goal::SoftOff {
            limit: Duration::from_secs(10),
            then_force: false,
            confirmations: 2,
            confirm_interval: Duration::from_millis(20),
        };
        let soft = operate(bmc, host, soft).await;
        assert_eq!(
            soft.outcome,
            commanded(PowerState::Off),
            "{vendor:?}: {soft:?}"
        );
        host.advance(SETTLED);
        operate(bmc, host, Goal::On).await;
        host.advance(SETTLED);

        let nmi = bmc.command(PowerCommand::Nmi).await.unwrap();
        assert_eq!(
            (nmi.command.as_str(), nmi.answer.as_str()),
            ("Nmi", facts.taken)
        );
        let reset = operate(bmc, host, Goal::Reset).await;
        assert!(reset.outcome.is_done(), "{vendor:?}: {reset:?}");
        assert_eq!(reset.commands, 1, "{vendor:?}");
        host.advance(SETTLED);

        bmc.close().await.unwrap();
        assert_eq!(host.sessions_open(), 0, "{vendor:?}");
        assert_eq!(host.sessions_opened(), 1, "{vendor:?}");
        let on = if facts.settles { 5 } else { 4 };
        let expected = Counters {
            offs: 3,
            ons: 3,
            resets: 1,
            boots: 4,
            ..received(&[
                (ResetType::ForceOff, 3),
                (ResetType::On, on),
                (ResetType::GracefulShutdown, 1),
                (ResetType::ForceRestart, 2),
                (ResetType::Nmi, 2),
            ])
        };
        assert_eq!(done(host), expected, "{vendor:?}");
    }
}

/// A GPU board that is unreadable while the host is off is not a system.
#[tokio::test]
async fn board_system_is_skipped_in_both_power_states() {
    let sim = stepped(Vendor::DgxH100).await;
    assert_eq!(client(&sim).power().await.unwrap().state, PowerState::On);
    client(&sim).off().await.unwrap();
    sim.host.step();
    let fresh = client(&sim);
    assert_eq!(fresh.power().await.unwrap().state, PowerState::Off);
    fresh.on().await.unwrap();
    assert_eq!(sim.host.counters().received(ResetType::On), 1);
}

#[tokio::test]
async fn two_resettable_systems_are_an_error() {
    let sim = client::stepped_with(Vendor::Generic, |profile| {
        profile.board_member = Some("2".to_owned());
    })
    .await;
    let reset = json!({
        "target": "/redfish/v1/Systems/2/Actions/ComputerSystem.Reset",
        "ResetType@Redfish.AllowableValues": ["On", "ForceOff"],
    });
    let body = json!({"Actions": {"#ComputerSystem.Reset": reset}});
    let second = Rule::always(Action::Merge { body }).on("GET", "/redfish/v1/Systems/2");
    sim.host.inject(second);
    let bmc = client(&sim);
    for error in [bmc.power().await.unwrap_err(), bmc.off().await.unwrap_err()] {
        assert_eq!(error.kind, ErrorKind::System, "{error}");
        for path in ["/redfish/v1/Systems/1 ", "/redfish/v1/Systems/2 "] {
            assert!(error.message.contains(path), "{error}");
        }
    }
    assert_eq!(done(&sim.host), Counters::default());

    let named = connect(config_at(&sim, "/redfish/v1/Systems/1")).unwrap();
    named.off().await.unwrap();
    assert_eq!(done(&sim.host), received(&[(ResetType::ForceOff, 1)]));
    let missing = connect(config_at(&sim, "/redfish/v1/Systems/3")).unwrap();
    assert_eq!(missing.off().await.unwrap_err().kind, ErrorKind::System);
}

/// One client holds the only session; the next ones use Basic and open none.
#[tokio::test]
async fn full_session_table_falls_back_to_basic() {
    for vendor in Vendor::ALL {
        let sim = client::stepped_with(vendor, |profile| profile.session_limit = 1).await;
        let (first, second) = (client(&sim), client(&sim));
        first.power().await.unwrap();
        assert_eq!(sim.host.sessions_open(), 1, "{vendor:?}");
        assert_eq!(
            second.power().await.unwrap().state,
            PowerState::On,
            "{vendor:?}"
        );
        second.off().await.unwrap();
        let mut strict = config(&sim);
        strict.auth = AuthPolicy::Session;
        let strict = connect(strict).unwrap();
        let error = strict.power().await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Busy, "{vendor:?}: {error}");
        assert_eq!(sim.host.sessions_opened(), 1, "{vendor:?}");

        second.close().await.unwrap();
        first.power().await.unwrap();
        first.close().await.unwrap();
        assert_eq!(sim.host.sessions_open(), 0, "{vendor:?}");
        strict.power().await.unwrap();
        strict.close().await.unwrap();
        assert_eq!(sim.host.sessions_open(), 0, "{vendor:?}");
        assert_eq!(done(&sim.host), received(&[(ResetType::ForceOff, 1)]));
    }
}

/// A session that the BMC has dropped costs one login.
#[tokio::test]
async fn expired_session_is_renewed() {
    for vendor in Vendor::ALL {
        let sim = stepped(vendor).await;
        let bmc = client(&sim);
        bmc.power().await.unwrap();
        sim.host.advance(sim.host.config().bmc.profile.session_idle);
        bmc.off().await.unwrap();
        assert_eq!(sim.host.sessions_opened(), 2, "{vendor:?}");
        assert_eq!(done(&sim.host), received(&[(ResetType::ForceOff, 1)]));
        bmc.close().await.unwrap();
        assert_eq!(sim.host.sessions_open(), 0, "{vendor:?}");
    }
}
