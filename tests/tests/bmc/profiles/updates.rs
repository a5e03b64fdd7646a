//! Hosts of each make that are being flashed: none loses its power while its firmware is written.

use std::time::Duration;

use rackhand_bmc::operation::{
    DuringUpdate, Expected, Goal, OperationRequest, Outcome, Report, run,
};
use rackhand_bmc::{Bmc, UpdatePhase};
use rackhand_tests::rack::redfish::Vendor;

use super::client::{client, off, stepped};

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
            let Outcome::FirmwareUpdate(update) = &report.outcome else {
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
        let ended = bmc.firmware_updates().await.unwrap();
        assert!(ended.updates.is_empty(), "{vendor:?}: {ended:?}");
        assert!(ended.unread.is_empty(), "{vendor:?}: {ended:?}");
        sim.host.schedule_flash(None);
        let scheduled = bmc.firmware_updates().await.unwrap();
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

#[tokio::test]
async fn simulated_host_that_is_cut_all_the_same_is_bricked() {
    let sim = stepped(Vendor::Idrac9).await;
    sim.host.single_step(false);
    sim.host.flash(None);
    let report = operate(client(&sim).as_ref(), off(), DuringUpdate::Proceed).await;
    assert!(report.outcome.is_done(), "{}", report.outcome);
    assert_eq!(sim.host.counters().bricked, 1);
}
