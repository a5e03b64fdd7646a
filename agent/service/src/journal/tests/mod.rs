//! Persistence of the journal, and rejected requests.

use std::time::Duration;

use tempfile::TempDir;

use rackhand_agent_core::{
    host_key::{HostKey, HostKeys},
    ledger::{Action, Device, Lifetime, TermSetBack},
};

use super::{tables::META, *};

mod holds;
mod ledger;
mod terms;

struct Fixture {
    dir: TempDir,
}

impl Fixture {
    fn new() -> Self {
        Self {
            dir: TempDir::new().unwrap(),
        }
    }

    fn open(&self) -> (Journal, Vec<String>) {
        self.open_keeping(Retention::default(), 1_000)
    }

    fn open_keeping(&self, keep: Retention, now: i64) -> (Journal, Vec<String>) {
        Journal::open(
            &self.dir.path().join("journal.redb"),
            IfDamaged::Replace,
            keep,
            now,
        )
        .unwrap()
    }
}

fn leader(term: u64, sequence: u64) -> Authority {
    Authority::Controller {
        election: "prod/rackhand".into(),
        term,
        holder: format!("pod-{term}"),
        sequence,
    }
}

fn ann() -> Authority {
    Authority::Operator { name: "ann".into() }
}

/// A host that is known by this address.
fn at(address: &str) -> Host {
    Host {
        keys: HostKeys::new([HostKey::parse(address)]),
        ..Host::default()
    }
}

fn off(id: &str, authority: Authority, owner: &str) -> StartRequest {
    StartRequest {
        id: id.into(),
        key: "bmc-7".into(),
        host: "node-7".into(),
        at: at("bmc-7"),
        action: Action::Off { hold: true },
        device: Device::Bmc,
        owner: owner.into(),
        authority,
        force: false,
        detail: String::new(),
        lifetime: Lifetime::default(),
        now: 1_700_000_000_000_000_000,
    }
}

fn on(id: &str, authority: Authority, owner: &str) -> StartRequest {
    StartRequest {
        action: Action::On,
        ..off(id, authority, owner)
    }
}

fn claimed(term: u64, standby: bool) -> Term {
    Term {
        number: term,
        holder: format!("pod-{term}"),
        standby,
        sequence: 0,
    }
}

async fn claim(journal: &Journal, term: u64) -> Result<u64, Term> {
    journal
        .claim("prod/rackhand".into(), claimed(term, false))
        .await
        .unwrap()
}

async fn refused(journal: &Journal, start: StartRequest) -> String {
    match journal.accept(start).await.unwrap() {
        StartAnswer::Refused(refused) => refused.to_string(),
        other => panic!("not refused: {other:?}"),
    }
}

async fn started(journal: &Journal, start: StartRequest) {
    let answer = journal.accept(start).await.unwrap();
    assert!(matches!(answer, StartAnswer::Started { .. }), "{answer:?}");
}

#[tokio::test]
async fn known_operation_id_starts_nothing() {
    let fixture = Fixture::new();
    let (journal, _) = fixture.open();
    claim(&journal, 7).await.unwrap();
    started(&journal, off("a", leader(7, 1), "rem-1")).await;
    claim(&journal, 8).await.unwrap();
    for authority in [leader(7, 1), leader(8, 1), ann()] {
        let known = journal.accept(off("a", authority, "rem-1")).await.unwrap();
        assert!(matches!(known, StartAnswer::Known(record) if record.host == "node-7"));
    }
    assert_eq!(
        refused(&journal, on("a", leader(8, 1), "rem-1")).await,
        "operation a is already a power off of host node-7; choose a new operation id"
    );
}

