//! Terms and sequence numbers.

use super::*;

#[tokio::test]
async fn f7_older_term_is_rejected_also_after_a_restart() {
    let fixture = Fixture::new();
    let (journal, _) = fixture.open();
    assert_eq!(claim(&journal, 6).await, Ok(6));
    started(&journal, off("a", leader(6, 1), "rem-1")).await;
    assert_eq!(claim(&journal, 7).await, Ok(7));
    let message = "term 6 of election prod/rackhand is over: term 7 was claimed by pod-7";
    assert_eq!(
        refused(&journal, off("b", leader(6, 2), "rem-1")).await,
        message
    );
    drop(journal);
    let (journal, _) = fixture.open();
    assert_eq!(
        refused(&journal, off("b", leader(6, 2), "rem-1")).await,
        message
    );
    assert_eq!(claim(&journal, 6).await.unwrap_err().number, 7);
}

#[tokio::test]
async fn f7_unclaimed_term_is_rejected() {
    let fixture = Fixture::new();
    let (journal, _) = fixture.open();
    assert_eq!(
        refused(&journal, off("a", leader(3, 1), "rem-1")).await,
        "term 3 of election prod/rackhand has not been claimed at this agent (none has); claim \
         it first"
    );
    claim(&journal, 2).await.unwrap();
    assert_eq!(
        refused(&journal, off("a", leader(3, 1), "rem-1")).await,
        "term 3 of election prod/rackhand has not been claimed at this agent (highest: 2); claim \
         it first"
    );
}

#[tokio::test]
async fn f7_one_term_has_one_holder() {
    let fixture = Fixture::new();
    let (journal, _) = fixture.open();
    assert_eq!(claim(&journal, 4).await, Ok(4));
    assert_eq!(
        claim(&journal, 4).await,
        Ok(4),
        "claiming again is harmless"
    );
    let other = journal
        .claim(
            "prod/rackhand".into(),
            Term {
                holder: "impostor".into(),
                ..claimed(4, false)
            },
        )
        .await
        .unwrap();
    assert_eq!(other.unwrap_err().holder, "pod-4");
    // Elections are independent of each other.
    let elsewhere = journal.claim("test/rackhand".into(), claimed(1, false));
    assert_eq!(elsewhere.await.unwrap(), Ok(1));
}

#[tokio::test]
async fn f7_sequence_is_accepted_once_also_after_a_restart() {
    let fixture = Fixture::new();
    let (journal, _) = fixture.open();
    claim(&journal, 7).await.unwrap();
    started(&journal, off("a", leader(7, 5), "rem-1")).await;
    drop(journal);
    let (journal, _) = fixture.open();
    for sequence in [4, 5] {
        assert_eq!(
            refused(&journal, on("b", leader(7, sequence), "rem-1")).await,
            format!(
                "host node-7: sequence {sequence} of term 7 is not newer than 5 of term 7, which \
                 was taken already"
            )
        );
    }
    started(&journal, on("b", leader(7, 6), "rem-1")).await;
    claim(&journal, 8).await.unwrap();
    started(&journal, off("c", leader(8, 1), "rem-2")).await;
}

#[tokio::test]
async fn f7_term_set_back_is_recorded_and_requires_a_new_claim() {
    let fixture = Fixture::new();
    let (journal, _) = fixture.open();
    claim(&journal, 7).await.unwrap();
    started(&journal, off("a", leader(7, 3), "rem-1")).await;
    claim(&journal, 2_000_000_000).await.unwrap();
    started(&journal, on("b", leader(2_000_000_000, 9), "rem-1")).await;
    assert!(claim(&journal, 8).await.is_err());

    let unknown = SetBack {
        election: "other".into(),
        ..set_back(1)
    };
    let refused = journal.set_back_term(unknown).await.unwrap().unwrap_err();
    assert!(matches!(refused, NotSetBack::UnknownElection(_)));
    for to in [2_000_000_000, u64::MAX] {
        let refused = journal.set_back_term(set_back(to)).await.unwrap();
        assert!(matches!(refused, Err(NotSetBack::NotLower { .. })));
    }
    let known = journal.set_back_term(set_back(7)).await.unwrap().unwrap();
    assert_eq!(known.term.number, 7);

    drop(journal);
    let (journal, _) = fixture.open();
    let [known] = &journal.terms().await.unwrap()[..] else {
        panic!()
    };
    let TermSetBack {
        at, from, to, by, ..
    } = &known.set_back[0];
    assert_eq!((*at, *from, *to), (7, 2_000_000_000, 7));
    assert_eq!(by, "operator local:0");
    // Neither the previous leader of term 7 nor the one with the huge term may command.
    for old in [leader(7, 99), leader(2_000_000_000, 99)] {
        refused_term(&journal, old).await;
    }
    assert!(claim(&journal, 7).await.is_err());
    claim(&journal, 8).await.unwrap();
    started(&journal, off("c", leader(8, 1), "rem-1")).await;
}

fn set_back(to: u64) -> SetBack {
    SetBack {
        election: "prod/rackhand".into(),
        to,
        by: "operator local:0".into(),
        reason: "a broken controller claimed it".into(),
        now: 7,
    }
}

async fn refused_term(journal: &Journal, authority: Authority) {
    let message = refused(journal, off("x", authority, "rem-1")).await;
    assert!(message.contains("term"), "{message}");
}
