//! `crowd`: fails many hosts at once and measures their remediations.
//!
//! For `hack/bench remediation`. Starts everything itself, prints one line of JSON per round to standard
//! output, and stops everything at the end.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Result, bail};
use clap::Parser;
use rackhand_tests::stage::{Crowd, Round, Stage, StageConfig, rank};
use serde_json::{Value, json};

/// Fails many hosts at once and measures their remediations.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    /// Number of hosts.
    #[arg(long, short = 'n', default_value_t = 1000)]
    hosts: usize,
    /// Number of racks, each with an agent.
    #[arg(long, default_value_t = 10)]
    racks: usize,
    /// The rounds: in each, one in this many BMCs is dead; 0 for none.
    #[arg(long, value_delimiter = ',', default_values_t = [0, 20])]
    dead: Vec<usize>,
    /// Timeout of a power operation.
    #[arg(long, default_value = "30s")]
    power_timeout: String,
}

#[tokio::main]
async fn main() -> Result<()> {
    let args = Args::parse();
    let dir = tempfile::tempdir()?;
    let timeout = format!("--power-timeout={}", args.power_timeout);
    let config = StageConfig::crowd(args.hosts, args.racks, &[&timeout]);
    let stage = Stage::start(dir.path(), config).await?;
    if let Err(error) = rounds(&stage, &args).await {
        bail!("{error:#}\n{}", stage.logs());
    }
    Ok(())
}

async fn rounds(stage: &Stage, args: &Args) -> Result<()> {
    stage.apply_rack_agents().await?;
    eprintln!("crowd: writing the objects of {} hosts", args.hosts);
    let crowd = Crowd::start(stage, "controller").await?;
    stage.start_controller("controller").await?;
    for (index, dead) in args.dead.iter().enumerate() {
        eprintln!("crowd: round {}", index + 1);
        let idle = stage.usage_of_controller("controller")?;
        let before = written(stage).await?;
        let round = crowd.fail(*dead).await?;
        let mut writes = written(stage).await?;
        for (operation, count) in &mut writes {
            *count -= before.get(operation).copied().unwrap_or(0);
        }
        eprintln!("crowd: {round}");
        crowd.recover().await?;
        crowd.cycled(u64::try_from(index + 1)?).await?;
        println!("{}", line(&round, idle.now_kib, &writes));
    }
    Ok(())
}

/// Number of writes of the controller by operation, from its metrics.
async fn written(stage: &Stage) -> Result<BTreeMap<String, u64>> {
    let (_, text) = stage.admin("controller", "/metrics").await?;
    let mut writes = BTreeMap::new();
    for line in text.lines() {
        let Some(rest) = line.strip_prefix("rackhand_writes_total{operation=\"") else {
            continue;
        };
        let operation = rest.split('"').next().unwrap_or_default();
        let count = rest.rsplit(' ').next().and_then(|n| n.parse().ok());
        *writes.entry(operation.to_owned()).or_default() += count.unwrap_or(0);
    }
    Ok(writes)
}

fn line(round: &Round, idle_kib: u64, writes: &BTreeMap<String, u64>) -> Value {
    let seconds =
        |times: &[Duration]| [50, 99, 100].map(|percent| rank(times, percent).as_secs_f64());
    let steps: Vec<Value> = round
        .steps
        .iter()
        .map(|(step, took)| json!([step, seconds(took)]))
        .collect();
    json!({
        "live": round.live.len(),
        "dead": round.dead.len(),
        "seconds": seconds(&round.live),
        "reported": round.reported.as_secs_f64(),
        "steps": steps,
        "cpu": round.controller.cpu.as_secs_f64(),
        "idle_kib": idle_kib,
        "peak_kib": round.controller.peak_kib,
        "agents_cpu": round.agents.cpu.as_secs_f64(),
        "agent_peak_kib": round.agents.peak_kib,
        "management": round.calls.management,
        "workload": round.calls.workload,
        "calls": round.calls.by_kind,
        "bytes_read": round.calls.bytes_read,
        "api_server_cpu": round.api_server.cpu.as_secs_f64(),
        "writes": writes,
    })
}
