//! The `rack-sim` binary: it writes its endpoints, serves them, and stops on a signal.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

use crate::rack_support::SOON;

#[tokio::test]
async fn rack_sim_writes_endpoints_serves_and_stops_on_signal() {
    let dir = TempDir::new().unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_rack-sim"))
        .args(["--hosts", "2", "--directory"])
        .arg(dir.path())
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    let text = loop {
        if let Ok(text) = std::fs::read_to_string(dir.path().join("endpoints.json")) {
            break text;
        }
        assert!(begun.elapsed() < SOON && child.try_wait().unwrap().is_none());
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let endpoints: Value = serde_json::from_str(&text).unwrap();
    let systems = endpoints["systems"].as_array().unwrap();
    assert_eq!(systems.len(), 2);

    rustls::crypto::ring::default_provider()
        .install_default()
        .ok();
    let ca = std::fs::read(endpoints["ca"].as_str().unwrap()).unwrap();
    let client = reqwest::Client::builder()
        .no_proxy()
        .tls_certs_only([reqwest::Certificate::from_pem(&ca).unwrap()])
        .build()
        .unwrap();
    for system in systems {
        let request = client.get(system.as_str().unwrap());
        let request = request.basic_auth("admin", Some("secret"));
        let system: Value = request.send().await.unwrap().json().await.unwrap();
        assert_eq!(system["PowerState"], "On");
    }
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
    kill(pid, Signal::SIGTERM).unwrap();
    assert!(child.wait().unwrap().success());
}
