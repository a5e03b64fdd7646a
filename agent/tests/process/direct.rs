//! Terminated `--direct` commands: some BMCs support four sessions, and none may stay open.

use std::{
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use rackhand_sim::{
    pki::Pki,
    rack::{Action, Rack, RackConfig, ResetType, Rule, SimHost},
};
use secrecy::ExposeSecret;
use tempfile::TempDir;

/// Time limit on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

struct Site {
    rack: Rack,
    config: PathBuf,
    dir: TempDir,
}

impl Site {
    /// A rack with these hosts, all on, and the configuration of an agent that is not running.
    async fn new(names: &[&str]) -> Self {
        rustls::crypto::ring::default_provider()
            .install_default()
            .ok();
        let dir = TempDir::new().unwrap();
        let pki = Pki::new(dir.path().join("pki")).unwrap();
        let config = RackConfig::new("r1", names.iter().copied());
        let rack = Rack::bare(config, Some(&pki)).await.unwrap();
        let mut text = format!(
            "rack = 'r1'\nsocket = 'agent.sock'\nstate = 'state'\n\
             allowed_bmc_networks = ['127.0.0.0/8']\ndefaults.trust.ca_file = '{}'\n",
            pki.ca_file().display()
        );
        for (name, host) in rack.hosts() {
            let bmc = &host.config().bmc;
            let password = dir.path().join(format!("{name}.password"));
            std::fs::write(&password, bmc.password.expose_secret()).unwrap();
            text.push_str(&format!(
                "[[hosts]]\nname = '{name}'\nbmc.address = '{}'\nbmc.username = '{}'\n\
                 bmc.password_file = '{}'\n",
                host.system_url().unwrap().replacen("https", "redfish", 1),
                bmc.username,
                password.display(),
            ));
        }
        let config = dir.path().join("agent.toml");
        std::fs::write(&config, text).unwrap();
        Self { rack, config, dir }
    }

    fn host(&self, name: &str) -> &SimHost {
        self.rack.host(name).unwrap()
    }

    /// Runs a command without an agent to its end.
    async fn run(&self, args: &[&str]) -> (Option<i32>, String) {
        let child = self.begin(args);
        let output = tokio::task::spawn_blocking(|| child.wait_with_output());
        let output = tokio::time::timeout(PATIENCE, output).await;
        let output = output.expect("the process did not end").unwrap().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        (output.status.code(), said)
    }

    /// A running agent with this configuration, ready to serve.
    async fn daemon(&self) -> Child {
        let child = Command::new(env!("CARGO_BIN_EXE_rackhand-agent"))
            .args(["serve", "--config"])
            .arg(&self.config)
            .env_remove("CREDENTIALS_DIRECTORY")
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let socket = self.dir.path().join("agent.sock");
        let ready = async {
            while !socket.exists() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, ready).await.unwrap();
        child
    }

    fn begin(&self, args: &[&str]) -> Child {
        Command::new(env!("CARGO_BIN_EXE_rackhand-agent"))
            .args(args)
            .args(["--direct", "--config"])
            .arg(&self.config)
            .env_remove("CREDENTIALS_DIRECTORY")
            // For other commands; it is not meant here.
            .env("RACKHAND_AGENT", "agent.example.org:8443")
            .env("TMPDIR", self.dir.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Temporary directories that ended runs left behind.
    fn left(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.dir.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names
            .filter(|name| name.starts_with("rackhand-direct-"))
            .collect()
    }
}

/// Sends the signal, and returns exit code and output.
async fn ended(child: Child, signal: Signal) -> (Option<i32>, String) {
    let pid = i32::try_from(child.id()).unwrap();
    kill(Pid::from_raw(pid), signal).unwrap();
    let output = tokio::task::spawn_blocking(|| child.wait_with_output());
    let output = tokio::time::timeout(PATIENCE, output).await;
    let output = output.expect("the process did not end").unwrap().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    (output.status.code(), said)
}

#[tokio::test(flavor = "multi_thread")]
async fn terminated_operation_closes_its_sessions() {
    let site = Site::new(&["n1", "n2"]).await;
    let hosts = ["n1", "n2"].map(|name| site.host(name).clone());
    for host in &hosts {
        host.stuck_powering_off(true);
    }
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let before: Vec<u64> = hosts
            .iter()
            .map(|host| host.counters().received(ResetType::ForceOff))
            .collect();
        let child = site.begin(&["power", "off", "n1", "n2", "--yes"]);
        for (host, before) in hosts.iter().zip(before) {
            let commanded = host.wait_for(PATIENCE, "commanded", |view| {
                view.counters.received(ResetType::ForceOff) > before
            });
            commanded.await.unwrap();
            assert_eq!(host.sessions_open(), 1, "{signal}");
        }
        let (code, said) = ended(child, signal).await;
        assert_eq!(code, Some(1), "{said}");
        assert!(
            said.contains("commands that were sent are not revoked"),
            "{said}"
        );
        for host in &hosts {
            assert_eq!(host.sessions_open(), 0, "{signal}: {said}");
        }
        assert_eq!(site.left(), [""; 0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn terminated_read_closes_its_session() {
    let site = Site::new(&["n1"]).await;
    let host = site.host("n1");
    for (round, signal) in [Signal::SIGTERM, Signal::SIGINT].into_iter().enumerate() {
        // The session is opened, and the next response never arrives.
        let rule = Rule::always(Action::Hang);
        let fault = host.inject(rule.on("GET", "/redfish/v1/Systems/*"));
        let child = site.begin(&["sensors", "n1", "--timeout", "50s"]);
        let logged_in = async {
            while host.sessions_opened() <= u64::try_from(round).unwrap() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(PATIENCE, logged_in).await.unwrap();
        let (code, said) = ended(child, signal).await;
        assert_ne!(code, Some(0), "{said}");
        assert_eq!(host.sessions_open(), 0, "{signal}: {said}");
        host.clear_fault(fault);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn f6_agent_without_its_socket_file_is_noticed() {
    let site = Site::new(&["n1"]).await;
    let mut daemon = site.daemon().await;
    std::fs::remove_file(site.dir.path().join("agent.sock")).unwrap();
    let (code, said) = site.run(&["power", "off", "n1"]).await;
    assert_eq!(code, Some(3), "{said}");
    assert!(said.contains("an agent runs with the journal"), "{said}");
    assert_eq!(site.host("n1").counters().received(ResetType::ForceOff), 0);
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    let (code, said) = site.run(&["power", "off", "n1"]).await;
    assert_eq!(code, Some(0), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn password_credential_of_the_package_is_read_without_the_service() {
    let site = Site::new(&["n1"]).await;
    let text = std::fs::read_to_string(&site.config).unwrap();
    let file = site.dir.path().join("n1.password");
    let named = format!("bmc.password_file = '{}'", file.display());
    assert!(text.contains(&named));
    let text = text.replace(&named, "bmc.password_credential = 'bmc_n1'");
    std::fs::write(&site.config, text).unwrap();
    let (code, said) = site.run(&["power", "status", "n1"]).await;
    assert_ne!(code, Some(0), "{said}");
    let folder = site.dir.path().join("bmc");
    for expected in [
        "the credential bmc_NAME is read from",
        "LoadCredential=bmc:",
        &folder.display().to_string(),
    ] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    std::fs::create_dir(&folder).unwrap();
    std::fs::rename(file, folder.join("n1")).unwrap();
    let (code, said) = site.run(&["power", "status", "n1"]).await;
    assert_eq!(code, Some(0), "{said}");
    assert!(!said.contains("credential"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupted_rotation_is_left_to_the_agent() {
    let site = Site::new(&["n1"]).await;
    let next = site.dir.path().join("n1.password.rackhand-new");
    std::fs::write(&next, "not-known-to-the-bmc").unwrap();
    let before = site.host("n1").sessions_opened();
    let (code, said) = site
        .run(&["power", "cycle", "n1", "--hold-off", "1s"])
        .await;
    assert_eq!(code, Some(0), "{said}");
    assert!(next.exists(), "it is not concluded: {said}");
    assert_eq!(site.host("n1").sessions_opened(), before + 1, "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn f17_interrupted_cycle_ends_with_the_host_on() {
    let site = Site::new(&["n1"]).await;
    let host = site.host("n1");
    let child = site.begin(&["power", "cycle", "n1", "--hold-off", "2s"]);
    let commanded = host.wait_for(PATIENCE, "commanded", |view| {
        view.counters.received(ResetType::ForceOff) > 0
    });
    commanded.await.unwrap();
    let (code, said) = ended(child, Signal::SIGINT).await;
    assert_eq!(code, Some(1), "{said}");
    assert_eq!(host.counters().received(ResetType::On), 1, "{said}");
    assert_eq!(host.sessions_open(), 0, "{said}");
}
