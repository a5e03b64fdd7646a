//! The files of this repository, and the programs that tests run.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

/// The root of this repository.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A program of another project: below `$RACKHAND_PEERS`, on the PATH, or among those for administrators.
///
/// # Errors
/// It is in none of them.
pub fn program(name: &str) -> Result<PathBuf> {
    let peers = std::env::var_os("RACKHAND_PEERS").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let below = peers
        .iter()
        .flat_map(|peers| [peers.join("bin"), peers.join("go")]);
    below
        .chain(std::env::split_paths(&path))
        .chain([PathBuf::from("/usr/sbin")])
        .map(|folder| folder.join(name))
        .find(|file| file.is_file())
        .with_context(|| {
            format!("{name} is neither below $RACKHAND_PEERS nor on the PATH; hack/setup brings it")
        })
}

/// Standard output of a command.
///
/// # Errors
/// The command cannot be started or fails; the error contains what it wrote.
pub fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("{command:?}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    ensure!(output.status.success(), "{command:?}: {out}{err}");
    Ok(out)
}
