//! L1: what is recorded leads on. A remediation that records again and again in one try of one step does not.

use std::time::Duration;

use serde_json::Value;

use crate::{
    api::{Change, ChangeKind},
    kernel::World,
};

/// Most records in one try of one step within [`WITHIN`]: a step records what it has done, and once more each thing that
/// comes between.
const MOST: usize = 12;
const WITHIN: Duration = Duration::from_secs(300);

/// The records of a remediation in its present try.
#[derive(Debug, Default)]
pub(super) struct RepeatedRecords {
    at_try: [Value; 3],
    times: Vec<Duration>,
}

impl World {
    pub(super) fn judge_record(&mut self, change: &Change) {
        let name = change.object["metadata"]["name"].as_str();
        let name = name.unwrap_or_default().to_owned();
        if change.kind == ChangeKind::Deleted {
            self.fleet.oracle.repeated.remove(&name);
            return;
        }
        let now = self.now();
        let state = &change.object["spec"]["state"];
        let at_try = [
            state["step"].clone(),
            state["attempt"]["number"].clone(),
            state["tries"].clone(),
        ];
        let seen = self.fleet.oracle.repeated.entry(name.clone()).or_default();
        if seen.at_try != at_try {
            *seen = RepeatedRecords {
                at_try,
                times: Vec::new(),
            };
        }
        seen.times.retain(|at| now - *at < WITHIN);
        seen.times.push(now);
        if seen.times.len() > MOST {
            let (step, times) = (seen.at_try[0].clone(), std::mem::take(&mut seen.times));
            let records = times.len();
            self.violate(format!(
                "L1: {records} records of remediation {name} in one try of {step} within {WITHIN:?}"
            ));
        }
    }
}
