//! A host with both BMCs, a rack agent that serves it, and the fence agent.

use std::net::Ipv4Addr;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use rackhand_sim::pdu::{PduConfig, SimPdu};
use rackhand_tests::pki::Pki;
use rackhand_tests::process::Process;
use rackhand_tests::rack::ipmi::IpmiBmc;
use rackhand_tests::rack::{PowerTimings, Rack, RackConfig, SimHost};
use rackhand_tests::stage::binaries;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Child;

/// Time limit on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(120);
const PASSWORD: &str = "secret";
/// Path of the schema in ClusterLabs' package.
const SCHEMA: &str = "/usr/share/cluster/relaxng/metadata.rng";

/// Route to the host.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Way {
    Redfish,
    Ipmi,
    Agent,
}

pub(crate) struct Site {
    pub(crate) host: SimHost,
    ipmi: IpmiBmc,
    agent: Process,
    pub(crate) program: PathBuf,
    dir: TempDir,
    ca: PathBuf,
    said: Mutex<String>,
    _rack: Rack,
}

/// Exit code, standard output, standard error.
pub(crate) fn ran(output: Output) -> (i32, String, String) {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (
        output.status.code().unwrap_or(-1),
        text(output.stdout),
        text(output.stderr),
    )
}

impl Site {
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    /// The same, with an outlet of a PDU that feeds the host.
    pub(crate) async fn with_outlet() -> (Self, SimPdu) {
        let config = PduConfig {
            listen: (Ipv4Addr::LOCALHOST, 0).into(),
            outlets: 1,
            username: "admin".to_owned(),
            password: PASSWORD.into(),
            measures_current: true,
            is_enclosure: false,
        };
        let pdu = SimPdu::start(config).await.unwrap();
        let site = Self::start_with(|config| {
            config["hosts"][0]["outlets"] = json!([{"pdu": "a", "outlet": "1"}]);
            config["pdus"] = json!({"a": {
                "address": pdu.url(),
                "username": "admin",
                "password_file": "password",
            }});
        });
        (site.await, pdu)
    }

    async fn start_with(adapt: impl FnOnce(&mut Value)) -> Self {
        rustls::crypto::ring::default_provider()
            .install_default()
            .ok();
        let dir = TempDir::new().unwrap();
        let pki = Pki::new(dir.path().join("pki")).unwrap();
        let takes = Duration::from_millis(50);
        let config = RackConfig::new("rack-a", ["n1"]).each(|host| {
            host.timings = PowerTimings {
                off_takes: takes,
                on_takes: takes,
                boot_takes: takes,
                shutdown_takes: takes,
                cycle_pause: takes,
            };
        });
        let rack = Rack::start(config, Some(&pki), None).await.unwrap();
        let host = rack.host("n1").unwrap().clone();
        let ipmi = IpmiBmc::attach(&host).await.unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("password"), PASSWORD).unwrap();
        let mode = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(at("password"), mode).unwrap();
        let redfish = host.system_url().unwrap();
        let mut config = json!({
            "rack": "rack-a",
            "socket": "agent.sock",
            "state": "state",
            "allowed_bmc_networks": ["127.0.0.0/8"],
            "defaults": {"trust": {"ca_file": pki.ca_file()}, "shutdown_grace": "0s"},
            "hosts": [{
                "name": "n1",
                "node_name": "node-1",
                "system_uuid": host.config().uuid,
                "bmc": {
                    "address": redfish.replacen("https://", "redfish+https://", 1),
                    "username": "admin",
                    "password_file": "password",
                },
            }],
        });
        adapt(&mut config);
        std::fs::write(at("agent.toml"), toml::to_string(&config).unwrap()).unwrap();
        let binary = binaries().unwrap().join("rackhand-agent");
        let command = [
            binary.display().to_string(),
            "serve".to_owned(),
            format!("--config={}", at("agent.toml").display()),
        ];
        let agent = Process::start("agent", &command, &[], dir.path()).unwrap();
        let ready = async {
            while !at("agent.sock").exists() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let ready = tokio::time::timeout(PATIENCE, ready).await;
        ready.unwrap_or_else(|_| panic!("not ready: {}", agent.log_tail()));
        let program = at("fence_rackhand");
        symlink(&binary, &program).unwrap();
        Self {
            host,
            ipmi,
            agent,
            program,
            ca: pki.ca_file(),
            dir,
            said: Mutex::default(),
            _rack: rack,
        }
    }

