//! Several drivers in memory behind one [`Failover`].

use std::sync::{
    Mutex,
    atomic::{AtomicU32, Ordering},
};

use proptest::prelude::*;

use super::*;
use crate::{
    BootDevice, BootPersistence, ErrorKind, PowerSource, PowerState,
    operation::{DuringUpdate, Expected, Goal, OperationRequest, Outcome, Timing, run},
};

mod identity;
mod operations;

fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A driver with configured results that records its calls.
#[derive(Debug)]
struct Scripted {
    name: &'static str,
    source: PowerSource,
    /// Kind of the failure of each call, and whether it may have been sent. `None`: calls succeed.
    fails: Mutex<Option<(ErrorKind, bool)>>,
    mute: Mutex<bool>,
    /// System UUID in readings.
    system: Mutex<Option<String>>,
    asked: Mutex<Vec<String>>,
    state: Arc<Mutex<PowerState>>,
    closed: AtomicU32,
}

impl Scripted {
    fn pair() -> (Arc<Self>, Arc<Self>, Arc<Mutex<PowerState>>) {
        let state = Arc::new(Mutex::new(PowerState::On));
        let one = |name, source| {
            Arc::new(Self {
                name,
                source,
                fails: Mutex::default(),
                mute: Mutex::default(),
                system: Mutex::default(),
                asked: Mutex::default(),
                state: state.clone(),
                closed: AtomicU32::new(0),
            })
        };
        (
            one("redfish://a", PowerSource::Redfish),
            one("ipmi://a", PowerSource::Ipmi),
            state,
        )
    }

    fn fail(&self, kind: ErrorKind, maybe_sent: bool) {
        *self.fails.lock().unwrap() = Some((kind, maybe_sent));
    }

    fn heal(&self) {
        *self.fails.lock().unwrap() = None;
        *self.mute.lock().unwrap() = false;
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }

    fn call<T: Send + 'static>(&self, what: &str, answer: T) -> BmcFuture<'_, T> {
        self.asked.lock().unwrap().push(what.to_owned());
        Box::pin(async move {
            if *self.mute.lock().unwrap() {
                std::future::pending::<()>().await;
            }
            match *self.fails.lock().unwrap() {
                None => Ok(answer),
                Some((kind, maybe_sent)) => Err(BmcError {
                    kind,
                    bmc: self.name.to_owned(),
                    message: kind.label().to_owned(),
                    retry_after: None,
                    maybe_sent,
                    not_sent: !maybe_sent && never_reaches(kind),
                }),
            }
        })
    }

    fn accepted(&self) -> Accepted {
        Accepted::taken("", self.name)
    }
}

/// Whether a call that fails like this has reached no BMC.
fn never_reaches(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::Unreachable | ErrorKind::Tls | ErrorKind::Unsupported
    )
}

impl Bmc for Scripted {
    fn address(&self) -> &str {
        self.name
    }

    fn power(&self) -> BmcFuture<'_, PowerReading> {
        let state = *self.state.lock().unwrap();
        let reading = PowerReading {
            state,
            raw: format!("{state:?}"),
            source: self.source,
            identity: SystemIdentity {
                system_uuid: self.system.lock().unwrap().clone(),
                ..SystemIdentity::default()
            },
            at: jiff::Timestamp::UNIX_EPOCH,
            bmc: self.name.to_owned(),
            connection: None,
            identify_led: None,
        };
        self.call("power", reading)
    }

    fn command(&self, command: PowerCommand) -> BmcFuture<'_, Accepted> {
        let call = self.call(command.words(), self.accepted());
        Box::pin(async move {
            let accepted = call.await?;
            if let Some(state) = command.leads_to() {
                *self.state.lock().unwrap() = state;
            }
            Ok(accepted)
        })
    }

    fn off(&self) -> BmcFuture<'_, Accepted> {
        self.call("off()", self.accepted())
    }

    fn on(&self) -> BmcFuture<'_, Accepted> {
        self.call("on()", self.accepted())
    }

    fn identity(&self) -> BmcFuture<'_, SystemIdentity> {
        self.call("identity", SystemIdentity::default())
    }

    fn boot(&self) -> BmcFuture<'_, BootOverride> {
        self.call("boot", BOOT)
    }

    fn boot_state(&self) -> BmcFuture<'_, BootState> {
        self.call("boot state", BootState::default())
    }

    fn set_boot(&self, wanted: BootOverride) -> BmcFuture<'_, Accepted> {
        self.call(&format!("set boot {:?}", wanted.device), self.accepted())
    }

    fn identify(&self, wanted: Identify) -> BmcFuture<'_, Accepted> {
        self.call(&format!("identify {wanted:?}"), self.accepted())
    }

    fn sensors(&self) -> BmcFuture<'_, Vec<Sensor>> {
        self.call("sensors", Vec::new())
    }

    fn event_log(&self, limit: usize) -> BmcFuture<'_, EventLog> {
        let log = EventLog {
            entries: Vec::new(),
            total: Some(limit),
        };
        self.call("event log", log)
    }

    fn clear_event_log(&self) -> BmcFuture<'_, Accepted> {
        self.call("clear", self.accepted())
    }

    fn firmware_updates(&self, _: Duration) -> BmcFuture<'_, FirmwareUpdates> {
        self.call("updates", FirmwareUpdates::default())
    }

    fn reset_bmc(&self) -> BmcFuture<'_, Accepted> {
        self.call("reset bmc", self.accepted())
    }

    fn close(&self) -> BmcFuture<'_, ()> {
        Box::pin(async {
            if *self.mute.lock().unwrap() {
                std::future::pending::<()>().await;
            }
            self.closed.fetch_add(1, Ordering::SeqCst);
            Ok(())
        })
    }
}

