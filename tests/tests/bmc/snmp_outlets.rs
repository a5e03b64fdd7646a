//! The program rackhand-agent with a host whose BMC is dead and whose outlets net-snmp's snmpd serves.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
    time::Duration,
};

use rackhand_tests::{
    pki::{CertSpec, Pki},
    process::Process,
    stage::binaries,
};
use tempfile::TempDir;

use crate::{
    snmp_support::{AUTH_PASSWORD, Agent, PRIVACY_PASSWORD, USER},
    snmpd::{EATON, snmpd},
};

/// How long the agent may take to serve its socket.
const START: Duration = Duration::from_secs(60);

/// `node-1` with outlet 1 by SNMPv2c and outlet 2 by SNMPv3, and a BMC that nothing serves.
fn configure(dir: &Path, snmpd: &Agent) {
    let pki = Pki::new(dir.join("pki")).unwrap();
    let files = pki.issue(&CertSpec::peer("agent", "spiffe://rackhand/rack/r1"));
    let files = files.unwrap();
    let tls = dir.join("tls");
    fs::create_dir(&tls).unwrap();
    for (from, to) in [
        (&files.cert, "tls.crt"),
        (&files.key, "tls.key"),
        (&files.ca, "ca.crt"),
    ] {
        fs::copy(from, tls.join(to)).unwrap();
    }
    for (name, secret) in [
        ("password", "bmc"),
        ("public", "public"),
        ("private", "private"),
        ("auth", AUTH_PASSWORD),
        ("privacy", PRIVACY_PASSWORD),
    ] {
        fs::write(dir.join(name), secret).unwrap();
    }
    let port = snmpd.port;
    let text = format!(
        "rack = 'r1'\nlisten = '127.0.0.1:0'\ntls = 'tls'\nsocket = 'agent.sock'\nstate = 'state'\n\
         allowed_bmc_networks = ['127.0.0.0/8']\ndefaults.shutdown_grace = '0s'\n\
         [[hosts]]\nname = 'node-1'\n\
         outlets = [{{ pdu = 'a', outlet = '1' }}, {{ pdu = 'b', outlet = '2' }}]\n\
         bmc.address = 'redfish+http://127.0.0.1:1'\nbmc.username = 'ops'\n\
         bmc.password_file = 'password'\n\
         [pdus.a]\naddress = 'snmp://127.0.0.1:{port}'\ntable = 'eaton'\n\
         community_file = 'public'\nwrite_community_file = 'private'\n\
         [pdus.b]\naddress = 'snmp://localhost:{port}'\ntable = 'eaton'\nusername = '{USER}'\n\
         password_file = 'auth'\nprivacy_password_file = 'privacy'\n"
    );
    fs::write(dir.join("agent.toml"), text).unwrap();
}

fn start(dir: &Path) -> Process {
    let program = binaries().unwrap().join("rackhand-agent");
    let config = dir.join("agent.toml").display().to_string();
    let command = [
        program.display().to_string(),
        "serve".to_owned(),
        "--config".to_owned(),
        config,
    ];
    Process::start("rackhand-agent", &command, &[], dir).unwrap()
}

fn run(dir: &Path, words: &[&str]) -> Output {
    Command::new(binaries().unwrap().join("rackhand-agent"))
        .args(words)
        .env("RACKHAND_SOCKET", dir.join("agent.sock"))
        .output()
        .unwrap()
}

fn succeeds(dir: &Path, words: &[&str]) -> String {
    let ran = run(dir, words);
    assert!(ran.status.success(), "{words:?}: {ran:?}");
    String::from_utf8(ran.stdout).unwrap()
}

async fn serves(dir: &Path, agent: &mut Process) {
    let answers = async {
        while !run(dir, &["host", "list"]).status.success() {
            assert!(agent.ended().is_none(), "{}", agent.log_tail());
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(START, answers).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn host_with_a_dead_bmc_is_switched_by_outlets_of_snmpd() {
    let snmpd = snmpd().await;
    let dir = TempDir::new().unwrap();
    let dir = dir.path();
    configure(dir, &snmpd);
    let mut agent = start(dir);
    serves(dir, &mut agent).await;

    let by_bmc = run(dir, &["power", "off", "node-1", "--yes", "--timeout", "3s"]);
    assert!(!by_bmc.status.success(), "{by_bmc:?}");
    assert_eq!(
        snmpd.commands(),
        Vec::<String>::new(),
        "nobody asked for it"
    );

    let off = succeeds(dir, &["pdu", "off", "node-1", "--yes", "-o", "json"]);
    assert!(off.contains("confirmed"), "{off}");
    let status = succeeds(dir, &["pdu", "status", "node-1", "-o", "json"]);
    assert!(status.contains("a/1: off"), "{status}");
    assert!(status.contains("b/2: off"), "{status}");
    let mut commands = snmpd.commands();
    commands.sort_unstable();
    let [off_1, off_2] = [1, 2].map(|n| format!(".{EATON}.6.1.3.0.{n} 0"));
    assert_eq!(commands, [off_1, off_2]);

    let on = succeeds(dir, &["pdu", "on", "node-1", "--yes", "-o", "json"]);
    assert!(on.contains("confirmed"), "{on}");

    // A relay that does not move is not off.
    fs::write(snmpd.dir.path().join("stuck"), "").unwrap();
    let stuck = run(dir, &["pdu", "off", "node-1", "--yes", "--timeout", "8s"]);
    assert!(!stuck.status.success(), "{stuck:?}");
    for secret in [AUTH_PASSWORD, PRIVACY_PASSWORD] {
        assert!(!agent.log_tail().contains(secret), "{}", agent.log_tail());
    }
}
