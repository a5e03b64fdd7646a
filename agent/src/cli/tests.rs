use clap::CommandFactory;

use super::{identify::led, *};

#[test]
fn argument_definitions_are_valid() {
    Cli::command().debug_assert();
}

#[test]
fn reference_page_is_current() {
    let text = format!(
        "# Command line of the agent\n\nEach section is the text of `--help`. [cli.md](../cli.md) \
         shows how the commands are used; the options of `fence_rackhand` are in its own help and \
         manual page.\n\n{}",
        rackhand_reference::commands(Cli::command())
    );
    rackhand_reference::assert_current("cli-agent.md", "agent/src/cli", &text).unwrap();
}

#[test]
fn durations_require_a_unit() {
    assert_eq!(duration("1m 30s"), Ok(Duration::from_secs(90)));
    assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
    for wrong in ["5", "", "-5s", "0s", "soon"] {
        assert!(duration(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn remote_agent_requires_rack_and_certificate() {
    let parse = |args: &str| super::parse(args.split(' ')).map(|_| ());
    assert!(parse("rackhand-agent power off a --agent x:1").is_err());
    assert!(parse("rackhand-agent power off a --agent x:1 --rack r --tls-dir d").is_ok());
    assert!(parse("rackhand-agent power status --all a").is_err());
    assert!(parse("rackhand-agent power status").is_err());
    assert!(parse("rackhand-agent power off").is_err());
}

#[test]
fn led_argument_is_on_off_or_a_duration() {
    assert_eq!(led("on"), Ok(Led::On));
    assert_eq!(led("off"), Ok(Led::Off));
    assert_eq!(led("30"), Ok(Led::For(Duration::from_secs(30))));
    assert_eq!(led("2m"), Ok(Led::For(Duration::from_secs(120))));
    for wrong in ["0", "-3", "blink", ""] {
        assert!(led(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn boot_device_is_the_last_argument() {
    let parse = |args: &str| super::parse(args.split(' '));
    let set = parse("rackhand-agent boot-device set a b pxe --uefi").unwrap();
    let Command::BootDevice(BootArgs {
        action: BootAction::Set(set),
    }) = set.command
    else {
        panic!("{set:?}");
    };
    assert_eq!((set.hosts.len(), set.device), (2, Some(BootDevice::Pxe)));
    for wrong in [
        "rackhand-agent boot-device set a",
        "rackhand-agent boot-device set pxe",
        "rackhand-agent boot-device set a floppy",
        "rackhand-agent boot-device set a pxe --uefi --legacy",
        "rackhand-agent power status a --direct --agent x:1 --rack r --tls-dir d",
    ] {
        assert!(parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn limit_and_then_force_require_a_soft_off() {
    let parse = |args: &str| super::parse(args.split(' ')).map(|_| ());
    assert!(parse("rackhand-agent power off a --soft").is_ok());
    assert!(parse("rackhand-agent power off a --soft --limit 90s --then-force").is_ok());
    assert!(parse("rackhand-agent power off a --limit 90s").is_err());
    assert!(parse("rackhand-agent power off a --then-force").is_err());
    assert!(parse("rackhand-agent power cycle a --hold-off 30s").is_ok());
    assert!(parse("rackhand-agent power reset a b --force").is_ok());
    assert!(parse("rackhand-agent power nmi a --soft").is_err());
}

#[test]
fn changing_commands_reject_all() {
    let parse = |args: &str| super::parse(args.split(' ')).map(|_| ());
    for changes in ["power off --all", "boot-device set pxe --all"] {
        let error = parse(&format!("rackhand-agent {changes}")).unwrap_err();
        assert!(is_all(&error), "{changes}: {error}");
    }
    assert!(!is_all(
        &parse("rackhand-agent power off a --every").unwrap_err()
    ));
    assert!(parse("rackhand-agent power status --all").is_ok());
}

/// The commands of the tool, such as `power off`, and whether each has this option.
fn leaves(command: &clap::Command, path: &str, option: &str, found: &mut Vec<(String, bool)>) {
    let below: Vec<_> = command.get_subcommands().collect();
    if below.is_empty() {
        let has = (command.get_arguments()).any(|arg| arg.get_long() == Some(option));
        found.push((path.trim().to_owned(), has));
    }
    for command in below {
        let path = format!("{path} {}", command.get_name());
        leaves(command, &path, option, found);
    }
}

#[test]
fn every_command_that_interrupts_a_host_or_its_bmc_may_be_meant_during_an_update() {
    const INTERRUPT: [&str; 8] = [
        "power off",
        "power soft-off",
        "power cycle",
        "power reset",
        "power nmi",
        "pdu off",
        "pdu cycle",
        "bmc reset",
    ];
    // These take no power and restart nothing, except `host certify`, which is refused while an update runs.
    const OTHERS: [&str; 26] = [
        "serve",
        "check",
        "power status",
        "power on",
        "pdu list",
        "pdu outlets",
        "pdu status",
        "pdu on",
        "host list",
        "host show",
        "host check",
        "host certify",
        "inventory check",
        "inventory import",
        "bmc info",
        "bmc rotate-password",
        "boot-device show",
        "boot-device set",
        "identify",
        "sensors",
        "events list",
        "events clear",
        "operations list",
        "operations show",
        "operations cancel",
        "term list",
    ];
    const LOCAL: [&str; 5] = ["term set-back", "enroll", "sim", "completions", "man"];
    let mut found = Vec::new();
    leaves(&Cli::command(), "", "during-firmware-update", &mut found);
    for (path, has) in &found {
        let interrupts = INTERRUPT.contains(&path.as_str());
        assert!(
            interrupts || [&OTHERS[..], &LOCAL].concat().contains(&path.as_str()),
            "`{path}` is new: does it interrupt a host or a BMC? Then it asks for updates of firmware first"
        );
        assert!(*has || !interrupts, "{path}");
    }
    for path in INTERRUPT {
        assert!(found.iter().any(|(known, _)| known == path), "{path}");
    }
}
