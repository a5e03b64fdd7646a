//! A fallback driver that leads to another system, or reports none.

use super::*;

const OURS: &str = "4c4c4544-0042-3510-8054-c2c04f4e4e32";
const OTHER: &str = "4c4c4544-0042-3510-8054-c2c04f4e4e33";

fn expected(is_required: bool) -> Expected {
    Expected {
        system_uuid: Some(OURS.into()),
        is_required,
        ..Expected::default()
    }
}

fn off(expected: Expected) -> OperationRequest {
    OperationRequest {
        goal: Goal::Off {
            confirmations: 2,
            confirm_interval: s(2),
            command_after: Duration::ZERO,
        },
        deadline: s(60),
        expected,
        timing: Timing::default(),
        during_update: DuringUpdate::Refuse,
    }
}

impl Scripted {
    fn report(&self, system: Option<&str>) {
        *self.system.lock().unwrap() = system.map(str::to_owned);
    }

    fn commands(&self) -> usize {
        let asked = self.asked();
        asked.iter().filter(|call| *call != "power").count()
    }
}

/// Hooks that run something after the first accepted command.
struct AfterCommand<F: FnMut() + Send>(F);

impl<F: FnMut() + Send> crate::operation::Hooks for AfterCommand<F> {
    fn accepted(&mut self, _accepted: &Accepted) {
        (self.0)();
    }
}

#[tokio::test(start_paused = true)]
async fn f5_placeholder_of_the_second_driver_does_not_undo_what_the_first_did() {
    for second_reports in [None, Some(OURS)] {
        let (first, second, _) = Scripted::pair();
        first.report(Some(OURS));
        second.report(second_reports);
        let mut dies = AfterCommand(|| first.fail(ErrorKind::Unreachable, false));
        let both = failover(&first, &second);
        let report = run(&both, off(expected(false)), &mut dies).await;
        // The proof of off through two drivers is not the subject here (F1).
        assert!(
            !matches!(report.outcome, Outcome::IdentityMismatch(_)),
            "{second_reports:?}: {:?}",
            report.outcome
        );
        assert_eq!(report.readings.last().unwrap().source, PowerSource::Ipmi);
    }
}

#[tokio::test(start_paused = true)]
async fn f5_second_driver_of_another_system_is_not_used_and_said() {
    // A required identity that the second driver does not report excludes it as well.
    for (second_reports, is_required) in [(Some(OTHER), false), (Some(OTHER), true), (None, true)] {
        let (first, second, state) = Scripted::pair();
        first.report(Some(OURS));
        second.report(second_reports);
        let mut dies = AfterCommand(|| first.fail(ErrorKind::Unreachable, false));
        let both = failover(&first, &second);
        let report = run(&both, off(expected(is_required)), &mut dies).await;
        assert!(
            matches!(report.outcome, Outcome::Unconfirmed { .. }),
            "nothing is confirmed by another host: {:?}",
            report.outcome
        );
        let error = report.error.unwrap().to_string();
        assert!(
            error.contains("ipmi://a: not used, because it does not show the system of this host"),
            "{error}"
        );
        assert_eq!(second.commands(), 0);
        // The first driver is used again as soon as it answers.
        first.heal();
        *state.lock().unwrap() = PowerState::On;
        tokio::time::advance(s(60)).await;
        let report = run(&both, off(expected(is_required)), &mut ()).await;
        assert_eq!(report.outcome.to_string(), "confirmed off");
    }
}

#[tokio::test(start_paused = true)]
async fn f5_command_goes_through_no_driver_whose_system_was_not_compared() {
    for (second_reports, sent) in [(Some(OTHER), 0), (Some(OURS), 1), (None, 1)] {
        let (first, second, _) = Scripted::pair();
        first.report(Some(OURS));
        second.report(second_reports);
        let both = failover(&first, &second);
        both.checked_power(expected(false)).await.unwrap();
        first.fail(ErrorKind::Unreachable, false);
        let result = both
            .command_until(PowerCommand::Off, expected(false), None)
            .await;
        assert_eq!(result.is_ok(), sent == 1, "{second_reports:?}: {result:?}");
        assert_eq!(second.commands(), sent, "{second_reports:?}");
    }
    // The first driver reports no identity, and the second reports another identity than the
    // expected one.
    let (first, second, _) = Scripted::pair();
    second.report(Some(OTHER));
    let both = failover(&first, &second);
    both.checked_power(expected(false)).await.unwrap();
    first.fail(ErrorKind::Unreachable, false);
    both.command_until(PowerCommand::Off, expected(false), None)
        .await
        .unwrap_err();
    assert_eq!(second.commands(), 0);
}

#[tokio::test(start_paused = true)]
async fn f5_changes_of_other_kinds_avoid_a_driver_of_another_system_until_it_is_mended() {
    let (first, second, _) = Scripted::pair();
    first.report(Some(OURS));
    second.report(Some(OTHER));
    let both = failover(&first, &second);
    both.power().await.unwrap();
    first.fail(ErrorKind::Unreachable, false);
    both.power().await.unwrap_err();
    both.reset_bmc().await.unwrap_err();
    both.set_boot(BOOT).await.unwrap_err();
    assert_eq!(second.commands(), 0);
    second.report(Some(OURS));
    both.reset_bmc().await.unwrap();
}
