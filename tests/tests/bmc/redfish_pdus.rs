//! All outlets of a host at two simulated PDUs with Redfish services: what was really switched.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use rackhand_bmc::{
    Bmc, Credentials, ErrorKind, PowerSource, PowerState,
    operation::{Goal, OperationRequest, Outcome, Report, run},
    pdu::{
        HostOutlet, HostOutlets, OutletCommand, OutletId, OutletState, Pdu, PduConfig,
        PduCredentials, connect,
    },
};
use rackhand_sim::pdu::{OutletSwitch, PduConfig as SimConfig, SimPdu};

const PASSWORD: &str = "s3cret-pw";

async fn start(measures_current: bool) -> SimPdu {
    let config = SimConfig {
        listen: ([127, 0, 0, 1], 0).into(),
        outlets: 24,
        username: "admin".to_owned(),
        password: PASSWORD.into(),
        measures_current,
        is_enclosure: false,
    };
    SimPdu::start(config).await.unwrap()
}

fn client(pdu: &SimPdu, password: &str) -> Arc<dyn Pdu> {
    let credentials = PduCredentials::Password(Credentials::new("admin", password));
    let config = PduConfig {
        call_timeout: Duration::from_secs(2),
        ..PduConfig::new(pdu.url().parse().unwrap(), credentials)
    };
    connect(config).unwrap()
}

/// A host with outlet 12 of both PDUs, of which only the first measures currents.
struct World {
    a: SimPdu,
    b: SimPdu,
    host: HostOutlets,
}

async fn world() -> World {
    let (a, b) = (start(true).await, start(false).await);
    let pdus = BTreeMap::from([
        ("a".to_owned(), client(&a, PASSWORD)),
        ("b".to_owned(), client(&b, PASSWORD)),
    ]);
    let outlets = ["a", "b"].map(|pdu| HostOutlet {
        pdu: pdu.to_owned(),
        outlet: OutletId("12".to_owned()),
    });
    let host = HostOutlets::new(&pdus, outlets.to_vec(), Duration::from_millis(10)).unwrap();
    World { a, b, host }
}

impl World {
    async fn off(&self, deadline: Duration) -> Report {
        let goal = Goal::Off {
            confirmations: 2,
            confirm_interval: Duration::from_millis(200),
            command_after: Duration::ZERO,
        };
        run(&self.host, OperationRequest::new(goal, deadline), &mut ()).await
    }

    /// All commands, to both PDUs.
    fn switched(&self) -> Vec<OutletSwitch> {
        [self.a.switched(), self.b.switched()].concat()
    }
}

const OFF: OutletSwitch = OutletSwitch {
    outlet: 12,
    on: false,
};
const ON: OutletSwitch = OutletSwitch {
    outlet: 12,
    on: true,
};

#[tokio::test]
async fn f1_host_is_off_when_its_outlets_are_and_on_again_in_order() {
    let world = world().await;
    let loads = [&world.a, &world.b].map(|pdu| {
        let has_power = Arc::new(AtomicBool::default());
        let load = Arc::clone(&has_power);
        pdu.connect(12, move |on| load.store(on, Ordering::Relaxed));
        has_power
    });
    let powered = || {
        loads
            .iter()
            .filter(|load| load.load(Ordering::Relaxed))
            .count()
    };
    assert_eq!(powered(), 2);
    let report = world.off(Duration::from_secs(20)).await;
    assert!(report.outcome.is_done(), "{}", report.outcome);
    assert_eq!(powered(), 0);
    let last = report.readings.last().unwrap();
    assert_eq!(
        (last.state, last.source),
        (PowerState::Off, PowerSource::Outlets)
    );
    assert_eq!(last.raw, "a/12: off, 0.0 A, 0.0 W; b/12: off");
    assert_eq!(world.switched(), [OFF, OFF]);
    // The outlets of other hosts are untouched.
    for outlet in (1..=24).filter(|outlet| *outlet != 12) {
        assert!(world.a.is_on(outlet) && world.b.is_on(outlet), "{outlet}");
    }
    let request = OperationRequest::new(Goal::On, Duration::from_secs(20));
    let report = run(&world.host, request, &mut ()).await;
    assert!(report.outcome.is_done(), "{}", report.outcome);
    assert_eq!(world.switched(), [OFF, ON, OFF, ON]);
    assert_eq!(powered(), 2);
    world.host.close().await.unwrap();
}

