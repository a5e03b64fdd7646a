use std::time::Duration;

use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::{
    Settings,
    decide::{Act, Memory, Verdict, decide},
    host::Host,
    ironic::{Change, Command, Node, Power, Send},
    webhook::judge,
};

const OURS: &str = "reboot.metal3.io/somebody";

fn mk_host(annotations: &Value, spec: &Value) -> Host {
    let object: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "metal3.io/v1alpha1",
        "kind": "BareMetalHost",
        "metadata": { "name": "h", "annotations": annotations },
        "spec": spec,
        "status": {
            "poweredOn": true,
            "operationalStatus": "OK",
            "errorCount": 0,
            "errorMessage": "",
            "provisioning": { "state": "provisioned" },
        },
    }))
    .unwrap();
    Host::of(&object)
}

fn held(value: &str) -> Host {
    mk_host(&json!({ OURS: value }), &json!({ "online": true }))
}

fn free() -> Host {
    mk_host(&json!({}), &json!({ "online": true }))
}

fn on() -> Node {
    Node::enrolled(Some(Power::On))
}

fn off() -> Node {
    Node::enrolled(Some(Power::Off))
}

fn ask(host: &Host, node: &Node) -> Verdict {
    decide(
        host,
        node,
        &Memory::default(),
        false,
        &Settings::default(),
        Duration::ZERO,
    )
}

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn forced(command: Command) -> Option<Send> {
    Some(Send {
        command,
        forced: true,
    })
}

fn asked(command: Command) -> Option<Send> {
    Some(Send {
        command,
        forced: false,
    })
}

