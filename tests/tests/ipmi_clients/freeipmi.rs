use rackhand_bmc::ipmi::wire::Suite;
use rackhand_tests::rack::ipmi::IpmiBmc;

use crate::peer::{Said, bmc, nothing_is_left, only, row, run, tally, value};

/// With a long wait: a loaded machine must not make it repeat a command.
const PATIENT: [&str; 2] = ["--retransmission-timeout=15000", "--session-timeout=20000"];

async fn free(program: &str, bmc: &IpmiBmc, user: [&str; 2], args: &[&str]) -> Said {
    let host = bmc.address().to_string();
    let [name, password] = user;
    let base = ["-D", "LAN_2_0", "-h", &host, "-u", name, "-p", password];
    run(program, &[&base, &PATIENT[..], args].concat()).await
}

const ADMIN: [&str; 2] = ["admin", "secret"];

/// Every way of ipmipower to switch, once.
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
    assert_eq!(bmc.tally(), tally(3, 2, 1, 1, 1));
    assert_eq!(nothing_is_left(bmc).controls.len(), 6);
}

#[tokio::test]
async fn power_is_switched_once_each_with_both_suites() {
    let (three, seventeen) = (bmc(only(Suite::Cipher3)).await, bmc(|_| {}).await);
    tokio::join!(switches(&three, "3"), switches(&seventeen, "17"));
}

#[tokio::test]
async fn ipmipower_tells_why_it_was_refused() {
    let bmc = bmc(only(Suite::Cipher3)).await;
    let refused = async |user: [&str; 2], suite: &str| {
        let text = free("ipmipower", &bmc, user, &["-I", suite, "--off"])
            .await
            .failed();
        value(&text, "127.0.0.1").to_owned()
    };
    assert_eq!(refused(["admin", "wrong"], "3").await, "password invalid");
    assert_eq!(refused(["nobody", "secret"], "3").await, "username invalid");
    let text = refused(ADMIN, "17").await;
    assert!(text.contains("cipher suite id unavailable"), "{text}");
    assert_eq!(bmc.tally(), tally(0, 0, 0, 0, 0));
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
    let watts = ask("ipmi-dcmi", &["--get-system-power-statistics"]).await;
    assert_eq!(value(&watts, "Current Power"), "212 Watts");
    let chassis = ask("ipmi-chassis", &["--get-chassis-status"]).await;
    assert_eq!(value(&chassis, "System Power"), "on");
    let counters = bmc.counters();
    assert_eq!(counters.sessions_opened, counters.sessions_closed);
}
