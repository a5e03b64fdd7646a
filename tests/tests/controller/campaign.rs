//! Two minutes of `hack/campaign`: faults of all kinds over a real system, then everything recovers.

use std::time::Duration;

use rackhand_tests::campaign::{Campaign, run};

#[tokio::test(flavor = "multi_thread")]
async fn fencing_rules_hold_in_two_minutes_of_random_faults() {
    let dir = tempfile::tempdir().unwrap();
    let campaign = Campaign {
        seed: 1,
        duration: Duration::from_secs(120),
    };
    match run(dir.path(), campaign, &|line| println!("    {line}")).await {
        Ok(report) => {
            println!("{report}");
            assert!(report.taints > 0, "nothing was fenced");
        }
        Err(error) => panic!("{error:#}"),
    }
}
