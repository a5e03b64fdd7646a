//! The command line on a simulated rack, with the real binary on both sides.

use std::os::unix::fs::PermissionsExt;

use crate::simulated::{Sim, bare};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn status_reports_unreachable_hosts_with_the_cause() {
    let sim = Sim::start(&["--hosts", "4"]);
    let status = sim.run(&["power", "status", "--all", "-o", "json"]);
    assert_eq!(status.code, 4, "{status:?}");
    let rows = json(&status.out);
    let names: Vec<&str> = rows
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["host"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["sim-01", "sim-02", "sim-03", "sim-04"]);
    for living in 0..3 {
        assert_eq!(
            (&rows[living]["power"], &rows[living]["result"]),
            (&"on".into(), &"read".into())
        );
    }
    assert_eq!(rows[3]["power"], "unknown");
    assert_eq!(rows[3]["result"], "unreachable");
    assert!(rows[3]["error"].as_str().unwrap().contains("no response"));

    let table = sim.run(&["power", "status", "make=dell", "make=dead"]);
    assert!(
        table.err.contains("1 on; 1 unreachable: sim-04"),
        "{table:?}"
    );
}

/// The limit of the agent alone must not make this pass: sockets of all hosts are open at once.
#[test]
fn status_of_1000_hosts_with_50_dead_bmcs() {
    let args = ["--hosts", "1000", "--dead", "50", "--speaks", "ipmi"];
    // Takes a second on an idle machine.
    let sim = Sim::start(&[&args[..], &["--patience", "25s"]].concat());
    let args = ["power", "status", "--all", "-o", "json", "--timeout", "55s"];
    let status = sim.run(&args);
    assert_eq!(status.code, 4, "{}", status.err);
    let rows = json(&status.out);
    let rows = rows.as_array().unwrap();
    assert_eq!(rows.len(), 1000);
    for (index, row) in rows.iter().enumerate() {
        let name = format!("sim-{:04}", index + 1);
        assert_eq!(row["host"], name.as_str(), "in the order of the inventory");
        let (power, result) = if index < 950 {
            ("on", "read")
        } else {
            ("unknown", "unreachable")
        };
        assert_eq!(
            (&row["power"], &row["result"]),
            (&power.into(), &result.into()),
            "{row}"
        );
        assert_eq!(index >= 950, row["error"].is_string(), "{row}");
    }
}

#[test]
fn boot_device_is_set_once_persistently_and_cleared() {
    let sim = Sim::start(&["--hosts", "3", "--dead", "0"]);
    let hosts = ["sim-01", "sim-03"];
    let set = |more: &[&str]| sim.run(&[&["boot-device", "set"][..], &hosts, more].concat());
    let unasked = set(&["pxe"]);
    assert_eq!(unasked.code, 2, "{unasked:?}");
    let dry = set(&["pxe", "--dry-run"]);
    assert_eq!(
        dry.out,
        "would set the boot device pxe of sim-01\nwould set the boot device pxe of sim-03\n"
    );
    let show = || {
        let show = sim.run(&["boot-device", "show", "--all", "-o", "json"]);
        assert_eq!(show.code, 0, "{show:?}");
        json(&show.out)
    };
    assert_eq!(show()[0]["device"], "none");
    let pxe = set(&["pxe", "--uefi", "--yes"]);
    assert_eq!(pxe.code, 0, "{pxe:?}");
    assert!(pxe.err.contains("2 set"), "{pxe:?}");
    let now = show();
    for index in [0, 2] {
        assert_eq!(now[index]["device"], "pxe", "{now}");
        assert_eq!(now[index]["lasts"], "once", "{now}");
        assert_eq!(now[index]["mode"], "uefi", "{now}");
    }
    assert_eq!(now[1]["device"], "none", "{now}");
    let disk = set(&["disk", "--persistent", "--yes"]);
    assert_eq!(disk.code, 0, "{disk:?}");
    assert_eq!(show()[2]["lasts"], "persistent");
    assert_eq!(set(&["none", "-y"]).code, 0);
    assert_eq!(show()[0]["device"], "none");
    let impossible = sim.run(&["boot-device", "set", "sim-03", "http"]);
    assert_eq!(impossible.code, 1, "{impossible:?}");
    assert!(impossible.out.contains("UEFI HTTP"), "{impossible:?}");
}

