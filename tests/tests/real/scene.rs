//! What all tests of real hosts begin and end with.

use anyhow::Result;
use rackhand_tests::real_host::{Prepared, RealSite, RealSpec};

/// Runs a scenario at a site of its own, and then checks that nothing ran twice. Without prepared hosts it does
/// nothing.
pub async fn play(spec: RealSpec, scenario: impl AsyncFnOnce(&RealSite) -> Result<()>) {
    let Some(prepared) = Prepared::find().unwrap() else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let site = RealSite::start(&prepared, dir.path(), &spec).await.unwrap();
    let played = scenario(&site).await;
    if let Err(error) = played.and_then(|()| site.nothing_ran_twice()) {
        let report = site.report();
        println!("the files are kept in {}", dir.keep().display());
        panic!("{error:#}\n{report}");
    }
}

/// Runs the workload, and remediates what is not Ready from now on.
pub async fn watch_over(site: &RealSite, pods: usize) -> Result<()> {
    site.run_workload(pods).await?;
    site.stage.delete_pods_at_once().await?;
    site.stage.apply_health_check().await
}
