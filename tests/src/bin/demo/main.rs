//! `hack/demo`: a failed bare-metal node is brought back, on loopback, with everything real except the
//! hardware.
//!
//! Every line is read from a host's log or from the API.

mod fact;
mod plain;
mod real;
mod scenarios;
mod screen;
mod story;
mod summary;
mod timeline;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, Result, bail};
use clap::Parser;
use rackhand_tests::{process::Process, stage::Stage};

const DEFAULT_DIR: &str = ".demo";
/// A file in the directory of a demo, which may be emptied.
const MARK: &str = ".rackhand-demo";

/// Shows how a hung node is fenced, its pod moves, and the node comes back; or how one failure is
/// handled.
#[derive(Debug, Parser)]
#[command(name = "demo", version, after_help = scenarios::list())]
struct Args {
    /// Show this failure instead: a name from the list below, `list`, or `all` for all in turn.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["racks", "hosts"])]
    scenario: Option<scenarios::Choice>,
    /// Leave everything running at the end, and print how to explore it.
    #[arg(long)]
    keep: bool,
    /// Show the status page in a browser meanwhile: print its URL, and leave everything running until
    /// Ctrl-C.
    #[arg(long, conflicts_with = "scenario")]
    page: bool,
    /// Show it with two real hosts instead: Debian's kernel, containerd and the kubelet in QEMU, behind
    /// BMCs of ipmi_sim. As root, on Debian; takes some minutes.
    #[arg(long, conflicts_with_all = ["scenario", "keep", "page", "racks", "hosts"])]
    real: bool,
    /// Directory for all files; emptied at the start. One with files that no demo has written is refused.
    #[arg(long, default_value = DEFAULT_DIR)]
    dir: PathBuf,
    /// Number of racks: the first one has an inventory, the others have BareMetalHosts.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=8))]
    racks: u8,
    /// Hosts in each rack.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u8).range(2..=32))]
    hosts: u8,
}

/// The result of a demonstration.
struct Shown {
    /// Whether all checks have passed.
    outcome: Result<()>,
    /// The stage that keeps running with `--keep`.
    kept: Option<Stage>,
    page: Option<Process>,
}

impl Shown {
    fn ended(outcome: Result<()>) -> Self {
        Self {
            outcome,
            kept: None,
            page: None,
        }
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    rustls::crypto::ring::default_provider()
        .install_default()
        .ok();
    match run(&Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        // In one line without a backtrace, also with RUST_BACKTRACE, because a person reads it.
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: &Args) -> Result<()> {
    if args.scenario.is_some_and(scenarios::Choice::is_list) {
        screen::Screen::new().print(&scenarios::list());
        return Ok(());
    }
    let dir = emptied(&args.dir)?;
    let shown = async {
        match args.scenario {
            None if args.real => Ok(Shown::ended(real::show(&dir).await)),
            None => plain::show(args, &dir).await,
            Some(choice) => scenarios::show(choice, args.keep, &dir).await,
        }
    };
    let interrupted = tokio::signal::ctrl_c();
    let shown = tokio::select! {
        done = shown => done?,
        _ = interrupted => bail!("interrupted; everything that was started is stopped"),
    };
    if let Some(stage) = shown.kept {
        tokio::signal::ctrl_c().await?;
        screen::Screen::new().step("stopping everything");
        drop(shown.page);
        drop(stage);
    }
    shown.outcome
}

fn emptied(dir: &Path) -> Result<PathBuf> {
    if dir.exists() {
        // Whatever else is in it would be gone.
        let is_ours = dir == Path::new(DEFAULT_DIR) || dir.join(MARK).exists();
        if !is_ours && std::fs::read_dir(dir)?.next().is_some() {
            bail!(
                "{} has files that no demo has written; name another directory, or empty it yourself",
                dir.display()
            );
        }
        std::fs::remove_dir_all(dir).with_context(|| format!("emptying {}", dir.display()))?;
    }
    std::fs::create_dir_all(dir).with_context(|| format!("making {}", dir.display()))?;
    std::fs::write(dir.join(MARK), "").context("marking the directory")?;
    Ok(dir.canonicalize()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_with_files_of_others_is_not_emptied() {
        let temporary = tempfile::tempdir().unwrap();
        let dir = temporary.path().join("demo");
        emptied(&dir).unwrap();
        std::fs::write(dir.join("log"), "of a demo").unwrap();
        emptied(&dir).unwrap();
        assert!(!dir.join("log").exists());

        let file = temporary.path().join("file");
        std::fs::write(&file, "of somebody").unwrap();
        let error = emptied(temporary.path()).unwrap_err();
        assert!(error.to_string().contains("no demo has written"), "{error}");
        assert!(file.exists());
    }
}
