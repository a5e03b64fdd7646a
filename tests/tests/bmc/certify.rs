//! `rackhand-agent host certify` of BMCs of other projects: sushy-emulator and ipmi_sim.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, process::Output};

use rackhand_tests::stage::binaries;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::Command;

use crate::{
    ipmi_support::{Peer, Server},
    sushy::{FIRST, Sushy},
};

const PASSWORD: &str = "secret";
/// Long enough for the agent's observation to count as interrupted before the power-off of a host that is off.
const OFF_FOR: &str = "13s";

/// What came of a certification: `report.json`, and both reports as text.
struct Certified {
    report: Value,
    texts: [String; 2],
}

/// Certifies the host of a BMC without a daemon.
async fn certify(bmc: Value, soft_off_limit: &str) -> Certified {
    let dir = TempDir::new().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::write(at("password"), PASSWORD).unwrap();
    fs::set_permissions(at("password"), fs::Permissions::from_mode(0o600)).unwrap();
    let config = json!({
        "rack": "rack-of-site",
        "socket": "agent.sock",
        "state": "state",
        "allowed_bmc_networks": ["127.0.0.0/8"],
        "hosts": [{ "name": "host-of-site", "node_name": "node-of-site", "bmc": bmc }],
    });
    fs::write(at("agent.toml"), toml::to_string(&config).unwrap()).unwrap();
    let ran = Command::new(binaries().unwrap().join("rackhand-agent"))
        .args(["host", "certify", "host-of-site", "--yes", "--direct"])
        .args(["--off-for", OFF_FOR, "--soft-off-limit", soft_off_limit])
        .arg("--config")
        .arg(at("agent.toml"))
        .arg("--dir")
        .arg(at("report"))
        .env_remove("CREDENTIALS_DIRECTORY")
        .output()
        .await
        .unwrap();
    passed(&ran, &at("report"))
}

fn passed(ran: &Output, dir: &Path) -> Certified {
    let said = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(0), "{said}");
    let last = said.lines().last().unwrap_or_default();
    assert_eq!(last, "host host-of-site: on, as it was found", "{said}");
    let texts =
        ["report.md", "report.json"].map(|name| fs::read_to_string(dir.join(name)).unwrap());
    Certified {
        report: serde_json::from_str(&texts[1]).unwrap(),
        texts,
    }
}

impl Certified {
    /// The verdicts that did not pass, in order.
    fn others(&self) -> Vec<(&str, &str)> {
        let verdicts = self.report["verdicts"].as_array().unwrap().iter();
        let shown = verdicts.map(|verdict| {
            (
                verdict["rule"].as_str().unwrap(),
                verdict["grade"].as_str().unwrap(),
            )
        });
        shown.filter(|(_, grade)| *grade != "passed").collect()
    }

    /// Neither report has one of these, nor what every site here has.
    fn names_none_of(&self, identifiers: &[&str]) {
        let site = [
            "host-of-site",
            "node-of-site",
            "rack-of-site",
            "127.0.0.1",
            PASSWORD,
        ];
        for identifier in site.iter().chain(identifiers) {
            for text in &self.texts {
                assert!(!text.contains(identifier), "{identifier}: {text}");
            }
        }
    }
}

#[tokio::test]
async fn sushy_emulator_is_certified_with_warnings() {
    let sushy = Sushy::start().await;
    let certified = certify(
        json!({
            "address": format!("redfish+https://127.0.0.1:{}/redfish/v1/Systems/{FIRST}", sushy.port()),
            "username": "admin",
            "password_file": "password",
            "trust": { "ca_file": sushy.ca_file() },
        }),
        "40s",
    )
    .await;
    assert_eq!(certified.report["overall"], "warning");
    assert_eq!(
        certified.others(),
        [
            ("a host found off can be confirmed off", "warning"),
            ("a second source agrees", "warning"),
            ("diagnostic interrupt works", "warning"),
        ],
        "{}",
        certified.report
    );
    certified.names_none_of(&[FIRST]);
}

#[tokio::test]
async fn ipmi_sim_is_certified_with_warnings() {
    let server = Server::start(Peer::IpmiSim);
    let admin = server.admin();
    admin.on().await.unwrap();
    admin.close().await.unwrap();
    let certified = certify(
        json!({
            "address": format!("ipmi://127.0.0.1:{}", server.port),
            "username": "admin",
            "password_file": "password",
        }),
        "3s",
    )
    .await;
    assert_eq!(certified.report["overall"], "warning");
    assert_eq!(
        certified.others(),
        [
            ("a host found off can be confirmed off", "warning"),
            ("a second source agrees", "warning"),
            ("soft off works", "warning"),
            ("diagnostic interrupt works", "warning"),
        ],
        "{}",
        certified.report
    );
    certified.names_none_of(&["a123456789abcdef", "a1234567-89ab-cdef"]);
}
