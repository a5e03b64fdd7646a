//! What every command says, and that it fails, where the cluster cannot be read: a table of commands and of the ways in
//! which that happens.

use std::{ffi::OsString, path::Path, time::Duration};

use clap::{Command, CommandFactory, FromArgMatches};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use crate::{args::Args, error_text::one_line, run_command};

/// How a cluster cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fails {
    /// The caller has no rights but to discover kinds.
    Forbidden,
    /// The credentials have expired.
    Credentials,
    /// Nobody listens.
    Unreachable,
    /// Nothing of Rackhand, nor of what it serves, is installed.
    NoCrds,
    /// The kubeconfig names a context that it has not.
    NoContext,
}

const ALL: [Fails; 5] = [
    Fails::Forbidden,
    Fails::Credentials,
    Fails::Unreachable,
    Fails::NoCrds,
    Fails::NoContext,
];

/// The commands that read a cluster.
const COMMANDS: [&str; 18] = [
    "status",
    "status --output json",
    "page",
    "approve r1",
    "history",
    "history node-7",
    "confirm-fenced r1",
    "maintenance start --node node-7 --reason DIMM",
    "maintenance end m1",
    "maintenance list",
    "pause mhc c1",
    "resume remediation r1",
    "uninstall --yes",
    "explain remediation r1",
    "explain maintenance m1",
    "explain mhc c1",
    "explain nhc c1",
    "preflight",
];

/// The commands that contact no cluster, or go on until it can be read.
const OTHERS: [&str; 3] = ["rehearse", "pki", "record"];

