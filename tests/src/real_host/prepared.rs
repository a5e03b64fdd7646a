//! What `hack/setup real` has prepared.

use std::path::PathBuf;

use anyhow::{Context, Result};

/// Disk, kernel and accelerator of real hosts.
#[derive(Debug, Clone)]
pub struct Prepared {
    dir: PathBuf,
    /// The accelerator of QEMU that works on this system.
    pub(super) accelerator: String,
}

impl Prepared {
    /// The folder that `RACKHAND_REAL` names. Without it there are no real hosts, which is printed.
    ///
    /// # Errors
    /// The folder is not whole.
    pub fn find() -> Result<Option<Self>> {
        let Some(dir) = std::env::var_os("RACKHAND_REAL").filter(|dir| !dir.is_empty()) else {
            println!(
                "skipped: no real hosts are prepared; `hack/test real` prepares and runs them"
            );
            return Ok(None);
        };
        let dir = PathBuf::from(dir);
        let accelerator = std::fs::read_to_string(dir.join("accelerator"))
            .with_context(|| format!("{} is no folder of hack/setup real", dir.display()))?;
        Ok(Some(Self {
            dir,
            accelerator: accelerator.trim().to_owned(),
        }))
    }

    pub(super) fn path(&self, name: &str) -> String {
        self.dir.join(name).display().to_string()
    }
}
