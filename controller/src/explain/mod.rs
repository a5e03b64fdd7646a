//! `rackhand-controller explain`: computes or requests a view and prints it.

pub(crate) mod args;
pub(crate) mod maintenance;

use std::{
    ffi::OsString,
    io::{ErrorKind, Read},
    path::{Path, PathBuf},
};

use anyhow::Context;
use clap::ArgMatches;
use jiff::Timestamp;
use rackhand_runtime::{
    CheckGroup, CheckSubject, Config, ControllerAddress, RemediationKind, SettingsError,
    ShownSettings, Subject, View, explain_by_leader, explain_cluster, explain_files,
    settings_of_cluster, settings_of_files,
};

use crate::{
    args::Args,
    kubectl::{self, LeaseName},
    leader::LeaderConnection,
    settings,
};
use args::{CheckGroupArg, How, Mhc, Nhc, Remediation, RemediationKindArg, TableOutput};

pub(crate) use args::Explain;

/// The command line, which overrides the settings that the controller publishes.
pub(crate) struct CommandLine<'a> {
    pub(crate) args: Args,
    pub(crate) matches: &'a ArgMatches,
    pub(crate) line: &'a [OsString],
}

/// Explains one object and prints the view.
pub(crate) async fn run(what: Explain, line: CommandLine<'_>) -> anyhow::Result<()> {
    match what {
        Explain::Remediation(asked) => remediation(asked, &line).await,
        Explain::Maintenance(asked) => {
            let client = kubectl::client(line.args.kubeconfig()).await?;
            maintenance::run(&asked, &client, Timestamp::now()).await
        }
        Explain::Mhc(asked) => mhc(&asked, line).await,
        Explain::Nhc(asked) => nhc(&asked, line).await,
    }
}

/// Has the leader explain a remediation, because it alone has all inputs of the decisions.
async fn remediation(asked: Remediation, line: &CommandLine<'_>) -> anyhow::Result<()> {
    let subject = Subject::Remediation {
        namespace: asked.namespace,
        name: asked.name,
        kind: asked.kind.map(|kind| match kind {
            RemediationKindArg::Power => RemediationKind::PowerRemediation,
            RemediationKindArg::Metal3 => RemediationKind::Metal3Remediation,
        }),
    };
    let kubeconfig = line.args.kubeconfig();
    let client = kubectl::client(kubeconfig).await?;
    let leader =
        LeaderConnection::open(asked.leader, &client, kubeconfig, &line.args.lease()).await?;
    let view = explain_by_leader(&line.config(), leader.address(), &subject).await?;
    print(&view, asked.output);
    Ok(())
}

async fn mhc(asked: &Mhc, line: CommandLine<'_>) -> anyhow::Result<()> {
    let check = CheckSubject::Machines {
        namespace: asked.namespace.clone(),
        name: asked.name.clone(),
        group: asked.group.map(|group| match group {
            CheckGroupArg::ClusterApi => CheckGroup::ClusterApi,
            CheckGroupArg::OpenShift => CheckGroup::OpenShift,
        }),
    };
    let files = read_all(&asked.how.files, asked.name.as_deref())?;
    let how = ExplainOptions::of(&asked.how, files, &line.args.lease());
    explain(check, how, line).await
}

async fn nhc(asked: &Nhc, line: CommandLine<'_>) -> anyhow::Result<()> {
    let name = asked.name.clone();
    let files = read_all(&asked.how.files, name.as_deref())?;
    let check = CheckSubject::Nodes { name };
    let how = ExplainOptions::of(&asked.how, files, &line.args.lease());
    explain(check, how, line).await
}

/// Source, time and output format of a view.
struct ExplainOptions {
    files: Vec<(String, String)>,
    at: Option<Timestamp>,
    leader: Option<ControllerAddress>,
    output: TableOutput,
}

impl ExplainOptions {
    fn of(how: &How, files: Vec<(String, String)>, lease: &LeaseName) -> Self {
        Self {
            files,
            at: how.at,
            leader: how.leader.given(lease),
            output: how.output,
        }
    }
}

/// Explains a check from the files, by the leader, or from the cluster.
async fn explain(
    check: CheckSubject,
    asked: ExplainOptions,
    line: CommandLine<'_>,
) -> anyhow::Result<()> {
    if let (Some(leader), true) = (&asked.leader, asked.files.is_empty()) {
        let mut view = explain_by_leader(&line.config(), leader, &Subject::Check(check)).await?;
        if let View::Check(view) = &mut view {
            view.settings = format!("those of the leader at {}", leader.url);
        }
        print(&view, asked.output);
        return Ok(());
    }
    let mut view;
    if asked.files.is_empty() {
        kubectl::ensure_readable(&check, line.args.kubeconfig()).await?;
        let (config, settings) = line.of_cluster().await;
        view = explain_cluster(&config, &check, asked.at).await?;
        view.settings = settings;
    } else {
        let (config, settings) = line.of_files(&asked.files);
        let at = asked.at.unwrap_or_else(Timestamp::now);
        view = explain_files(&asked.files, &check, &config, at)?;
        view.settings = settings;
    }
    print(&View::Check(Box::new(view)), asked.output);
    Ok(())
}

// === impl CommandLine ===

impl CommandLine<'_> {
    fn config(&self) -> Config {
        self.args.clone().config()
    }

    /// The settings that the controller publishes in the cluster, and where they were found.
    pub(crate) async fn of_cluster(self) -> (Config, String) {
        let shown = settings_of_cluster(&self.args.clone().config()).await;
        self.adopt(shown)
    }

    /// The settings in the texts of files, and where they were found.
    pub(crate) fn of_files(self, files: &[(String, String)]) -> (Config, String) {
        self.adopt(settings_of_files(files))
    }

    fn adopt(self, shown: Result<ShownSettings, SettingsError>) -> (Config, String) {
        let (args, words) = settings::adopt(self.args, self.matches, self.line, shown);
        (args.config(), words)
    }
}

fn print(view: &View, output: TableOutput) {
    let text = match output {
        TableOutput::Table => view.to_string(),
        TableOutput::Json => format!("{}\n", view.to_json()),
        TableOutput::Yaml => view.to_yaml(),
    };
    out!("{text}");
}

/// Reads files, each with its name.
fn read_all(files: &[PathBuf], name: Option<&str>) -> anyhow::Result<Vec<(String, String)>> {
    let named = |file: &PathBuf| {
        let text = read(file).map_err(|error| misplaced(error, file, name))?;
        Ok((file.display().to_string(), text))
    };
    files.iter().map(named).collect()
}

/// Adds a hint to the error: clap parses the name of a check after `-f` as another file.
fn misplaced(error: anyhow::Error, file: &Path, name: Option<&str>) -> anyhow::Error {
    let missing = error
        .downcast_ref::<std::io::Error>()
        .is_some_and(|e| e.kind() == ErrorKind::NotFound);
    if missing && name.is_none() {
        return error.context(format!(
            "if {} is the name of the check, it goes before -f",
            file.display()
        ));
    }
    error
}

/// Reads a file; `-` is the standard input.
pub(crate) fn read(file: &Path) -> anyhow::Result<String> {
    if file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text)?;
        return Ok(text);
    }
    std::fs::read_to_string(file).with_context(|| file.display().to_string())
}
