//! The real binary: a daemon with a Redfish service, and the command line.

use crate::kit::{Daemon, Redfish, Site};
use serde_json::Value;

#[test]
fn status_off_and_on_through_the_socket() {
    let bmc = Redfish::start();
    let site = Site::new(&[&bmc]);
    let daemon = Daemon::start(&site);
    let status = daemon.run(&["power", "status", "--all"]);
    assert_eq!(status.code, 0, "{status:?}");
    let lines: Vec<&str> = status.out.lines().collect();
    assert!(lines[0].starts_with("HOST    POWER"), "{status:?}");
    assert!(lines[1].starts_with("node-1  on "), "{status:?}");

    let off = daemon.run(&["power", "off", "node-1", "-o", "json"]);
    assert_eq!(off.code, 0, "{off:?}");
    let off: Value = serde_json::from_str(&off.out).unwrap();
    assert_eq!(off[0]["result"], "confirmed");
    assert_eq!(off[0]["message"], "host node-1: confirmed off");
    assert_eq!(off[0]["commands_sent"], 1);
    assert_eq!(bmc.power(), "Off");

    let status = daemon.run(&["power", "status", "worker-1", "-o", "json"]);
    let status: Value = serde_json::from_str(&status.out).unwrap();
    assert_eq!(status[0]["power"], "off");
    assert_eq!(status[0]["raw"], "Off");
    assert_eq!(status[0]["system_uuid"], crate::kit::UUID);

    let on = daemon.run(&["power", "on", crate::kit::UUID]);
    assert_eq!(on.code, 0, "{on:?}");
    assert!(on.out.contains("confirmed") && on.out.contains("host node-1: confirmed on"));
    assert_eq!(bmc.power(), "On");
    assert_eq!(daemon.stop(), 0);
}

#[test]
fn exit_code_reflects_the_outcome() {
    let (bmc, stubborn) = (Redfish::start(), Redfish::start());
    stubborn.set_stubborn();
    let site = Site::new(&[&bmc, &stubborn]);
    let daemon = Daemon::start(&site);
    let unknown = daemon.run(&["power", "off", "node-9"]);
    assert_eq!(unknown.code, 1, "{unknown:?}");
    assert!(
        unknown
            .out
            .contains("host node-9 is not in the inventory of rack r1 (2 hosts)"),
        "{unknown:?}"
    );
    let usage = daemon.run(&["power", "off"]);
    assert_eq!(usage.code, 2, "{usage:?}");
    let stubborn = daemon.run(&["power", "off", "node-2", "--timeout", "3s"]);
    assert_eq!(stubborn.code, 1, "{stubborn:?}");
    assert!(stubborn.out.contains("not-confirmed"), "{stubborn:?}");
    assert!(
        stubborn
            .out
            .contains("not confirmed off within 3s: the last reading was on")
    );
    let begun = daemon.run(&["power", "off", "node-1", "--no-wait"]);
    assert_eq!(begun.code, 0, "{begun:?}");
    assert!(begun.out.contains("goes on in the agent"), "{begun:?}");
    assert_eq!(daemon.stop(), 0);
}

#[test]
fn state_that_is_neither_on_nor_off_is_shown_as_the_bmc_reports_it() {
    let bmc = Redfish::start();
    bmc.set_power("Paused");
    bmc.set_stubborn();
    let site = Site::new(&[&bmc]);
    let daemon = Daemon::start(&site);
    let status = daemon.run(&["power", "status", "node-1"]);
    assert_eq!(status.code, 0, "{status:?}");
    let note = "the BMC reports \"Paused\", which is neither on nor off";
    assert!(status.out.contains(note), "{status:?}");
    let off = daemon.run(&["power", "off", "node-1", "--timeout", "3s"]);
    assert_eq!(off.code, 1, "{off:?}");
    assert!(off.out.contains(note), "{off:?}");
    assert_eq!(daemon.stop(), 0);
}