    fn options(&self, way: Way) -> Vec<(&'static str, String)> {
        let bmc = |address: std::net::SocketAddr| {
            vec![
                ("ip", address.ip().to_string()),
                ("ipport", address.port().to_string()),
                ("username", "admin".to_owned()),
                ("password", PASSWORD.to_owned()),
            ]
        };
        match way {
            Way::Redfish => {
                let mut options = bmc(self.host.bmc_address().unwrap());
                options.push(("ssl_ca", self.ca.display().to_string()));
                options
            }
            Way::Ipmi => {
                let mut options = bmc(self.ipmi.address());
                options.push(("lanplus", "1".to_owned()));
                options
            }
            Way::Agent => {
                let socket = self.dir.path().join("agent.sock");
                vec![
                    ("plug", "n1".to_owned()),
                    ("socket", socket.display().to_string()),
                ]
            }
        }
    }

    fn all(&self, way: Way, more: &[(&str, &str)]) -> Vec<(String, String)> {
        let own = self.options(way).into_iter();
        let own = own.map(|(name, value)| (name.to_owned(), value));
        let more = more.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned()));
        own.chain(more).collect()
    }

    /// Standard input in Pacemaker's format.
    pub(crate) fn lines(&self, way: Way, more: &[(&str, &str)]) -> String {
        let all = self.all(way, more).into_iter();
        all.map(|(name, value)| format!("{name}={value}\n"))
            .collect()
    }

    /// One run of the fence agent.
    pub(crate) async fn call(&self, way: Way, by_lines: bool, more: &[(&str, &str)]) -> Output {
        if by_lines {
            return self.standard_input(&self.lines(way, more)).await;
        }
        let words: Vec<String> = self
            .all(way, more)
            .into_iter()
            .map(|(name, value)| match name.as_str() {
                "lanplus" => "--lanplus".to_owned(),
                _ => format!("--{}={value}", name.replace('_', "-")),
            })
            .collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        self.arguments(&words).await
    }

    pub(crate) async fn arguments(&self, words: &[&str]) -> Output {
        self.run(words, "").await
    }

    pub(crate) async fn standard_input(&self, text: &str) -> Output {
        self.run(&[], text).await
    }

    /// The socket of the agent.
    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.path().join("agent.sock")
    }

    /// What a command of an operator prints.
    pub(crate) async fn operator(&self, words: &[&str]) -> String {
        let binary = binaries().unwrap().join("rackhand-agent");
        let run = tokio::process::Command::new(binary)
            .args(words)
            .arg("--socket")
            .arg(self.socket())
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let output = tokio::time::timeout(PATIENCE, run).await.unwrap().unwrap();
        String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
    }

    /// Starts a run.
    pub(crate) async fn begin(&self, words: &[&str], text: &str) -> Child {
        let mut child = tokio::process::Command::new(&self.program)
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        // The program may end without reading.
        input.write_all(text.as_bytes()).await.ok();
        drop(input);
        child
    }

    async fn run(&self, words: &[&str], text: &str) -> Output {
        let child = self.begin(words, text).await;
        let output = tokio::time::timeout(PATIENCE, child.wait_with_output()).await;
        let output = output.expect("it ends").unwrap();
        let mut said = self.said.lock().unwrap();
        for stream in [&output.stdout, &output.stderr] {
            said.push_str(&String::from_utf8_lossy(stream));
        }
        output
    }

    /// Validates the metadata with ClusterLabs' schema.
    pub(crate) async fn valid_metadata(&self, text: &str) {
        assert!(
            std::path::Path::new(SCHEMA).exists(),
            "{SCHEMA} is missing: hack/setup brings the package fence-agents"
        );
        let file = self.dir.path().join("metadata.xml");
        std::fs::write(&file, text).unwrap();
        let output = tokio::process::Command::new("xmllint")
            .args(["--noout", "--relaxng", SCHEMA])
            .arg(&file)
            .output()
            .await
            .expect("xmllint: hack/setup brings the package libxml2-utils");
        assert!(output.status.success(), "{output:?}");
    }

    /// Checks that no output contained the password.
    pub(crate) async fn ends(mut self) {
        let said = self.said.lock().unwrap().clone();
        assert!(!said.contains(PASSWORD), "{said}");
        let log = std::fs::read_to_string(self.agent.log()).unwrap();
        assert!(!log.contains(PASSWORD), "{log}");
        self.agent.stop(PATIENCE).unwrap();
    }
}