#[test]
fn leds_sensors_and_events_of_simulated_hosts() {
    let sim = Sim::start(&["--hosts", "3", "--dead", "0"]);
    for led in ["on", "30", "10m", "off"] {
        let lit = sim.run(&["identify", led, "sim-[01-03]"]);
        assert_eq!(lit.code, 0, "{led}: {lit:?}");
    }
    let sensors = sim.run(&["sensors", "--all", "-o", "json"]);
    assert_eq!(sensors.code, 0, "{sensors:?}");
    let sensors = json(&sensors.out);
    for row in sensors.as_array().unwrap() {
        assert!(row["power_draw"].as_f64().unwrap() > 0.0, "{row}");
        assert!(row["inlet_temperature"].as_f64().unwrap() > 0.0, "{row}");
        assert!(!row["sensors"].as_array().unwrap().is_empty(), "{row}");
    }
    let each = sim.run(&["sensors", "sim-03", "--each"]);
    assert!(
        each.out.contains("Inlet Temp") && each.out.contains(" C "),
        "{each:?}"
    );

    assert_eq!(sim.run(&["power", "off", "sim-01"]).code, 0);
    let list = sim.run(&["events", "list", "sim-01", "sim-03"]);
    assert_eq!(list.code, 0, "{list:?}");
    assert!(list.out.contains("The power state is Off."), "{list:?}");
    assert!(list.out.contains("no events"), "{list:?}");
    let unasked = sim.run(&["events", "clear", "sim-01"]);
    assert_eq!(unasked.code, 2, "{unasked:?}");
    assert!(unasked.err.contains("--yes"), "{unasked:?}");
    let clear = sim.run(&["events", "clear", "sim-01", "--yes"]);
    assert_eq!(clear.code, 0, "{clear:?}");
    let after = json(&sim.run(&["events", "list", "sim-01", "-o", "json"]).out);
    let after = after[0]["events"].as_array().unwrap();
    assert!(
        after
            .iter()
            .all(|event| !event["message"].as_str().unwrap().contains("Off")),
        "{after:?}"
    );
}

#[test]
fn host_check_reports_failures_with_advice() {
    let sim = Sim::start(&["--hosts", "4"]);
    let verdicts = |host: &str| {
        let run = sim.run(&["host", "check", host, "-o", "json"]);
        let rows = json(&run.out);
        let checks = rows[0]["checks"].as_array().unwrap().clone();
        let words = checks.iter().map(|check| {
            let word = |name: &str| check[name].as_str().unwrap().to_owned();
            (word("check"), word("verdict"))
        });
        (run.code, words.collect::<Vec<_>>(), rows)
    };
    for good in ["sim-01", "sim-02", "sim-03"] {
        let (code, words, rows) = verdicts(good);
        assert_eq!(code, 0, "{rows}");
        assert!(words.iter().all(|(_, verdict)| verdict == "ok"), "{rows}");
    }
    let (_, words, rows) = verdicts("sim-03");
    let names: Vec<&str> = words.iter().map(|(name, _)| name.as_str()).collect();
    let of_ipmi = [
        "name",
        "route",
        "credentials",
        "privilege",
        "power",
        "cipher-suite",
        "identity",
        "clock",
        "off-proof",
        "updates",
    ];
    assert_eq!(names, of_ipmi, "{rows}");

    let (code, words, rows) = verdicts("sim-04");
    assert_eq!(code, 1, "{rows}");
    let failed = ("route".to_owned(), "failed".to_owned());
    assert_eq!(words[1], failed, "{rows}");
    assert!(
        rows[0]["checks"][1]["next"]
            .as_str()
            .unwrap()
            .contains("ping")
    );
    assert!(words[2..].iter().all(|(_, verdict)| verdict == "skipped"));

    std::fs::write(sim.dir().join("password"), "wr0ng\n").unwrap();
    let (code, words, rows) = verdicts("sim-01");
    assert_eq!(code, 1, "{rows}");
    let failed: Vec<&str> = words
        .iter()
        .filter(|(_, verdict)| verdict == "failed")
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(failed, ["credentials"], "{rows}");
    assert!(!rows.to_string().contains("wr0ng"));
    let table = sim.run(&["host", "check", "sim-01"]);
    assert!(
        table.out.starts_with("HOST    CHECK        RESULT"),
        "{table:?}"
    );
    let unknown = sim.run(&["host", "check", "sim-99"]);
    assert_eq!(unknown.code, 1, "{unknown:?}");
    assert!(unknown.out.contains("not in the inventory"), "{unknown:?}");
}

