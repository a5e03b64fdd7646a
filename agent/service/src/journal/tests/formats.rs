//! Journals of other versions.

use super::*;

/// A journal of version 0.1, never changed: term 7 of prod/rackhand; `rem-1` holds node-7 off by `off-1`,
/// which ended; `off-2` of host node-8 was running when the agent was killed.
const V0_1: &[u8] = include_bytes!("../../../../../tests/skew/journal-0.1.redb");

#[tokio::test]
async fn a_journal_of_version_0_1_keeps_its_terms_holds_and_operations() {
    let fixture = Fixture::new();
    std::fs::write(fixture.dir.path().join("journal.redb"), V0_1).unwrap();
    let (journal, interrupted) =
        fixture.open_keeping(Retention::default(), 1_800_000_000_000_000_000);
    assert_eq!(interrupted, ["off-2"]);
    assert_eq!(claim(&journal, 6).await.unwrap_err().number, 7);
    let message = refused(&journal, on("on-1", ann(), "operator ann")).await;
    assert!(message.contains("rem-1"), "{message}");
    let known = journal.admit(off("off-1", leader(7, 9), "rem-1")).await;
    let Admitted::Known(record) = known.unwrap() else {
        panic!("off-1 is not known");
    };
    assert_eq!(record.host, "node-7");
    assert_eq!(record.device, Device::Bmc, "it knew no outlets");
    claim(&journal, 8).await.unwrap();
    let stale = refused(&journal, off("off-3", leader(7, 10), "rem-1")).await;
    assert!(stale.contains("term 7"), "{stale}");
    started(&journal, on("on-2", leader(8, 1), "rem-1")).await;
}
