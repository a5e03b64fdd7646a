//! Property tests with arbitrary responses and response times of the BMC.

use proptest::prelude::*;

use super::*;

fn any_state() -> impl Strategy<Value = PowerState> {
    prop_oneof![
        3 => Just(Off),
        3 => Just(On),
        1 => Just(PoweringOff),
        1 => Just(PoweringOn),
        1 => Just(Unknown)
    ]
}

fn any_error() -> impl Strategy<Value = CallFailure> {
    let kind = prop_oneof![
        Just(ErrorKind::Unreachable),
        Just(ErrorKind::Timeout),
        Just(ErrorKind::Busy),
        Just(ErrorKind::Protocol),
        Just(ErrorKind::Refused),
        Just(ErrorKind::Unsupported),
        Just(ErrorKind::Authentication),
    ];
    (kind, prop::option::of(0..5_u64), any::<bool>()).prop_map(|(kind, wait, maybe_sent)| {
        CallFailure {
            kind,
            retry_after: wait.map(s),
            maybe_sent,
            not_sent: false,
        }
    })
}

fn any_goal() -> impl Strategy<Value = Goal> {
    let proof = || (1..4_u32, (1..3000_u64).prop_map(ms));
    prop_oneof![
        3 => (proof(), prop_oneof![Just(0), 0..20_000_u64]).prop_map(|((confirmations, confirm_interval), grace)| {
            Goal::Off { confirmations, confirm_interval, command_after: ms(grace) }
        }),
        1 => Just(Goal::On),
        4 => (proof(), 1..40_000_u64, any::<bool>()).prop_map(|((confirmations, confirm_interval), limit, then_force)| {
            Goal::SoftOff { limit: ms(limit), then_force, confirmations, confirm_interval }
        }),
        3 => (proof(), 0..20_000_u64).prop_map(|((confirmations, confirm_interval), hold)| {
            Goal::Cycle { hold_off: ms(hold), confirmations, confirm_interval }
        }),
        1 => Just(Goal::Reset),
        1 => Just(Goal::Nmi),
    ]
}

#[derive(Debug, Clone)]
struct Step {
    read: Result<(PowerState, PowerSource), CallFailure>,
    right: bool,
    answer: Result<(), CallFailure>,
    took: u64,
    cancel: bool,
    abandon: bool,
}

fn any_step() -> impl Strategy<Value = Step> {
    let source = prop_oneof![5 => Just(PowerSource::Redfish), 1 => Just(PowerSource::Ipmi)];
    (
        prop_oneof![6 => (any_state(), source).prop_map(Ok), 1 => any_error().prop_map(Err)],
        prop::bool::weighted(0.97),
        prop_oneof![3 => Just(Ok(())), 1 => any_error().prop_map(Err)],
        0..3000_u64,
        prop::bool::weighted(0.02),
        prop::bool::weighted(0.02),
    )
        .prop_map(|(read, right, answer, took, cancel, abandon)| Step {
            read,
            right,
            answer,
            took,
            cancel,
            abandon,
        })
}

/// A sent command, its time, and its result.
type Sent = (PowerCommand, Duration, Result<(), CallFailure>);

/// Whether a command may follow those already sent.
fn may_send(
    goal: &Goal,
    sent: &[Sent],
    command: PowerCommand,
    now: Duration,
    last: Option<PowerState>,
) -> bool {
    let count = |wanted| sent.iter().filter(|(c, ..)| *c == wanted).count();
    match goal {
        Goal::Off { command_after, .. } => {
            let in_time = now >= *command_after || last == Some(Off) || off_taken(sent);
            command == PowerCommand::Off && in_time
        }
        Goal::On => command == PowerCommand::On,
        Goal::Reset => command == PowerCommand::Reset && sent.is_empty(),
        Goal::Nmi => command == PowerCommand::Nmi && sent.is_empty(),
        // No power-off after a power-on.
        Goal::Cycle { .. } => match command {
            PowerCommand::Off => count(PowerCommand::On) == 0,
            other => other == PowerCommand::On,
        },
        Goal::SoftOff {
            limit, then_force, ..
        } => match command {
            PowerCommand::SoftOff => sent.is_empty(),
            PowerCommand::Off => {
                let soft = sent.iter().find(|(c, ..)| *c == PowerCommand::SoftOff);
                let in_time = match soft {
                    None => now >= *limit,
                    Some((_, at, Err(failed)))
                        if failed.kind == ErrorKind::Unsupported && !failed.maybe_sent =>
                    {
                        now >= *at
                    }
                    Some((_, at, _)) => now >= *at + *limit,
                };
                *then_force && (in_time || last == Some(Off) || count(PowerCommand::Off) > 0)
            }
            _ => false,
        },
    }
}

