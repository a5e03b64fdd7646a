//! The chassis of a simulated chassis manager as the outlets of hosts: what was really switched.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use rackhand_bmc::{
    Bmc, Credentials, ErrorKind,
    operation::{Goal, OperationRequest, Report, run},
    pdu::{
        HostOutlet, HostOutlets, OutletId, OutletState, Pdu, PduConfig, PduCredentials, connect,
    },
};
use rackhand_sim::pdu::{ENCLOSURE, OutletSwitch, PduConfig as SimConfig, SimPdu};

const PASSWORD: &str = "s3cret-pw";
/// Timeout of operations that must be carried out, on a busy machine.
const LONG: Duration = Duration::from_secs(60);
/// More than the fans of the simulated enclosure take.
const STANDBY: f64 = 15.0;

async fn start() -> SimPdu {
    let config = SimConfig {
        listen: ([127, 0, 0, 1], 0).into(),
        outlets: 2,
        username: "admin".to_owned(),
        password: PASSWORD.into(),
        measures_current: true,
        is_enclosure: true,
    };
    SimPdu::start(config).await.unwrap()
}

fn client(manager: &SimPdu, standby_watts: f64) -> Arc<dyn Pdu> {
    let credentials = PduCredentials::Password(Credentials::new("admin", PASSWORD));
    let config = PduConfig {
        call_timeout: Duration::from_secs(20),
        chassis_standby_watts: Some(standby_watts),
        ..PduConfig::new(manager.url().parse().unwrap(), credentials)
    };
    connect(config).unwrap()
}

/// A host with this chassis, which feeds `hosts` hosts by the inventory.
fn host(manager: &SimPdu, chassis: &str, hosts: usize, standby_watts: f64) -> HostOutlets {
    let outlet = HostOutlet {
        pdu: "c".to_owned(),
        outlet: OutletId(chassis.to_owned()),
    };
    let pdus = BTreeMap::from([("c".to_owned(), client(manager, standby_watts))]);
    let host = HostOutlets::new(&pdus, vec![outlet.clone()], Duration::ZERO).unwrap();
    host.shared(BTreeMap::from([(outlet, hosts)]))
}

async fn off(host: &HostOutlets, deadline: Duration) -> Report {
    let goal = Goal::Off {
        confirmations: 2,
        confirm_interval: Duration::from_millis(100),
        command_after: Duration::ZERO,
    };
    run(host, OperationRequest::new(goal, deadline), &mut ()).await
}

#[tokio::test]
async fn f1_sled_is_switched_alone_and_on_again() {
    let manager = start().await;
    let sled = host(&manager, "Sled1", 1, STANDBY);
    let report = off(&sled, LONG).await;
    assert!(report.outcome.is_done(), "{}", report.outcome);
    assert_eq!(report.readings.last().unwrap().raw, "c/Sled1: off, 0.0 W");
    assert!(!manager.is_on(1) && manager.is_on(2) && manager.is_on(ENCLOSURE));
    let request = OperationRequest::new(Goal::On, LONG);
    let report = run(&sled, request, &mut ()).await;
    assert!(report.outcome.is_done(), "{}", report.outcome);
    assert!(manager.is_on(1));
    // A second power-off of a chassis that is off is refused by the manager, and means the same.
    off(&sled, LONG).await;
    let again = off(&sled, LONG).await;
    assert!(again.outcome.is_done(), "{}", again.outcome);
}

#[tokio::test]
async fn enclosure_feeds_all_of_its_sleds() {
    let manager = start().await;
    let enclosure = host(&manager, "Enclosure", 2, STANDBY);
    let report = off(&enclosure, LONG).await;
    assert!(report.outcome.is_done(), "{}", report.outcome);
    assert_eq!(
        report.readings.last().unwrap().raw,
        "c/Enclosure: off, 12.0 W"
    );
    assert!(!manager.is_on(1) && !manager.is_on(2));
    enclosure.on().await.unwrap();
    assert!(manager.is_on(1) && manager.is_on(2));
    // It is on already, so nothing more is sent.
    enclosure.on().await.unwrap();
    let switched: Vec<_> = manager.switched().iter().map(|one| one.on).collect();
    assert_eq!(switched, [false, true]);
}

#[tokio::test]
async fn enclosure_with_a_system_that_no_inventory_names_is_not_switched() {
    let manager = start().await;
    let refused = host(&manager, "Enclosure", 1, STANDBY).off().await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Configuration);
    assert!(refused.message.contains("feeds 2 systems"), "{refused}");
    assert_eq!(manager.switched(), Vec::<OutletSwitch>::new());
}

#[tokio::test]
async fn f1_power_beyond_standby_or_a_system_that_reports_on_is_not_off() {
    let manager = start().await;
    let strict = host(&manager, "Enclosure", 2, 5.0);
    let report = off(&strict, Duration::from_secs(2)).await;
    assert!(!report.outcome.is_done(), "{}", report.outcome);

    manager.with_faults(|faults| {
        faults.stale_systems.insert(2);
    });
    let enclosure = host(&manager, "Enclosure", 2, STANDBY);
    let report = off(&enclosure, Duration::from_secs(5)).await;
    assert!(!report.outcome.is_done(), "{}", report.outcome);
    let raw = &report.readings.last().unwrap().raw;
    assert!(raw.contains("but system 2 is On"), "{raw}");
    manager.with_faults(|faults| faults.stale_systems.clear());
    let report = off(&enclosure, LONG).await;
    assert!(report.outcome.is_done(), "{}", report.outcome);
}

#[tokio::test]
async fn f1_stuck_welded_and_missing_chassis_are_not_off() {
    let manager = start().await;
    let sled = host(&manager, "Sled1", 1, STANDBY);
    manager.with_faults(|faults| {
        faults.stuck.insert(1);
    });
    let report = off(&sled, Duration::from_secs(2)).await;
    assert!(!report.outcome.is_done(), "{}", report.outcome);
    manager.with_faults(|faults| {
        faults.stuck.clear();
        faults.welded.insert(1);
    });
    let report = off(&sled, Duration::from_secs(2)).await;
    assert!(!report.outcome.is_done(), "{}", report.outcome);
    let missing = host(&manager, "Sled9", 1, STANDBY).off().await.unwrap_err();
    assert_eq!(missing.kind, ErrorKind::System);
}

#[tokio::test]
async fn all_chassis_of_the_manager_are_listed() {
    let manager = start().await;
    let listed = client(&manager, STANDBY).outlets().await.unwrap();
    let listed: Vec<_> = listed
        .iter()
        .map(|reading| (reading.id.0.as_str(), reading.state))
        .collect();
    let on = OutletState::On;
    assert_eq!(listed, [("Enclosure", on), ("Sled1", on), ("Sled2", on)]);
}