#[tokio::test]
async fn nothing_is_switched_while_one_pdu_is_silent_or_lacks_the_outlet() {
    let world = world().await;
    world.b.with_faults(|faults| faults.silent = true);
    let silent = world.host.off().await.unwrap_err();
    assert_eq!(
        (silent.kind, silent.maybe_sent),
        (ErrorKind::Timeout, false),
        "{silent}"
    );
    assert_eq!(
        world.host.power().await.unwrap_err().kind,
        ErrorKind::Timeout
    );
    world.b.with_faults(|faults| {
        faults.silent = false;
        faults.missing.insert(12);
    });
    let missing = world.host.off().await.unwrap_err();
    assert_eq!(missing.kind, ErrorKind::System, "{missing}");
    assert!(missing.message.contains("no outlet \"12\""), "{missing}");
    assert_eq!(world.switched(), []);
}

#[tokio::test]
async fn f1_welded_contacts_are_found_by_their_current() {
    let world = world().await;
    world.a.with_faults(|faults| faults.welded = [12].into());
    let report = world.off(Duration::from_secs(2)).await;
    let last = Some(PowerState::PoweringOff);
    assert!(
        matches!(report.outcome, Outcome::Unconfirmed { last: found, .. } if found == last),
        "{}",
        report.outcome
    );
    assert!(world.a.is_on(12));
}

#[tokio::test]
async fn f1_outlet_that_is_stuck_or_in_transition_is_not_off() {
    let stuck = world().await;
    stuck.b.with_faults(|faults| faults.stuck = [12].into());
    let report = stuck.off(Duration::from_secs(2)).await;
    assert!(
        matches!(report.outcome, Outcome::Unconfirmed { .. }),
        "{}",
        report.outcome
    );
    let pending = world().await;
    pending
        .b
        .with_faults(|faults| faults.in_transition = [12].into());
    let report = pending.off(Duration::from_secs(2)).await;
    assert!(
        matches!(report.outcome, Outcome::Unconfirmed { .. }),
        "{}",
        report.outcome
    );
}

#[tokio::test]
async fn pdu_that_refuses_leaves_an_error_that_names_what_was_switched() {
    let world = world().await;
    world.b.with_faults(|faults| faults.refuses = true);
    let refused = world.host.off().await.unwrap_err();
    assert!(refused.maybe_sent, "{refused}");
    assert!(
        refused.message.contains("off was accepted by a/12: 204"),
        "{refused}"
    );
    assert_eq!(world.switched(), [OFF]);
    world.b.with_faults(|faults| {
        faults.refuses = false;
        faults.locked.insert(12);
    });
    let b = client(&world.b, PASSWORD);
    let locked = b
        .switch(&OutletId("12".to_owned()), OutletCommand::Off)
        .await
        .unwrap_err();
    assert_eq!(
        (locked.kind, locked.maybe_sent),
        (ErrorKind::Refused, false),
        "{locked}"
    );
    assert_eq!(world.b.switched(), []);
}

#[tokio::test]
async fn all_outlets_are_listed_with_their_currents() {
    let pdu = start(true).await;
    let outlets = client(&pdu, PASSWORD).outlets().await.unwrap();
    assert_eq!(outlets.len(), 24);
    for outlet in outlets {
        assert_eq!(outlet.state, OutletState::On);
        assert_eq!((outlet.amperes, outlet.watts), (Some(0.9), Some(201.0)));
        assert_eq!(outlet.label, Some(format!("Outlet {}", outlet.id)));
    }
    let refused = client(&pdu, "wrong").outlets().await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Authentication, "{refused}");
}
