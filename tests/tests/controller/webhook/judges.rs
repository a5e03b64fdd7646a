//! Asks a judge, through `kubectl`, and compares.

use std::{
    io::Write as _,
    path::Path,
    process::{Command, Output, Stdio},
};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::json;

use super::cases::{Case, selector};

pub fn documents(cases: &[Case]) -> String {
    let document = |(name, version, spec, _): &Case| {
        json!({
            "apiVersion": format!("cluster.x-k8s.io/{version}"), "kind": "MachineHealthCheck",
            "metadata": { "name": name, "namespace": "default" },
            "spec": spec,
        })
        .to_string()
    };
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

/// What `kubectl apply` says about each case: nothing for one that is taken.
pub fn judged(kubeconfig: &Path, cases: &[Case]) -> Result<Vec<(&'static str, Option<String>)>> {
    let output = kubectl(
        kubeconfig,
        &["apply", "--dry-run=server", "-f", "-"],
        &documents(cases),
    )?;
    let taken = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let mut refused: Vec<String> = Vec::new();
    for line in said.lines() {
        match refused.last_mut() {
            Some(last) if !line.starts_with("The ") && !line.starts_with("Error ") => {
                last.push_str(line);
            }
            _ => refused.push(line.to_owned()),
        }
    }
    cases
        .iter()
        .map(|(name, ..)| {
            let created = taken.contains(&format!("/{name} created"));
            let why = refused
                .iter()
                .find(|text| text.contains(&format!("\"{name}\"")));
            match (created, why) {
                (true, _) => Ok((*name, None)),
                (false, Some(why)) => Ok((*name, Some(why.clone()))),
                (false, None) => bail!("nothing is said about {name}:\n{taken}\n{said}"),
            }
        })
        .collect()
}

/// Compares a judge with what is expected; `words` also looks at what it says.
pub fn agrees(judge: &str, kubeconfig: &Path, cases: &[Case], words: bool) -> Result<()> {
    let mut wrong = Vec::new();
    for ((name, found), (.., expected)) in judged(kubeconfig, cases)?.into_iter().zip(cases) {
        match (found, expected) {
            (None, None) => {}
            (Some(said), Some(word)) if !words || said.contains(word) => {}
            (found, expected) => {
                wrong.push(format!("{name}: expected {expected:?}, it says {found:?}"));
            }
        }
    }
    ensure!(wrong.is_empty(), "{judge}:\n{}", wrong.join("\n"));
    Ok(())
}

/// A check keeps its cluster, and loses nothing by being written again.
pub fn keeps_its_cluster(judge: &str, kubeconfig: &Path) -> Result<()> {
    let with = |cluster: &str| {
        let spec =
            json!({ "clusterName": cluster, "selector": selector(), "nodeStartupTimeout": "10m" });
        documents(&[("kept", "v1beta1", spec, None)])
    };
    for (cluster, taken) in [("demo", true), ("other", false), ("demo", true)] {
        let output = kubectl(kubeconfig, &["apply", "-f", "-"], &with(cluster))?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(
            output.status.success() == taken,
            "{judge}: {cluster}: {said}"
        );
        ensure!(taken || said.contains("clusterName"), "{judge}: {said}");
    }
    Ok(())
}
