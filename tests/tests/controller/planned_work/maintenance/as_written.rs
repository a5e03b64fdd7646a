//! The commands of the page "Planned work", on a host, by the real kubectl.

use anyhow::{Context, Result, ensure};
use rackhand_tests::repository::root;

use super::world::World;

const HOST: &str = "page-1";

/// The commands of the page that begin with this.
fn commands(page: &str, start: &str) -> Vec<String> {
    let lines = page.lines().filter(|line| line.starts_with(start));
    lines.map(|line| line.replace("NODE", HOST)).collect()
}

pub async fn page(w: &World) -> Result<()> {
    let page = std::fs::read_to_string(root().join("docs/planned-work.md"))?;
    let run = async |command: &str| {
        let words = shlex::split(command).with_context(|| command.to_owned())?;
        let kubeconfig = w.stage.plane().kubeconfig();
        let mut plugin = tokio::process::Command::from(w.stage.plugin(&kubeconfig)?);
        let output = plugin.args(words.iter().skip(2)).output().await?;
        let text = String::from_utf8(output.stdout)?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{command}: {text}{errors}");
        Ok(text)
    };
    let written = commands(&page, "kubectl rackhand maintenance");
    let [start, list, end] = written.as_slice() else {
        anyhow::bail!("{written:?}");
    };
    run(start).await?;
    let object = w.wait_in("default", HOST, "Parked").await?;
    ensure!(object["status"]["endsAt"].is_string(), "{object}");
    ensure!(object["spec"]["locatorLED"] == true, "{object}");
    let shown = run(list).await?;
    for part in [HOST, "Parked", "DIMM A3 is changed"] {
        ensure!(shown.contains(part), "{part} is missing in\n{shown}");
    }
    for command in commands(&page, "kubectl get hostmaintenances") {
        let words = shlex::split(&command).with_context(|| command.clone())?;
        let words: Vec<&str> = words.iter().skip(1).map(String::as_str).collect();
        let shown = w.stage.kubectl(&words).await?;
        ensure!(shown.contains(HOST), "{command}\n{shown}");
    }
    refused(w).await?;
    run(end).await?;
    w.wait_back(HOST).await?;
    w.stage.one_cycle(HOST)
}

/// What cannot work is refused before anything is created, in one sentence.
async fn refused(w: &World) -> Result<()> {
    let reason = ["--reason", "DIMM", "--namespace", "default"];
    for (target, said) in [
        (&["--node", "nope"][..], "there is no Node nope"),
        (&["--machine", "nope"], "there is no Machine nope"),
        (&["--host", "nope/h"], "no RackAgent serves rack nope"),
        (&["--node", "page-1"], "exists already: end it first"),
        (
            &["--node", "host-1", "--until", "2026-01-01T00:00:00Z"],
            "is in the past",
        ),
        (
            &["--node", "host-1", "--node", "nope"],
            "there is no Node nope",
        ),
    ] {
        let start = ["maintenance", "start"];
        let args = [&start[..], target, &reason[..]].concat();
        let refused = w.stage.controller_command(&args, "").await;
        let error = format!("{:#}", refused.err().context("it is created")?);
        ensure!(error.contains(said), "{args:?}: {error}");
        ensure!(error.trim().lines().count() == 1, "{args:?}: {error}");
        ensure!(!error.contains("Status {"), "{args:?}: {error}");
    }
    let none = w.maintenances_in("default").get_opt("host-1").await?;
    ensure!(none.is_none(), "{none:?}");
    let end = ["maintenance", "end", "nope", "--namespace", "default"];
    let error = w.stage.controller_command(&end, "").await;
    let error = format!("{:#}", error.err().context("it has ended")?);
    let said = "error: there is no HostMaintenance default/nope";
    ensure!(error.trim() == said, "{error}");
    Ok(())
}
