//! `rackhand-controller explain`: asks, and prints the answer.

use std::{
    io::{ErrorKind, Read, Write},
    path::Path,
};

use anyhow::Context;
use jiff::Timestamp;
use rackhand_runtime::{
    Config, Explanation, RequestKind, explain_check_cluster, explain_check_files, explain_cluster,
    explain_file, explain_nodes_cluster, explain_nodes_files,
};

use crate::args::{Mhc, Nhc, Output, Remediation, RequestKindArg, TableOutput};

pub(crate) async fn remediation(asked: &Remediation, config: &Config) -> anyhow::Result<()> {
    let kind = asked.kind.map(|kind| match kind {
        RequestKindArg::Power => RequestKind::PowerRemediation,
        RequestKindArg::Metal3 => RequestKind::Metal3Remediation,
    });
    let answer = match (&asked.file, &asked.name) {
        (Some(file), name) => {
            let text = read(file)?;
            explain_file(&text, name.as_deref(), kind, config)?
        }
        (None, Some(name)) => {
            explain_cluster(config, asked.namespace.as_deref(), name, kind).await?
        }
        (None, None) => anyhow::bail!("name a remediation or a file"),
    };
    print(&answer, asked.output)
}

pub(crate) async fn mhc(asked: &Mhc, config: &Config) -> anyhow::Result<()> {
    let (name, namespace) = (asked.name.as_deref(), asked.namespace.as_deref());
    let answer = match name {
        Some(name) if asked.files.is_empty() => {
            explain_check_cluster(config, namespace, name, asked.at).await?
        }
        _ => {
            let mut files = Vec::new();
            for file in &asked.files {
                let text = read(file).map_err(|error| misplaced(error, file, name))?;
                files.push((file.display().to_string(), text));
            }
            let at = asked.at.unwrap_or_else(Timestamp::now);
            explain_check_files(&files, name, namespace, config.health_checks, at)?
        }
    };
    let text = match asked.output {
        TableOutput::Table => answer.to_string(),
        TableOutput::Json => format!("{}\n", answer.to_json()),
        TableOutput::Yaml => answer.to_yaml(),
    };
    // A reader that went away has seen enough.
    std::io::stdout().write_all(text.as_bytes()).ok();
    Ok(())
}

pub(crate) async fn nhc(asked: &Nhc, config: &Config) -> anyhow::Result<()> {
    let name = asked.name.as_deref();
    let answer = match name {
        Some(name) if asked.files.is_empty() => {
            explain_nodes_cluster(config, name, asked.at).await?
        }
        _ => {
            let mut files = Vec::new();
            for file in &asked.files {
                let text = read(file).map_err(|error| misplaced(error, file, name))?;
                files.push((file.display().to_string(), text));
            }
            let at = asked.at.unwrap_or_else(Timestamp::now);
            explain_nodes_files(&files, name, config.health_checks, at)?
        }
    };
    let text = match asked.output {
        TableOutput::Table => answer.to_string(),
        TableOutput::Json => format!("{}\n", answer.to_json()),
        TableOutput::Yaml => answer.to_yaml(),
    };
    // A reader that went away has seen enough.
    std::io::stdout().write_all(text.as_bytes()).ok();
    Ok(())
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

fn print(answer: &Explanation, output: Output) -> anyhow::Result<()> {
    let text = match output {
        Output::Text => answer.to_string(),
        Output::Json => format!("{}\n", answer.to_json()),
    };
    // A reader that went away has seen enough.
    std::io::stdout().write_all(text.as_bytes()).ok();
    Ok(())
}