/// Whether the BMC accepted a power-off.
fn off_taken(sent: &[Sent]) -> bool {
    sent.iter().any(|(command, _, answer)| {
        matches!(command, PowerCommand::Off | PowerCommand::SoftOff) && answer.is_ok()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// The outcome is correct, no command is sent where none is allowed, and no non-idempotent
    /// command is sent twice.
    #[test]
    fn arbitrary_bmc_responses_break_no_rule(
        goal in any_goal(),
        steps in prop::collection::vec(any_step(), 1..80),
        is_expected: bool,
    ) {
        let (uuid, wrong) = ("4c4c4544-0042-3510-8054-c2c04f4e4e32", "4c4c4544-0042-3510-8054-c2c04f4e4e33");
        let asked = OperationRequest {
            goal: goal.clone(),
            expected: Expected { system_uuid: is_expected.then(|| uuid.into()), ..Expected::default() },
            ..off()
        };
        // Without an expectation, what each protocol reads first is right.
        let mut first: Vec<(PowerSource, bool)> = Vec::new();
        let mut op = Operation::new(asked);
        let mut now = Duration::ZERO;
        let mut cancelled = false;
        let mut mismatched = false;
        // The commands that were sent before the caller was gone.
        let mut abandoned: Option<usize> = None;
        let (mut corroborated, mut saw_other) = (false, false);
        let mut last_read: Option<PowerState> = None;
        // (start, end) of every reading since the last one of another state or protocol.
        let mut streak: Vec<(Duration, Duration)> = Vec::new();
        let mut of: Option<(PowerState, PowerSource)> = None;
        let mut sent: Vec<Sent> = Vec::new();
        let mut script = steps.iter().cycle();
        let outcome = loop {
            let step = script.next().unwrap();
            if step.cancel && !cancelled {
                cancelled = true;
                op.cancel();
            }
            if step.abandon && !cancelled {
                abandoned.get_or_insert(sent.len());
                op.abandon(now);
            }
            // A cycle whose caller is gone has time for its power-on.
            let deadline = s(if abandoned.is_some() { 200 } else { 60 });
            match op.next(now) {
                Next::Read => {
                    prop_assert!(!cancelled && now < deadline);
                    let begun = now;
                    now += ms(step.took);
                    let result = step.read.clone().map(|(state, source)| Observation {
                        state,
                        source,
                        identity: SystemIdentity {
                            system_uuid: Some(if step.right { uuid } else { wrong }.into()),
                            ..SystemIdentity::default()
                        },
                        connection: None,
                    });
                    let is_right = match &step.read {
                        Ok((_, source)) if !is_expected => {
                            if !first.iter().any(|(of, _)| of == source) {
                                first.push((*source, step.right));
                            }
                            first.contains(&(*source, step.right))
                        }
                        _ => step.right,
                    };
                    mismatched |= result.is_ok() && !is_right;
                    match (&step.read, is_right) {
                        (Ok(read), true) => {
                            last_read = Some(read.0);
                            saw_other |= read.0 != Off;
                            if of != Some(*read) {
                                streak.clear();
                                of = Some(*read);
                            }
                            streak.push((begun, now));
                        }
                        _ => { last_read = None; of = None; streak.clear(); }
                    }
                    op.read(begun, now, result);
                }
                Next::Send(command) => {
                    prop_assert!(!cancelled && !mismatched && now < deadline);
                    // F17: no power-off of a caller that is gone.
                    prop_assert!(abandoned.is_none() || command == PowerCommand::On);
                    prop_assert!(may_send(&goal, &sent, command, now, last_read), "{:?} after {:?}", command, sent);
                    let on_what = last_read;
                    // A power-off is sent even to a host that reads off, until one is accepted.
                    let needed = command == PowerCommand::Off && !off_taken(&sent);
                    prop_assert!(
                        on_what.is_some_and(|state| needed || command.leads_to() != Some(state))
                    );
                    if !command.is_idempotent() {
                        prop_assert!(matches!(on_what, Some(On | PoweringOn)));
                    }
                    last_read = None;
                    of = None;
                    streak.clear();
                    op.sending(now);
                    sent.push((command, now, step.answer.clone()));
                    now += ms(step.took);
                    op.sent(now, step.answer.clone());
                }
                Next::Corroborate => {
                    prop_assert!(off_taken(&sent) && of.map(|(state, _)| state) == Some(Off));
                    now += ms(step.took);
                    let found = (step.took % 5 == 0).then_some(OffProof::Outlets);
                    corroborated |= found.is_some();
                    op.corroborated(now, found);
                }
                Next::Wait(until) => {
                    prop_assert!(until > now && until <= deadline);
                    now = until;
                }
                Next::Done(outcome) => break outcome,
            }
        };
        prop_assert_eq!(op.next(now), Next::Done(outcome.clone()));
        let last = of.map(|(state, _)| state);
        let proven_off = |streak: &[(Duration, Duration)]| {
            let (needed, interval) = goal.proof();
            let needed = needed as usize;
            let (Some(first), Some(end)) = (streak.first(), streak.last()) else { return false };
            let spread = end.0.saturating_sub(first.1);
            last == Some(Off)
                && streak.len() >= needed
                && (needed == 1 || spread >= interval * u32::try_from(needed - 1).unwrap())
        };
        let hard = |command| sent.iter().any(|(c, ..)| *c == command);
        match outcome {
            Outcome::Confirmed { state: Off, commanded } => {
                // The streak starts over with each command.
                prop_assert!(proven_off(&streak) && off_taken(&sent) && commanded);
                prop_assert!(op.proof().is_some() && (saw_other || corroborated));
                prop_assert!(now <= s(60));
            }
            Outcome::Forced { .. } => {
                prop_assert!(proven_off(&streak) && off_taken(&sent));
                prop_assert!(op.proof().is_some() && (saw_other || corroborated));
                let asked_to = matches!(goal, Goal::SoftOff { then_force: true, .. });
                prop_assert!(asked_to && hard(PowerCommand::Off));
            }
            Outcome::Confirmed { state, .. } => {
                prop_assert_eq!((state, last), (On, Some(On)));
                prop_assert_eq!(goal, Goal::On);
            }
            Outcome::Cycled { was_off } => {
                prop_assert_eq!(last, Some(On));
                let first = sent.first().map(|(command, ..)| *command);
                prop_assert!(off_taken(&sent) && first == Some(PowerCommand::Off));
                prop_assert!(!was_off || hard(PowerCommand::Off));
            }
            Outcome::Taken { command, state } => {
                prop_assert!(sent.len() == 1 && sent[0].2.is_ok());
                let right = match command {
                    PowerCommand::Reset => state == Some(On),
                    _ => state == last || now >= s(60),
                };
                prop_assert!(right);
            }
            Outcome::Unknown { .. } => {
                prop_assert!(sent.len() == 1 && sent[0].2.as_ref().is_err_and(|f| f.maybe_sent));
            }
            Outcome::NotTaken => prop_assert!(!off_taken(&sent)),
            Outcome::Unproven { .. } => {
                prop_assert!(off_taken(&sent) && last == Some(Off) && op.proof().is_none());
            }
            Outcome::NeedsPower { .. } => prop_assert!(sent.is_empty() && last == Some(Off)),
            Outcome::NotSent { .. } => prop_assert!(sent.is_empty() && now >= s(60)),
            Outcome::NotShutDown { limit, .. } => {
                let unforced = matches!(goal, Goal::SoftOff { then_force: false, .. });
                prop_assert!(unforced && !hard(PowerCommand::Off) && now >= limit);
            }
            Outcome::Unconfirmed { .. } => prop_assert!(now >= s(60)),
            Outcome::IdentityMismatch(_) => prop_assert!(mismatched),
            Outcome::Cancelled => prop_assert!(cancelled),
            Outcome::CallerGone { is_on } => {
                prop_assert!(abandoned.is_some());
                // A cycle that may have switched off is finished.
                let is_cycle = matches!(goal, Goal::Cycle { .. });
                prop_assert_eq!(is_on, is_cycle && !sent.is_empty());
                prop_assert!(!is_on || last == Some(On));
            }
            Outcome::Failed(_) => {}
            Outcome::FirmwareUpdate { .. } => prop_assert!(false, "no updates are read"),
            Outcome::Stopped => prop_assert!(false, "no hooks stop it"),
        }
    }
}
