//! Certificates in the layout that our programs read.

use std::path::Path;

use anyhow::Result;

use crate::pki::CertFiles;

/// Copies certificate, key and CA to a directory, under the names that our programs look for.
///
/// # Errors
/// They cannot be copied.
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
