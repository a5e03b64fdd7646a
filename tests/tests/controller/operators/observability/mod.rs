//! Monitoring of a running system: Prometheus scrapes controller and agents, every query of dashboard and
//! alerts returns data, and logs share trace ids.

mod metric_names;
mod otlp;
pub mod prometheus;
mod trace;

use anyhow::{Result, ensure};
use rackhand_tests::{
    pdu::PduPair,
    process::free_port,
    stage::{HostLink, RackSpec, Recorder, Stage, StageConfig},
};

use crate::install::rights::metrics::{account, bind};
use prometheus::Prometheus;

/// Alerts whose expression returns something while one host is not confirmed off. All others report
/// what does not occur here: `promtool test rules` shows that they fire.
const RAISED: [&str; 2] = ["RackhandFenceUnconfirmed", "RackhandRemediationBlocked"];

/// Queries of the dashboard that return nothing here, because a firing alert takes minutes and agents refuse
/// nothing.
const EMPTY: [&str; 3] = ["ALERTS", "refused_requests", "refused_connections"];

/// The host that recovers; the other one is not confirmed off.
const RETURNS: &str = "rack-a-1";
const STUCK: &str = "rack-b-1";

#[tokio::test(flavor = "multi_thread")]
async fn dashboard_and_alert_queries_return_data_and_logs_share_trace_ids() {
    let dir = tempfile::tempdir().unwrap();
    let racks = vec![
        RackSpec::new("rack-a", 1, HostLink::Inventory),
        RackSpec::new("rack-b", 1, HostLink::Inventory),
    ];
    // A PDU that does not answer: its calls are counted, and the host whose BMC fails stays unconfirmed.
    let pdus = PduPair::start(1).await.unwrap();
    pdus.set_dead(0, true);
    let config = StageConfig {
        json_logs: true,
        pdus: Some(pdus),
        ..StageConfig::steady(racks, &["--power-timeout=15s"])
    };
    let stage = Stage::start(dir.path(), config).await.unwrap();
    if let Err(error) = scenario(&stage).await {
        panic!("{error:#}\n{}", stage.report().await);
    }
}

async fn scenario(stage: &Stage) -> Result<()> {
    let token = account(stage, "prometheus").await?;
    bind(stage, "prometheus", "rackhand-metrics-reader").await?;
    stage.apply_rack_agents().await?;
    let port = free_port()?;
    let address = format!("--metrics-address=127.0.0.1:{port}");
    stage
        .start_controller_as("controller-0", vec![address])
        .await?;
    let prometheus = Prometheus::start(stage, port, &token).await?;
    prometheus.wait_scraped().await?;

    let recorder = Recorder::start(&stage.client);
    stage.apply_health_check().await?;
    ensure!(stage.host(RETURNS)?.hang(), "{RETURNS} was not up");
    let created = recorder.wait_created(RETURNS).await?;
    let uid = created["metadata"]["uid"].as_str().unwrap_or_default();
    stage.host(STUCK)?.refuse_auth();
    ensure!(stage.host(STUCK)?.hang(), "{STUCK} was not up");
    stage.wait_back(RETURNS).await?;
    stage.one_cycle(RETURNS)?;
    stage.wait_blocked(STUCK, "FenceUnconfirmed").await?;

    trace::joins_the_logs(stage, RETURNS, uid)?;
    prometheus
        .wait_answered(&prometheus::dashboard()?, &EMPTY)
        .await?;
    prometheus.check_alerts(&RAISED).await?;
    metric_names::compare_with_the_pages(&prometheus).await?;
    metric_names::lint(stage, "controller-0", "rack-a").await
}