#[test]
fn host_is_powered_on_unless_held_or_offline() {
    let power = |host: &Host, node: &Node| ask(host, node).act;
    assert_eq!(power(&free(), &on()), None);
    assert_eq!(power(&free(), &off()), Some(Act::Power(Change::On)));
    let hard = held(r#"{"mode":"hard"}"#);
    assert_eq!(power(&hard, &on()), Some(Act::Power(Change::HardOff)));
    assert_eq!(power(&hard, &off()), None);
    let soft = Some(Act::Power(Change::SoftOff));
    for value in ["", r#"{"mode":"soft"}"#, "not json"] {
        assert_eq!(power(&held(value), &on()), soft, "{value:?}");
    }
    let offline = mk_host(&json!({}), &json!({ "online": false }));
    assert_eq!(power(&offline, &on()), soft);
    assert_eq!(power(&offline, &off()), None);
}

#[test]
fn plain_reboot_annotation_is_removed_once_off_and_suffixed_one_stays() {
    let plain = "reboot.metal3.io";
    let both = mk_host(&json!({ plain: "", OURS: "" }), &json!({ "online": true }));
    assert_eq!(ask(&both, &on()).act, Some(Act::Power(Change::SoftOff)));
    let gone = Some(Act::Drop(vec![plain.to_owned()]));
    assert_eq!(ask(&both, &off()).act, gone);
    let other = mk_host(
        &json!({ "reboot.metal3.iox": "" }),
        &json!({ "online": true }),
    );
    assert_eq!(ask(&other, &off()).act, Some(Act::Power(Change::On)));
}

#[test]
fn paused_host_is_unchanged_and_detached_host_leaves_ironic() {
    let paused = mk_host(
        &json!({ "baremetalhost.metal3.io/paused": "", OURS: "" }),
        &json!({ "online": true }),
    );
    let verdict = ask(&paused, &off());
    assert_eq!((verdict.act, &verdict.status), (None, &paused.status));
    let detached = mk_host(
        &json!({ "baremetalhost.metal3.io/detached": "", OURS: "" }),
        &json!({ "online": true }),
    );
    let verdict = ask(&detached, &on());
    assert_eq!(verdict.act, Some(Act::Remove));
    assert_eq!(verdict.status.operational, "detached");
    assert_eq!(verdict.status.powered_on, Some(true), "frozen");
    assert_eq!(ask(&detached, &Node::default()).act, None);
    assert_eq!(ask(&free(), &Node::default()).act, Some(Act::Enrol));
}

#[test]
fn only_provisioned_host_is_switched_and_old_release_deletes_holds() {
    let old = Settings {
        deletes_holds: true,
        ..Settings::default()
    };
    let both = mk_host(
        &json!({ OURS: "", "reboot.metal3.io": "" }),
        &json!({ "online": true }),
    );
    for state in ["inspecting", "provisioning", "deprovisioning", "available"] {
        let host = Host {
            state: state.to_owned(),
            ..both.clone()
        };
        assert_eq!(ask(&host, &on()).act, None, "{state}");
        let verdict = decide(&host, &on(), &Memory::default(), false, &old, at(0));
        let gone = (state != "available").then(|| Act::Drop(vec![OURS.to_owned()]));
        assert_eq!(verdict.act, gone, "{state}");
    }
    let steady = decide(&both, &on(), &Memory::default(), false, &old, at(0));
    assert_eq!(steady.act, Some(Act::Power(Change::SoftOff)));
}

#[test]
fn held_host_with_disabled_power_off_is_rebooted_repeatedly() {
    let spec = json!({ "online": true, "disablePowerOff": true });
    let host = mk_host(&json!({ OURS: "" }), &spec);
    assert_eq!(ask(&host, &on()).act, Some(Act::Power(Change::Reboot)));
    let (mut node, settings) = (on(), Settings::default());
    assert!(node.request(Change::Reboot));
    let on = Some(Power::On);
    assert_eq!(
        node.advance(on, at(0), &settings),
        asked(Command::HardOff),
        "off first"
    );
    assert_eq!(node.advance(Some(Power::Off), at(1), &settings), None);
    assert_eq!(
        node.advance(Some(Power::Off), at(1), &settings),
        asked(Command::On)
    );
    assert_eq!(node.advance(on, at(2), &settings), None);
    assert!(!node.is_busy());
    assert_eq!(ask(&host, &node).act, Some(Act::Power(Change::Reboot)));
}

#[test]
fn status_shows_ironic_power_state_and_keeps_it_while_unknown() {
    assert_eq!(ask(&free(), &off()).status.powered_on, Some(false));
    assert_eq!(
        ask(&free(), &Node::enrolled(None)).status.powered_on,
        Some(true)
    );
    let settings = Settings::default();
    let verdict = decide(&held(""), &on(), &Memory::default(), true, &settings, at(0));
    assert_eq!(verdict.act, None, "not while it is serviced");
    assert_eq!(verdict.status.operational, "servicing");
    let mut after = held("");
    after.status.operational = "servicing".into();
    assert_eq!(ask(&after, &off()).status.operational, "OK");
}

#[test]
fn error_count_doubles_retry_backoff() {
    let settings = Settings::default();
    let (mut host, mut memory) = (held(""), Memory::default());
    for (errors, wait) in [(1, 1), (2, 2), (3, 4), (9, 256), (10, 256)] {
        host.status.errors = errors - 1;
        let mut node = on();
        node.fail("it did not follow");
        let verdict = decide(&host, &node, &memory, false, &settings, at(100));
        assert_eq!(verdict.act, None);
        assert_eq!(verdict.status.errors, errors);
        assert_eq!(verdict.status.operational, "error");
        let retry = at(100) + settings.backoff * wait;
        assert_eq!(verdict.memory.retry, Some(retry), "{errors}");
        let backing_off = verdict.memory;
        host.status = verdict.status;
        let early = decide(
            &host,
            &on(),
            &backing_off,
            false,
            &settings,
            retry - Duration::from_millis(1),
        );
        assert_eq!(early.act, None);
        let due = decide(&host, &on(), &backing_off, false, &settings, retry);
        let hard = Some(Act::Power(Change::HardOff));
        assert_eq!(due.act, hard, "after an error it is hard");
        memory = due.memory;
    }
    let reached = decide(&host, &off(), &memory, false, &settings, at(1000));
    assert_eq!(reached.status.errors, 0);
    assert_eq!(reached.memory, Memory::default());
}

#[test]
fn ironic_sends_one_command_and_none_if_state_is_reached() {
    let settings = Settings::default();
    let mut node = on();
    assert!(node.request(Change::HardOff));
    assert!(!node.request(Change::On), "busy");
    assert_eq!(node.advance(Some(Power::Off), at(0), &settings), None);
    assert_eq!(
        (node.power, node.is_busy()),
        (Some(Power::Off), false),
        "recorded"
    );
    assert!(node.request(Change::On));
    assert_eq!(
        node.advance(Some(Power::Off), at(1), &settings),
        asked(Command::On)
    );
    assert_eq!(node.advance(Some(Power::Off), at(2), &settings), None);
    assert_eq!(
        node.sync(Some(Power::Off), &settings),
        None,
        "not while busy"
    );
    assert_eq!(node.advance(Some(Power::On), at(3), &settings), None);
    assert_eq!(node.power, Some(Power::On));
}

#[test]
fn unfinished_power_change_fails_after_its_timeout() {
    let settings = Settings::default();
    for (change, limit) in [
        (Change::SoftOff, settings.soft),
        (Change::HardOff, settings.hard),
    ] {
        let mut node = on();
        assert!(node.request(change));
        assert!(node.advance(Some(Power::On), at(10), &settings).is_some());
        let late = at(10) + limit;
        node.advance(Some(Power::On), late - Duration::from_millis(1), &settings);
        assert!(node.is_busy());
        node.advance(Some(Power::On), late, &settings);
        assert!(!node.is_busy() && node.error.is_some());
    }
    let mut node = on();
    assert!(node.request(Change::HardOff));
    assert_eq!(node.advance(None, at(0), &settings), None, "unread, unsent");
    assert!(node.error.is_some());
}

#[test]
fn power_sync_forces_recorded_state_until_retries_end() {
    let settings = Settings::default();
    let mut node = on();
    for _ in 0..settings.sync_retries {
        assert_eq!(node.sync(Some(Power::Off), &settings), forced(Command::On));
    }
    assert_eq!(node.sync(Some(Power::Off), &settings), None);
    assert_eq!((node.power, node.fault), (Some(Power::Off), true));
    assert_eq!(node.sync(Some(Power::Off), &settings), None);
    assert!(!node.fault, "read again");
    let on = Some(Power::On);
    assert_eq!(node.sync(on, &settings), forced(Command::HardOff));
    let meek = Settings {
        force: false,
        ..settings
    };
    assert_eq!(node.sync(on, &meek), None);
    assert_eq!(node.power, on, "only recorded");
}

#[test]
fn unreadable_bmc_becomes_fault_and_detached_host_is_not_synced() {
    let settings = Settings::default();
    let mut node = off();
    for _ in 0..=settings.sync_retries {
        assert!(!node.fault);
        assert_eq!(node.sync(None, &settings), None);
    }
    assert!(node.fault);
    let mut gone = Node::default();
    assert_eq!(gone.sync(Some(Power::On), &settings), None);
    assert!(!gone.request(Change::On));
    assert_eq!(gone, Node::default());
}

#[test]
fn ironic_reads_powering_off_as_off() {
    let words = [
        ("On", Some(Power::On)),
        ("PoweringOn", Some(Power::On)),
        ("Off", Some(Power::Off)),
        ("PoweringOff", Some(Power::Off)),
        ("Paused", None),
        ("off", None),
    ];
    for (word, power) in words {
        assert_eq!(Power::of_redfish(word), power, "{word}");
    }
}

#[test]
fn webhook_refuses_a_hold_that_cannot_be_parsed_and_no_unknown_field() {
    let judged = |value: &str| {
        judge(
            &json!({ "metadata": { "annotations": { OURS: value } }, "spec": { "online": true } }),
        )
    };
    for good in [
        "",
        r#"{"mode":"hard"}"#,
        r#"{"mode":"soft","renewed":"now"}"#,
    ] {
        assert_eq!(judged(good), Ok(()), "{good}");
    }
    for bad in ["hard", r#"{"mode":"at once"}"#] {
        assert!(judged(bad).is_err(), "{bad}");
    }
    let off = json!({ "spec": { "online": false, "disablePowerOff": true } });
    assert!(judge(&off).is_err());
}

/// Somebody waits for it: without this, a host that is held could wait for hours.
#[test]
fn only_a_changed_annotation_ends_a_backoff_early() {
    let settings = Settings::default();
    let host = held(r#"{"mode":"hard"}"#);
    let mut failed = on();
    failed.fail("wrong password");
    let memory = ask(&host, &failed).memory;
    assert!(memory.retry.is_some());
    let later = |host: &Host, node: &Node| {
        let now = Duration::from_millis(500);
        decide(host, node, &memory, false, &settings, now)
    };
    // Ironic has it as off meanwhile, and that is not even copied.
    let asleep = later(&host, &off());
    assert_eq!((asleep.act, asleep.status), (None, host.status));
    let renewed = held(r#"{"mode":"hard","renewed":"now"}"#);
    assert_eq!(later(&renewed, &off()).status.powered_on, Some(false));
    let tried = later(&renewed, &failed);
    assert_eq!(tried.act, Some(Act::Power(Change::HardOff)));
    assert_eq!(tried.memory.retry, None);
}
