//! The files of this repository, and the programs in it that tests run.

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
