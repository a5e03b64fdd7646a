//! Trace ids in the logs of controller and agent.

use anyhow::{Context as _, Result, ensure};
use rackhand_tests::stage::Stage;
use serde_json::Value;

/// The lines of a log that belong to a trace.
fn lines(stage: &Stage, log: &str, trace: &str) -> Result<Vec<Value>> {
    let text = stage.log_of(log)?;
    let lines = text.lines().map(serde_json::from_str::<Value>);
    let lines: Result<Vec<Value>, _> = lines.collect();
    let mut lines = lines.with_context(|| format!("{log} is not JSON"))?;
    lines.retain(|line| {
        let spans = line["spans"].as_array();
        spans.is_some_and(|spans| spans.iter().any(|span| span["trace_id"] == trace))
    });
    Ok(lines)
}

fn message(line: &Value) -> &str {
    line["fields"]["message"].as_str().unwrap_or_default()
}

/// The controller's lines about a remediation, and the agent's about its calls to the BMC, carry the
/// UID of the remediation as their trace id.
pub fn joins_the_logs(stage: &Stage, host: &str, uid: &str) -> Result<()> {
    let trace = uid.replace('-', "");
    let controller = lines(stage, "controller-0", &trace)?;
    let ends = |line: &&Value| message(line) == "remediation finished";
    ensure!(controller.iter().any(|line| ends(&line)), "{controller:#?}");
    let agent = lines(stage, "agent-rack-a", &trace)?;
    for (text, count) in [("operation begun", 2), ("BMC call", 2)] {
        let found = agent.iter().filter(|line| message(line) == text);
        let of_host = found.filter(|line| line["fields"]["host"] == host);
        ensure!(of_host.count() == count, "{text}: {agent:#?}");
    }
    // The log of the other rack's agent does not contain the trace.
    ensure!(lines(stage, "agent-rack-b", &trace)?.is_empty());
    Ok(())
}