#[test]
fn direct_is_rejected_while_an_agent_serves_the_rack() {
    let sim = Sim::start(&["--hosts", "3", "--dead", "0"]);
    let beside = sim.run(&["power", "off", "sim-01", "--direct"]);
    assert_eq!(beside.code, 3, "{beside:?}");
    assert!(beside.err.contains("an agent serves"), "{beside:?}");
    assert!(beside.err.contains("--force"), "{beside:?}");

    // The configuration of an agent that is not running.
    let config = sim.other_config();
    let direct = |args: &[&str]| {
        let config = ["--direct", "--config", config.to_str().unwrap()];
        bare(&[args, &config].concat())
    };
    let off = direct(&["power", "off", "sim-01", "sim-03", "--yes", "-o", "json"]);
    assert_eq!(off.code, 0, "{off:?}");
    assert!(off.err.contains("nothing is recorded"), "{off:?}");
    let off = json(&off.out);
    assert_eq!(off[1]["result"], "confirmed", "{off}");
    assert!(!sim.dir().join("other").exists(), "a journal was created");
    let status = json(&sim.run(&["power", "status", "sim-01", "-o", "json"]).out);
    assert_eq!(status[0]["power"], "off");
    for (args, said) in [
        (&["operations", "list"][..], "running agent"),
        (&["power", "on", "sim-01", "--no-wait"], "--no-wait"),
    ] {
        let run = direct(args);
        assert_eq!(run.code, 2, "{run:?}");
        assert!(run.err.contains(said), "{run:?}");
    }
    // The holds in the journal of the last agent apply.
    std::fs::create_dir(sim.dir().join("other")).unwrap();
    std::fs::write(sim.dir().join("other/journal.redb"), "no journal").unwrap();
    let broken = direct(&["power", "status", "sim-01"]);
    assert_eq!(broken.code, 1, "{broken:?}");
    let forced = direct(&["power", "status", "sim-01", "--force"]);
    assert_eq!(forced.code, 0, "{forced:?}");
    assert!(
        forced.err.contains("holds of remediations are not known"),
        "{forced:?}"
    );
}

/// A hold outlives the agent: `--direct` must respect it.
#[tokio::test]
async fn direct_reads_the_holds_of_the_journal() {
    let mut sim = Sim::start(&["--hosts", "2", "--dead", "0"]);
    sim.hold("sim-01").await;
    assert_eq!(sim.interrupt(), 0);

    let list = sim.run(&["host", "list", "--direct", "-o", "json"]);
    assert_eq!(list.code, 0, "{list:?}");
    let hosts = json(&list.out);
    let held = hosts[0]["held_by"].as_str().unwrap();
    assert!(held.starts_with("operator local:"), "{hosts}");
    assert!(hosts[1].get("held_by").is_none(), "{hosts}");
}