#[test]
fn cycle_soft_off_and_reset_by_hand() {
    let bmc = Redfish::start();
    let site = Site::new(&[&bmc]);
    let daemon = Daemon::start(&site);
    let cycle = daemon.run(&["power", "cycle", "node-1", "--hold-off", "100ms"]);
    assert_eq!(cycle.code, 0, "{cycle:?}");
    assert!(
        cycle
            .out
            .contains("host node-1: was off, and is confirmed on again"),
        "{cycle:?}"
    );
    assert_eq!(bmc.power(), "On");

    // This BMC offers only hard off and on.
    let soft = daemon.run(&["power", "off", "--soft", "node-1"]);
    assert_eq!(soft.code, 1, "{soft:?}");
    assert!(soft.out.contains("the BMC cannot do this"), "{soft:?}");
    assert_eq!(bmc.power(), "On", "a soft off never becomes a hard one");
    for action in ["reset", "nmi"] {
        let once = daemon.run(&["power", action, "node-1"]);
        assert_eq!(once.code, 1, "{once:?}");
        assert!(once.out.contains("the BMC cannot do this"), "{once:?}");
    }

    let forced = ["power", "off", "--soft", "--then-force", "--limit", "10m"];
    let forced = daemon.run(&[&forced[..], &["node-1", "-o", "json"]].concat());
    assert_eq!(forced.code, 0, "{forced:?}");
    let forced: Value = serde_json::from_str(&forced.out).unwrap();
    assert_eq!(
        forced[0]["message"],
        "host node-1: confirmed off, by force: the host was not requested to shut down, because the BMC took no such request"
    );
    assert_eq!(bmc.power(), "Off");

    let reset = daemon.run(&["power", "reset", "node-1"]);
    assert_eq!(reset.code, 1, "{reset:?}");
    assert!(reset.out.contains("next: power on"), "{reset:?}");
    let hard = daemon.run(&["power", "off", "node-1", "--limit", "1m"]);
    assert_eq!(hard.code, 2, "only a soft off has a limit: {hard:?}");
    assert_eq!(daemon.stop(), 0);
}

#[test]
fn remote_agent_is_verified_by_its_rack() {
    let bmc = Redfish::start();
    let site = Site::new(&[&bmc]);
    let daemon = Daemon::start(&site);
    let operator = site.certificate("operator", "spiffe://dc1/operator/ann");
    let operator = operator.display().to_string();
    let ask = |rack: &str| {
        let agent = daemon.address.as_str();
        let tls = ["--tls-dir", &operator];
        let args = [
            "power", "status", "node-1", "--agent", agent, "--rack", rack,
        ];
        daemon.run(&[&args[..], &tls[..]].concat())
    };
    let status = ask("r1");
    assert_eq!(status.code, 0, "{status:?}");
    let other = ask("r2");
    assert_eq!(other.code, 4, "{other:?}");
    assert!(other.err.contains("is not trusted as rack r2"), "{other:?}");
    daemon.stop();
}

#[test]
fn missing_agent_error_includes_advice() {
    let site = Site::new(&[]);
    let run = crate::kit::run(&site, &["power", "status", "--all"]);
    assert_eq!(run.code, 4);
    assert!(run.err.contains("no agent on this machine"), "{run:?}");
}

#[test]
fn check_prints_the_configuration_and_its_errors() {
    let bmc = Redfish::start();
    let site = Site::new(&[&bmc]);
    let config = site.config.display().to_string();
    let good = crate::kit::run(&site, &["check", "--config", &config]);
    assert_eq!(good.code, 0, "{good:?}");
    assert!(
        good.out.contains("rack:     r1") && good.out.contains("node-1"),
        "{good:?}"
    );
    assert!(
        good.err
            .contains("warning: node-1: the connection to the BMC has no TLS")
    );
    let text = std::fs::read_to_string(&site.config).unwrap();
    std::fs::write(&site.config, text.replace("rack = 'r1'", "rack = 'r 1'")).unwrap();
    let bad = crate::kit::run(&site, &["check", "--config", &config]);
    assert_eq!(bad.code, 1);
    assert!(
        bad.err.contains(":1:8: rack: \"r 1\": a rack's name is"),
        "{bad:?}"
    );
    let serve = crate::kit::run(&site, &["serve", "--config", &config]);
    assert_eq!(serve.code, 1);
    assert!(
        serve.err.contains("rack: \"r 1\": a rack's name is"),
        "{serve:?}"
    );
}

