//! Fault injection besides processes: clocks that can be set, small disks, and faulty networks in front of
//! controllers and IPMI BMCs.
//!
//! Mounts are removed at the end. The clock of the machine is never changed.

mod tcp_proxy;
mod wire;

use std::{
    fs::File,
    io::{ErrorKind, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use nix::mount::{MntFlags, MsFlags, mount, umount2};

pub use {tcp_proxy::TcpProxy, wire::Wire};

use super::Stage;
use crate::udp_proxy::{Faults, UdpProxy};

/// Mount options of a small disk, which has room for a journal and little more.
const DISK: &str = "size=6m,mode=0700";
/// The file that fills a small disk.
const FILLER: &str = "filler";

/// The prepared kinds of faults.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FaultSetup {
    /// Whether controllers and agents have their own clocks, by libfaketime.
    pub clocks: bool,
    /// Whether the state of each agent is on its own disk, which needs root.
    pub disks: bool,
    /// Whether there is a proxy in front of each IPMI BMC.
    pub datagrams: bool,
}

impl FaultSetup {
    /// All faults that this process may inject.
    #[must_use]
    pub fn allowed() -> Self {
        Self {
            clocks: true,
            disks: nix::unistd::geteuid().is_root(),
            datagrams: true,
        }
    }
}

/// A mounted disk. It is unmounted when this is dropped.
#[derive(Debug)]
pub(super) struct Disk(PathBuf);

impl Disk {
    /// Mounts a small disk on a directory, which is created.
    pub(super) fn mount(dir: &Path) -> Result<Self> {
        std::fs::create_dir_all(dir)?;
        let none: Option<&str> = None;
        mount(none, dir, Some("tmpfs"), MsFlags::empty(), Some(DISK))
            .with_context(|| format!("mounting a disk on {}", dir.display()))?;
        Ok(Self(dir.to_owned()))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Detached, because a process may still have a file on it open.
        umount2(&self.0, MntFlags::MNT_DETACH).ok();
    }
}

/// Environment variables for a process with its own clock.
pub(super) fn clock_variables(file: &Path) -> Result<Vec<(String, String)>> {
    if !file.exists() {
        write_offset(file, 0)?;
    }
    let variables = [
        ("LD_PRELOAD", libfaketime()?.display().to_string()),
        ("FAKETIME_TIMESTAMP_FILE", file.display().to_string()),
        // Seconds until a step takes effect.
        ("FAKETIME_CACHE_DURATION", "1".to_owned()),
        // A step changes only the wall clock, not the monotonic clock.
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
        ("DONT_FAKE_MONOTONIC", "1".to_owned()),
    ];
    Ok(variables
        .map(|(name, value)| (name.to_owned(), value))
        .into())
}

fn libfaketime() -> Result<PathBuf> {
    let libraries = std::fs::read_dir("/usr/lib").context("/usr/lib")?;
    let mut found = libraries.filter_map(Result::ok).map(|entry| {
        let library = entry.path().join("faketime/libfaketime.so.1");
        library.exists().then_some(library)
    });
    let found = found.find_map(|library| library);
    found.context("libfaketime is not installed; run `hack/setup campaign`")
}

fn write_offset(file: &Path, seconds: i64) -> Result<()> {
    // Replaced atomically, because a process may read it at any moment.
    let new = file.with_extension("new");
    std::fs::write(&new, format!("{seconds:+}\n"))?;
    Ok(std::fs::rename(&new, file)?)
}

impl Stage {
    pub(super) fn clock_file(&self, process: &str) -> PathBuf {
        self.dir.join(format!("{process}.clock"))
    }

    /// Sets the wall clock of a controller or of `agent-NAME` to this offset in seconds.
    ///
    /// # Errors
    /// The processes of the stage have no clocks of their own.
    pub fn set_clock(&self, process: &str, seconds: i64) -> Result<()> {
        if !self.config.faults.clocks {
            bail!("processes of this stage have no clocks of their own");
        }
        write_offset(&self.clock_file(process), seconds)
    }

    fn filler(&self, agent: &str) -> PathBuf {
        self.agent_state(agent).join(FILLER)
    }

    /// Fills the disk of an agent.
    ///
    /// # Errors
    /// The agent has no separate disk.
    pub fn fill_disk(&self, agent: &str) -> Result<()> {
        if !self.config.faults.disks {
            bail!("agents of this stage have no disks of their own");
        }
        let mut file = File::options()
            .create(true)
            .append(true)
            .open(self.filler(agent))?;
        for piece in [64 * 1024, 4 * 1024, 1] {
            loop {
                match file.write(&vec![0; piece]) {
                    Ok(_) => {}
                    Err(error) if error.kind() == ErrorKind::StorageFull => break,
                    Err(error) => return Err(error).context("filling a disk"),
                }
            }
        }
        Ok(())
    }

    /// Frees the disk of an agent.
    ///
    /// # Errors
    /// The disk was not filled.
    pub fn free_disk(&self, agent: &str) -> Result<()> {
        Ok(std::fs::remove_file(self.filler(agent))?)
    }

    /// Puts a proxy in front of each IPMI BMC of these hosts.
    pub(super) async fn start_datagram_proxies(&mut self) -> Result<()> {
        for (name, bmc) in &self.ipmi {
            if !self.datagrams.contains_key(name) {
                let proxy = UdpProxy::start(bmc.address(), 1, Faults::default()).await?;
                self.datagrams.insert(name.clone(), proxy);
            }
        }
        Ok(())
    }

    /// Sets the faults of datagrams from and to the IPMI BMC of a host.
    ///
    /// # Errors
    /// There is no proxy in front of the BMC.
    pub fn set_datagram_faults(&self, host: &str, faults: Faults) -> Result<()> {
        let proxy = self.datagrams.get(host);
        let proxy = proxy.with_context(|| format!("no proxy in front of the BMC of {host}"))?;
        proxy.set_faults(faults);
        Ok(())
    }
}
