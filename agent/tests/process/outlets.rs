//! Outlets of PDUs by the command line and by the fence agent, with real processes and Redfish PDUs.

use std::{
    io::Write,
    os::unix::fs::symlink,
    process::{Command, Stdio},
};

use crate::kit::{Daemon, Pdu, Ran, Redfish, Site};
use serde_json::Value;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// `node-1` with its BMC, and with outlet 1 of both PDUs.
fn site(bmc: &Redfish, a: &Pdu, b: &Pdu) -> Site {
    let site = Site::new(&[bmc]);
    let mut text = std::fs::read_to_string(&site.config).unwrap();
    text.push_str("outlets = [{ pdu = 'a', outlet = '1' }, { pdu = 'b', outlet = '1' }]\n");
    text.push_str(&a.config("a"));
    text.push_str(&b.config("b"));
    std::fs::write(&site.config, text).unwrap();
    site
}

/// Runs the fence agent with these lines on its standard input.
fn fence(site: &Site, lines: &str) -> Ran {
    let program = site.dir.path().join("fence_rackhand");
    if !program.exists() {
        symlink(env!("CARGO_BIN_EXE_rackhand-agent"), &program).unwrap();
    }
    let socket = site.dir.path().join("agent.sock");
    let mut child = Command::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let input = format!("{lines}\nsocket={}\n", socket.display());
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    Ran {
        code: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

#[test]
fn outlets_are_listed_read_and_switched_by_hand() {
    let (bmc, a, b) = (Redfish::start(), Pdu::start(), Pdu::start());
    let site = site(&bmc, &a, &b);
    let daemon = Daemon::start(&site);
    let listed = daemon.run(&["pdu", "list", "-o", "json"]);
    assert_eq!(listed.code, 0, "{listed:?}");
    let listed = json(&listed.out);
    assert_eq!(listed[0]["pdu"], "a");
    assert_eq!(listed[1]["outlets"], 2);
    assert_eq!(listed[1]["used"], 1);
    assert_eq!(listed[1]["hosts"][0], "node-1");
    let outlets = daemon.run(&["pdu", "outlets", "a"]);
    assert_eq!(outlets.code, 0, "{outlets:?}");
    let head: Vec<&str> = outlets
        .out
        .lines()
        .next()
        .unwrap()
        .split_whitespace()
        .collect();
    assert_eq!(
        head,
        ["OUTLET", "STATE", "CURRENT", "POWER", "HOST", "LABEL"]
    );
    let first = outlets.out.lines().nth(1).unwrap();
    assert!(first.contains("0.9 A    201.0 W  node-1"), "{outlets:?}");
    let unknown = daemon.run(&["pdu", "outlets", "c"]);
    assert_eq!(unknown.code, 1, "{unknown:?}");
    assert!(
        unknown.err.contains("PDU c is not in the configuration"),
        "{unknown:?}"
    );

    let shown = daemon.run(&["host", "show", "node-1", "-o", "json"]);
    assert_eq!(json(&shown.out)[0]["outlets"][1], "b/1");
    let config = site.config.display().to_string();
    let checked = daemon.run(&["check", "--config", &config]);
    assert!(
        checked
            .out
            .contains("PDU:      a (redfish+http://127.0.0.1:"),
        "{checked:?}"
    );
    let dry = daemon.run(&["pdu", "off", "node-1", "--dry-run"]);
    assert_eq!(dry.out, "would switch off hard the outlets of node-1\n");
    let off = daemon.run(&["pdu", "off", "node-1", "-o", "json"]);
    assert_eq!(off.code, 0, "{off:?}");
    assert_eq!(json(&off.out)[0]["result"], "confirmed");
    assert!(!a.is_on(1) && !b.is_on(1));
    assert!(a.is_on(2) && b.is_on(2), "outlets of nobody");
    let status = daemon.run(&["pdu", "status", "--all", "-o", "json"]);
    let status = json(&status.out);
    assert_eq!(status[0]["power"], "off");
    assert_eq!(
        status[0]["raw"],
        "a/1: off, 0.0 A, 0.0 W; b/1: off, 0.0 A, 0.0 W"
    );
    assert_eq!(bmc.power(), "On", "the simulated BMC has a feed of its own");

    let cycle = daemon.run(&["pdu", "cycle", "node-1", "--hold-off", "100ms"]);
    assert_eq!(cycle.code, 0, "{cycle:?}");
    assert!(a.is_on(1) && b.is_on(1));
    let operations = daemon.run(&["operations", "list", "-o", "json"]);
    let operations = json(&operations.out);
    assert_eq!(operations[0]["device"], "outlets", "{operations}");
    let checked = daemon.run(&["host", "check", "node-1", "-o", "json"]);
    let checks = json(&checked.out)[0]["checks"].clone();
    let of_outlets = checks.as_array().unwrap().iter();
    let of_outlets = of_outlets.filter(|check| check["check"] == "outlets");
    let verdicts: Vec<&Value> = of_outlets.map(|check| &check["verdict"]).collect();
    assert_eq!(verdicts, ["ok", "ok"], "{checks}");
    assert_eq!(daemon.stop(), 0);
}

#[test]
fn f8_missing_pdu_keeps_both_feeds() {
    let (bmc, a, b) = (Redfish::start(), Pdu::start(), Pdu::start());
    let site = site(&bmc, &a, &b);
    let daemon = Daemon::start(&site);
    drop(b);
    let off = daemon.run(&["pdu", "off", "node-1", "--timeout", "3s", "-o", "json"]);
    assert_eq!(off.code, 4, "{off:?}");
    let off = json(&off.out);
    assert_ne!(off[0]["result"], "confirmed");
    assert!(
        off[0]["message"].as_str().unwrap().contains("PDU b"),
        "{off}"
    );
    assert!(a.is_on(1), "switched, although the other feed is not known");
    let listed = daemon.run(&["pdu", "list"]);
    assert_eq!(listed.code, 4, "{listed:?}");
    assert!(
        listed
            .out
            .lines()
            .any(|line| line.starts_with("b    unreachable")),
        "{listed:?}"
    );
    assert_eq!(daemon.stop(), 0);
}

#[test]
fn fence_agent_switches_outlets_and_fails_while_one_stays_on() {
    let (bmc, a, b) = (Redfish::start(), Pdu::start(), Pdu::start());
    let site = site(&bmc, &a, &b);
    let daemon = Daemon::start(&site);
    let with = |action: &str| {
        fence(
            &site,
            &format!("action={action}\nplug=node-1\ndevice=outlets"),
        )
    };
    let status = with("status");
    assert_eq!(
        (status.code, status.out.as_str()),
        (0, "Status: ON\n"),
        "{status:?}"
    );
    let off = with("off");
    assert_eq!(
        (off.code, off.out.as_str()),
        (0, "Success: Powered OFF\n"),
        "{off:?}"
    );
    assert!(!a.is_on(1) && !b.is_on(1));
    assert_eq!(with("status").code, 2);
    let on = with("on");
    assert_eq!(
        (on.code, on.out.as_str()),
        (0, "Success: Powered ON\n"),
        "{on:?}"
    );
    b.set_stuck(1);
    let off = fence(
        &site,
        "action=reboot\nplug=node-1\ndevice=outlets\npower_timeout=9",
    );
    assert_eq!(off.code, 1, "{off:?}");
    assert!(
        off.out.is_empty() && off.err.contains("not-confirmed"),
        "{off:?}"
    );
    assert!(
        !a.is_on(1),
        "nothing is switched on after an off that is not confirmed"
    );
    let wrong = fence(&site, "action=diag\nplug=node-1\ndevice=outlets");
    assert_eq!(wrong.code, 1, "{wrong:?}");
    assert_eq!(daemon.stop(), 0);
}

#[test]
fn enclosure_is_switched_off_only_while_the_other_sled_is_off_or_named() {
    let (one, two, enclosure) = (Redfish::start(), Redfish::start(), Pdu::start_enclosure());
    let site = Site::new(&[&one, &two]);
    let text = std::fs::read_to_string(&site.config).unwrap();
    let shared = "outlets = [{ pdu = 'enc', outlet = 'Enclosure', shared = true }]\n";
    let text = text.replace("node_name = ", &format!("{shared}node_name = "));
    let manager = enclosure.config("enc");
    std::fs::write(
        &site.config,
        format!("{text}{manager}type = 'chassis'\nstandby_watts = 15\n"),
    )
    .unwrap();
    let daemon = Daemon::start(&site);
    let listed = daemon.run(&["pdu", "outlets", "enc", "-o", "json"]);
    assert_eq!(json(&listed.out)[0]["host"], "node-1, node-2", "{listed:?}");
    let shown = daemon.run(&["host", "show", "node-1", "-o", "json"]);
    assert_eq!(json(&shown.out)[0]["outlets"][0], "enc/Enclosure");

    let off = daemon.run(&["pdu", "off", "node-1", "-o", "json"]);
    assert_eq!(off.code, 1, "{off:?}");
    let message = json(&off.out)[0]["message"].to_string();
    assert!(
        message.contains("host node-2 (on)") && message.contains("--with-siblings node-2"),
        "{message}"
    );
    let fenced = fence(&site, "action=off\nplug=node-1\ndevice=outlets");
    assert_eq!(fenced.code, 1, "{fenced:?}");
    assert!(fenced.err.contains("host node-2 (on)"), "{fenced:?}");
    assert!(enclosure.is_on(1) && enclosure.is_on(2));

    let named = "action=off\nplug=node-1\ndevice=outlets\nwith_siblings=node-1,node-2";
    let fenced = fence(&site, named);
    assert_eq!(fenced.code, 0, "{fenced:?}");
    assert!(!enclosure.is_on(1) && !enclosure.is_on(2));
    let held = daemon.run(&["power", "on", "node-2"]);
    assert_ne!(held.code, 0, "{held:?}");
    let on = daemon.run(&["pdu", "on", "node-1"]);
    assert_eq!(on.code, 0, "{on:?}");
    assert!(enclosure.is_on(1) && enclosure.is_on(2));

    // The BMCs have a feed of their own here, and the other host is switched off by its BMC.
    let off = daemon.run(&["power", "off", "node-2"]);
    assert_eq!(off.code, 0, "{off:?}");
    let off = daemon.run(&["pdu", "off", "node-1", "-o", "json"]);
    assert_eq!(off.code, 0, "{off:?}");
    let unknown = daemon.run(&["pdu", "cycle", "node-1", "--with-siblings", "node-9"]);
    assert_eq!(unknown.code, 1, "{unknown:?}");
    let operations = daemon.run(&["operations", "list", "-o", "json"]);
    assert!(
        operations
            .out
            .contains("the outlets also feed node-2 (may lose power)"),
        "{operations:?}"
    );
    assert_eq!(daemon.stop(), 0);
}
