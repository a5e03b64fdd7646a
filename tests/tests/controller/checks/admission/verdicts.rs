//! Applies the cases to an API server with `kubectl`, and compares the results.

use std::{
    io::Write as _,
    path::Path,
    process::{Command, Output, Stdio},
};

use anyhow::{Context as _, Result, bail, ensure};
use rackhand_tests::stage::{LONG, wait_until};
use serde_json::{Value, json};

use super::cases::{Case, selector};

pub fn document(name: &str, version: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": format!("cluster.x-k8s.io/{version}"), "kind": "MachineHealthCheck",
        "metadata": { "name": name, "namespace": "default" },
        "spec": spec,
    })
}

pub fn documents(cases: &[Case]) -> String {
    let document = |(name, version, spec, _): &Case| document(name, version, spec).to_string();
    cases.iter().map(document).collect::<Vec<_>>().join("\n")
}

pub fn kubectl(kubeconfig: &Path, args: &[&str], input: &str) -> Result<Output> {
    let mut child = Command::new("kubectl")
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("kubectl is missing; run hack/setup")?;
    let mut stdin = child.stdin.take().context("no input")?;
    stdin.write_all(input.as_bytes())?;
    drop(stdin);
    Ok(child.wait_with_output()?)
}

/// The error of `kubectl apply` for each case; `None` if it is accepted.
pub fn verdicts(kubeconfig: &Path, cases: &[Case]) -> Result<Vec<(&'static str, Option<String>)>> {
    let output = kubectl(
        kubeconfig,
        &["apply", "--dry-run=server", "-f", "-"],
        &documents(cases),
    )?;
    let accepted = String::from_utf8_lossy(&output.stdout).into_owned();
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    let mut refused: Vec<String> = Vec::new();
    for line in printed.lines().filter(|l| !l.starts_with("Warning: ")) {
        match refused.last_mut() {
            Some(last) if !line.starts_with("The ") && !line.starts_with("Error ") => {
                last.push_str(line);
            }
            _ => refused.push(line.to_owned()),
        }
    }
    let is_about = |text: &str, name: &str| text.contains(&format!("\"{name}\""));
    // A failed conversion does not name its object. kubectl keeps the order of the documents.
    let mut unnamed = refused
        .iter()
        .filter(|text| !cases.iter().any(|(name, ..)| is_about(text, name)));
    cases
        .iter()
        .map(|(name, ..)| {
            if accepted.contains(&format!("/{name} created")) {
                return Ok((*name, None));
            }
            match refused
                .iter()
                .find(|text| is_about(text, name))
                .or_else(|| unnamed.next())
            {
                Some(why) => Ok((*name, Some(why.clone()))),
                None => bail!("nothing is printed about {name}:\n{accepted}\n{printed}"),
            }
        })
        .collect()
}

/// Compares the results with the expected ones; with `words` also the messages.
pub fn agrees(who: &str, kubeconfig: &Path, cases: &[Case], words: bool) -> Result<()> {
    let mut wrong = Vec::new();
    for ((name, found), (.., expected)) in verdicts(kubeconfig, cases)?.into_iter().zip(cases) {
        match (found, expected) {
            (None, None) => {}
            (Some(message), Some(word)) if !words || message.contains(word) => {}
            (found, expected) => {
                wrong.push(format!("{name}: expected {expected:?}, got {found:?}"));
            }
        }
    }
    ensure!(wrong.is_empty(), "{who}:\n{}", wrong.join("\n"));
    Ok(())
}

/// Waits until all of these cases are refused, or all accepted.
pub async fn wait_for(what: &str, kubeconfig: &Path, cases: &[Case], refused: bool) -> Result<()> {
    wait_until(what, LONG, || async {
        let others: Vec<_> = verdicts(kubeconfig, cases)?
            .into_iter()
            .filter(|(_, why)| why.is_some() != refused)
            .collect();
        Ok(match others.is_empty() {
            true => Ok(()),
            false => Err(format!("{others:?}")),
        })
    })
    .await
}

/// The cluster of a check cannot change, and an unchanged check can be applied again.
pub fn keeps_its_cluster(who: &str, kubeconfig: &Path) -> Result<()> {
    let with = |cluster: &str| {
        let spec =
            json!({ "clusterName": cluster, "selector": selector(), "nodeStartupTimeout": "10m" });
        document("kept", "v1beta1", &spec).to_string()
    };
    for (cluster, accepted) in [("demo", true), ("other", false), ("demo", true)] {
        let output = kubectl(kubeconfig, &["apply", "-f", "-"], &with(cluster))?;
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(
            output.status.success() == accepted,
            "{who}: {cluster}: {printed}"
        );
        ensure!(
            accepted || printed.contains("spec.clusterName"),
            "{who}: {printed}"
        );
    }
    Ok(())
}
