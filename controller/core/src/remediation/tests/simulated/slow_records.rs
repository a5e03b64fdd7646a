//! An API server with so much to do that each record takes long.

use super::{super::*, driver::Run, faults::Plan};

#[test]
fn l1_host_comes_back_with_few_records_however_long_each_takes() {
    for cooperative in [false, true] {
        let usual = records(cooperative, 0);
        for takes in [1_000, 9_000, 20_000, 45_000, 90_000] {
            let records = records(cooperative, takes);
            // A pin that was too short is recorded once more, for each of the two operations.
            assert!(
                records <= usual + 2,
                "{records} records of {takes} ms each, {usual} without"
            );
        }
    }
}

fn records(cooperative: bool, takes: i64) -> u32 {
    let mut run = Run::new(Plan {
        record_takes: takes,
        ..Plan::calm(cooperative)
    });
    run.go();
    let end = (run.outcome, run.world.hosts[0].offs);
    assert_eq!(
        end,
        (Some(RemediationOutcome::Succeeded), 1),
        "with records of {takes} ms: {}",
        run.reason
    );
    run.records
}