const BOOT: BootOverride = BootOverride {
    device: BootDevice::Pxe,
    persistence: BootPersistence::Once,
    mode: None,
};

fn failover(first: &Arc<Scripted>, second: &Arc<Scripted>) -> Failover {
    let drivers: Vec<Arc<dyn Bmc>> = vec![first.clone(), second.clone()];
    Failover::new(drivers, FailoverSettings::default()).unwrap()
}

#[test]
fn failover_without_drivers_is_none() {
    assert!(Failover::new(Vec::new(), FailoverSettings::default()).is_none());
}

#[tokio::test(start_paused = true)]
async fn every_call_fails_over_from_the_first_driver_to_the_second() {
    let (first, second, _) = Scripted::pair();
    let both = failover(&first, &second);
    assert_eq!(both.address(), "redfish://a");
    for unsupported in [false, true] {
        if unsupported {
            first.fail(ErrorKind::Unsupported, false);
        }
        both.power().await.unwrap();
        both.command(PowerCommand::Nmi).await.unwrap();
        both.off().await.unwrap();
        both.on().await.unwrap();
        both.identity().await.unwrap();
        assert_eq!(both.boot().await, Ok(BOOT));
        both.boot_state().await.unwrap();
        both.set_boot(BOOT).await.unwrap();
        both.identify(Identify::On).await.unwrap();
        both.sensors().await.unwrap();
        assert_eq!(both.event_log(7).await.unwrap().total, Some(7));
        both.clear_event_log().await.unwrap();
        both.reset_bmc().await.unwrap();
        let expected = [
            "power",
            "diagnostic interrupt",
            "off()",
            "on()",
            "identity",
            "boot",
            "boot state",
            "set boot Pxe",
            "identify On",
            "sensors",
            "event log",
            "clear",
            "reset bmc",
        ];
        assert_eq!(first.asked(), expected);
        let fallen: &[&str] = if unsupported { &expected } else { &[] };
        assert_eq!(second.asked(), fallen);
    }
}

#[tokio::test(start_paused = true)]
async fn working_driver_is_preferred_and_its_protocol_reported() {
    let (first, second, _) = Scripted::pair();
    let both = failover(&first, &second);
    assert_eq!(both.power().await.unwrap().source, PowerSource::Redfish);
    first.fail(ErrorKind::Timeout, false);
    assert_eq!(both.power().await.unwrap().source, PowerSource::Ipmi);
    first.heal();
    first.asked();
    tokio::time::advance(s(299)).await;
    assert_eq!(both.power().await.unwrap().source, PowerSource::Ipmi);
    assert!(first.asked().is_empty());
    tokio::time::advance(s(1)).await;
    assert_eq!(both.power().await.unwrap().source, PowerSource::Redfish);
}

#[tokio::test(start_paused = true)]
async fn failure_of_both_drivers_repeats_one_message_with_both() {
    let (first, second, _) = Scripted::pair();
    let both = failover(&first, &second);
    first.fail(ErrorKind::Timeout, false);
    second.fail(ErrorKind::Privilege, false);
    let words = "BMC redfish://a: all drivers failed: redfish://a: timeout; ipmi://a: privilege";
    for n in 0..20 {
        let error = both.power().await.unwrap_err();
        assert_eq!(error.to_string(), words, "call {n}");
        tokio::time::advance(Duration::from_millis(300)).await;
    }
    let asked = first.asked().len();
    assert!(asked < 12, "{asked} of 20 calls reached the paused driver");
    assert_eq!(
        second.asked().len(),
        20,
        "a responding driver is not paused"
    );
}

