//! Every command of the plugin as its user runs it: by the real kubectl, with kubeconfigs of either kind. The
//! forwarded port goes through the API server and the kubelet's own library.

use std::{
    collections::BTreeSet,
    io::Write as _,
    path::{Path, PathBuf},
    process::Stdio,
    sync::Mutex,
};

use anyhow::{Context as _, Result, ensure};
use rackhand_tests::{
    cluster::apply_yaml,
    process::{Process, free_port},
    rack::{PowerState, ResetType},
    stage::{HostLink, LONG, NAMESPACE, RackSpec, Stage, StageConfig, wait_until},
};

const CHECK: &str = "worker-healthcheck";
/// Requests of one page: enough for kubectl to write more than the buffer of a pipe holds.
const REMEDIATIONS: usize = 50;

const POLICY: &str = "
apiVersion: rackhand.dev/v1alpha1
kind: PowerPolicy
metadata: {name: by-hand}
spec:
  selector: {racks: [rack-a]}
  requireApproval: true
";

#[tokio::test(flavor = "multi_thread")]
async fn every_command_works_with_the_real_kubectl() {
    let dir = tempfile::tempdir().unwrap();
    let racks = vec![RackSpec::new("rack-a", 3, HostLink::Inventory)];
    let config = StageConfig::steady(racks, &["--power-timeout=6s"]);
    let stage = Stage::start(dir.path(), config).await.unwrap();
    if let Err(error) = scenario(&stage).await {
        panic!("{error:#}\n{}", stage.logs());
    }
}

/// A check of Nodes, for explanations from a file.
const NODE_CHECK: &str = "
apiVersion: remediation.medik8s.io/v1alpha1
kind: NodeHealthCheck
metadata: {name: from-file, uid: from-file}
spec:
  selector: {}
  minHealthy: 51%
  unhealthyConditions: [{type: Ready, status: Unknown, duration: 300s}]
  remediationTemplate: {apiVersion: rackhand.dev/v1alpha1, kind: PowerRemediationTemplate, name: reboot, namespace: checks}
";

/// A history in which one Node fails, for a rehearsal.
const FAILURES: &str = "node,down,up\nworker-1,2026-08-01T02:00:00Z,2026-08-01T03:00:00Z\n";

/// The commands of the program, and those that were run.
struct Commands {
    all: BTreeSet<String>,
    run: Mutex<BTreeSet<String>>,
}

impl Commands {
    /// Reads the commands from their help, down to those without commands of their own.
    fn read(stage: &Stage, kubeconfig: &Path) -> Result<Self> {
        let mut all = BTreeSet::new();
        let mut open = vec![Vec::<String>::new()];
        while let Some(command) = open.pop() {
            let mut help = stage.plugin(kubeconfig)?;
            let help = help.args(&command).arg("--help").output()?;
            ensure!(help.status.success(), "{command:?} --help: {help:?}");
            let below = commands_in(&String::from_utf8(help.stdout)?);
            if below.is_empty() {
                all.insert(command.join(" "));
            }
            for name in below {
                let mut command = command.clone();
                command.push(name);
                open.push(command);
            }
        }
        Ok(Self {
            all,
            run: Mutex::default(),
        })
    }

    /// Marks the command that these arguments call.
    fn mark(&self, args: &[&str]) -> Result<()> {
        let called = |command: &&String| {
            let words: Vec<&str> = command.split(' ').collect();
            args.starts_with(&words)
        };
        let command = self.all.iter().find(called);
        let command = command.with_context(|| format!("no command of the help: {args:?}"))?;
        let mut run = self.run.lock().map_err(|_| anyhow::anyhow!("poisoned"))?;
        run.insert(command.clone());
        Ok(())
    }

    fn all_were_run(&self) -> Result<()> {
        let run = self.run.lock().map_err(|_| anyhow::anyhow!("poisoned"))?;
        let left: Vec<_> = self.all.difference(&run).collect();
        ensure!(left.is_empty(), "never run by the real kubectl: {left:?}");
        Ok(())
    }
}