#[test]
fn enroll_creates_a_key_once_and_a_request() {
    let sim = Sim::start(&["--hosts", "1", "--dead", "0"]);
    let dir = sim.dir().join("tls");
    let config = sim.config();
    let enroll = |more: &[&str]| {
        let args = [
            "enroll",
            "--endpoint",
            "rack.example.org:7443",
            "--trust-domain",
            "example.org",
            "--config",
            config.to_str().unwrap(),
            "--dir",
            dir.to_str().unwrap(),
        ];
        bare(&[&args[..], more].concat())
    };
    let first = enroll(&[]);
    assert_eq!(first.code, 0, "{first:?}");
    assert!(first.out.contains("kind: RackAgent"), "{first:?}");
    assert!(
        first.out.contains("endpoint: rack.example.org:7443"),
        "{first:?}"
    );
    let key = std::fs::read_to_string(dir.join("tls.key")).unwrap();
    let mode = std::fs::metadata(dir.join("tls.key"))
        .unwrap()
        .permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);
    let secret: Vec<&str> = key.lines().filter(|line| !line.starts_with('-')).collect();
    for shown in [&first.out, &first.err] {
        assert!(secret.iter().all(|line| !shown.contains(line)), "{shown}");
    }
    let request = enroll(&["--only", "request"]);
    assert!(request.err.contains("was there and is kept"), "{request:?}");
    assert_eq!(std::fs::read_to_string(dir.join("tls.key")).unwrap(), key);
    let body: String = request
        .out
        .lines()
        .filter(|line| !line.starts_with('-'))
        .collect();
    let der = STANDARD.decode(body).unwrap();
    let uri = b"spiffe://example.org/rack/sim";
    assert!(der.windows(uri.len()).any(|part| part == uri));
    let wrong = enroll(&["--trust-domain", "Example Org"]);
    assert_eq!(wrong.code, 2, "{wrong:?}");
}

#[test]
fn simulated_rack_prints_commands_and_leaves_no_files() {
    let sim = Sim::start(&["--hosts", "2"]);
    let said = sim.said();
    for command in [
        "power status --all",
        "host check sim-02",
        "power cycle sim-01",
    ] {
        assert!(said.contains(command), "{said}");
    }
    let status = sim.run(&["power", "status", "sim-01"]);
    assert_eq!(status.code, 0, "{status:?}");
    let stranger = sim.dir().join("stranger");
    std::fs::create_dir(&stranger).unwrap();
    std::fs::write(
        stranger.join(sim.config().file_name().unwrap()),
        "rack: r1\n",
    )
    .unwrap();
    let refused = bare(&["sim", "--dir", stranger.to_str().unwrap()]);
    assert_eq!(refused.code, 2, "{refused:?}");
    assert_eq!(sim.stop(), 0);
}

/// Error messages for common mistakes of an operator.
#[test]
fn bmcs_are_described_and_restarted() {
    let sim = Sim::start(&["--hosts", "3", "--dead", "0"]);
    let info = sim.run(&["bmc", "info", "--all", "-o", "json"]);
    assert_eq!(info.code, 0, "{info:?}");
    for row in json(&info.out).as_array().unwrap() {
        assert!(!row["service"].as_str().unwrap().is_empty(), "{row}");
        assert!(!row["firmware"].as_str().unwrap().is_empty(), "{row}");
        assert_eq!(row["may_switch"], true, "{row}");
    }
    let table = sim.run(&["bmc", "info", "sim-01"]);
    assert!(table.out.starts_with("HOST"), "{table:?}");

    let dry = sim.run(&["bmc", "reset", "sim-01", "--dry-run"]);
    assert_eq!(dry.out, "would restart the BMC of sim-01\n");
    let unasked = sim.run(&["bmc", "reset", "sim-01"]);
    assert_eq!(unasked.code, 2, "{unasked:?}");
    assert!(unasked.err.contains("--yes"), "{unasked:?}");
    let reset = sim.run(&["bmc", "reset", "sim-01", "--yes"]);
    assert_eq!(reset.code, 0, "{reset:?}");
    let operations = sim.run(&["operations", "list", "--host", "sim-01"]);
    assert!(operations.out.contains("bmc-reset"), "{operations:?}");

    assert_eq!(sim.run(&["power", "off", "sim-02"]).code, 0);
    let status = sim.run(&["power", "status", "sim-02", "-o", "json"]);
    assert!(status.out.contains("off"), "{status:?}");
}

