//! Operations through several drivers.

use super::*;

fn off() -> OperationRequest {
    OperationRequest {
        goal: Goal::Off {
            confirmations: 2,
            confirm_interval: s(2),
            command_after: Duration::ZERO,
        },
        deadline: s(600),
        expected: Expected::default(),
        timing: Timing::default(),
        during_update: DuringUpdate::Refuse,
    }
}

#[tokio::test(start_paused = true)]
async fn dead_first_driver_does_not_delay_power_off() {
    let (first, second, _) = Scripted::pair();
    first.fail(ErrorKind::Unreachable, false);
    let report = run(&failover(&first, &second), off(), &mut ()).await;
    assert_eq!(report.outcome.to_string(), "confirmed off");
    assert!(report.elapsed < s(3), "{:?}", report.elapsed);
    assert!(
        report
            .readings
            .iter()
            .all(|r| r.source == PowerSource::Ipmi)
    );
}

#[tokio::test(start_paused = true)]
async fn power_off_follows_bmc_recovery_within_the_maximum_pause() {
    let (first, second, _) = Scripted::pair();
    first.fail(ErrorKind::Unreachable, false);
    second.fail(ErrorKind::Unreachable, false);
    let both = failover(&first, &second);
    let back = async {
        tokio::time::sleep(s(200)).await;
        second.heal();
    };
    let mut nobody = ();
    let (report, ()) = tokio::join!(run(&both, off(), &mut nobody), back);
    assert_eq!(report.outcome.to_string(), "confirmed off");
    let late = report.elapsed - s(200);
    assert!(late < s(15) + s(3), "{late:?} after the recovery");
    let asked = first.asked().len();
    assert!(asked < 30, "{asked} calls to the dead driver");
}

#[tokio::test(start_paused = true)]
async fn soft_off_unsupported_by_one_driver_uses_the_other() {
    let (first, second, _) = Scripted::pair();
    let drivers: Vec<Arc<dyn Bmc>> = vec![
        Arc::new(Refuses(first, ErrorKind::Unsupported)),
        second.clone(),
    ];
    let both = Failover::new(drivers, FailoverSettings::default()).unwrap();
    let asked = OperationRequest {
        goal: Goal::SoftOff {
            limit: s(60),
            then_force: false,
            confirmations: 2,
            confirm_interval: s(2),
        },
        ..off()
    };
    let report = run(&both, asked, &mut ()).await;
    assert!(matches!(report.outcome, Outcome::Confirmed { .. }));
    assert_eq!(second.asked(), ["soft power off"]);
    let redfish = |r: &PowerReading| r.source == PowerSource::Redfish;
    assert!(
        report.readings.iter().all(redfish),
        "the driver order is unchanged"
    );
}

/// A driver whose BMC answers every power command with an error.
#[derive(Debug)]
struct Refuses(Arc<Scripted>, ErrorKind);

impl Bmc for Refuses {
    fn address(&self) -> &str {
        self.0.address()
    }
    fn power(&self) -> BmcFuture<'_, PowerReading> {
        self.0.power()
    }
    fn command(&self, command: PowerCommand) -> BmcFuture<'_, Accepted> {
        let error = BmcError {
            kind: self.1,
            bmc: "redfish://a".to_owned(),
            message: format!("{}: not taken", command.words()),
            retry_after: None,
            maybe_sent: self.1 == ErrorKind::Timeout,
            not_sent: false,
        };
        Box::pin(async { Err(error) })
    }
    fn firmware_updates(&self, limit: Duration) -> BmcFuture<'_, FirmwareUpdates> {
        self.0.firmware_updates(limit)
    }
    fn close(&self) -> BmcFuture<'_, ()> {
        self.0.close()
    }
}

#[tokio::test(start_paused = true)]
async fn second_driver_sends_a_power_off_only_after_another_look_at_the_updates() {
    for kind in [
        ErrorKind::Busy,
        ErrorKind::Timeout,
        ErrorKind::Privilege,
        ErrorKind::Unsupported,
    ] {
        let (first, second, _) = Scripted::pair();
        let refuses = Refuses(first.clone(), kind);
        let drivers: Vec<Arc<dyn Bmc>> = vec![Arc::new(refuses), second.clone()];
        let both = Failover::new(drivers, FailoverSettings::default()).unwrap();
        let report = run(&both, off(), &mut ()).await;
        assert_eq!(report.outcome.to_string(), "confirmed off", "{kind:?}");
        assert_eq!(report.commands, 2, "{kind:?}");
        let looks = first.asked().into_iter().filter(|call| call == "updates");
        assert_eq!(looks.count(), 2, "{kind:?}");
        let offs = second.asked().into_iter();
        let offs = offs.filter(|call| call == PowerCommand::Off.words());
        assert_eq!(offs.count(), 1, "{kind:?}");
        assert!(report.elapsed < s(6), "{kind:?}: {:?}", report.elapsed);
    }
}
