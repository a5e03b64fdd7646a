//! Hosts of each make that are being flashed: none loses its power while its firmware is written.

use std::time::Duration;

use rackhand_bmc::operation::{
    DuringUpdate, Expected, Goal, OperationRequest, Outcome, Report, run,
};
use rackhand_bmc::{Bmc, ErrorKind, PowerState, UpdatePhase, ipmi::IpmiConfig};
use rackhand_tests::rack::ipmi::IpmiBmc;
use rackhand_tests::rack::redfish::{UpdatePlace, Vendor};
use rackhand_tests::rack::{FaultId, SimHost};

use super::client::{client, off, stepped, stepped_with};
use crate::rack_support::redfish_client::Sim;

/// Time for a reading of the updates.
const LIMIT: Duration = Duration::from_secs(10);

/// The makes that report updates, each in its own place.
const MAKES: [Vendor; 4] = [Vendor::Idrac9, Vendor::Ilo5, Vendor::Ilo6, Vendor::OpenBmc];

async fn operate(bmc: &dyn Bmc, goal: Goal, during_update: DuringUpdate) -> Report {
    let request = OperationRequest {
        during_update,
        expected: Expected::default(),
        ..OperationRequest::new(goal, Duration::from_secs(60))
    };
    run(bmc, request, &mut ()).await
}

#[tokio::test]
async fn no_make_is_cut_while_its_firmware_is_written() {
    for vendor in MAKES {
        let sim = stepped(vendor).await;
        sim.host.flash(None);
        let bmc = client(&sim);
        for goal in [off(), Goal::Reset] {
            let report = operate(bmc.as_ref(), goal, DuringUpdate::Refuse).await;
            let Outcome::FirmwareUpdate { update, .. } = &report.outcome else {
                panic!("{vendor:?}: {}", report.outcome)
            };
            assert_eq!(update.percent, Some(40), "{vendor:?}");
        }
        let counters = sim.host.counters();
        assert_eq!(
            (counters.bricked, counters.offs, counters.resets),
            (0, 0, 0),
            "{vendor:?}"
        );
        assert!(counters.commands.is_empty(), "{vendor:?}: {counters:?}");
    }
}

#[tokio::test]
async fn update_that_has_ended_or_is_scheduled_holds_nothing_up() {
    for vendor in MAKES {
        let sim = stepped(vendor).await;
        let bmc = client(&sim);
        sim.host.flash(Some(Duration::ZERO));
        let ended = bmc.firmware_updates(LIMIT).await.unwrap();
        assert!(ended.updates.is_empty(), "{vendor:?}: {ended:?}");
        assert!(ended.unread.is_empty(), "{vendor:?}: {ended:?}");
        sim.host.schedule_flash(None);
        let scheduled = bmc.firmware_updates(LIMIT).await.unwrap();
        assert!(scheduled.running().is_none(), "{vendor:?}");
        let is_seen = !matches!(vendor, Vendor::Ilo5 | Vendor::Ilo6);
        let phase = scheduled.updates.first().map(|update| update.phase);
        assert_eq!(
            phase,
            is_seen.then_some(UpdatePhase::AtNextStart),
            "{vendor:?}"
        );
    }
}

/// An OpenBMC whose update was not begun over Redfish: no task shows it.
async fn openbmc_by_image() -> Sim {
    stepped_with(Vendor::OpenBmc, |profile| {
        profile.updates = Some(UpdatePlace::Image);
    })
    .await
}

#[tokio::test]
async fn image_that_openbmc_activates_is_an_update() {
    let sim = openbmc_by_image().await;
    let bmc = client(&sim);
    let idle = bmc.firmware_updates(LIMIT).await.unwrap();
    assert!(
        idle.updates.is_empty() && idle.unread.is_empty(),
        "{idle:?}"
    );
    assert!(
        idle.read.contains(&"firmware inventory".to_owned()),
        "{idle:?}"
    );
    sim.host.flash(None);
    for goal in [off(), Goal::Reset] {
        let report = operate(bmc.as_ref(), goal, DuringUpdate::Refuse).await;
        let Outcome::FirmwareUpdate {
            update,
            commands: 0,
        } = &report.outcome
        else {
            panic!("{}", report.outcome)
        };
        assert!(update.source.starts_with("software "), "{update}");
        assert!(update.name.contains("2.18.0"), "{update}");
    }
    assert_eq!(sim.host.counters().bricked, 0);
    assert!(sim.host.counters().commands.is_empty());
}