#[test]
fn output_and_log_contain_no_secret() {
    let bmc = Redfish::start();
    let site = Site::new(&[&bmc]);
    let daemon = Daemon::start_with(&site, &["--log", "trace", "--log-format", "json"]);
    daemon.run(&["power", "off", "node-1"]);
    std::fs::write(site.dir.path().join("password"), "wr0ng-s3cret").unwrap();
    let failed = daemon.run(&["power", "status", "node-1"]);
    assert_eq!(failed.code, 1, "{failed:?}");
    let log = daemon.log_after_stop();
    for shown in [&log, &failed.out, &failed.err] {
        assert!(!shown.contains(crate::kit::PASSWORD) && !shown.contains("wr0ng-s3cret"));
    }
}

#[test]
fn hosts_are_selected_by_range_label_file_and_stdin() {
    let bmcs = [Redfish::start(), Redfish::start(), Redfish::start()];
    let site = Site::new(&bmcs.each_ref());
    let text = std::fs::read_to_string(&site.config).unwrap();
    let text = text
        .replace(
            "node_name = 'worker-1'\n",
            "node_name = 'worker-1'\nlabels = {role = 'db'}\npdu = 'p1'\n",
        )
        .replace(
            "node_name = 'worker-3'\n",
            "node_name = 'worker-3'\nlabels = {role = 'db'}\n",
        );
    std::fs::write(&site.config, text).unwrap();
    let list = site.dir.path().join("list");
    std::fs::write(&list, "node-2 # the spare one\nworker-3\n").unwrap();
    let daemon = Daemon::start(&site);
    let names = |words: &[&str]| {
        let run = daemon.run(&[&["host", "list", "-o", "name"][..], words].concat());
        assert_eq!(run.code, 0, "{run:?}");
        run.out.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(names(&[]), ["node-1", "node-2", "node-3"]);
    assert_eq!(names(&["node-[2-3]"]), ["node-2", "node-3"]);
    assert_eq!(names(&["role=db"]), ["node-1", "node-3"]);
    assert_eq!(
        names(&["pdu=p1", "rack=r1"]),
        ["node-1", "node-2", "node-3"]
    );
    assert_eq!(
        names(&[&format!("@{}", list.display())]),
        ["node-2", "node-3"]
    );
    let piped = daemon.run_with(&["host", "list", "-o", "name", "-"], "node-2\n");
    assert_eq!(piped.out, "node-2\n", "{piped:?}");

    let none = daemon.run(&["power", "status", "role=web"]);
    assert_eq!(none.code, 2, "{none:?}");
    assert!(
        none.err.contains("no host of rack r1 has role=web"),
        "{none:?}"
    );
    let wrong = daemon.run(&["power", "status", "node-[3-1]"]);
    assert!(
        wrong.code == 2 && wrong.err.contains("node-[3-1]"),
        "{wrong:?}"
    );
    let wide = daemon.run(&["host", "list", "-o", "wide"]);
    assert!(
        wide.out.contains("role=db") && wide.out.contains("p1"),
        "{wide:?}"
    );
    let show = daemon.run(&["host", "show", "worker-1"]);
    assert!(show.out.contains("LABELS       role=db"), "{show:?}");
    let yaml = daemon.run(&["host", "show", "node-1", "-o", "yaml"]);
    assert!(yaml.out.contains("name: node-1"), "{yaml:?}");
    assert_eq!(daemon.stop(), 0);
}

#[test]
fn power_off_of_several_hosts_requires_confirmation() {
    let bmcs = [Redfish::start(), Redfish::start()];
    let site = Site::new(&bmcs.each_ref());
    let daemon = Daemon::start(&site);
    let dry = daemon.run(&["power", "off", "node-[1-2]", "--dry-run"]);
    assert_eq!(dry.code, 0, "{dry:?}");
    assert_eq!(
        dry.out,
        "would switch off hard node-1\nwould switch off hard node-2\n"
    );
    for command in [
        &["power", "off", "node-1", "node-9", "--dry-run"][..],
        &["bmc", "reset", "node-1", "node-9", "--dry-run"],
        &["identify", "on", "node-1", "node-9", "--dry-run"],
        &["boot-device", "set", "node-1", "node-9", "pxe", "--dry-run"],
    ] {
        let unknown = daemon.run(command);
        assert_eq!(unknown.code, 1, "{unknown:?}");
        assert!(unknown.out.contains("node-1"), "{unknown:?}");
        assert!(
            unknown
                .err
                .contains("host node-9 is not in the inventory of rack r1"),
            "{unknown:?}"
        );
    }
    let unasked = daemon.run(&["power", "off", "node-[1-2]"]);
    assert_eq!(unasked.code, 2, "{unasked:?}");
    assert!(unasked.err.contains("--yes"), "{unasked:?}");
    assert_eq!([bmcs[0].power(), bmcs[1].power()], ["On", "On"]);
    let off = daemon.run(&["power", "off", "node-[1-2]", "--yes"]);
    assert_eq!(off.code, 0, "{off:?}");
    assert!(off.err.contains("2 confirmed"), "{off:?}");
    assert_eq!([bmcs[0].power(), bmcs[1].power()], ["Off", "Off"]);
    let on = daemon.run(&["power", "on", "node-1", "node-2", "node-9"]);
    assert_eq!(on.code, 1, "{on:?}");
    assert!(on.err.contains("2 confirmed; 1 failed: node-9"), "{on:?}");
    assert_eq!(daemon.stop(), 0);
}

#[test]
fn operations_are_listed_shown_and_cancelled() {
    let (bmc, stubborn) = (Redfish::start(), Redfish::start());
    stubborn.set_stubborn();
    let site = Site::new(&[&bmc, &stubborn]);
    let daemon = Daemon::start(&site);
    daemon.run(&["power", "off", "node-1"]);
    let begun = daemon.run(&["power", "off", "node-2", "--no-wait", "-o", "json"]);
    let begun: Value = serde_json::from_str(&begun.out).unwrap();
    let id = begun[0]["operation"].as_str().unwrap().to_owned();

    let all = daemon.run(&["operations", "list", "-o", "json"]);
    let all: Value = serde_json::from_str(&all.out).unwrap();
    assert_eq!(all.as_array().unwrap().len(), 2, "{all}");
    assert_eq!(all[0]["operation"], id.as_str(), "the newest first: {all}");
    assert_eq!(
        (&all[1]["host"], &all[1]["result"]),
        (&"node-1".into(), &"confirmed".into())
    );
    assert_eq!(all[1]["commands"].as_array().unwrap().len(), 1, "{all}");
    assert!(all[1]["by"].as_str().unwrap().contains("local:"), "{all}");
    let running = daemon.run(&["operations", "list", "--running", "-o", "name"]);
    assert_eq!(running.out.trim(), id);

    let cancelled = daemon.run(&["operations", "cancel", &id]);
    assert_eq!(cancelled.code, 0, "{cancelled:?}");
    loop {
        let show = daemon.run(&["operations", "show", &id]);
        assert_eq!(show.code, 0, "{show:?}");
        if !show.out.contains("running") {
            assert!(show.out.contains("cancelled"), "{show:?}");
            break;
        }
    }
    let unknown = daemon.run(&["operations", "show", "op-9"]);
    assert!(
        unknown.code == 1 && unknown.err.contains("op-9"),
        "{unknown:?}"
    );
    assert_eq!(daemon.stop(), 0);
}

#[test]
fn completions_and_manual_pages_are_generated() {
    let site = Site::new(&[]);
    for shell in ["bash", "zsh", "fish"] {
        let run = crate::kit::run(&site, &["completions", shell]);
        assert!(run.code == 0 && run.out.contains("soft-off"), "{shell}");
    }
    let dir = site.dir.path().join("man");
    let run = crate::kit::run(&site, &["man", &dir.display().to_string()]);
    assert_eq!(run.code, 0, "{run:?}");
    let page = std::fs::read_to_string(dir.join("rackhand-agent-power-off.1")).unwrap();
    assert!(page.contains("then\\-force"), "{page}");
}

#[test]
fn import_of_manifests_writes_passwords_to_files() {
    const MANIFESTS: &str = "\
kind: Secret
metadata: {name: n1-bmc, namespace: metal3}
data: {username: b3Bz, password: czNjcmV0}
---
kind: BareMetalHost
metadata: {name: n1, namespace: metal3, labels: {role: db}, annotations: {rackhand.dev/pdu: p1}}
spec:
  bmc: {address: 'ipmi://10.1.0.1', credentialsName: n1-bmc}
";
    let site = Site::new(&[]);
    let dir = site.config.parent().unwrap().to_owned();
    let manifests = dir.join("bmh.yaml");
    std::fs::write(&manifests, MANIFESTS).unwrap();
    let (from, secrets) = (manifests.display(), dir.join("secrets"));
    let import = format!("inventory import {from} --secrets {}", secrets.display());
    let words: Vec<&str> = import.split(' ').collect();
    let run = crate::kit::run(&site, &words);
    assert_eq!(run.code, 0, "{run:?}");
    for said in [
        "name = \"n1\"",
        "pdu = \"p1\"",
        "role = \"db\"",
        "ipmi://10.1.0.1",
    ] {
        assert!(run.out.contains(said), "{said}: {run:?}");
    }
    assert!(!format!("{run:?}").contains("s3cret"));
    let password = secrets.join("n1");
    assert_eq!(std::fs::read_to_string(&password).unwrap(), "s3cret");
    let mode = std::fs::metadata(&password).unwrap().permissions();
    assert_eq!(
        std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777,
        0o600
    );

    // The agent accepts the result.
    std::fs::write(dir.join("hosts.toml"), &run.out).unwrap();
    let config = dir.join("imported.toml");
    let text = "rack = 'r1'\nsocket = 's'\nstate = 'd'\nallowed_bmc_networks = ['10.0.0.0/8']\n\
                inventory = ['hosts.toml']\n";
    std::fs::write(&config, text).unwrap();
    let check = format!("inventory check --config {}", config.display());
    let words: Vec<&str> = check.split(' ').collect();
    let check = crate::kit::run(&site, &words);
    assert_eq!(check.code, 0, "{check:?}");
    assert!(
        check.out.contains("n1") && check.out.contains("10.1.0.1"),
        "{check:?}"
    );

    // A repeated import changes nothing; another password is not overwritten.
    let words: Vec<&str> = import.split(' ').collect();
    assert_eq!(crate::kit::run(&site, &words).out, run.out);
    std::fs::write(&password, "other").unwrap();
    let other = crate::kit::run(&site, &words);
    assert_eq!(other.code, 1, "{other:?}");
    assert!(other.err.contains("holds another password"), "{other:?}");
    assert!(!format!("{other:?}").contains("s3cret"));
    let toml = crate::kit::run(&site, &["inventory", "import", "hosts.toml"]);
    assert_eq!(toml.code, 2, "{toml:?}");
}
