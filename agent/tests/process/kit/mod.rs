//! A site in a temporary directory, the daemon as a process, and a Redfish service.

mod altered;
mod lossy;
mod pdu;
mod redfish;

use std::{
    io::{BufRead, BufReader, Write},
    os::unix::net::UnixDatagram,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    thread::JoinHandle,
    time::Duration,
};

use rcgen::{
    BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, SanType,
};
use tempfile::TempDir;

pub(crate) use altered::Altered;
pub(crate) use lossy::Lossy;
pub(crate) use pdu::Pdu;
pub(crate) use redfish::Redfish;

pub(crate) const PASSWORD: &str = "s3cret-0f-the-bmc";
pub(crate) const UUID: &str = "4c4c4544-0042-3510-8054-c2c04f4e4e32";

pub(crate) struct Site {
    pub(crate) dir: TempDir,
    pub(crate) config: PathBuf,
    issuer: Issuer<'static, KeyPair>,
    ca: String,
}

impl Site {
    /// Hosts `node-1` and so on, Nodes `worker-1` and so on; the UUID of the first one is known.
    pub(crate) fn new(bmcs: &[&Redfish]) -> Self {
        let dir = TempDir::new().unwrap();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = params.self_signed(&key).unwrap().pem();
        let site = Self {
            config: dir.path().join("agent.toml"),
            issuer: Issuer::new(params, key),
            ca,
            dir,
        };
        site.certificate("tls", "spiffe://dc1/rack/r1");
        std::fs::write(site.dir.path().join("password"), format!("{PASSWORD}\n")).unwrap();
        let mut text = "rack = 'r1'\nlisten = '127.0.0.1:0'\ntls = 'tls'\nsocket = 'agent.sock'\n\
             state = 'state'\nallowed_bmc_networks = ['127.0.0.0/8']\n\
             defaults.shutdown_grace = '0s'\n"
            .to_owned();
        for (index, bmc) in bmcs.iter().enumerate() {
            let n = index + 1;
            let uuid = if n == 1 {
                format!("system_uuid = '{UUID}'\n")
            } else {
                String::new()
            };
            text.push_str(&format!(
                "[[hosts]]\nname = 'node-{n}'\nnode_name = 'worker-{n}'\n{uuid}\
                 bmc.address = 'redfish+http://{}/redfish/v1/Systems/1'\n\
                 bmc.username = '{}'\nbmc.password_file = 'password'\n",
                bmc.address,
                redfish::USER,
            ));
        }
        std::fs::write(&site.config, text).unwrap();
        site
    }

    /// A directory with certificate, key and CA.
    pub(crate) fn certificate(&self, name: &str, uri: &str) -> PathBuf {
        let dir = self.dir.path().join(name);
        std::fs::create_dir_all(&dir).unwrap();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.subject_alt_names = vec![SanType::URI(uri.try_into().unwrap())];
        params.extended_key_usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let cert = params.signed_by(&key, &self.issuer).unwrap();
        std::fs::write(dir.join("tls.crt"), cert.pem()).unwrap();
        std::fs::write(dir.join("tls.key"), key.serialize_pem()).unwrap();
        std::fs::write(dir.join("ca.crt"), &self.ca).unwrap();
        dir
    }
}

#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

pub(crate) fn command(site: &Site, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rackhand-agent"));
    command
        .args(args)
        .env("RACKHAND_SOCKET", site.dir.path().join("agent.sock"))
        .env_remove("CREDENTIALS_DIRECTORY");
    command
}

pub(crate) fn run(site: &Site, args: &[&str]) -> Ran {
    run_with(site, args, "")
}

/// Runs the program with `input` on standard input.
fn run_with(site: &Site, args: &[&str], input: &str) -> Ran {
    let mut child = command(site, args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The program may end without reading.
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).ok();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    Ran {
        code: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// `serve` as a separate process, after it has notified systemd of its readiness.
pub(crate) struct Daemon<'a> {
    site: &'a Site,
    child: Child,
    pub(crate) address: String,
    log: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
}

impl<'a> Daemon<'a> {
    pub(crate) fn start(site: &'a Site) -> Self {
        Self::start_with(site, &[])
    }

    pub(crate) fn start_with(site: &'a Site, args: &[&str]) -> Self {
        let notify = site.dir.path().join("notify");
        let socket = UnixDatagram::bind(&notify).unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(60)))
            .unwrap();
        let config = site.config.display().to_string();
        let mut child = command(site, &[&["serve", "--config", &config], args].concat())
            .env("NOTIFY_SOCKET", &notify)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        let (lines, copy) = (BufReader::new(child.stderr.take().unwrap()), log.clone());
        let reader = std::thread::spawn(move || {
            for line in lines.lines().map_while(Result::ok) {
                let mut log = copy.lock().unwrap();
                log.push_str(&line);
                log.push('\n');
            }
        });
        let mut buffer = [0; 1024];
        let length = socket.recv(&mut buffer).unwrap_or_else(|error| {
            child.kill().ok();
            panic!("not ready: {error}\n{}", log.lock().unwrap());
        });
        let told = String::from_utf8_lossy(&buffer[..length]).into_owned();
        assert!(told.contains("READY=1"), "{told}");
        Self {
            site,
            child,
            address: listening(&log),
            log,
            reader: Some(reader),
        }
    }

    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        run(self.site, args)
    }

    /// Runs the program with `input` on standard input.
    pub(crate) fn run_with(&self, args: &[&str], input: &str) -> Ran {
        run_with(self.site, args, input)
    }

    /// Sends SIGTERM and returns the exit code.
    pub(crate) fn stop(mut self) -> i32 {
        self.end()
    }

    /// Ends it as a power loss would.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        std::fs::remove_file(self.site.dir.path().join("notify")).unwrap();
    }

    pub(crate) fn log_after_stop(mut self) -> String {
        self.end();
        self.log.lock().unwrap().clone()
    }

    fn end(&mut self) -> i32 {
        let pid = nix::unistd::Pid::from_raw(self.child.id().try_into().unwrap());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
        let code = self.child.wait().unwrap().code().unwrap();
        if let Some(reader) = self.reader.take() {
            reader.join().unwrap();
        }
        code
    }
}

impl Drop for Daemon<'_> {
    fn drop(&mut self) {
        if self.reader.is_some() {
            self.child.kill().ok();
            self.child.wait().ok();
        }
    }
}

/// Waits for a condition.
pub(crate) fn wait_for(what: &str, mut is_met: impl FnMut() -> bool) {
    let until = std::time::Instant::now() + Duration::from_secs(60);
    while !is_met() {
        assert!(std::time::Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The system selects the port, which is read from the log. READY follows that line, but the pipe
/// may be read a moment later.
fn listening(log: &Mutex<String>) -> String {
    let until = std::time::Instant::now() + Duration::from_secs(10);
    loop {
        let text = log.lock().unwrap().clone();
        if let Some(at) = text.find("127.0.0.1:") {
            let rest = &text[at..];
            let end = rest.find(|c: char| !(c.is_ascii_digit() || ".:".contains(c)));
            return rest[..end.unwrap_or(rest.len())].to_owned();
        }
        assert!(std::time::Instant::now() < until, "{text}");
        std::thread::yield_now();
    }
}
