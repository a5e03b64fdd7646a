//! F17: a command has a living caller. Callers that are killed, cut off, or that lose an answer.

use std::{
    io::Write,
    os::unix::fs::symlink,
    path::Path,
    process::{Child, Command, Stdio},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;

use crate::kit::{Daemon, Lossy, Pdu, Redfish, Site, command, run, wait_for};

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The newest operation.
fn newest(daemon: &Daemon<'_>) -> Value {
    let listed = daemon.run(&["operations", "list", "-o", "json"]);
    json(&listed.out)[0].clone()
}

/// Whether an operation of this host has this result.
fn has_result(daemon: &Daemon<'_>, host: &str, result: &str) -> bool {
    let listed = json(&daemon.run(&["operations", "list", "-o", "json"]).out);
    let mut operations = listed.as_array().unwrap().iter();
    operations.any(|operation| operation["host"] == host && operation["result"] == result)
}

fn send(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id().try_into().unwrap()), signal).unwrap();
}

/// Starts the fence agent as Pacemaker does.
fn pacemaker(site: &Site, lines: &str) -> Child {
    pacemaker_at(site, &site.dir.path().join("agent.sock"), lines)
}

fn pacemaker_at(site: &Site, socket: &Path, lines: &str) -> Child {
    let program = site.dir.path().join("fence_rackhand");
    if !program.exists() {
        symlink(env!("CARGO_BIN_EXE_rackhand-agent"), &program).unwrap();
    }
    let mut child = Command::new(program)
        .env("PCMK_service", "pacemaker-fenced")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    write!(stdin, "{lines}\nplug=node-1\nsocket={}\n", socket.display()).unwrap();
    child
}