#[tokio::test(start_paused = true)]
async fn configuration_error_does_not_fail_over() {
    for kind in [
        ErrorKind::Authentication,
        ErrorKind::System,
        ErrorKind::Configuration,
    ] {
        let (first, second, _) = Scripted::pair();
        first.fail(kind, false);
        let error = failover(&first, &second).power().await.unwrap_err();
        assert_eq!((error.kind, error.bmc.as_str()), (kind, "redfish://a"));
        assert!(second.asked().is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_probe_leaves_the_probe_to_the_next_call() {
    let (first, second, _) = Scripted::pair();
    let both = failover(&first, &second);
    first.fail(ErrorKind::Unreachable, false);
    second.fail(ErrorKind::Unreachable, false);
    for _ in 0..3 {
        both.power().await.unwrap_err();
    }
    tokio::time::advance(s(1)).await;
    first.heal();
    *first.mute.lock().unwrap() = true;
    first.asked();
    let probe = tokio::time::timeout(s(4), both.power()).await;
    assert!(probe.is_err(), "the probe times out");
    first.heal();
    assert!(both.power().await.is_ok());
    assert_eq!(first.asked().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn hanging_driver_opens_the_breaker_when_callers_time_out() {
    let (first, second, _) = Scripted::pair();
    let both = failover(&first, &second);
    *first.mute.lock().unwrap() = true;
    for _ in 0..3 {
        let hung = tokio::time::timeout(s(8), both.power()).await;
        assert!(hung.is_err());
    }
    let read = tokio::time::timeout(s(8), both.power()).await;
    assert_eq!(read.unwrap().unwrap().source, PowerSource::Ipmi);
    second.fail(ErrorKind::Refused, false);
    let error = both.power().await.unwrap_err();
    assert_eq!(
        error.message,
        "all drivers failed: redfish://a: no response within 5s; ipmi://a: refused"
    );
}

#[tokio::test(start_paused = true)]
async fn close_reaches_every_driver_when_one_hangs() {
    let (first, second, _) = Scripted::pair();
    let both = failover(&first, &second);
    *first.mute.lock().unwrap() = true;
    let closed = tokio::time::timeout(s(5), both.close()).await;
    assert!(closed.is_err());
    assert_eq!(second.closed.load(Ordering::SeqCst), 1);
    first.heal();
    both.close().await.unwrap();
    assert_eq!(first.closed.load(Ordering::SeqCst), 1);
}

fn any_failure() -> impl Strategy<Value = Option<(ErrorKind, bool)>> {
    let kind = prop_oneof![
        Just(ErrorKind::Unreachable),
        Just(ErrorKind::Timeout),
        Just(ErrorKind::Tls),
        Just(ErrorKind::Authentication),
        Just(ErrorKind::Privilege),
        Just(ErrorKind::Protocol),
        Just(ErrorKind::System),
        Just(ErrorKind::Busy),
        Just(ErrorKind::Unsupported),
        Just(ErrorKind::Refused),
        Just(ErrorKind::Configuration),
    ];
    prop::option::of((kind, any::<bool>()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// Whatever the drivers return, a non-idempotent command reaches at most one driver that may
    /// have executed it, and no other driver afterwards.
    #[test]
    fn non_idempotent_command_is_sent_at_most_once(
        calls in prop::collection::vec((any_failure(), any_failure(), 0..400_u64, 0..3_u8), 1..20),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let (first, second, _) = Scripted::pair();
            let both = failover(&first, &second);
            for (one, two, wait, what) in calls {
                tokio::time::advance(s(wait)).await;
                *first.fails.lock().unwrap() = one;
                *second.fails.lock().unwrap() = two;
                let command = [PowerCommand::Reset, PowerCommand::Nmi, PowerCommand::SoftOff][usize::from(what)];
                let result = both.command(command).await;
                let done = |driver: &Scripted, said: Option<(ErrorKind, bool)>| {
                    let asked = driver.asked().len();
                    prop_assert!(asked <= 1);
                    let maybe = said.is_none_or(|(_, maybe_sent)| maybe_sent);
                    Ok(asked == 1 && maybe)
                };
                let (one, two) = (done(&first, one)?, done(&second, two)?);
                prop_assert!(!(one && two), "both drivers may have executed it");
                let told = result.map_or_else(|error| error.maybe_sent, |_| true);
                prop_assert_eq!(told, one || two, "the result does not report a possible execution");
            }
            Ok(())
        })?;
    }
}
