//! Where a password lies. It is read anew each time, so that a changed one is used at once.

use std::{
    fmt, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use secrecy::{SecretString, zeroize::Zeroizing};

/// A file with one password in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PasswordFile(PathBuf);

/// Why there is no password.
#[derive(Debug, thiserror::Error)]
pub enum PasswordError {
    /// It cannot be read.
    #[error("password file {path}: {source}")]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// There is nothing in it, or no text.
    #[error("password file {path}: {reason}")]
    Content {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
}

/// No BMC takes longer ones; a wrong path to something big is noticed.
const LONGEST: u64 = 4096;

impl PasswordFile {
    /// A relative path starts at systemd's credentials directory, else beside the configuration.
    pub(super) fn new(path: &Path, credentials: Option<&Path>, beside: &Path) -> Self {
        Self(credentials.unwrap_or(beside).join(path))
    }

    /// Reads it. One newline at the end is not part of the password. Blocks on the disk.
    pub fn read(&self) -> Result<SecretString, PasswordError> {
        let failed = |source| PasswordError::Read {
            path: self.0.clone(),
            source,
        };
        let wrong = |reason| PasswordError::Content {
            path: self.0.clone(),
            reason,
        };
        if std::fs::metadata(&self.0).map_err(failed)?.len() > LONGEST {
            return Err(wrong("too long for a password"));
        }
        let bytes = Zeroizing::new(std::fs::read(&self.0).map_err(failed)?);
        let text = std::str::from_utf8(&bytes).map_err(|_| wrong("not UTF-8 text"))?;
        let text = text.strip_suffix('\n').unwrap_or(text);
        let text = text.strip_suffix('\r').unwrap_or(text);
        if text.is_empty() {
            return Err(wrong("empty"));
        }
        Ok(SecretString::from(text))
    }

    pub(super) fn is_open_to_all(&self) -> bool {
        std::fs::metadata(&self.0).is_ok_and(|meta| meta.permissions().mode() & 0o007 != 0)
    }
}

impl fmt::Display for PasswordFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.display().fmt(f)
    }
}
