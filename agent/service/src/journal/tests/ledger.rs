//! Comparison of the journal on disk with the ledger in memory.

use proptest::prelude::*;
use rackhand_agent_core::ledger::{Change, Ledger};

use super::*;

type Memory = Ledger<v1::Outcome>;

#[derive(Debug, Clone)]
enum Step {
    Claim(Term),
    Start(StartRequest),
    Release(Release),
    SetBack(u64),
    Sending(u8),
    Cancelled(u8),
    Finish(u8),
    Restart,
}

fn authority() -> impl Strategy<Value = Authority> {
    prop_oneof![
        3 => (1_u64..4, 1_u64..6).prop_map(|(term, sequence)| leader(term, sequence)),
        1 => Just(ann()),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let action = prop_oneof![
        Just(Action::Off { hold: true }),
        Just(Action::Off { hold: false }),
        Just(Action::On),
        Just(Action::Reset),
    ];
    let host = || prop_oneof![Just("bmc-7"), Just("10.0.0.7"), Just("bmc-8")];
    let owner = || prop_oneof![Just("rem-1"), Just("rem-2")];
    let id = || 0_u8..6;
    let start = (id(), host(), owner(), action, authority(), any::<bool>()).prop_map(
        |(id, host, owner, action, authority, force)| {
            Step::Start(StartRequest {
                key: host.into(),
                at: at(host),
                action,
                force,
                ..off(&format!("op-{id}"), authority, owner)
            })
        },
    );
    let release = (host(), owner(), authority(), any::<bool>()).prop_map(
        |(host, owner, authority, force)| {
            Step::Release(Release {
                id: format!("release-{host}-{owner}"),
                key: host.into(),
                at: at(host),
                authority,
                owner: owner.into(),
                force,
                now: 3,
            })
        },
    );
    let step = prop_oneof![
        3 => (1_u64..4, any::<bool>()).prop_map(|(n, standby)| Step::Claim(claimed(n, standby))),
        4 => start,
        2 => release,
        1 => (0_u64..4).prop_map(Step::SetBack),
        1 => id().prop_map(Step::Sending),
        1 => id().prop_map(Step::Cancelled),
        2 => id().prop_map(Step::Finish),
        1 => Just(Step::Restart),
    ];
    prop::collection::vec(step, 1..40)
}

fn in_memory<T: std::fmt::Debug>(
    memory: &mut Memory,
    (verdict, changes): (T, Vec<Change<v1::Outcome>>),
) -> String {
    memory.apply(changes);
    format!("{verdict:?}")
}

const KEEP: Retention = Retention {
    operations: 2,
    age: Duration::from_secs(1),
};
const ELECTION: &str = "prod/rackhand";

/// Applies the step to both, and compares the results.
async fn check(
    step: Step,
    n: i64,
    fixture: &Fixture,
    journal: &mut Journal,
    memory: &mut Memory,
) -> Result<(), TestCaseError> {
    let (on_disk, expected) = match step {
        Step::Claim(term) => {
            let Ok(decision) = rules::claim(memory, ELECTION, term.clone());
            let claimed = journal.claim(ELECTION.into(), term).await.unwrap();
            (format!("{claimed:?}"), in_memory(memory, decision))
        }
        Step::Start(request) => {
            let Ok((answer, changes)) = request.clone().decide(memory);
            memory.apply(changes);
            let on_disk = journal.accept(request).await.unwrap();
            (format!("{on_disk:?}"), format!("{answer:?}"))
        }
        Step::Release(request) => {
            let Ok(decision) = request.decide(memory);
            let released = journal.release(request).await.unwrap();
            (format!("{released:?}"), in_memory(memory, decision))
        }
        Step::SetBack(to) => {
            let request = SetBack {
                election: ELECTION.into(),
                to,
                by: "ann".into(),
                reason: "a test".into(),
                now: n,
            };
            let Ok(decision) = request.clone().decide(memory);
            let done = journal.set_back_term(request).await.unwrap();
            (format!("{done:?}"), in_memory(memory, decision))
        }
        Step::Sending(id) => {
            let id = format!("op-{id}");
            let Ok(change) = rules::sending(memory, &id, n);
            memory.apply(change);
            journal.sending(id, n).await.unwrap();
            Default::default()
        }
        Step::Cancelled(id) => {
            let id = format!("op-{id}");
            let Ok(change) = rules::cancelled(memory, &id, "ann");
            memory.apply(change);
            journal.cancelled(id, "ann".into()).await.unwrap();
            Default::default()
        }
        Step::Finish(id) => {
            let id = format!("op-{id}");
            if !memory.running.contains(&id) {
                return Ok(());
            }
            let outcome = RecordedOutcome::Reported(v1::Outcome::default());
            let Ok(change) = rules::finish(memory, &id, n, outcome);
            memory.apply(change);
            let Ok(changes) = rules::prune(memory, n, KEEP);
            memory.apply(changes);
            journal.finish(id, n, v1::Outcome::default()).await.unwrap();
            Default::default()
        }
        Step::Restart => {
            let Ok(decision) = rules::interrupt_running(memory, n);
            journal.close();
            let (again, interrupted) = fixture.open_keeping(KEEP, n);
            *journal = again;
            (format!("{interrupted:?}"), in_memory(memory, decision))
        }
    };
    prop_assert_eq!(on_disk, expected);
    Ok(())
}

/// Compares the state of both.
async fn compare(journal: &Journal, memory: &Memory) -> Result<(), TestCaseError> {
    let Ok(terms) = rules::known_terms(memory);
    prop_assert_eq!(journal.terms().await.unwrap(), terms);
    let Ok(holds) = memory.holds();
    prop_assert_eq!(journal.holds().await.unwrap(), holds);
    let everything = OperationFilter {
        limit: 1000,
        ..OperationFilter::default()
    };
    let mut on_disk = journal.operations(everything.clone()).await.unwrap();
    on_disk.sort_by(|one, other| one.id.cmp(&other.id));
    let operations = memory.operations.values().cloned();
    let operations: Vec<_> = operations.collect();
    prop_assert_eq!(on_disk, operations);
    let running = OperationFilter {
        running_only: true,
        ..everything
    };
    let mut on_disk: Vec<_> = journal.operations(running).await.unwrap();
    on_disk.sort_by(|one, other| one.id.cmp(&other.id));
    let on_disk = on_disk.iter().map(|record| record.id.as_str());
    prop_assert!(on_disk.eq(memory.running.iter().map(String::as_str)));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn journal_matches_the_in_memory_ledger(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let fixture = Fixture::new();
            let (mut journal, _) = fixture.open_keeping(KEEP, 0);
            let mut memory = Memory::default();
            for (n, step) in (1..).zip(steps) {
                check(step, n, &fixture, &mut journal, &mut memory).await?;
            }
            compare(&journal, &memory).await
        })?;
    }
}
