//! The stage of these tests, with malformed objects.

use std::process::{Output, Stdio};

use anyhow::{Context, Result};
use rackhand_tests::stage::{LONG, NAMESPACE, Recorder, Stage, wait_until};
use serde_json::Value;
use tokio::{io::AsyncWriteExt as _, process::Command};

/// A secret in a malformed kubeconfig, which must not appear in messages.
pub const SECRET: &str = "hush-7f3a9c";

pub const REMEDIATE: &str = "cluster.x-k8s.io/remediate-machine";

pub struct World {
    pub stage: Stage,
    pub recorder: Recorder,
}

impl World {
    pub async fn kubectl(&self, args: &[&str], input: &str) -> Result<Output> {
        let mut child = Command::new("kubectl")
            .arg("--kubeconfig")
            .arg(self.stage.plane().kubeconfig())
            .args(["--namespace", NAMESPACE])
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("kubectl")?;
        child
            .stdin
            .take()
            .context("no input")?
            .write_all(input.as_bytes())
            .await?;
        Ok(child.wait_with_output().await?)
    }

    /// The column names of `kubectl get`.
    pub async fn columns(&self, what: &[&str]) -> Result<Vec<String>> {
        let output = self.kubectl(&[&["get"], what].concat(), "").await?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let head = text.lines().next().unwrap_or_default();
        let columns = head.split("   ").map(str::trim).filter(|c| !c.is_empty());
        Ok(columns.map(str::to_owned).collect())
    }

    /// Waits for a condition of an object.
    pub async fn condition(
        &self,
        objects: &kube::Api<kube::api::DynamicObject>,
        name: &str,
        type_: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Result<()> {
        wait_until(&format!("{name}: condition {type_}"), LONG, || async {
            let object = objects.get(name).await?;
            let status = &object.data["status"];
            let lists = [&status["conditions"], &status["v1beta2"]["conditions"]];
            let mut all = lists.iter().filter_map(|list| list.as_array()).flatten();
            let found = all.any(|c| c["type"] == type_ && wanted(c));
            Ok(if found {
                Ok(())
            } else {
                Err(status.to_string())
            })
        })
        .await
    }

    pub async fn back(&self, host: &str) -> Result<()> {
        wait_until(&format!("{host} has lost its taint"), LONG, || async {
            let seen = self.stage.remediation(host).await?;
            let taints = self.recorder.taints(host);
            Ok(if taints.len() == 2 {
                Ok(())
            } else {
                Err(format!("{seen:?}"))
            })
        })
        .await?;
        self.stage.wait_back(host).await?;
        self.stage.one_cycle(host)
    }
}

pub fn says(condition: &Value, reason: &str, words: &[&str]) -> bool {
    let message = condition["message"].as_str().unwrap_or_default();
    condition["status"] == "False"
        && condition["reason"] == reason
        && words.iter().all(|word| message.contains(word))
}
