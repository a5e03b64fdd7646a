//! Hosts with outlets at PDUs in memory.

use std::sync::Mutex;

use super::*;
use crate::pdu::NO_WATTS;
use crate::{
    PowerState,
    operation::{Goal, OperationRequest, Outcome, run},
    pdu::OutletState,
};

#[derive(Debug, Default)]
struct World {
    outlets: BTreeMap<OutletId, (OutletState, Option<f64>)>,
    /// The kind of error of every call, if any.
    read_fails: Option<ErrorKind>,
    /// How long a reading takes.
    slow: Duration,
    switch_fails: Option<ErrorKind>,
    /// Outlets that accept a command and ignore it.
    stuck: Vec<OutletId>,
    switched: Vec<(OutletId, OutletCommand)>,
}

#[derive(Debug)]
struct FakePdu {
    address: String,
    world: Mutex<World>,
    /// Records the switched outlets of all PDUs, in order.
    log: Arc<Mutex<Vec<String>>>,
}

impl FakePdu {
    fn fail(&self, kind: Option<ErrorKind>) -> Result<(), BmcError> {
        kind.map_or(Ok(()), |kind| {
            Err(error(&self.address, kind, "as configured".to_owned()))
        })
    }
}

impl Pdu for FakePdu {
    fn address(&self) -> &str {
        &self.address
    }

    fn outlets(&self) -> BmcFuture<'_, Vec<OutletReading>> {
        Box::pin(async {
            let ids: Vec<_> = self.world.lock().unwrap().outlets.keys().cloned().collect();
            self.read(&ids).await
        })
    }

    fn read<'a>(&'a self, outlets: &'a [OutletId]) -> BmcFuture<'a, Vec<OutletReading>> {
        Box::pin(async move {
            let slow = self.world.lock().unwrap().slow;
            tokio::time::sleep(slow).await;
            let world = self.world.lock().unwrap();
            self.fail(world.read_fails)?;
            let read = |id: &OutletId| {
                let (state, amperes) = *world.outlets.get(id).ok_or_else(|| {
                    error(&self.address, ErrorKind::System, format!("no outlet {id}"))
                })?;
                Ok(OutletReading {
                    id: id.clone(),
                    label: None,
                    state,
                    raw: format!("{state:?}"),
                    amperes,
                    watts: None,
                    none_watts: NO_WATTS,
                })
            };
            outlets.iter().map(read).collect()
        })
    }

    fn switch<'a>(
        &'a self,
        outlet: &'a OutletId,
        command: OutletCommand,
    ) -> BmcFuture<'a, Accepted> {
        Box::pin(async move {
            let mut world = self.world.lock().unwrap();
            self.fail(world.switch_fails)?;
            let is_stuck = world.stuck.contains(outlet);
            world.switched.push((outlet.clone(), command));
            self.log
                .lock()
                .unwrap()
                .push(format!("{}/{outlet} {command:?}", self.address));
            if let Some(found) = world.outlets.get_mut(outlet)
                && !is_stuck
            {
                let current = found.1.is_some();
                *found = match command {
                    OutletCommand::On => (OutletState::On, current.then_some(0.6)),
                    OutletCommand::Off => (OutletState::Off, current.then_some(0.0)),
                };
            }
            Ok(Accepted::taken(format!("{command:?}"), "200"))
        })
    }

    fn close(&self) -> BmcFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }
}

struct Rack {
    a: Arc<FakePdu>,
    b: Arc<FakePdu>,
    host: HostOutlets,
    log: Arc<Mutex<Vec<String>>>,
}

fn id(text: &str) -> OutletId {
    OutletId(text.to_owned())
}

fn outlet(pdu: &str, outlet: &str) -> HostOutlet {
    HostOutlet {
        pdu: pdu.to_owned(),
        outlet: id(outlet),
    }
}

/// PDU a measures currents, PDU b does not. The host has outlets 12 of both and 13 of b.
fn rack() -> Rack {
    let log = Arc::default();
    let pdu = |name: &str, amperes| {
        let outlets = ["12", "13"].map(|outlet| (id(outlet), (OutletState::On, amperes)));
        Arc::new(FakePdu {
            address: name.to_owned(),
            world: Mutex::new(World {
                outlets: BTreeMap::from(outlets),
                ..World::default()
            }),
            log: Arc::clone(&log),
        })
    };
    let (a, b) = (pdu("a", Some(0.6)), pdu("b", None));
    let pdus: BTreeMap<String, Arc<dyn Pdu>> = BTreeMap::from([
        ("a".to_owned(), Arc::clone(&a) as Arc<dyn Pdu>),
        ("b".to_owned(), Arc::clone(&b) as Arc<dyn Pdu>),
    ]);
    let list = vec![outlet("b", "13"), outlet("a", "12"), outlet("b", "12")];
    let host = HostOutlets::new(&pdus, list, Duration::from_secs(3)).unwrap();
    Rack { a, b, host, log }
}

impl Rack {
    fn taken(&self) -> Vec<String> {
        std::mem::take(&mut *self.log.lock().unwrap())
    }
}

fn off() -> OperationRequest {
    let goal = Goal::Off {
        confirmations: 2,
        confirm_interval: Duration::from_secs(2),
        command_after: Duration::ZERO,
    };
    OperationRequest::new(goal, Duration::from_secs(60))
}

#[tokio::test(start_paused = true)]
async fn f1_host_is_confirmed_off_by_two_readings_of_all_outlets() {
    let rack = rack();
    let report = run(&rack.host, off(), &mut ()).await;
    assert!(report.outcome.is_done(), "{}", report.outcome);
    let mut taken = rack.taken();
    taken.sort();
    assert_eq!(taken, ["a/12 Off", "b/12 Off", "b/13 Off"]);
    let last = report.readings.last().unwrap();
    assert_eq!(last.raw, "b/13: off; a/12: off, 0.0 A; b/12: off");
    assert_eq!(last.source, PowerSource::Outlets);
    // The other host's outlet at PDU a is untouched.
    assert_eq!(
        rack.a.world.lock().unwrap().outlets[&id("13")].0,
        OutletState::On
    );
}

