//! Passwords that the service of the package gets as systemd credentials, for a command outside of the service.
//!
//! Must never: copy a password.

use std::{
    io::ErrorKind,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use anyhow::Context;
use rackhand_agent_service::config::Config;

/// Folder beside the configuration; the packaged service gets its files (`LoadCredential=bmc:`): the file `node-1`
/// is the credential `bmc_node-1`.
const FOLDER: &str = "bmc";

fn folder(config: &Path) -> PathBuf {
    config.parent().unwrap_or(Path::new("")).join(FOLDER)
}

/// Creates a directory of credentials below `dir`, as systemd does, from links.
///
/// # Errors
///
/// The links cannot be made.
pub(super) fn gather(config: &Path, dir: &Path) -> anyhow::Result<PathBuf> {
    let credentials = dir.join("credentials");
    std::fs::create_dir(&credentials).context("cannot make a temporary directory")?;
    let folder = std::path::absolute(folder(config)).context("the folder of passwords")?;
    let Ok(files) = std::fs::read_dir(&folder) else {
        return Ok(credentials);
    };
    for file in files.flatten() {
        let mut name = std::ffi::OsString::from(format!("{FOLDER}_"));
        name.push(file.file_name());
        symlink(file.path(), credentials.join(name)).context("cannot link a password file")?;
    }
    Ok(credentials)
}

/// Prints advice for passwords that cannot be read.
pub(super) fn warn_of_missing(config: &Config, path: &Path) {
    let mut hosts = config.inventory.hosts.iter();
    let missing = hosts.find_map(|host| {
        let mut passwords = host.bmcs().map(|bmc| &bmc.password);
        let error = passwords.find_map(|password| {
            let is_credential = password.is_credential();
            password.read_now().filter(|_| is_credential)?.err()
        })?;
        Some((host, error))
    });
    let Some((host, error)) = missing else { return };
    let folder = folder(path);
    let next = match std::fs::read_dir(&folder) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => "run this as root".to_owned(),
        _ => format!(
            "put it there, or run this with the credentials of the service: systemd-run --pty --wait -p \
             LoadCredential=bmc:{} rackhand-agent ... --direct",
            folder.display()
        ),
    };
    errln!(
        "host {}: {error}. Outside of the service, the credential bmc_NAME is read from {}/NAME: {next}",
        host.name,
        folder.display()
    );
}