/// Names in the list of commands of a help, without `help` itself.
fn commands_in(help: &str) -> Vec<String> {
    let list = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let list = list.take_while(|line| !line.is_empty());
    // Descriptions go on with a deeper indentation.
    let names = list.filter_map(|line| line.strip_prefix("  "));
    let names = names.filter(|line| !line.starts_with(' '));
    let names = names.filter_map(|line| line.split_whitespace().next());
    names
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

/// Output of a command that must end with success.
fn run(stage: &Stage, kubeconfig: &Path, args: &[&str], input: &str) -> Result<String> {
    let mut child = stage
        .plugin(kubeconfig)?
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    child
        .stdin
        .take()
        .context("no stdin")?
        .write_all(input.as_bytes())?;
    let output = child.wait_with_output()?;
    let text = String::from_utf8(output.stdout)?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(
        output.status.success(),
        "kubectl rackhand {args:?}: {text}{said}"
    );
    Ok(text)
}

/// A page that runs, and its URL.
async fn page(
    stage: &Stage,
    name: &str,
    kubeconfig: &Path,
    more: &[String],
) -> Result<(Process, String)> {
    let command = stage.plugin(kubeconfig)?;
    let env: Vec<_> = command
        .get_envs()
        .filter_map(|(key, value)| Some((key.to_str()?.to_owned(), value?.to_str()?.to_owned())))
        .collect();
    let mut words = vec![
        "kubectl".to_owned(),
        "rackhand".to_owned(),
        "page".to_owned(),
    ];
    words.push("--listen=127.0.0.1:0".to_owned());
    words.extend_from_slice(more);
    let process = Process::start(name, &words, &env, stage.dir())?;
    let url = wait_until("the URL of the page", LONG, || async {
        let log = std::fs::read_to_string(process.log())?;
        let found = log.lines().find(|line| line.starts_with("http://"));
        Ok(found.map(str::to_owned).ok_or(log))
    })
    .await?;
    Ok((process, url))
}

async fn scenario(stage: &Stage) -> Result<()> {
    stage.apply_rack_agents().await?;
    apply_yaml(&stage.client, POLICY).await?;
    let ports = [free_port()?, free_port()?];
    for (replica, port) in ports.into_iter().enumerate() {
        let address = format!("--metrics-address=127.0.0.1:{port}");
        stage
            .start_controller_as(&format!("controller-{replica}"), vec![address])
            .await?;
    }
    stage.apply_health_check().await?;
    let by_token = stage.plane().kubeconfig();
    let by_certificate = stage.plane().kubeconfig_by_certificate()?;

    let all = Commands::read(stage, &by_certificate)?;
    // Both run until they are interrupted, and have ways of their own to be started.
    pages(stage, ports, [&by_token, &by_certificate]).await?;
    all.mark(&["page"])?;
    record(stage, &by_certificate)?;
    all.mark(&["record"])?;
    offline(stage, &all, &by_certificate)?;
    commands(stage, ports, &all, &by_certificate).await?;
    all.all_were_run()
}

/// A short recording, which names the Nodes of the cluster.
fn record(stage: &Stage, kubeconfig: &Path) -> Result<()> {
    let recorded = run(stage, kubeconfig, &["record", "--for", "3s"], "")?;
    ensure!(recorded.contains("rack-a-1"), "{recorded}");
    Ok(())
}

/// The commands that read and write files.
fn offline(stage: &Stage, all: &Commands, kubeconfig: &Path) -> Result<()> {
    let run = |args: &[&str], input: &str| {
        all.mark(args)?;
        run(stage, kubeconfig, args, input)
    };
    let folder = |name: &str| stage.dir().join(name).display().to_string();
    let dir = folder("plugin-pki");
    run(&["pki", "init", "--dir", &dir], "")?;
    for subject in [
        &["controller"][..],
        &["rack", "rack-a"],
        &["operator", "ops"],
    ] {
        run(&[&["pki", "issue"], subject, &["--dir", &dir]].concat(), "")?;
    }
    let listed = run(&["pki", "renew", "--dir", &dir], "")?;
    ensure!(listed.contains("rack-a"), "{listed}");

    let explained = run(&["explain", "nhc", "-f", "-"], NODE_CHECK)?;
    ensure!(explained.contains("from-file"), "{explained}");

    let (checks, history) = (folder("plugin-checks.yaml"), folder("plugin-failures.csv"));
    std::fs::write(&checks, NODE_CHECK)?;
    std::fs::write(&history, FAILURES)?;
    let rehearsed = run(&["rehearse", "-f", &checks, "--history", &history], "")?;
    ensure!(rehearsed.contains("requested"), "{rehearsed}");
    Ok(())
}

/// The page by the real port forwarding, as long as that lasts; and no page from another server than the leader.
async fn pages(stage: &Stage, ports: [u16; 2], kubeconfigs: [&PathBuf; 2]) -> Result<()> {
    let (leader, _) = stage.leader().await?;
    let pod = leader.rsplit_once('_').context("no Pod")?.0.to_owned();
    let at = usize::from(pod == "controller-1");
    for (name, kubeconfig) in [
        ("page-token", kubeconfigs[0]),
        ("page-cert", kubeconfigs[1]),
    ] {
        let kubelet = stage.start_port_forwarding(&pod, ports[at]).await?;
        let (mut process, url) = page(stage, name, kubeconfig, &[]).await?;
        for _ in 0..REMEDIATIONS {
            // Each one opens a connection of its own.
            let shown = reqwest::Client::new().get(&url).send().await?;
            let shown = shown.error_for_status()?.text().await?;
            ensure!(shown.contains("rack-a"), "{shown}");
        }
        drop(kubelet);
        let said = wait_until("the end of the page", LONG, || async {
            let log = std::fs::read_to_string(process.log())?;
            Ok(if log.contains("has ended") {
                Ok(log)
            } else {
                Err(log)
            })
        })
        .await?;
        ensure!(said.contains(&format!("Pod {pod} has ended")), "{said}");
        wait_until("the end of the process", LONG, || {
            let ended = process.ended().ok_or_else(String::new);
            async { Ok(ended) }
        })
        .await?;
    }

    let other = format!("--controller=https://127.0.0.1:{}", ports[1 - at]);
    let (_process, url) = page(stage, "page-standby", kubeconfigs[0], &[other]).await?;
    let refused = reqwest::get(&url).await?;
    ensure!(refused.status() == 502, "{refused:?}");
    let said = refused.text().await?;
    ensure!(said.contains("this is not the leader"), "{said}");
    Ok(())
}

async fn commands(stage: &Stage, ports: [u16; 2], all: &Commands, kubeconfig: &Path) -> Result<()> {
    let run = |args: &[&str], input: &str| {
        all.mark(args)?;
        run(stage, kubeconfig, args, input)
    };
    ensure!(run(&["status"], "")?.contains("rack-a"));
    let explained = run(&["explain", "mhc", CHECK, "--namespace", NAMESPACE], "")?;
    ensure!(explained.contains("rack-a-1"), "{explained}");
    for (action, is_paused) in [("pause", true), ("resume", false)] {
        run(&[action, "mhc", CHECK, "--namespace", NAMESPACE], "")?;
        let kind = "machinehealthchecks.cluster.x-k8s.io";
        let annotations = "jsonpath={.metadata.annotations}";
        let shown = stage
            .kubectl(&["get", kind, CHECK, "-n", NAMESPACE, "-o", annotations])
            .await?;
        ensure!(
            shown.contains("/paused\"") == is_paused,
            "{action}: {shown}"
        );
    }

    let dead = "rack-a-1";
    let silent = stage.host(dead)?.silent();
    ensure!(stage.host(dead)?.hang(), "up");
    stage.wait_blocked(dead, "HeldByPolicy").await?;
    let of_dead = [dead, "--namespace", NAMESPACE];
    let (leader, _) = stage.leader().await?;
    let pod = leader.rsplit_once('_').context("no Pod")?.0.to_owned();
    let at = usize::from(pod == "controller-1");
    let kubelet = stage.start_port_forwarding(&pod, ports[at]).await?;
    let explained = run(&[&["explain", "remediation"], &of_dead[..]].concat(), "")?;
    drop(kubelet);
    ensure!(
        explained.contains("requires the approval of a person"),
        "{explained}"
    );
    run(&[&["approve"], &of_dead[..]].concat(), "")?;
    stage.wait_step(dead, "AwaitingConfirmation").await?;
    let host = stage.host(dead)?;
    host.switch(ResetType::ForceOff, "a person");
    host.wait_for(LONG, "off", |view| view.power == PowerState::Off)
        .await?;
    run(&[&["confirm-fenced"], &of_dead[..]].concat(), "rack-a-1\n")?;
    stage.wait_step(dead, "PoweringOn").await?;
    stage.host(dead)?.clear_fault(silent);
    stage.wait_back(dead).await?;
    let history = run(&["history", dead], "")?;
    ensure!(history.contains(dead), "{history}");

    planned_work(&run)?;

    // What is missing is told, and does not end the command early.
    let mut preflight = stage.plugin(kubeconfig)?;
    let preflight = preflight.args(["preflight", "-o", "json"]).output()?;
    all.mark(&["preflight"])?;
    let report: serde_json::Value = serde_json::from_slice(&preflight.stdout)?;
    ensure!(report.to_string().contains("leader"), "{report}");

    let left = run(&["uninstall", "--yes", "--timeout=120s"], "")?;
    ensure!(left.contains("remediation"), "{left}");
    Ok(())
}

/// A maintenance that waits for its approval, and is ended.
fn planned_work(run: &impl Fn(&[&str], &str) -> Result<String>) -> Result<()> {
    let (host, of_namespace) = ("rack-a-2", ["--namespace", NAMESPACE]);
    let start = [
        "maintenance",
        "start",
        "--machine",
        host,
        "--reason",
        "DIMM",
    ];
    run(&[&start[..], &of_namespace].concat(), "")?;
    let listed = run(&[&["maintenance", "list"][..], &of_namespace].concat(), "")?;
    ensure!(listed.contains(host) && listed.contains("DIMM"), "{listed}");
    let explain = ["explain", "maintenance", host];
    let explained = run(&[&explain[..], &of_namespace].concat(), "")?;
    ensure!(explained.contains("DIMM"), "{explained}");
    run(
        &[&["maintenance", "end", host][..], &of_namespace].concat(),
        "",
    )?;
    Ok(())
}
