//! The controller on real control planes, with agents and simulated racks around it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_in_result,
    missing_docs,
    unreachable_pub
)]

mod campaign;
mod checks;
mod clusters;
mod coexistence;
mod hosts;
mod install;
mod operators;
mod planned_work;
mod remediation;

use anyhow::Result;
use rackhand_tests::stage::{Stage, StageConfig};
use tempfile::TempDir;

/// Starts a stage in a directory of its own and prepares it for a test.
async fn prepared<T>(
    config: StageConfig,
    prepare: impl AsyncFnOnce(&Stage) -> Result<T>,
) -> (TempDir, Stage, T) {
    let dir = tempfile::tempdir().unwrap();
    let stage = Stage::start(dir.path(), config).await.unwrap();
    match prepare(&stage).await {
        Ok(done) => (dir, stage, done),
        Err(error) => panic!("{error:#}\n{}", stage.report().await),
    }
}

/// A second check of the Machines in a node pool. It makes remediations of another kind, so that two remediations of
/// one Machine would be detected.
fn second_check(name: &str, pool: &str) -> String {
    format!(
        r#"
apiVersion: rackhand.dev/v1alpha1
kind: PowerRemediationTemplate
metadata: {{ name: reboot, namespace: metal3 }}
spec: {{ template: {{ spec: {{ strategy: {{ type: Reboot }} }} }} }}
---
apiVersion: cluster.x-k8s.io/v1beta1
kind: MachineHealthCheck
metadata: {{ name: {name}, namespace: metal3 }}
spec:
  clusterName: demo
  maxUnhealthy: 100%
  nodeStartupTimeout: 0m
  selector: {{ matchLabels: {{ nodepool: {pool} }} }}
  unhealthyConditions:
    - {{ type: Ready, status: Unknown, timeout: 1s }}
  remediationTemplate:
    apiVersion: rackhand.dev/v1alpha1
    kind: PowerRemediationTemplate
    name: reboot
"#
    )
}