#[tokio::test(start_paused = true)]
async fn f1_stuck_outlet_leaves_the_host_unconfirmed() {
    let rack = rack();
    rack.b.world.lock().unwrap().stuck.push(id("12"));
    let report = run(&rack.host, off(), &mut ()).await;
    assert!(
        matches!(
            report.outcome,
            Outcome::Unconfirmed {
                last: Some(PowerState::Unknown),
                ..
            }
        ),
        "{}",
        report.outcome
    );
}

#[tokio::test(start_paused = true)]
async fn f1_current_that_stays_leaves_the_host_unconfirmed() {
    let rack = rack();
    rack.a.world.lock().unwrap().stuck.push(id("12"));
    let stays = (OutletState::Off, Some(0.6));
    rack.a.world.lock().unwrap().outlets.insert(id("12"), stays);
    let report = run(&rack.host, off(), &mut ()).await;
    let last = Some(PowerState::PoweringOff);
    assert!(
        matches!(report.outcome, Outcome::Unconfirmed { last: found, .. } if found == last),
        "{}",
        report.outcome
    );
}

#[tokio::test(start_paused = true)]
async fn outlets_that_read_off_get_a_power_off_nevertheless() {
    let rack = rack();
    assert!(rack.host.off().await.is_ok());
    rack.taken();
    let report = run(&rack.host, off(), &mut ()).await;
    assert!(report.outcome.is_done(), "{}", report.outcome);
    assert_eq!(rack.taken().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn no_outlet_is_switched_while_one_pdu_does_not_answer() {
    for kind in [
        ErrorKind::Timeout,
        ErrorKind::Unreachable,
        ErrorKind::System,
    ] {
        let rack = rack();
        rack.b.world.lock().unwrap().read_fails = Some(kind);
        for command in [PowerCommand::Off, PowerCommand::On] {
            let refused = rack.host.command(command).await.unwrap_err();
            assert_eq!(refused.kind, kind);
            assert!(!refused.maybe_sent);
            assert!(
                refused.message.contains("PDU b (b): as configured"),
                "{refused}"
            );
        }
        assert_eq!(rack.host.power().await.unwrap_err().kind, kind);
        assert_eq!(rack.taken(), Vec::<String>::new());
    }
}

#[tokio::test(start_paused = true)]
async fn no_outlet_is_switched_while_one_does_not_exist() {
    let rack = rack();
    rack.b.world.lock().unwrap().outlets.remove(&id("13"));
    let refused = rack.host.off().await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::System);
    assert_eq!(rack.taken(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn off_that_one_pdu_refuses_is_an_error_that_names_what_was_switched() {
    let rack = rack();
    rack.b.world.lock().unwrap().switch_fails = Some(ErrorKind::Privilege);
    let failed = rack.host.off().await.unwrap_err();
    assert_eq!(
        (failed.kind, failed.maybe_sent),
        (ErrorKind::Privilege, true)
    );
    assert!(
        failed.message.ends_with("off was accepted by a/12: 200"),
        "{failed}"
    );
    assert_eq!(rack.taken(), ["a/12 Off"]);
}

#[tokio::test(start_paused = true)]
async fn outlets_are_switched_on_in_order_with_the_delay_between_two() {
    let rack = rack();
    assert!(rack.host.off().await.is_ok());
    rack.taken();
    let begun = tokio::time::Instant::now();
    let accepted = rack.host.on().await.unwrap();
    assert_eq!(rack.taken(), ["b/13 On", "a/12 On", "b/12 On"]);
    assert_eq!(begun.elapsed(), Duration::from_secs(6));
    assert!(accepted.was_sent());
    let reading = rack.host.power().await.unwrap();
    assert_eq!(reading.state, PowerState::On);
}

#[tokio::test(start_paused = true)]
async fn what_an_outlet_cannot_do_is_unsupported() {
    let rack = rack();
    for command in [
        PowerCommand::SoftOff,
        PowerCommand::Reset,
        PowerCommand::Nmi,
    ] {
        let refused = rack.host.command(command).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Unsupported);
    }
    assert_eq!(rack.taken(), Vec::<String>::new());
}

#[test]
fn wrong_lists_of_outlets_are_refused() {
    let rack = rack();
    let pdus = BTreeMap::from([("a".to_owned(), Arc::clone(&rack.a) as Arc<dyn Pdu>)]);
    for (list, part) in [
        (vec![], "no outlets"),
        (vec![outlet("a", "1"), outlet("a", "1")], "listed twice"),
        (vec![outlet("c", "1")], "no PDU \"c\""),
    ] {
        let refused = HostOutlets::new(&pdus, list, Duration::ZERO).unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Configuration);
        assert!(refused.message.contains(part), "{refused}");
    }
}

#[tokio::test(start_paused = true)]
async fn outlets_that_take_too_long_to_be_read_are_not_switched_off() {
    let rack = rack();
    rack.a.world.lock().unwrap().slow = Duration::from_secs(3);
    let soon = Some(Instant::now() + Duration::from_secs(2));
    let off = |until| (rack.host).command_until(PowerCommand::Off, Expected::default(), until);
    let error = off(soon).await.unwrap_err();
    assert!(error.not_sent && error.kind == ErrorKind::Busy, "{error}");
    assert_eq!(rack.taken(), Vec::<String>::new());
    off(None).await.unwrap();
    assert_eq!(rack.taken().len(), 3);
}
