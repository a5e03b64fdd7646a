//! Support for tests of the rack simulator: a BMC used with curl, which shares no code with it, one
//! used with reqwest, and an API server in memory.

// No test binary uses all items.
#![allow(dead_code)]

pub(crate) mod api;
pub(crate) mod redfish_client;

use std::process::{Command, Output};
use std::time::Duration;

use rackhand_tests::pki::Pki;
use rackhand_tests::rack::{HostConfig, PowerTimings, Rack, RackConfig, SimHost};
use serde_json::Value;
use tempfile::TempDir;

/// Time limit of a wait.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// A response, as curl reports it.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
    /// The exit status of curl: 0 unless there was no response.
    pub(crate) exit: i32,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    pub(crate) fn message_id(&self) -> String {
        let json = self.json();
        let id = json["error"]["@Message.ExtendedInfo"][0]["MessageId"].as_str();
        id.unwrap_or_else(|| panic!("no message in {json}"))
            .to_owned()
    }
}

/// A rack of one host, and its curl settings.
pub(crate) struct Bench {
    pub(crate) rack: Rack,
    pub(crate) host: SimHost,
    dir: TempDir,
}

impl Bench {
    /// A rack of one host, `n1`, with short transitions.
    pub(crate) async fn start(change: impl Fn(&mut HostConfig)) -> Self {
        rustls::crypto::ring::default_provider()
            .install_default()
            .ok();
        let dir = TempDir::new().unwrap();
        let pki = Pki::new(dir.path()).unwrap();
        let config = RackConfig::new("rack-a", ["n1"]).each(|host| {
            host.timings = PowerTimings {
                off_takes: Duration::from_millis(50),
                on_takes: Duration::from_millis(50),
                boot_takes: Duration::from_millis(50),
                shutdown_takes: Duration::from_millis(50),
                cycle_pause: Duration::from_millis(50),
            };
            change(host);
        });
        std::fs::write(dir.path().join("curl.conf"), "user = \"admin:secret\"\n").unwrap();
        let rack = Rack::start(config, Some(&pki), None).await.unwrap();
        let host = rack.host("n1").unwrap().clone();
        Self { rack, host, dir }
    }

    /// Runs curl with these arguments on a path.
    pub(crate) async fn curl(&self, path: &str, args: &[&str]) -> Reply {
        let url = format!("{}{path}", self.host.bmc_url().unwrap());
        let mut command = Command::new("curl");
        command.args([
            "--silent",
            "--include",
            "--max-time",
            "20",
            "--noproxy",
            "*",
        ]);
        command.arg("--cacert").arg(self.dir.path().join("ca.pem"));
        command.args(args).arg(url);
        let output = tokio::task::spawn_blocking(move || command.output())
            .await
            .unwrap();
        reply(&output.expect("curl (Debian package curl) is needed"))
    }

    /// Runs curl with valid credentials.
    pub(crate) async fn curl_as_admin(&self, path: &str, args: &[&str]) -> Reply {
        let config = self.dir.path().join("curl.conf");
        let mut all = vec!["--config", config.to_str().unwrap()];
        all.extend(args);
        self.curl(path, &all).await
    }

    /// Sends a GET with valid credentials.
    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.curl_as_admin(path, &[]).await
    }

    /// Sends a reset with valid credentials.
    pub(crate) async fn reset(&self, kind: &str) -> Reply {
        let id = &self.host.config().bmc.profile.system_id;
        let path = format!("/redfish/v1/Systems/{id}/Actions/ComputerSystem.Reset");
        let body = format!(r#"{{"ResetType":"{kind}"}}"#);
        self.curl_as_admin(&path, &["--json", &body]).await
    }

    /// The power state that the BMC reports.
    pub(crate) async fn reported(&self) -> String {
        let id = &self.host.config().bmc.profile.system_id;
        let system = self.get(&format!("/redfish/v1/Systems/{id}")).await.json();
        system["PowerState"].as_str().unwrap().to_owned()
    }
}

fn reply(output: &Output) -> Reply {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text.as_str(), ""));
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|code| code.parse().ok())
        .unwrap_or(0);
    let exit = output.status.code().unwrap_or(-1);
    Reply {
        status,
        head: head.to_owned(),
        body: body.to_owned(),
        exit,
    }
}
