//! The real agent with one host behind Redfish and IPMI, and its command line.

use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use rackhand_bmc::ipmi::wire::Suite;
use rackhand_bmc::{IdentityMatch, compare_system_uuids};
use rackhand_tests::pki::Pki;
use rackhand_tests::process::Process;
use rackhand_tests::rack::ipmi::{ChassisControl, IpmiBmc, IpmiConfig};
use rackhand_tests::rack::{PowerState, PowerTimings, Rack, RackConfig, ResetType, SimHost};
use rackhand_tests::stage::binaries;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::UnixDatagram;

/// Time limit on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A rack of one host with both BMCs, the IPMI one for suite 17 only, and the agent's process.
struct Site {
    host: SimHost,
    ipmi: IpmiBmc,
    agent: Process,
    program: PathBuf,
    dir: TempDir,
    _rack: Rack,
}

impl Site {
    async fn start() -> Self {
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
        let bmc = IpmiConfig {
            suites: vec![Suite::Cipher17],
            ..IpmiConfig::of_host(host.config())
        };
        let any = (Ipv4Addr::LOCALHOST, 0).into();
        let ipmi = IpmiBmc::start(any, bmc, host.clone()).await.unwrap();

        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("password"), "secret").unwrap();
        let mode = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(at("password"), mode).unwrap();
        let redfish = host.system_url().unwrap();
        let redfish = redfish.replacen("https://", "redfish+https://", 1);
        let config = json!({
            "rack": "rack-a",
            "socket": "agent.sock",
            "state": "state",
            "allowed_bmc_networks": ["127.0.0.0/8"],
            "defaults": {"trust": {"ca_file": pki.ca_file()}, "shutdown_grace": "0s"},
            "hosts": [{
                "name": "n1",
                "system_uuid": host.config().uuid,
                "bmc": [
                    {"address": redfish, "username": "admin", "password_file": "password"},
                    {"address": format!("ipmi://{}", ipmi.address()), "username": "admin",
                     "password_file": "password", "cipher_suite": 17},
                ],
            }],
        });
        std::fs::write(at("agent.toml"), toml::to_string(&config).unwrap()).unwrap();
        let program = binaries().unwrap().join("rackhand-agent");
        let told = UnixDatagram::bind(at("notify")).unwrap();
        let command = [
            program.display().to_string(),
            "serve".to_owned(),
            format!("--config={}", at("agent.toml").display()),
        ];
        let notify = (
            "NOTIFY_SOCKET".to_owned(),
            at("notify").display().to_string(),
        );
        let agent = Process::start("agent", &command, &[notify], dir.path()).unwrap();
        let mut message = [0; 1024];
        let length = tokio::time::timeout(PATIENCE, told.recv(&mut message)).await;
        let length = length.unwrap_or_else(|_| panic!("not ready: {}", agent.log_tail()));
        let message = String::from_utf8_lossy(&message[..length.unwrap()]).into_owned();
        assert!(message.contains("READY=1"), "{message}");
        Self {
            host,
            ipmi,
            agent,
            program,
            dir,
            _rack: rack,
        }
    }

    /// Runs `power ... n1 -o json`, which must succeed; returns the row of the host.
    async fn power(&self, words: &[&str]) -> Value {
        let output = tokio::process::Command::new(&self.program)
            .arg("power")
            .args(words)
            .args(["n1", "-o", "json", "--socket"])
            .arg(self.dir.path().join("agent.sock"))
            .kill_on_drop(true)
            .output();
        let output = tokio::time::timeout(PATIENCE, output)
            .await
            .unwrap()
            .unwrap();
        assert!(
            output.status.success(),
            "{words:?}: {output:?}\n{}",
            self.agent.log_tail()
        );
        let rows: Value = serde_json::from_slice(&output.stdout).unwrap();
        rows[0].clone()
    }

    /// Number of commands that arrived by IPMI: off, on.
    fn by_ipmi(&self) -> [usize; 2] {
        let counters = self.ipmi.counters();
        [ChassisControl::Down, ChassisControl::Up].map(|control| counters.controlled(control))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agent_uses_ipmi_while_redfish_is_dead() {
    let mut site = Site::start().await;
    let status = site.power(&["status"]).await;
    assert_eq!(status["power"], "on", "{status}");
    let asked = status["bmc"].as_str().unwrap();
    assert!(asked.starts_with("redfish://"), "{status}");
    assert_eq!(site.ipmi.counters().packets, 0);
    site.host.bmc_dead().await.unwrap();

    let status = site.power(&["status"]).await;
    assert_eq!(status["power"], "on", "{status}");
    assert!(
        status["bmc"].as_str().unwrap().starts_with("ipmi://"),
        "{status}"
    );
    let uuid = status["system_uuid"].as_str().unwrap();
    let same = compare_system_uuids(uuid, &site.host.config().uuid);
    assert_eq!(same, IdentityMatch::Same, "{status}");

    let off = site.power(&["off"]).await;
    assert_eq!(off["result"], "confirmed", "{off}");
    assert_eq!(off["message"], "host n1: confirmed off");
    assert_eq!(site.host.real_power(), PowerState::Off);
    assert_eq!(site.by_ipmi(), [1, 0]);
    assert_eq!(site.power(&["status"]).await["power"], "off");

    let on = site.power(&["on"]).await;
    assert_eq!(on["result"], "confirmed", "{on}");
    assert_eq!(site.host.real_power(), PowerState::On);
    assert_eq!(site.by_ipmi(), [1, 1]);

    let cycle = site.power(&["cycle", "--hold-off", "100ms"]).await;
    assert_eq!(cycle["result"], "confirmed", "{cycle}");
    assert_eq!(site.host.real_power(), PowerState::On);
    assert_eq!(site.by_ipmi(), [2, 2]);

    let counters = site.host.counters();
    assert_eq!((counters.offs, counters.ons, counters.resets), (2, 2, 0));
    assert_eq!(counters.received(ResetType::ForceOff), 2);
    assert_eq!(counters.received(ResetType::On), 2);
    site.agent.stop(PATIENCE).unwrap();
    assert_eq!(site.ipmi.with(|bmc, now| bmc.sessions(now)), 0);
}