fn ended(child: Child) -> (Option<i32>, String, String) {
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

/// Starts a command of an operator.
fn operator(site: &Site, args: &[&str]) -> Child {
    let mut command = command(site, args);
    command.stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

#[test]
fn f17_killed_fence_agent_switches_nothing_later_and_the_next_level_runs() {
    let (bmc, a) = (Redfish::start(), Pdu::start());
    let site = Site::new(&[&bmc]);
    let mut text = std::fs::read_to_string(&site.config).unwrap();
    text.push_str("outlets = [{ pdu = 'a', outlet = '1' }]\n");
    text.push_str(&a.config("a"));
    std::fs::write(&site.config, text).unwrap();
    let daemon = Daemon::start(&site);
    // Level 1 meets a BMC that hangs, and is killed at Pacemaker's time limit.
    bmc.set_silent(true);
    let mut level_1 = pacemaker(&site, "action=off");
    wait_for("the BMC is read", || bmc.reads() > 0);
    let running = newest(&daemon);
    assert_eq!(running["attended"], true, "{running}");
    send(&level_1, Signal::SIGKILL);
    level_1.wait().unwrap();
    // Level 2 at once.
    let (code, out, err) = ended(pacemaker(&site, "action=off\ndevice=outlets"));
    assert_eq!(
        (code, out.trim()),
        (Some(0), "Success: Powered OFF"),
        "{err}"
    );
    assert!(!a.is_on(1));
    // The host is repaired, and nobody remembers the first level.
    let on = daemon.run(&["pdu", "on", "node-1"]);
    assert_eq!(on.code, 0, "{on:?}");
    bmc.set_silent(false);
    let on = daemon.run(&["power", "on", "node-1"]);
    assert_eq!(on.code, 0, "{on:?}");
    let listed = daemon.run(&["operations", "list", "-o", "json"]);
    let listed = json(&listed.out);
    assert_eq!(listed[3]["result"], "caller-gone", "{listed}");
    assert_eq!((bmc.offs(), bmc.power()), (0, "On"));
    assert!(a.is_on(1));
    assert_eq!(daemon.stop(), 0);
}

#[test]
fn f17_fence_agent_reboots_across_a_restart_of_the_agent() {
    let bmc = Redfish::start();
    let site = Site::new(&[&bmc]);
    let daemon = Daemon::start(&site);
    // The power-on is under way when the agent is killed.
    bmc.set_slow_on(true);
    let reboot = pacemaker(&site, "action=reboot");
    wait_for("it is switched on", || bmc.ons() > 0);
    assert_eq!(bmc.power(), "Off");
    daemon.kill();
    bmc.set_slow_on(false);
    let daemon = Daemon::start(&site);
    let (code, out, err) = ended(reboot);
    assert_eq!((code, out.trim()), (Some(0), "Success: Rebooted"), "{err}");
    assert_eq!(bmc.power(), "On", "{err}");
    assert_eq!(daemon.stop(), 0);
}

#[test]
fn fence_agent_monitors_a_host_that_boots() {
    let bmc = Redfish::start();
    let site = Site::new(&[&bmc]);
    let daemon = Daemon::start(&site);
    let direct = format!(
        "ip={}\nipport={}\nssl=0\nusername=ops\npassword={}",
        bmc.address.ip(),
        bmc.address.port(),
        crate::kit::PASSWORD
    );
    for state in ["PoweringOn", "PoweringOff", "On", "Off"] {
        bmc.set_power(state);
        for route in ["", &direct] {
            let (code, _, err) = ended(pacemaker(&site, &format!("action=monitor\n{route}")));
            assert_eq!(code, Some(0), "{state}, {route:?}: {err}");
        }
    }
    // Whether it is on is another question.
    bmc.set_power("PoweringOn");
    let (code, _, err) = ended(pacemaker(&site, "action=status"));
    assert_eq!(code, Some(1), "{err}");
    assert_eq!(daemon.stop(), 0);
}

#[test]
fn f17_cycle_is_finished_when_its_ssh_connection_is_cut() {
    let bmc = Redfish::start();
    let site = Site::new(&[&bmc]);
    let daemon = Daemon::start(&site);
    for signal in [Signal::SIGHUP, Signal::SIGKILL, Signal::SIGINT] {
        let before = bmc.offs();
        let cycle = operator(&site, &["power", "cycle", "node-1", "--hold-off", "2s"]);
        wait_for("it is switched off", || bmc.offs() > before);
        send(&cycle, signal);
        let (_, _, err) = ended(cycle);
        assert_eq!(
            err.contains("finished with a power-on"),
            signal == Signal::SIGINT,
            "{err}"
        );
        wait_for("the cycle ends", || newest(&daemon)["result"] != "running");
        let cycle = newest(&daemon);
        assert_eq!(cycle["result"], "caller-gone", "{signal}: {cycle}");
        let message = cycle["message"].as_str().unwrap();
        assert!(
            message.contains("the host is confirmed on"),
            "{signal}: {cycle}"
        );
        assert_eq!(bmc.power(), "On", "{signal}");
    }
    assert_eq!(daemon.stop(), 0);
}

#[test]
fn interrupted_commands_print_what_they_know() {
    let (bmc, stubborn) = (Redfish::start(), Redfish::start());
    stubborn.set_stubborn();
    let site = Site::new(&[&bmc, &stubborn]);
    let daemon = Daemon::start(&site);
    let off = operator(
        &site,
        &["power", "off", "node-2", "node-1", "--yes", "-o", "json"],
    );
    wait_for("one is off", || bmc.power() == "Off");
    wait_for("one is confirmed", || {
        has_result(&daemon, "node-1", "confirmed")
    });
    send(&off, Signal::SIGINT);
    let (code, out, err) = ended(off);
    assert_eq!(code, Some(1), "{err}");
    let rows = json(&out);
    let result = |host: &str| {
        let rows = rows.as_array().unwrap();
        rows.iter().find(|row| row["host"] == host).unwrap()["result"].clone()
    };
    assert_eq!(
        (result("node-1"), result("node-2")),
        ("confirmed".into(), "unknown".into())
    );
    assert!(err.contains("without a result of node-2"), "{err}");
    assert_eq!(daemon.stop(), 0);
}

#[test]
fn f17_cycle_is_finished_after_the_agent_was_killed() {
    let bmc = Redfish::start();
    let site = Site::new(&[&bmc]);
    let daemon = Daemon::start(&site);
    let cycle = operator(
        &site,
        &[
            "power",
            "cycle",
            "node-1",
            "--hold-off",
            "30s",
            "-o",
            "json",
        ],
    );
    wait_for("it is switched off", || bmc.power() == "Off");
    daemon.kill();
    let daemon = Daemon::start(&site);
    let (code, out, err) = ended(cycle);
    assert_eq!(code, Some(1), "{err}");
    let row = &json(&out)[0];
    assert_eq!(row["result"], "interrupted", "{row}");
    let message = row["message"].as_str().unwrap();
    assert!(
        message.contains("after its restart: host node-1: confirmed on"),
        "{row}"
    );
    assert_eq!(bmc.power(), "On");
    assert_eq!(daemon.stop(), 0);
}

#[test]
fn f17_operation_without_wait_outlives_its_caller() {
    let bmc = Redfish::start();
    let site = Site::new(&[&bmc]);
    let daemon = Daemon::start(&site);
    bmc.set_silent(true);
    let begun = daemon.run(&["power", "off", "node-1", "--no-wait", "--timeout", "90s"]);
    assert_eq!(begun.code, 0, "{begun:?}");
    assert!(
        begun
            .out
            .contains("goes on in the agent, for 90 s at the longest"),
        "{begun:?}"
    );
    let listed = daemon.run(&["operations", "list", "--running", "-o", "wide"]);
    assert!(listed.out.contains("LIVES UNTIL"), "{listed:?}");
    let running = newest(&daemon);
    assert!(
        running["deadline"].is_string() && running["attended"].is_null(),
        "{running}"
    );
    bmc.set_silent(false);
    wait_for("it is off", || newest(&daemon)["result"] == "confirmed");
    assert_eq!(bmc.power(), "Off");
    assert_eq!(daemon.stop(), 0);
}

#[test]
fn lost_answer_is_asked_for_again_before_anything_is_told() {
    let bmc = Redfish::start();
    let site = Site::new(&[&bmc]);
    let daemon = Daemon::start(&site);
    let lossy = Lossy::start(&site.dir.path().join("agent.sock"), "Begin", 1);
    let socket = lossy.socket.display().to_string();
    let off = run(
        &site,
        &["power", "off", "node-1", "-o", "json", "--socket", &socket],
    );
    assert_eq!(off.code, 0, "{off:?}");
    let row = &json(&off.out)[0];
    assert_eq!(
        (&row["result"], &row["commands_sent"]),
        (&"confirmed".into(), &1.into()),
        "{row}"
    );
    assert_eq!((lossy.calls(), bmc.offs()), (2, 1));
    assert_eq!(daemon.stop(), 0);
}

#[test]
fn change_whose_answer_is_lost_is_made_once() {
    let bmc = Redfish::start();
    let site = Site::new(&[&bmc]);
    let daemon = Daemon::start(&site);
    let lossy = Lossy::start(&site.dir.path().join("agent.sock"), "ResetBmc", 1);
    let socket = lossy.socket.display().to_string();
    let args = ["bmc", "reset", "node-1", "--yes", "--timeout", "2s"];
    let reset = run(
        &site,
        &[&args[..], &["-o", "json", "--socket", &socket]].concat(),
    );
    // This BMC cannot restart, which is an answer.
    let row = &json(&reset.out)[0];
    assert_eq!(row["result"], "failed", "{reset:?}");
    assert_eq!(lossy.calls(), 2);
    let listed = daemon.run(&["operations", "list", "-o", "json"]);
    let listed = json(&listed.out);
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(listed[0]["action"], "bmc-reset", "{listed}");
    assert_eq!(daemon.stop(), 0);
}

#[test]
fn event_log_is_cleared_once_if_the_answer_is_lost() {
    let bmc = Redfish::start();
    let site = Site::new(&[&bmc]);
    let daemon = Daemon::start(&site);
    let lossy = Lossy::start(&site.dir.path().join("agent.sock"), "ClearEvents", 1);
    let socket = lossy.socket.display().to_string();
    let args = ["events", "clear", "node-1", "--yes", "--timeout", "2s"];
    let cleared = run(
        &site,
        &[&args[..], &["-o", "json", "--socket", &socket]].concat(),
    );
    assert_eq!(cleared.code, 0, "{cleared:?}");
    let row = &json(&cleared.out)[0];
    assert_eq!(row["result"], "cleared", "{cleared:?}");
    // Asked for twice, made once.
    assert_eq!((lossy.calls(), bmc.clears()), (2, 1));
    let listed = daemon.run(&["operations", "list", "-o", "json"]);
    let listed = json(&listed.out);
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(listed[0]["action"], "clear-events", "{listed}");
    assert_eq!(daemon.stop(), 0);
}

#[test]
fn f17_fence_agent_asks_again_for_the_power_off_whose_answer_was_lost() {
    let bmc = Redfish::start();
    let site = Site::new(&[&bmc]);
    let daemon = Daemon::start(&site);
    let lossy = Lossy::start(&site.dir.path().join("agent.sock"), "Begin", 1);
    let (code, out, err) = ended(pacemaker_at(&site, &lossy.socket, "action=off"));
    assert_eq!(
        (code, out.trim()),
        (Some(0), "Success: Powered OFF"),
        "{err}"
    );
    // Asked for twice, sent once.
    assert_eq!((lossy.calls(), bmc.offs(), bmc.power()), (2, 1, "Off"));
    let listed = json(&daemon.run(&["operations", "list", "-o", "json"]).out);
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
    assert_eq!(daemon.stop(), 0);
}

#[test]
fn agent_of_a_version_without_leases_is_used_without() {
    let bmc = Redfish::start();
    let site = Site::new(&[&bmc]);
    let daemon = Daemon::start(&site);
    let lossy = Lossy::start_old(&site.dir.path().join("agent.sock"), "ResetBmc", 1);
    let socket = lossy.socket.display().to_string();
    let off = run(&site, &["power", "off", "node-1", "--socket", &socket]);
    assert_eq!(off.code, 0, "{off:?}");
    assert_eq!(newest(&daemon)["attended"], Value::Null);
    // It would make a change a second time, so it is not asked again.
    let args = ["bmc", "reset", "node-1", "--yes", "--timeout", "1s"];
    let reset = run(&site, &[&args[..], &["--socket", &socket]].concat());
    assert_eq!((reset.code, lossy.calls()), (1, 1), "{reset:?}");
    assert!(
        reset.out.contains("not known whether it was begun"),
        "{reset:?}"
    );
    assert_eq!(daemon.stop(), 0);
}