#[test]
fn usage_errors_include_the_next_step() {
    let sim = Sim::start(&["--hosts", "3"]);
    for (args, code, says) in [
        (&["power", "status", "sim-1"][..], 1, "did you mean sim-01?"),
        (&["power", "status", "sim-*"], 1, "rack=sim"),
        (&["power", "status", "sim-[1-"], 2, "node-[01-40]"),
        (&["power", "status", "role=nothing"], 2, "host list -o wide"),
        (&["power", "off", "--all"], 2, "rack=NAME"),
        (&["power", "status", "sim-03"], 4, "host check sim-03"),
        (&["sensors", "sim-03"], 4, "host check sim-03"),
        (&["host", "list", "sim-9"], 1, "sim-9"),
        (&["operations", "list", "--host", "x"], 0, "host list"),
        (&["operations", "cancel", "x"], 1, "operations list"),
        (
            &["host", "list", "--socket", "/nowhere"],
            4,
            "systemctl start",
        ),
    ] {
        let run = sim.run(args);
        assert_eq!(run.code, code, "{args:?}: {run:?}");
        assert!(run.err.contains(says), "{args:?}: {run:?}");
    }
    let unknown = sim.run(&["power", "on", "sim-99"]);
    assert!(unknown.out.contains("host list"), "{unknown:?}");
    // A killed agent leaves its socket behind.
    let dead = sim.dir().join("dead.sock");
    drop(std::os::unix::net::UnixListener::bind(&dead).unwrap());
    let run = sim.run(&["host", "list", "--socket", dead.to_str().unwrap()]);
    assert_eq!(run.code, 4, "{run:?}");
    assert!(run.err.contains("systemctl status"), "{run:?}");
}

#[test]
fn password_is_rotated_and_proven() {
    let sim = Sim::start(&["--hosts", "1", "--dead", "0"]);
    let file = sim.dir().join("password");
    let next = sim.dir().join("password.rackhand-new");
    let read = || std::fs::read_to_string(&file).unwrap();
    let old = read();

    let dry = sim.run(&["bmc", "rotate-password", "sim-01", "--dry-run"]);
    assert_eq!(dry.out, "would change the passwords of the BMC of sim-01\n");
    let rotated = sim.run(&["bmc", "rotate-password", "sim-01", "--yes"]);
    assert_eq!(rotated.code, 0, "{rotated:?}");
    let new = read();
    assert_ne!(new, old);
    assert!(!next.exists());
    assert_eq!(sim.run(&["power", "off", "sim-01", "--yes"]).code, 0);
    let operations = sim.run(&["operations", "list", "--host", "sim-01"]);
    assert!(operations.out.contains("rotate-password"), "{operations:?}");

    // As if the agent had ended before it asked the BMC: the old password counts.
    std::fs::write(&next, "Never4ccepted\n").unwrap();
    let undone = sim.run(&["bmc", "rotate-password", "sim-01", "--yes"]);
    assert_ne!(undone.code, 0, "{undone:?}");
    assert!(undone.out.contains("the old one counts"), "{undone:?}");
    assert_eq!((read(), next.exists()), (new.clone(), false));

    // As if it had ended while it wrote the new password.
    std::fs::write(&next, "").unwrap();
    let cut_short = sim.run(&["bmc", "rotate-password", "sim-01", "--yes"]);
    assert!(
        cut_short.out.contains("before the BMC was asked"),
        "{cut_short:?}"
    );
    assert_eq!((read(), next.exists()), (new.clone(), false));

    // As if it had ended after the BMC took the password: the new one counts.
    std::fs::write(&next, &new).unwrap();
    std::fs::write(&file, "before\n").unwrap();
    let concluded = sim.run(&["bmc", "rotate-password", "sim-01", "--yes"]);
    assert_eq!(concluded.code, 0, "{concluded:?}");
    assert_eq!((read(), next.exists()), (new.clone(), false));
    for secret in [old.trim(), new.trim()] {
        for run in [&rotated, &operations, &undone, &concluded] {
            assert!(
                !run.out.contains(secret) && !run.err.contains(secret),
                "{run:?}"
            );
        }
    }
}

#[test]
fn password_of_several_hosts_is_not_rotated() {
    let sim = Sim::start(&["--hosts", "2", "--dead", "0"]);
    let file = sim.dir().join("password");
    let old = std::fs::read_to_string(&file).unwrap();
    let refused = sim.run(&["bmc", "rotate-password", "sim-01", "--yes"]);
    assert_ne!(refused.code, 0, "{refused:?}");
    assert!(
        refused
            .out
            .contains("sim-02 log in with the same account or with the password in"),
        "{refused:?}"
    );
    assert_eq!(std::fs::read_to_string(&file).unwrap(), old);
}
