//! Files in the directory of the CA. Keys are created readable only by their owner.

use std::{
    fs,
    io::{ErrorKind, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use anyhow::Context;
use zeroize::Zeroizing;

/// File of a certificate, in the folder of its identity.
pub(super) const CERTIFICATE: &str = "tls.crt";

/// File of the key.
pub(super) const KEY: &str = "tls.key";

/// File mode of a key.
pub(super) const PRIVATE: u32 = 0o600;

/// File mode of a certificate.
pub(super) const PUBLIC: u32 = 0o644;

/// Creates a directory and its parents if they are missing.
pub(super) fn directory(path: &Path) -> anyhow::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .with_context(|| format!("cannot create {}", path.display()))
}

/// Creates a file, which must not exist.
pub(super) fn create(path: &Path, text: &str, mode: u32) -> anyhow::Result<()> {
    let created = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path);
    match created {
        Ok(mut file) => file.write_all(text.as_bytes()),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            anyhow::bail!("{} is there already and is not replaced", path.display())
        }
        Err(error) => Err(error),
    }
    .with_context(|| format!("cannot write {}", path.display()))
}

/// Replaces a certificate atomically.
pub(super) fn replace(path: &Path, text: &str) -> anyhow::Result<()> {
    let new = path.with_extension("new");
    fs::write(&new, text)
        .and_then(|()| fs::rename(&new, path))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Reads a file that may contain a key.
pub(super) fn read(path: &Path) -> anyhow::Result<Zeroizing<String>> {
    fs::read_to_string(path)
        .map(Zeroizing::new)
        .with_context(|| format!("cannot read {}", path.display()))
}

/// The folders in `dir` that contain a file of this name, ordered by name.
pub(super) fn folders_with(dir: &Path, name: &str) -> anyhow::Result<Vec<PathBuf>> {
    let cannot = || format!("cannot read {}", dir.display());
    let mut folders = Vec::new();
    for entry in fs::read_dir(dir).with_context(cannot)? {
        let path = entry.with_context(cannot)?.path();
        if path.join(name).is_file() {
            folders.push(path);
        }
    }
    folders.sort();
    Ok(folders)
}