#[tokio::test]
async fn restart_interrupts_operations_and_reports_sent_commands() {
    let fixture = Fixture::new();
    let (journal, _) = fixture.open();
    started(&journal, off("a", ann(), "operator ann")).await;
    started(&journal, off("b", ann(), "operator ann")).await;
    journal.sending("b".into(), 5).await.unwrap();
    let done = v1::Outcome {
        code: v1::OutcomeCode::Confirmed.into(),
        ..v1::Outcome::default()
    };
    started(&journal, off("c", ann(), "operator ann")).await;
    journal.finish("c".into(), 9, done.clone()).await.unwrap();
    drop(journal);

    let (journal, interrupted) = fixture.open();
    assert_eq!(interrupted, ["a", "b"]);
    let outcome = |id: &str| {
        let id = id.to_owned();
        async {
            journal
                .operation(id)
                .await
                .unwrap()
                .unwrap()
                .outcome
                .map(outcome_to_proto)
                .unwrap()
        }
    };
    assert_eq!(
        outcome("a").await.message,
        "the agent was stopped during the operation; no command had been sent. Read the power state and \
         repeat the request"
    );
    let b = outcome("b").await;
    assert_eq!(b.code(), v1::OutcomeCode::Interrupted);
    assert_eq!(b.commands_sent, 1);
    assert!(b.message.contains("one command may have reached the BMC"));
    assert_eq!(outcome("c").await, done);
    drop(journal);
    assert_eq!(fixture.open().1, Vec::<String>::new());
}

#[tokio::test]
async fn old_operations_are_removed_by_count_and_age() {
    let fixture = Fixture::new();
    let keep = Retention {
        operations: 3,
        age: Duration::from_nanos(100),
    };
    let (journal, _) = fixture.open_keeping(keep, 0);
    let end = async |id: &str, at: i64| {
        started(&journal, off(id, ann(), "operator ann")).await;
        journal
            .finish(id.into(), at, v1::Outcome::default())
            .await
            .unwrap();
    };
    let known = async |id: &str| journal.operation(id.into()).await.unwrap().is_some();
    for (at, id) in ["a", "b", "c", "d"].into_iter().enumerate() {
        end(id, i64::try_from(at).unwrap()).await;
    }
    assert!(!known("a").await && known("b").await && known("d").await);
    end("e", 103).await;
    assert!(!known("b").await && !known("c").await && known("d").await && known("e").await);
}

#[tokio::test]
async fn concurrent_starts_each_get_their_own_result() {
    let fixture = Fixture::new();
    let (journal, _) = fixture.open();
    claim(&journal, 1).await.unwrap();
    let starts = (0..200_u64).map(|n| {
        let journal = journal.clone();
        tokio::spawn(async move {
            // Every sequence number is used twice: one of each pair must be rejected.
            let start = StartRequest {
                key: format!("bmc-{}", n / 2),
                at: at(&format!("bmc-{}", n / 2)),
                ..off(&format!("op-{n}"), leader(1, 1), "rem")
            };
            matches!(
                journal.accept(start).await.unwrap(),
                StartAnswer::Started { .. }
            )
        })
    });
    let started = futures::future::join_all(starts.collect::<Vec<_>>()).await;
    assert_eq!(
        started.into_iter().filter(|s| *s.as_ref().unwrap()).count(),
        100
    );
}

#[test]
fn second_agent_on_one_state_directory_is_rejected() {
    let fixture = Fixture::new();
    let _first = fixture.open();
    let path = fixture.dir.path().join("journal.redb");
    let error = Journal::open(&path, IfDamaged::Replace, Retention::default(), 0).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "journal {} is in use: another agent runs with this state directory",
            path.display()
        )
    );
}

#[test]
fn journal_of_a_newer_format_is_rejected() {
    let fixture = Fixture::new();
    let path = fixture.dir.path().join("journal.redb");
    let db = redb::Database::create(&path).unwrap();
    let tx = Tx::begin(&db).unwrap();
    tx.open(META).unwrap().insert("schema", SCHEMA + 1).unwrap();
    tx.commit().unwrap();
    drop(db);
    let error = Journal::open(&path, IfDamaged::Replace, Retention::default(), 0).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("has format 2, this version supports up to 1")
    );
}