#[tokio::test]
async fn upgrade_by_hpm_is_read_before_an_off_by_ipmi_alone() {
    for hpm in [true, false] {
        let sim = Sim::start(|host| host.bmc.hpm = hpm).await;
        let ipmi = IpmiBmc::attach(&sim.host).await.unwrap();
        let address = format!("ipmi://{}", ipmi.address());
        let config = IpmiConfig::new(address.parse().unwrap(), "admin", "secret".into());
        let bmc = rackhand_bmc::ipmi::connect(config).unwrap();
        sim.host.flash(None);
        let report = operate(bmc.as_ref(), off(), DuringUpdate::Refuse).await;
        match (hpm, &report.outcome) {
            (
                true,
                Outcome::FirmwareUpdate {
                    update,
                    commands: 0,
                },
            ) => {
                assert_eq!(
                    (update.source.as_str(), update.percent),
                    ("HPM.1", Some(40))
                );
                assert_eq!(sim.host.counters().bricked, 0);
                sim.host.end_flash();
                let found = bmc.firmware_updates(LIMIT).await.unwrap();
                assert!(found.updates.is_empty(), "{found:?}");
                assert_eq!(found.read, ["HPM.1"]);
            }
            // What such a BMC never reports holds nothing up.
            (false, outcome) => {
                assert!(outcome.is_done(), "{outcome}");
                let error = bmc.firmware_updates(LIMIT).await.unwrap_err();
                assert_eq!(error.kind, ErrorKind::Unsupported);
            }
            (true, outcome) => panic!("{outcome}"),
        }
    }
}

#[tokio::test]
async fn simulated_host_that_is_cut_all_the_same_is_bricked() {
    let sim = stepped(Vendor::Idrac9).await;
    sim.host.single_step(false);
    sim.host.flash(None);
    let report = operate(client(&sim).as_ref(), off(), DuringUpdate::Proceed).await;
    assert!(report.outcome.is_done(), "{}", report.outcome);
    assert_eq!(sim.host.counters().bricked, 1);
}

#[tokio::test]
async fn update_that_begins_after_a_shutdown_was_taken_is_not_cut() {
    for vendor in MAKES {
        let sim = stepped(vendor).await;
        // The operating system does not react to the shutdown.
        assert!(sim.host.hang(), "{vendor:?}");
        sim.host.flash_at_power_off(None);
        let soft = Goal::SoftOff {
            limit: Duration::from_millis(300),
            then_force: true,
            confirmations: 2,
            confirm_interval: Duration::from_millis(20),
        };
        let bmc = client(&sim);
        let report = operate(bmc.as_ref(), soft, DuringUpdate::Refuse).await;
        let Outcome::FirmwareUpdate { commands: 1, .. } = &report.outcome else {
            panic!("{vendor:?}: {}", report.outcome)
        };
        let counters = sim.host.counters();
        assert_eq!((counters.bricked, counters.offs), (0, 0), "{vendor:?}");
    }
}

#[tokio::test]
async fn source_that_is_misnamed_refused_or_silent_is_not_known_and_hides_no_other() {
    const SERVICE: &str = "/redfish/v1/UpdateService";
    type Habit = fn(&SimHost) -> FaultId;
    let habits: [(&str, Habit); 3] = [
        ("answered with", |host| {
            host.misname(SERVICE, "/redfish/v1/Chassis")
        }),
        ("(401)", |host| host.refuse_auth_at(SERVICE)),
        ("not read in time", |host| host.silent_at(SERVICE)),
    ];
    for (why, begin) in habits {
        let sim = stepped(Vendor::Idrac9).await;
        let bmc = client(&sim);
        let habit = begin(&sim.host);
        let limit = Duration::from_secs(3);
        let found = bmc.firmware_updates(limit).await.unwrap();
        let unknown = found.unknown().unwrap_or_default();
        assert!(
            unknown.contains("UpdateService") && unknown.contains(why),
            "{found:?}"
        );
        // Its queue of jobs tells all the same.
        sim.host.flash(None);
        let found = bmc.firmware_updates(limit).await.unwrap();
        assert!(found.running().is_some(), "{why}: {found:?}");
        assert_eq!(bmc.power().await.unwrap().state, PowerState::On, "{why}");
        assert!(sim.host.sessions_open() <= 1, "{why}");
        sim.host.clear_fault(habit);
        let found = bmc.firmware_updates(LIMIT).await.unwrap();
        assert!(found.unread.is_empty(), "{why}: {found:?}");
    }
}
