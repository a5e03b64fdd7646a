use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use rackhand_bmc::ipmi::wire::Suite;
use rackhand_tests::rack::ipmi::{Bmc, Farm, FarmConfig, IpmiBmc};

use super::peer::{PATIENCE, ProgramOutput, bmc, only, power_counts, row, run, value};

/// Long timeouts, so that a loaded machine causes no retransmission.
const PATIENT: [&str; 2] = ["--retransmission-timeout=15000", "--session-timeout=50000"];

async fn free(program: &str, bmc: &IpmiBmc, user: [&str; 2], args: &[&str]) -> ProgramOutput {
    let host = bmc.address().to_string();
    let [name, password] = user;
    let base = ["-D", "LAN_2_0", "-h", &host, "-u", name, "-p", password];
    run(program, &[&base, &PATIENT[..], args].concat()).await
}

const ADMIN: [&str; 2] = ["admin", "secret"];

/// Every power command of ipmipower, once.
async fn switches(bmc: &IpmiBmc, suite: &str) {
    let power = async |what: &str| {
        let text = free("ipmipower", bmc, ADMIN, &["-I", suite, what])
            .await
            .done();
        value(&text, &bmc.address().ip().to_string()).to_owned()
    };
    assert_eq!(power("--stat").await, "on");
    assert_eq!(power("--off").await, "ok");
    assert_eq!(power("--stat").await, "off");
    for what in ["--on", "--cycle", "--reset", "--pulse", "--soft"] {
        assert_eq!(power(what).await, "ok", "{what}");
    }
    assert_eq!(power("--stat").await, "off");
    assert_eq!(bmc.power_counts(), power_counts(3, 2, 1, 1, 1));
    // ipmipower leaves its session open after a reset only.
    let closed = |bmc: &mut Bmc, now| bmc.sessions(now) == 1;
    bmc.wait_for(PATIENCE, closed).await.expect("one session");
    let counters = bmc.counters();
    assert_eq!((counters.sessions_opened, counters.sessions_closed), (9, 8));
    assert_eq!(counters.controls.len(), 6);
    assert!(
        counters.dropped.is_empty() && counters.unknown.is_empty(),
        "{counters:?}"
    );
}

#[tokio::test]
async fn each_command_switches_power_once_with_both_suites() {
    let (three, seventeen) = (bmc(only(Suite::Cipher3)).await, bmc(|_| {}).await);
    tokio::join!(switches(&three, "3"), switches(&seventeen, "17"));
}

#[tokio::test]
async fn ipmipower_reports_the_cause_of_a_login_failure() {
    let bmc = bmc(only(Suite::Cipher3)).await;
    let off = async |user: [&str; 2], suite: &str| {
        let said = free("ipmipower", &bmc, user, &["-I", suite, "--off"]).await;
        value(&said.text, "127.0.0.1").to_owned()
    };
    assert_eq!(off(["admin", "wrong"], "3").await, "password invalid");
    assert_eq!(off(["nobody", "secret"], "3").await, "username invalid");
    // Invalid authentication algorithm.
    assert_eq!(off(ADMIN, "17").await, "BMC error");
    assert_eq!(bmc.power_counts(), power_counts(0, 0, 0, 0, 0));
}

#[tokio::test]
async fn dead_bmcs_of_a_farm_do_not_respond() {
    let mut config = FarmConfig::new(60);
    config.first = Ipv4Addr::new(127, 0, 77, 1);
    config.dead = BTreeSet::from([7, 21]);
    let farm = Farm::start(&config).await.expect("a farm");
    let hosts: Vec<_> = farm
        .bmcs()
        .iter()
        .map(|bmc| bmc.address().to_string())
        .collect();
    let (hosts, wait) = (hosts.join(","), "--session-timeout=5000");
    let args = [
        "-D", "LAN_2_0", "-I", "17", "-h", &hosts, "-u", "admin", "-p", "secret", wait, "--stat",
    ];
    let text = run("ipmipower", &args).await.text;
    for (index, bmc) in farm.bmcs().iter().enumerate() {
        let expected = if [7, 21].contains(&index) {
            "connection timeout"
        } else {
            "on"
        };
        assert_eq!(
            value(&text, &bmc.address().ip().to_string()),
            expected,
            "{index}"
        );
    }
}

#[tokio::test]
async fn sensors_log_and_identity_are_read() {
    let bmc = bmc(|_| {}).await;
    let cache = tempfile::tempdir().expect("a directory");
    let cache = format!("--sdr-cache-directory={}", cache.path().display());
    let ask = async |program: &str, args: &[&str]| {
        free(program, &bmc, ADMIN, &[&["-I", "17"], args].concat())
            .await
            .done()
    };
    let sensors = ask("ipmi-sensors", &[&cache, "--quiet-cache"]).await;
    let fields = |name| row(&sensors, name)[2..].to_vec();
    assert_eq!(fields("Inlet Temp"), ["Temperature", "24.00", "C", "'OK'"]);
    assert_eq!(fields("Fan1"), ["Fan", "5520.00", "RPM", "'OK'"]);
    assert_eq!(fields("PSU1 Power")[1..], ["212.00", "W", "'OK'"]);
    assert_eq!(fields("PSU1 Status")[3], "'Presence detected'");
    let log = ask("ipmi-sel", &[&cache, "--quiet-cache", "--info"]).await;
    assert_eq!(value(&log, "Number of log entries"), "0");
    let info = ask("bmc-info", &[]).await;
    assert_eq!(value(&info, "Firmware Revision"), "4.20");
    assert_eq!(
        value(&info, "Manufacturer ID"),
        "Example Enterprise Number for Documentation Use (32473)"
    );
    assert_eq!(value(&info, "Medium Type"), "802.3 LAN");
    let fru = ask("ipmi-fru", &[&cache, "--quiet-cache"]).await;
    assert_eq!(value(&fru, "FRU Product Serial Number"), "SIM-1");
    let closed = |bmc: &mut Bmc, now| bmc.sessions(now) == 0;
    bmc.wait_for(PATIENCE, closed).await.expect("no session");
}
