//! `rackhand-controller explain`: asks, and prints the answer.

use std::{
    io::{Read, Write},
    path::Path,
};

use anyhow::Context;
use rackhand_runtime::{Config, Explanation, RequestKind, explain_cluster, explain_file};

use crate::args::{Output, Remediation, RequestKindArg};

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
