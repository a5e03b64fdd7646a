//! One real host: its disk, its QEMU process, and a person at its console.

use std::{
    io::{BufRead, BufReader, Write},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::{PowerChange, Prepared, supply::Supply};
use crate::{
    cluster::{ControlPlane, Periods, REAL_GRACE},
    repository::output,
};

/// Address of the test in the user-mode network of a host.
pub(super) const TEST_ADDRESS: &str = "10.0.2.2";
/// Prefix of the host's provider ID.
pub(super) const PROVIDER: &str = "rackhand://";
/// Timeout of an answer of QEMU or of a shell.
const ANSWER: Duration = Duration::from_secs(60);
/// What the shell writes when it has read a line.
const READ: &str = "read";

/// A QEMU machine with a real kubelet.
pub struct RealHost {
    name: String,
    uuid: String,
    dir: PathBuf,
    supply: Supply,
}

impl RealHost {
    /// Creates the host, switched off, with all files in `dir`.
    pub(super) fn new(prepared: &Prepared, name: &str, dir: &Path) -> Result<Self> {
        std::fs::create_dir_all(dir)?;
        let uuid = uuid::Uuid::new_v4().to_string();
        let disk = dir.join("disk.qcow2").display().to_string();
        let base = prepared.path("disk.qcow2");
        output(Command::new("qemu-img").args([
            "create", "-q", "-f", "qcow2", "-F", "qcow2", "-b", &base, &disk,
        ]))?;
        let at = |file: &str| dir.join(file).display().to_string();
        let machine_id = uuid.replace('-', "");
        let arguments = [
            ("-accel", prepared.accelerator.clone()),
            ("-cpu", "max".to_owned()),
            ("-m", "576".to_owned()),
            ("-smp", "1".to_owned()),
            ("-display", "none".to_owned()),
            ("-name", name.to_owned()),
            ("-uuid", uuid.clone()),
            ("-kernel", prepared.path("kernel")),
            ("-initrd", prepared.path("initrd")),
            // On a busy system the kernel would find that the emulated timer does not work.
            (
                "-append",
                format!(
                    "root=/dev/vda rw console=ttyS0 net.ifnames=0 no_timer_check \
                     systemd.machine_id={machine_id}"
                ),
            ),
            // A killed QEMU process loses nothing of what the system's cache of files contains.
            ("-drive", format!("file={disk},if=virtio,cache=unsafe")),
            (
                "-drive",
                format!("file={},if=virtio,format=raw,readonly=on", at("files.tar")),
            ),
            ("-netdev", "user,id=net0".to_owned()),
            ("-device", "virtio-net-pci,netdev=net0,id=card0".to_owned()),
            (
                "-chardev",
                format!("file,id=console,append=on,path={}", at("console.log")),
            ),
            ("-serial", "chardev:console".to_owned()),
            (
                "-chardev",
                format!("socket,id=shell,server=on,wait=off,path={}", at("shell")),
            ),
            ("-serial", "chardev:shell".to_owned()),
            ("-qmp", format!("unix:{},server=on,wait=off", at("qmp"))),
        ];
        let mut command = vec!["qemu-system-x86_64".to_owned(), "-nodefaults".to_owned()];
        command.extend(
            arguments
                .into_iter()
                .flat_map(|(name, value)| [name.to_owned(), value]),
        );
        Ok(Self {
            name: name.to_owned(),
            uuid,
            dir: dir.to_owned(),
            supply: Supply::new(name, command, dir),
        })
    }

    /// Writes the files by which the host joins the cluster, onto its second disk.
    pub(super) fn join(&self, plane: &ControlPlane, rack: &str, periods: Periods) -> Result<()> {
        let root = self.dir.join("files");
        let kubernetes = root.join("etc/kubernetes");
        std::fs::create_dir_all(&kubernetes)?;
        std::fs::write(root.join("etc/hostname"), format!("{}\n", self.name))?;
        let kubeconfig = plane.kubeconfig_of_kubelet(&self.name, TEST_ADDRESS)?;
        std::fs::write(kubernetes.join("kubeconfig"), kubeconfig)?;
        let lease = REAL_GRACE.as_secs() * 3 / 4;
        let mut settings = json!({
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "authentication": { "anonymous": { "enabled": false }, "webhook": { "enabled": false } },
            "authorization": { "mode": "AlwaysAllow" },
            "cgroupDriver": "systemd",
            "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
            "evictionHard": { "memory.available": "16Mi" },
            "providerID": format!("{PROVIDER}{rack}/{}", self.name),
        });
        if periods == Periods::Short {
            settings["nodeLeaseDurationSeconds"] = json!(lease);
            settings["nodeStatusUpdateFrequency"] = json!("4s");
        }
        std::fs::write(kubernetes.join("kubelet.yaml"), settings.to_string())?;
        output(
            Command::new("tar")
                .arg("-C")
                .arg(&root)
                .arg("-cf")
                .arg(self.dir.join("files.tar"))
                .arg("."),
        )
        .map(drop)
    }

    /// Name of the host and of its Node.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The system UUID.
    #[must_use]
    pub fn uuid(&self) -> &str {
        &self.uuid
    }

    /// File with the output of all its boots.
    #[must_use]
    pub fn console(&self) -> PathBuf {
        self.dir.join("console.log")
    }

    /// What its BMC switches.
    pub(super) fn supply(&self) -> &Supply {
        &self.supply
    }

    /// Every change of its power, oldest first.
    #[must_use]
    pub fn power_changes(&self) -> Vec<PowerChange> {
        self.supply.changes()
    }

    /// Whether it is on.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.supply.is_on()
    }

    /// Presses the power button of a host that is off.
    ///
    /// # Errors
    /// QEMU does not start.
    pub fn press_power(&self) -> Result<()> {
        self.supply.on()
    }

    /// Pulls the plug.
    ///
    /// # Errors
    /// QEMU does not end.
    pub fn pull_plug(&self) -> Result<()> {
        self.supply.off()
    }

    /// Hangs the whole kernel: the process of QEMU stops.
    ///
    /// # Errors
    /// The host is off.
    pub fn hang(&self) -> Result<()> {
        self.supply.signal(Signal::SIGSTOP)
    }

    /// Ends a hang.
    ///
    /// # Errors
    /// The host is off.
    pub fn resume(&self) -> Result<()> {
        self.supply.signal(Signal::SIGCONT)
    }

    /// Makes the kernel panic, by an NMI of unknown cause.
    ///
    /// # Errors
    /// QEMU rejects the command, or has ended.
    pub fn panic(&self) -> Result<()> {
        self.qmp("inject-nmi", &json!({}))
    }

    /// Unplugs or plugs the network cable.
    ///
    /// # Errors
    /// QEMU rejects the command, or has ended.
    pub fn plug_network(&self, plugged: bool) -> Result<()> {
        self.qmp("set_link", &json!({ "name": "card0", "up": plugged }))
    }

    /// Runs a line in the root shell at its second serial line, and returns when the shell has read it.
    ///
    /// # Errors
    /// The host is off, or its shell does not answer.
    pub fn shell(&self, line: &str) -> Result<()> {
        let mut socket = UnixStream::connect(self.dir.join("shell"))?;
        socket.set_read_timeout(Some(ANSWER))?;
        // QEMU drops what the serial line has not taken when the connection closes.
        writeln!(socket, "\necho {READ}; {line}")?;
        for answer in BufReader::new(socket).lines() {
            let answer = answer.with_context(|| format!("shell of {}", self.name))?;
            if answer.ends_with(READ) {
                return Ok(());
            }
        }
        bail!("the shell of {} closed its line", self.name)
    }

    /// A command of QEMU's monitor.
    fn qmp(&self, command: &str, arguments: &Value) -> Result<()> {
        let socket = UnixStream::connect(self.dir.join("qmp"))?;
        socket.set_read_timeout(Some(ANSWER))?;
        let mut lines = BufReader::new(socket.try_clone()?).lines();
        lines.next().context("no greeting of QEMU")??;
        for (command, arguments) in [("qmp_capabilities", &json!({})), (command, arguments)] {
            let request = json!({ "execute": command, "arguments": arguments });
            writeln!(&socket, "{request}")?;
            loop {
                let line = lines.next().context("QEMU closed its monitor")??;
                let answer: Value = serde_json::from_str(&line)?;
                if answer.get("error").is_some() {
                    bail!("{command}: {answer}");
                }
                if answer.get("return").is_some() {
                    break;
                }
            }
        }
        Ok(())
    }
}
