//! `rackhand-controller explain`: asks, and prints the answer.

use std::{
    ffi::OsString,
    io::{ErrorKind, Read, Write},
    path::{Path, PathBuf},
};

use anyhow::Context;
use clap::ArgMatches;
use jiff::Timestamp;
use rackhand_runtime::{
    CheckGroup, Config, RequestKind, ShownSettings, Told, explain_check_cluster,
    explain_check_files, explain_cluster, explain_file, explain_nodes_cluster, explain_nodes_files,
    settings_of_cluster, settings_of_files,
};

use crate::{
    args::{Args, CheckGroupArg, Mhc, Nhc, Remediation, RequestKindArg, TableOutput},
    settings,
};

/// The command line, for whose settings an explanation goes by.
pub(crate) struct Whose<'a> {
    pub(crate) args: Args,
    pub(crate) matches: &'a ArgMatches,
    pub(crate) line: &'a [OsString],
}

pub(crate) async fn remediation(asked: &Remediation, whose: Whose<'_>) -> anyhow::Result<()> {
    let kind = asked.kind.map(|kind| match kind {
        RequestKindArg::Power => RequestKind::PowerRemediation,
        RequestKindArg::Metal3 => RequestKind::Metal3Remediation,
    });
    let (mut answer, settings) = match (&asked.file, &asked.name) {
        (Some(file), name) => {
            let text = [(file.display().to_string(), read(file)?)];
            let (config, settings) = whose.of_files(&text);
            let answer = explain_file(&text[0].1, name.as_deref(), kind, &config)?;
            (answer, settings)
        }
        (None, Some(name)) => {
            let (config, settings) = whose.of_cluster().await;
            let namespace = asked.namespace.as_deref();
            let answer = explain_cluster(&config, namespace, name, kind).await?;
            (answer, settings)
        }
        (None, None) => anyhow::bail!("name a remediation or a file"),
    };
    answer.settings = settings;
    show(&answer, asked.output.into());
    Ok(())
}

pub(crate) async fn mhc(asked: &Mhc, whose: Whose<'_>) -> anyhow::Result<()> {
    let (name, namespace) = (asked.name.as_deref(), asked.namespace.as_deref());
    let group = asked.group.map(|group| match group {
        CheckGroupArg::ClusterApi => CheckGroup::ClusterApi,
        CheckGroupArg::OpenShift => CheckGroup::OpenShift,
    });
    let (mut answer, settings) = match name {
        Some(name) if asked.how.files.is_empty() => {
            let (config, settings) = whose.of_cluster().await;
            let answer =
                explain_check_cluster(&config, namespace, name, group, asked.how.at).await?;
            (answer, settings)
        }
        _ => {
            let files = read_all(&asked.how.files, name)?;
            let (config, settings) = whose.of_files(&files);
            let at = asked.how.at.unwrap_or_else(Timestamp::now);
            let answer = explain_check_files(&files, name, namespace, group, &config, at)?;
            (answer, settings)
        }
    };
    answer.settings = settings;
    show(&answer, asked.how.output);
    Ok(())
}

pub(crate) async fn nhc(asked: &Nhc, whose: Whose<'_>) -> anyhow::Result<()> {
    let name = asked.name.as_deref();
    let (mut answer, settings) = match name {
        Some(name) if asked.how.files.is_empty() => {
            let (config, settings) = whose.of_cluster().await;
            let answer = explain_nodes_cluster(&config, name, asked.how.at).await?;
            (answer, settings)
        }
        _ => {
            let files = read_all(&asked.how.files, name)?;
            let at = asked.how.at.unwrap_or_else(Timestamp::now);
            let (config, settings) = whose.of_files(&files);
            let mode = config.health_checks;
            (explain_nodes_files(&files, name, mode, at)?, settings)
        }
    };
    answer.settings = settings;
    show(&answer, asked.how.output);
    Ok(())
}

// === impl Whose ===

impl Whose<'_> {
    /// The settings of the controller of the cluster, and whose they are.
    pub(crate) async fn of_cluster(self) -> (Config, String) {
        let shown = settings_of_cluster(&self.args.clone().config()).await;
        self.adopt(shown)
    }

    /// The same from files.
    pub(crate) fn of_files(self, files: &[(String, String)]) -> (Config, String) {
        self.adopt(settings_of_files(files))
    }

    fn adopt(self, shown: Result<ShownSettings, String>) -> (Config, String) {
        let (args, words) = settings::adopt(self.args, self.matches, self.line, shown);
        (args.config(), words)
    }
}

fn show(answer: &impl Told, output: TableOutput) {
    let text = match output {
        TableOutput::Table => answer.to_string(),
        TableOutput::Json => format!("{}\n", answer.to_json()),
        TableOutput::Yaml => answer.to_yaml(),
    };
    // A reader that went away has seen enough.
    std::io::stdout().write_all(text.as_bytes()).ok();
}

/// Files by their names.
fn read_all(files: &[PathBuf], name: Option<&str>) -> anyhow::Result<Vec<(String, String)>> {
    let named = |file: &PathBuf| {
        let text = read(file).map_err(|error| misplaced(error, file, name))?;
        Ok((file.display().to_string(), text))
    };
    files.iter().map(named).collect()
}

/// The name of a check after `-f` is taken for one more file.
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

fn read(file: &Path) -> anyhow::Result<String> {
    if file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text)?;
        return Ok(text);
    }
    std::fs::read_to_string(file).with_context(|| file.display().to_string())
}
