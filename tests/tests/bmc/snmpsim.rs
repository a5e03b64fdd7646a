//! The SNMP client of PDUs against snmpsim with recordings of three APC PDUs.

use std::{
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

use rackhand_bmc::{
    ErrorKind,
    pdu::{OutletCommand, OutletReading, OutletState, PduTable},
};
use rackhand_tests::process::{Process, free_port};
use tempfile::TempDir;

use crate::ipmi_support::program;
use crate::snmp_support::{Agent, community, id};

/// snmpsim's recordings, below `$RACKHAND_PEERS`.
fn recording(name: &str) -> PathBuf {
    let responder = PathBuf::from(program("snmpsim-command-responder"));
    let lib = responder
        .parent()
        .and_then(Path::parent)
        .unwrap()
        .join("lib");
    let python = fs::read_dir(lib).unwrap().next().unwrap().unwrap().path();
    python
        .join("site-packages/snmpsim_data/data/UPS")
        .join(name)
}

/// snmpsim with the recording of a PDU. The recordings change the states of outlets; here they keep what was
/// recorded first, and commands are kept as written.
async fn snmpsim(name: &str, table: PduTable) -> Agent {
    let dir = TempDir::new().unwrap();
    let data = dir.path().join("data");
    fs::create_dir_all(&data).unwrap();
    let mut records = String::new();
    for line in fs::read_to_string(recording(name)).unwrap().lines() {
        let (oid, rest) = line.split_once('|').unwrap();
        // The outlets only, because it indexes a whole recording for 10 s.
        if !oid.contains(".318.1.1.26.9.") && !oid.contains(".318.1.1.12.3.") {
            continue;
        }
        let (tag, value) = rest.split_once('|').unwrap();
        let is_command =
            oid.contains("318.1.1.26.9.2.4.1.5.") || oid.contains("318.1.1.12.3.3.1.1.4.");
        let (tag, value) = match value.split_once("initial=") {
            Some((_, first)) => ("2", first.to_owned()),
            None if is_command => ("2:writecache", format!("value={value}")),
            None => (tag, value.to_owned()),
        };
        writeln!(records, "{oid}|{tag}|{value}").unwrap();
    }
    // Named by its community.
    fs::write(data.join("public.snmprec"), &records).unwrap();
    let port = free_port().unwrap();
    let show = |path: &Path| path.display().to_string();
    let mut command = vec![
        program("snmpsim-command-responder"),
        format!("--data-dir={}", show(&data)),
        format!("--cache-dir={}", show(&dir.path().join("cache"))),
        format!("--agent-udpv4-endpoint=127.0.0.1:{port}"),
    ];
    // Its Python may be where only this user may read.
    if nix::unistd::geteuid().is_root() {
        command.extend(["--process-user=root", "--process-group=root"].map(str::to_owned));
    }
    let process = Process::start("snmpsim", &command, &[], dir.path()).unwrap();
    let agent = Agent { port, dir, process };
    agent.answers(table, community("public", None), "1").await
}

fn read_of<'a>(readings: &'a [OutletReading], name: &str) -> &'a OutletReading {
    readings
        .iter()
        .find(|reading| reading.id == id(name))
        .unwrap()
}

#[tokio::test]
async fn recording_of_an_apc_8641_is_read_with_its_currents() {
    let agent = snmpsim("apc-8641.snmprec", PduTable::ApcRpdu2).await;
    let pdu = agent.pdu(PduTable::ApcRpdu2, community("public", None));
    let outlets = pdu.outlets().await.unwrap();
    assert_eq!(outlets.len(), 24);
    let first = read_of(&outlets, "1");
    assert_eq!(first.state, OutletState::On);
    assert_eq!(first.label.as_deref(), Some("CP-CM-SAN-01"));
    // 0.9 A and 163 W.
    assert_eq!((first.amperes, first.watts), (Some(0.9), Some(163.0)));
    assert_eq!(pdu.read(&[id("1")]).await.unwrap().first(), Some(first));
}

#[tokio::test]
async fn recording_of_an_apc_8932_is_read_by_both_tables_alike() {
    let agent = snmpsim("apc-8932.snmprec", PduTable::ApcRpdu2).await;
    let states = async |table| {
        let outlets = agent
            .pdu(table, community("public", None))
            .outlets()
            .await
            .unwrap();
        let states = outlets
            .into_iter()
            .map(|outlet| (outlet.id, outlet.state, outlet.label));
        states.collect::<Vec<_>>()
    };
    let newer = states(PduTable::ApcRpdu2).await;
    assert_eq!(newer.len(), 24);
    assert_eq!(newer[1].1, OutletState::Off);
    // The firmware serves the table of the first generation as well, with other numbers for on and off.
    assert_eq!(states(PduTable::ApcRpdu).await, newer);
}

#[tokio::test]
async fn recording_of_an_apc_7902_is_read_by_the_table_of_its_generation() {
    let agent = snmpsim("apc-7902b.snmprec", PduTable::ApcRpdu).await;
    let pdu = agent.pdu(PduTable::ApcRpdu, community("public", None));
    let outlets = pdu.outlets().await.unwrap();
    assert!(!outlets.is_empty());
    assert!(
        outlets
            .iter()
            .all(|outlet| outlet.state != OutletState::Unknown)
    );
    assert_eq!(outlets[0].state, OutletState::On);
    // It has no outlets in the table of the second generation.
    let other = agent.pdu(PduTable::ApcRpdu2, community("public", None));
    let missing = other.read(&[id("1")]).await.unwrap_err();
    assert_eq!(missing.kind, ErrorKind::System);
    assert_eq!(other.outlets().await.unwrap_err().kind, ErrorKind::System);
}

#[tokio::test]
async fn command_reaches_snmpsim_with_the_immediate_value() {
    let agent = snmpsim("apc-8932.snmprec", PduTable::ApcRpdu2).await;
    let pdu = agent.pdu(PduTable::ApcRpdu2, community("public", None));
    let value = || {
        let written = std::process::Command::new(program("snmpget"))
            .args(["-v2c", "-c", "public", "-Oqv"])
            .arg(format!("127.0.0.1:{}", agent.port))
            .arg("1.3.6.1.4.1.318.1.1.26.9.2.4.1.5.1")
            .output()
            .unwrap();
        String::from_utf8(written.stdout).unwrap().trim().to_owned()
    };
    pdu.switch(&id("1"), OutletCommand::Off).await.unwrap();
    assert_eq!(value(), "2");
    pdu.switch(&id("1"), OutletCommand::On).await.unwrap();
    assert_eq!(value(), "1");
    // The recording's state does not follow: an accepted command is not a state.
    let read = pdu.read(&[id("1")]).await.unwrap();
    assert_eq!(read[0].state, OutletState::On);
}