/// What the error says; `None`: the command does something useful all the same.
fn expected(command: &str, fails: Fails) -> Option<&'static str> {
    Some(match fails {
        // Its table says of each check what could not be read.
        Fails::Forbidden | Fails::Credentials | Fails::NoCrds if command == "preflight" => {
            "checks failed"
        }
        Fails::Forbidden => "ask whoever administers the cluster for this right",
        Fails::Credentials => "log in again",
        Fails::Unreachable => "the API server cannot be reached",
        // It removes what the manifests leave, of which the CRDs are a part.
        Fails::NoCrds if command.starts_with("uninstall") => return None,
        Fails::NoCrds if ["page", "explain remediation r1"].contains(&command) => {
            "no controller leads: Lease rackhand-system/rackhand-controller does not exist"
        }
        Fails::NoCrds => "does not serve",
        Fails::NoContext => "nowhere",
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn every_command_says_why_the_cluster_cannot_be_read_and_fails() {
    rustls::crypto::ring::default_provider()
        .install_default()
        .ok();
    let dir = tempfile::tempdir().unwrap();
    let mut wrong = Vec::new();
    for fails in ALL {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        match fails {
            Fails::Unreachable => drop(listener),
            _ => drop(tokio::spawn(serve(listener, fails))),
        }
        let kubeconfig = dir.path().join(format!("{fails:?}"));
        std::fs::write(&kubeconfig, config(&url, fails)).unwrap();
        for command in COMMANDS {
            let Some(part) = expected(command, fails) else {
                continue;
            };
            let ended = tokio::time::timeout(Duration::from_secs(60), run(command, &kubeconfig));
            let told = match ended.await {
                Err(_) => "it does not end".to_owned(),
                Ok(Ok(())) => "it succeeds".to_owned(),
                Ok(Err(error)) => one_line(&error),
            };
            // Whoever cannot reach a cluster is not sent to install something in it.
            let misleads = fails != Fails::NoCrds && told.contains("CRD");
            if !told.contains(part) || misleads || told.contains('\n') {
                wrong.push(format!("{fails:?}, {command}: {told}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn table_has_every_command() {
    let has = |path: &str| {
        let mut known = COMMANDS.iter().chain(&OTHERS);
        known.any(|line| line.starts_with(path))
    };
    let mut open = vec![(String::new(), Args::command())];
    while let Some((path, command)) = open.pop() {
        let nested: Vec<&Command> = command.get_subcommands().collect();
        assert!(!nested.is_empty() || has(path.trim()), "{path}");
        if OTHERS.contains(&path.trim()) {
            continue;
        }
        for sub in nested {
            let of_clap =
                sub.get_name() == "help" || path.ends_with("pause") || path.ends_with("resume");
            if !of_clap {
                open.push((format!("{path} {}", sub.get_name()), sub.clone()));
            }
        }
    }
}

async fn run(command: &str, kubeconfig: &Path) -> anyhow::Result<()> {
    let words = command.split(' ').map(OsString::from);
    let config = [OsString::from("--kubeconfig"), kubeconfig.into()];
    let line: Vec<OsString> = std::iter::once("rackhand-controller".into())
        .chain(config)
        .chain(words)
        .collect();
    let matches = Args::command().try_get_matches_from(&line)?;
    let mut args = Args::from_arg_matches(&matches)?;
    let command = args.command.take();
    let command = command.ok_or_else(|| anyhow::anyhow!("no command"))?;
    run_command(command, args, &matches, &line).await
}

fn config(url: &str, fails: Fails) -> String {
    let context = match fails {
        Fails::NoContext => "nowhere",
        _ => "here",
    };
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": context,
        "clusters": [{ "name": "c", "cluster": { "server": url } }],
        "users": [{ "name": "u", "user": { "token": "t" } }],
        "contexts": [{ "name": "here", "context": { "cluster": "c", "user": "u" } }],
    })
    .to_string()
}

async fn serve(listener: TcpListener, fails: Fails) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(answer(stream, fails));
    }
}

async fn answer(mut stream: TcpStream, fails: Fails) -> Option<()> {
    let mut head = Vec::new();
    let mut buffer = [0; 4096];
    let end = loop {
        let read = stream.read(&mut buffer).await.ok()?;
        head.extend(buffer.get(..read).filter(|read| !read.is_empty())?);
        let text = String::from_utf8_lossy(&head).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(": ")?;
                let is_it = name.eq_ignore_ascii_case("content-length");
                is_it.then(|| value.parse::<usize>().ok()).flatten()
            });
            if body.len() >= length.unwrap_or(0) {
                break head.to_owned();
            }
        }
    };
    let path = end.split(' ').nth(1)?;
    let (code, body) = response(path.split('?').next()?, fails);
    let kind = match body.starts_with('{') {
        true => "application/json",
        false => "text/plain",
    };
    let text = format!(
        "HTTP/1.1 {code} X\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(text.as_bytes()).await.ok()
}

fn response(path: &str, fails: Fails) -> (u16, String) {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let builtin = [
        "coordination",
        "authentication",
        "authorization",
        "apiextensions",
    ];
    let group = parts
        .get(1)
        .map(|group| group.split('.').next().unwrap_or_default());
    let is_own = group.is_some_and(|group| !builtin.contains(&group));
    let status = |code: u16, reason: &str, message: &str| {
        let status = json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
            "message": message, "details": { "name": parts.last(), "kind": "things" },
        });
        (code, status.to_string())
    };
    match (fails, &parts[..]) {
        (Fails::Credentials, _) => status(401, "Unauthorized", "Unauthorized"),
        (Fails::Forbidden, ["apis", _, version]) => {
            (200, kinds(&format!("{}/{version}", parts[1])))
        }
        (Fails::Forbidden, _) => {
            let message = format!("{path} is forbidden: User \"eva\" cannot read this");
            status(403, "Forbidden", &message)
        }
        (_, ["apis", ..]) if is_own => (404, "404 page not found\n".to_owned()),
        (_, ["api", "v1", "nodes", name]) => {
            let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name } });
            (200, node.to_string())
        }
        (_, [.., "leases", _]) => status(404, "NotFound", "leases \"x\" not found"),
        (_, [.., "version"]) => (200, json!({ "major": "1", "minor": "34" }).to_string()),
        _ => {
            let list = json!({ "kind": "List", "apiVersion": "v1", "metadata": {}, "items": [] });
            (200, list.to_string())
        }
    }
}

/// A list of the kinds of a group that names every kind which a command asks for.
fn kinds(group_version: &str) -> String {
    let kinds = [
        "PowerRemediation",
        "Metal3Remediation",
        "MachineHealthCheck",
        "NodeHealthCheck",
        "RackAgent",
        "HostMaintenance",
        "RemediationTrigger",
        "Machine",
        "Cluster",
        "BareMetalHost",
    ];
    let resources = kinds.map(|kind| {
        json!({
            "name": format!("{}s", kind.to_lowercase()), "singularName": "", "kind": kind,
            "namespaced": true, "verbs": ["get", "list"],
        })
    });
    json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version,
        "resources": resources,
    })
    .to_string()
}