#[tokio::test]
async fn operations_are_filtered_and_listed_newest_first() {
    let fixture = Fixture::new();
    let (journal, _) = fixture.open();
    for (number, host) in [(1_i64, "a"), (2, "b"), (3, "a"), (4, "b")] {
        let start = StartRequest {
            key: format!("bmc-{number}"),
            host: host.into(),
            now: number,
            ..on(&format!("op-{number}"), ann(), "")
        };
        journal.accept(start).await.unwrap();
    }
    journal
        .finish("op-3".into(), 9, v1::Outcome::default())
        .await
        .unwrap();
    let ids = async |asked: OperationFilter| -> Vec<String> {
        let found = journal.operations(asked).await.unwrap();
        found.into_iter().map(|record| record.id).collect()
    };
    let all = OperationFilter {
        limit: 10,
        ..OperationFilter::default()
    };
    assert_eq!(ids(all.clone()).await, ["op-4", "op-3", "op-2", "op-1"]);
    let two = OperationFilter {
        limit: 2,
        ..all.clone()
    };
    assert_eq!(ids(two).await, ["op-4", "op-3"]);
    let of_a = OperationFilter {
        host: Some("a".into()),
        ..all.clone()
    };
    assert_eq!(ids(of_a.clone()).await, ["op-3", "op-1"]);
    let running = OperationFilter {
        running_only: true,
        ..of_a
    };
    assert_eq!(ids(running).await, ["op-1"]);
    let one = OperationFilter {
        id: Some("op-3".into()),
        ..all.clone()
    };
    assert_eq!(ids(one).await, ["op-3"]);
    let none = OperationFilter {
        id: Some("op-9".into()),
        ..all
    };
    assert!(ids(none).await.is_empty());
}

#[tokio::test]
async fn journal_keeps_its_instance_until_it_is_lost() {
    let fixture = Fixture::new();
    let first = fixture.open().0.identity().clone();
    assert_eq!(first.origin(), v1::JournalOrigin::First);
    assert_eq!(first.created, 1_000);
    let again = fixture.open_keeping(Retention::default(), 2_000).0;
    assert_eq!(*again.identity(), first);
    drop(again);
    std::fs::remove_file(fixture.dir.path().join("journal.redb")).unwrap();
    let second = fixture.open_keeping(Retention::default(), 3_000).0;
    assert_ne!(second.identity().instance, first.instance);
    assert_eq!(second.identity().origin(), v1::JournalOrigin::Missing);
    assert_eq!(second.identity().created, 3_000);
}

#[tokio::test]
async fn journal_of_an_earlier_version_gets_an_instance() {
    let fixture = Fixture::new();
    let (journal, _) = fixture.open();
    claim(&journal, 7).await.unwrap();
    drop(journal);
    let path = fixture.dir.path().join("journal.redb");
    let db = redb::Database::open(&path).unwrap();
    let tx = db.begin_write().unwrap();
    assert!(tx.delete_table(super::tables::IDENTITY).unwrap());
    tx.commit().unwrap();
    drop(db);
    std::fs::remove_file(path.with_extension("instance")).unwrap();
    let (journal, _) = fixture.open();
    assert_eq!(journal.identity().origin(), v1::JournalOrigin::First);
    assert_eq!(claim(&journal, 6).await.unwrap_err().number, 7);
    let given = journal.identity().clone();
    drop(journal);
    assert_eq!(*fixture.open().0.identity(), given);
}

#[tokio::test]
async fn f6_standby_agent_rejects_operations_until_claimed() {
    let fixture = Fixture::new();
    let (journal, _) = fixture.open();
    claim(&journal, 7).await.unwrap();
    started(&journal, off("a", leader(7, 1), "rem-1")).await;
    let standby = |term| journal.claim("prod/rackhand".into(), claimed(term, true));
    standby(7).await.unwrap().unwrap();
    let message = refused(&journal, on("b", leader(7, 2), "rem-1")).await;
    assert!(message.contains("stands by"), "{message}");
    // Its own operations are still known, and an operator is not a controller.
    let known = journal
        .accept(off("a", leader(7, 3), "rem-1"))
        .await
        .unwrap();
    assert!(matches!(known, StartAnswer::Known(_)));
    let by_hand = StartRequest {
        force: true,
        ..off("c", ann(), "operator ann")
    };
    started(&journal, by_hand).await;
    drop(journal);
    // The standby state also survives a restart.
    let (journal, _) = fixture.open();
    let message = refused(&journal, on("b", leader(7, 4), "rem-1")).await;
    assert!(message.contains("stands by"), "{message}");
    claim(&journal, 7).await.unwrap();
    started(&journal, on("b", leader(7, 5), "operator ann")).await;
}
