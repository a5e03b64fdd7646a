//! Whatever a BMC says and however long it takes.

use proptest::prelude::*;

use super::*;

fn any_state() -> impl Strategy<Value = PowerState> {
    prop_oneof![
        3 => Just(Off),
        2 => Just(On),
        1 => Just(PoweringOff),
        1 => Just(PoweringOn),
        1 => Just(Unknown)
    ]
}

fn any_error() -> impl Strategy<Value = Failed> {
    let kind = prop_oneof![
        Just(ErrorKind::Unreachable),
        Just(ErrorKind::Timeout),
        Just(ErrorKind::Busy),
        Just(ErrorKind::Protocol),
        Just(ErrorKind::Refused),
        Just(ErrorKind::Authentication),
    ];
    (kind, prop::option::of(0..5_u64)).prop_map(|(kind, wait)| Failed {
        kind,
        retry_after: wait.map(s),
    })
}

#[derive(Debug, Clone)]
struct Step {
    read: Result<PowerState, Failed>,
    right: bool,
    answer: Result<(), Failed>,
    took: u64,
    cancel: bool,
}

fn any_step() -> impl Strategy<Value = Step> {
    (
        prop_oneof![6 => any_state().prop_map(Ok), 1 => any_error().prop_map(Err)],
        prop::bool::weighted(0.97),
        prop_oneof![3 => Just(Ok(())), 1 => any_error().prop_map(Err)],
        0..3000_u64,
        prop::bool::weighted(0.02),
    )
        .prop_map(|(read, right, answer, took, cancel)| Step {
            read,
            right,
            answer,
            took,
            cancel,
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Whatever the BMC says: the end is right, and no command goes where none may.
    #[test]
    fn whatever_the_bmc_says(
        confirmations in 1..4_u32,
        interval in 1..3000_u64,
        grace in prop_oneof![Just(0), 0..20_000_u64],
        power_on: bool,
        steps in prop::collection::vec(any_step(), 1..80),
    ) {
        let (uuid, wrong) = ("11111111-2222-3333-4444-555555555555", "99999999-2222-3333-4444-555555555555");
        let goal = if power_on { Goal::On } else {
            Goal::Off { confirmations, confirm_interval: ms(interval), command_after: ms(grace) }
        };
        let wanted = if power_on { On } else { Off };
        let asked = Asked {
            goal,
            expected: Expected { system_uuid: Some(uuid.into()), serial: None },
            ..off()
        };
        let mut op = Operation::new(asked);
        let mut now = Duration::ZERO;
        let mut cancelled = false;
        let mut mismatched = false;
        let mut last_read: Option<PowerState> = None;
        // (begun, complete) of every reading since the last that was not the wanted state.
        let mut streak: Vec<(Duration, Duration)> = Vec::new();
        let mut script = steps.iter().cycle();
        let ending = loop {
            let step = script.next().unwrap();
            if step.cancel && !cancelled {
                cancelled = true;
                op.cancel();
            }
            match op.next(now) {
                Next::Read => {
                    prop_assert!(!cancelled && now < s(60));
                    let begun = now;
                    now += ms(step.took);
                    let result = step.read.clone().map(|state| Seen {
                        state,
                        identity: SystemIdentity {
                            system_uuid: Some(if step.right { uuid } else { wrong }.into()),
                            ..SystemIdentity::default()
                        },
                    });
                    mismatched |= result.is_ok() && !step.right;
                    match (&step.read, step.right) {
                        (Ok(state), true) => {
                            last_read = Some(*state);
                            if *state == wanted { streak.push((begun, now)); } else { streak.clear(); }
                        }
                        _ => { last_read = None; streak.clear(); }
                    }
                    op.read(begun, now, result);
                }
                Next::Send(command) => {
                    prop_assert!(!cancelled && !mismatched && now < s(60));
                    prop_assert!(now >= ms(grace) || power_on);
                    prop_assert_eq!(command == Command::On, power_on);
                    prop_assert!(last_read.is_some_and(|state| state != wanted));
                    last_read = None;
                    op.sending(now);
                    now += ms(step.took);
                    op.sent(now, step.answer.clone());
                }
                Next::Wait(until) => {
                    prop_assert!(until > now && until <= s(60));
                    now = until;
                }
                Next::Done(ending) => break ending,
            }
        };
        match ending {
            Ending::Confirmed { state, .. } => {
                prop_assert_eq!(state, wanted);
                let needed = if power_on { 1 } else { confirmations as usize };
                prop_assert!(streak.len() >= needed);
                prop_assert!(streak.last().unwrap().1 <= s(60));
                if !power_on {
                    let spread = streak.last().unwrap().0.saturating_sub(streak[0].1);
                    prop_assert!(needed == 1 || spread >= ms(interval) * (confirmations - 1));
                }
            }
            Ending::Unconfirmed { .. } => prop_assert!(now >= s(60)),
            Ending::IdentityMismatch(_) => prop_assert!(mismatched),
            Ending::Cancelled => prop_assert!(cancelled),
            Ending::Failed(kind) => prop_assert_eq!(kind, ErrorKind::Authentication),
        }
    }
}
