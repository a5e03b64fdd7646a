//! Certificates in the directory layout of controllers and agents.

use std::path::Path;

use anyhow::Result;

use crate::pki::CertFiles;

/// Copies certificate, key and CA to a directory, with the file names that controllers and agents expect.
///
/// # Errors
/// The files cannot be copied.
pub fn tls_dir(files: &CertFiles, dir: &Path) -> Result<()> {
    std::fs::create_dir_all(dir)?;
    for (from, to) in [
        (&files.cert, "tls.crt"),
        (&files.key, "tls.key"),
        (&files.ca, "ca.crt"),
    ] {
        std::fs::copy(from, dir.join(to))?;
    }
    Ok(())
}
