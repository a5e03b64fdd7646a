//! `fence_rackhand` called as Pacemaker and Fence Agents Remediation do, for a BMC by Redfish, for
//! one by IPMI, and through a running rack agent.

pub(crate) mod site;

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use rackhand_tests::rack::{Action, PowerState, ResetType, Rule};
use serde_json::json;
use site::{Site, Way, ran};

const WAYS: [Way; 3] = [Way::Redfish, Way::Ipmi, Way::Agent];

#[tokio::test(flavor = "multi_thread")]
async fn every_action_works_over_every_route_and_input() {
    let site = Site::start().await;
    for (round, way) in WAYS.into_iter().enumerate() {
        for by_lines in [false, true] {
            let what = format!("{way:?}, lines: {by_lines}");
            let before = site.host.counters();
            // A BMC that reads off already proves nothing over IPMI; over Redfish its manager tells how
            // long it has been up, and the agent has read it since it was on.
            let unproven = matches!(way, Way::Ipmi);
            let when_off = |says| if unproven { (1, "") } else { (0, says) };
            let (off_again, reboot) = (
                when_off("Success: Powered OFF"),
                when_off("Success: Rebooted"),
            );
            let came_on = if unproven { "Powered" } else { "Already" };
            for (action, (code, says)) in [
                ("on", (0, "Success: Already ON")),
                ("status", (0, "Status: ON")),
                ("monitor", (0, "")),
                ("off", (0, "Success: Powered OFF")),
                ("status", (2, "Status: OFF")),
                ("STATUS", (2, "Status: OFF")),
                ("monitor", (0, "")),
                // The power-off was sent nevertheless (F1).
                ("off", off_again),
                ("on", (0, "Success: Powered ON")),
                ("status", (0, "Status: ON")),
                ("reboot", (0, "Success: Rebooted")),
                ("off", (0, "Success: Powered OFF")),
                ("reboot", reboot),
                ("on", (0, &*format!("Success: {came_on} ON"))),
                ("status", (0, "Status: ON")),
                ("diag", (0, "Success: diagnostic interrupt sent")),
            ] {
                let asked = [("action", action)];
                let call = site.call(way, by_lines, &asked);
                let (got, out, err) = ran(call.await);
                assert_eq!((got, out.trim()), (code, says), "{what} {action}: {err}");
                assert_eq!(
                    code == 1,
                    err.contains("off is not proven"),
                    "{what}: {err}"
                );
            }
            let after = site.host.counters();
            let [offs, ons] = [after.offs - before.offs, after.ons - before.ons];
            assert_eq!([offs, ons], [3, 3], "{what}: {after:?}");
            assert_eq!(after.resets, 0, "{what}: a reset was sent");
            let round = u64::try_from(2 * round + usize::from(by_lines) + 1).unwrap();
            assert_eq!(after.received(ResetType::Nmi), round, "{what}");
        }
    }
    // No output contains the password.
    site.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn terminated_run_closes_its_bmc_session() {
    let site = Site::start().await;
    site.host.stuck_powering_off(true);
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let before = site.host.counters().received(ResetType::ForceOff);
        let lines = site.lines(Way::Redfish, &[("action", "off"), ("power_timeout", "120")]);
        let child = site.begin(&[], &lines).await;
        let sent = site
            .host
            .wait_for(Duration::from_secs(60), "commanded", |view| {
                view.counters.received(ResetType::ForceOff) > before
            });
        sent.await.unwrap();
        assert!(site.host.sessions_open() > 0);
        let pid = i32::try_from(child.id().unwrap()).unwrap();
        kill(Pid::from_raw(pid), signal).unwrap();
        let output = child.wait_with_output().await.unwrap();
        let says = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{says}");
        assert!(says.contains(signal.as_str()), "{says}");
        assert_eq!(site.host.sessions_open(), 0, "{signal}");
    }
    site.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn off_says_that_it_was_not_known_whether_firmware_is_updated() {
    let site = Site::start().await;
    let link = json!({"UpdateService": {"@odata.id": "/redfish/v1/UpdateService"}});
    let in_root = Rule::always(Action::Merge { body: link }).on("GET", "/redfish/v1");
    site.host.inject(in_root);
    let broken = Action::Status {
        status: 500,
        body: None,
        headers: BTreeMap::new(),
    };
    site.host
        .inject(Rule::always(broken).on("GET", "/redfish/v1/UpdateService"));
    for way in [Way::Redfish, Way::Agent] {
        let off = site.call(way, false, &[("action", "off")]).await;
        let (code, out, err) = ran(off);
        assert_eq!(
            (code, out.trim()),
            (0, "Success: Powered OFF"),
            "{way:?}: {err}"
        );
        assert!(
            err.contains("not known whether firmware was being updated")
                && err.contains("UpdateService"),
            "{way:?}: {err}"
        );
        let on = site.call(way, false, &[("action", "on")]).await;
        let (code, _, err) = ran(on);
        assert_eq!(code, 0, "{way:?}: {err}");
        assert!(!err.contains("firmware"), "{way:?}: {err}");
    }
    site.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn core_dumps_are_disabled() {
    let site = Site::start().await;
    let limits = tempfile::NamedTempFile::new().unwrap();
    let script = format!(
        "cat /proc/$PPID/limits > {}; echo x",
        limits.path().display()
    );
    let lines = "action=status\nip=192.0.2.1\nusername=a\nlogin_timeout=1\nshell_timeout=1\n";
    let lines = format!("{lines}password_script={script}\n");
    site.standard_input(&lines).await;
    let limits = std::fs::read_to_string(limits.path()).unwrap();
    let core = limits
        .lines()
        .find(|line| line.contains("core file"))
        .unwrap();
    let words: Vec<&str> = core.split_whitespace().collect();
    assert_eq!(words[4..6], ["0", "0"], "{core}");
    site.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_options_do_nothing() {
    let site = Site::start().await;
    for by_lines in [false, true] {
        for wrong in [
            [("action", "rebooot")],
            [("power_timeout", "soon")],
            [("ssl_insecure", "perhaps")],
            [("retry_on", "x")],
        ] {
            let (code, out, err) = ran(site.call(Way::Redfish, by_lines, &wrong).await);
            assert_eq!((code, out.as_str()), (1, ""), "{wrong:?}: {err}");
            assert!(err.contains(wrong[0].0), "{err}");
        }
    }
    let (code, _, err) = ran(site.arguments(&["--no-such-thing"]).await);
    assert_eq!(code, 1, "{err}");
    // The deprecated name of an action is accepted, not replaced by the default.
    let lines = site.lines(Way::Redfish, &[("option", "status")]);
    let (code, out, err) = ran(site.standard_input(&lines).await);
    assert_eq!((code, out.trim()), (0, "Status: ON"), "{err}");
    // Options of other agents are ignored on standard input.
    let lines = site.lines(
        Way::Redfish,
        &[("action", "status"), ("nodename", "n1"), ("colour", "red")],
    );
    let (code, _, err) = ran(site.standard_input(&lines).await);
    assert!(
        code == 0 && err.contains("colour") && !err.contains("nodename"),
        "{err}"
    );
    // Options are validated without the device.
    let device = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    device.set_nonblocking(true).unwrap();
    let port = device.local_addr().unwrap().port();
    let lines =
        format!("action=validate-all\nip=127.0.0.1\nipport={port}\nusername=a\npassword=b\n");
    assert_eq!(ran(site.standard_input(&lines).await).0, 0);
    let tried = device.accept().map(|(_, from)| from);
    let error = tried.expect_err("a connection was tried");
    assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
    let (code, _, err) = ran(site
        .standard_input("action=validate-all\nip=192.0.2.1\n")
        .await);
    assert!(
        code == 1 && err.contains("username") && err.contains("password"),
        "{err}"
    );
    assert_eq!(site.host.counters().offs, 0);
    site.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn unconfirmed_action_fails() {
    let site = Site::start().await;
    let quick = [
        ("power_timeout", "1"),
        ("login_timeout", "1"),
        ("shell_timeout", "2"),
    ];
    let call = async |action: &str| {
        let more: Vec<(&str, &str)> = [("action", action)].into_iter().chain(quick).collect();
        site.call(Way::Redfish, true, &more).await
    };

    let lie = site.host.ignore_commands();
    for action in ["off", "reboot"] {
        let (code, out, err) = ran(call(action).await);
        assert_eq!((code, out.as_str()), (1, ""), "{action}: {err}");
    }
    site.host.clear_fault(lie);
    // F1: a BMC that reads off but accepts no command is not confirmed off.
    let off = site.host.report_off();
    let refusal = Action::Status {
        status: 503,
        body: None,
        headers: BTreeMap::default(),
    };
    let busy = site
        .host
        .inject(Rule::always(refusal).on_reset(ResetType::ForceOff));
    for action in ["off", "reboot"] {
        let (code, out, err) = ran(call(action).await);
        assert_eq!((code, out.as_str()), (1, ""), "{action}: {err}");
        assert!(
            err.contains("gives no answer to the power-off, or refuses it"),
            "{err}"
        );
    }
    site.host.clear_fault(off);
    site.host.clear_fault(busy);
    let state = site.host.report("PoweringOff");
    assert_eq!(ran(call("status").await).0, 1, "neither on nor off");
    site.host.clear_fault(state);
    let refused = site.host.refuse_auth();
    let (code, _, err) = ran(call("monitor").await);
    assert!(code == 1 && err.contains("password"), "{err}");
    site.host.clear_fault(refused);
    let silent = site.host.silent();
    assert_eq!(ran(call("status").await).0, 1);
    site.host.clear_fault(silent);

    // Off completes the fencing; a host that does not come back is logged, and not a failure.
    let refusal = Action::Status {
        status: 500,
        body: None,
        headers: BTreeMap::default(),
    };
    let on = Rule::always(refusal).on_reset(ResetType::On);
    let refused = site.host.inject(on);
    let (code, out, err) = ran(call("reboot").await);
    assert_eq!((code, out.trim()), (0, "Success: Rebooted"), "{err}");
    assert!(err.contains("did not come on"), "{err}");
    assert_eq!(site.host.real_power(), PowerState::Off);
    assert_eq!(ran(call("on").await).0, 1);
    site.host.clear_fault(refused);
    let (code, ..) = ran(call("on").await);
    assert_eq!(code, 0);

    // Another host's BMC is not touched.
    let more = [
        ("action", "off"),
        ("system_uuid", "4c4c4544-0042-3510-8054-c2c04f4e4e33"),
    ];
    let (code, _, err) = ran(site.call(Way::Redfish, true, &more).await);
    assert!(code == 1 && err.contains("UUID"), "{err}");
    assert_eq!(site.host.real_power(), PowerState::On);
    site.ends().await;
}

/// With `system_uuid` only a BMC that reports this identity is used, whatever the action.
#[tokio::test(flavor = "multi_thread")]
async fn f5_required_system_uuid_must_be_reported_for_every_action() {
    const OTHER: &str = "4c4c4544-0042-3510-8054-c2c04f4e4e33";
    const ACTIONS: [&str; 6] = ["status", "monitor", "off", "on", "reboot", "diag"];
    let site = Site::start().await;
    let own = site.host.config().uuid.clone();
    let call = async |way, action, uuid: &str| {
        let more = [
            ("action", action),
            ("system_uuid", uuid),
            ("power_timeout", "5"),
        ];
        ran(site.call(way, true, &more).await)
    };
    for way in WAYS {
        for action in ACTIONS {
            for (uuid, word) in [
                (OTHER, "manages another system"),
                ("00000000-0000-0000-0000-000000000000", "identifies no host"),
                ("01020304-0506-0708-090a-0b0c0d0e0f10", "identifies no host"),
                ("4c4c4544", "dmidecode -s system-uuid"),
            ] {
                let (code, out, err) = call(way, action, uuid).await;
                assert_eq!(
                    (code, out.as_str()),
                    (1, ""),
                    "{way:?} {action} {uuid}: {err}"
                );
                // An agent compares with its inventory first.
                let is_said = err.contains(word) || err.contains("the caller expects");
                assert!(is_said, "{way:?} {action} {uuid}: {err}");
            }
        }
        let braced = format!("{{{}}}", own.to_uppercase());
        for uuid in [&own, &braced] {
            let (code, out, err) = call(way, "status", uuid).await;
            assert_eq!((code, out.trim()), (0, "Status: ON"), "{way:?}: {err}");
        }
    }
    let anonymous = site.host.anonymous();
    for way in [Way::Redfish, Way::Agent] {
        for action in ACTIONS {
            let (code, out, err) = call(way, action, &own).await;
            assert_eq!((code, out.as_str()), (1, ""), "{way:?} {action}: {err}");
            assert!(
                err.contains("reports no system UUID"),
                "{way:?} {action}: {err}"
            );
        }
    }
    assert_eq!(site.host.counters().offs, 0);
    site.host.clear_fault(anonymous);
    for (more, word) in [
        (("device", "outlets"), "outlets report no identity"),
        (("plug", "n1,n2"), "give one plug"),
    ] {
        let more = [("action", "off"), ("system_uuid", own.as_str()), more];
        let (code, _, err) = ran(site.call(Way::Agent, true, &more).await);
        assert!(code == 1 && err.contains(word), "{err}");
    }
    for way in WAYS {
        let (code, _, err) = call(way, "reboot", &own).await;
        assert_eq!(code, 0, "{way:?}: {err}");
    }
    site.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn password_script_host_list_and_delay_are_applied() {
    let site = Site::start().await;
    let lines = site.lines(Way::Ipmi, &[("action", "status")]);
    let lines = lines.replace("password=", "# ") + "password_script=echo secret; echo more\n";
    let (code, _, err) = ran(site.standard_input(&lines).await);
    assert_eq!(code, 0, "{err}");
    let failing = lines.replace("echo secret;", "exit 3;");
    let (code, _, err) = ran(site.standard_input(&failing).await);
    assert!(code == 1 && err.contains("password_script"), "{err}");

    let list = site.call(Way::Agent, false, &[("action", "list")]);
    assert_eq!(ran(list.await).1, "n1,node-1\n");
    let list = site.call(
        Way::Agent,
        true,
        &[("action", "list-status"), ("separator", "|")],
    );
    assert_eq!(ran(list.await).1, "n1|node-1|ON\n");
    let list = site.call(Way::Ipmi, true, &[("action", "list")]);
    assert_eq!(ran(list.await).1, "N/A\n");
    let unknown = site.call(Way::Agent, true, &[("action", "off"), ("plug", "n2")]);
    let (code, _, err) = ran(unknown.await);
    assert!(code == 1 && err.contains("n2"), "{err}");

    // Two nodes that fence each other: one of them waits.
    let begun = Instant::now();
    let delayed = site.call(
        Way::Ipmi,
        true,
        &[("action", "off"), ("delay", "2"), ("verbose", "1")],
    );
    let (code, _, err) = ran(delayed.await);
    assert!(code == 0 && err.contains("waiting"), "{err}");
    assert!(begun.elapsed() >= Duration::from_secs(2));
    site.ends().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn metadata_is_valid_for_pacemaker() {
    let site = Site::start().await;
    let (code, text, _) = ran(site.arguments(&["--action=metadata"]).await);
    assert_eq!(code, 0);
    for other in ["-o meta-data", "-o manpage"] {
        let words: Vec<&str> = other.split(' ').collect();
        assert_eq!(ran(site.arguments(&words).await).1, text);
    }
    let (code, same, _) = ran(site.standard_input("action=metadata\n").await);
    assert_eq!((code, same), (0, text.clone()));
    site.valid_metadata(&text).await;
    let (code, help, _) = ran(site.arguments(&["--help"]).await);
    assert!(code == 0 && help.contains("--password-script"), "{help}");
    let (code, version, _) = ran(site.arguments(&["-V"]).await);
    assert!(
        code == 0 && version.starts_with("fence_rackhand "),
        "{version}"
    );
    site.ends().await;
}
