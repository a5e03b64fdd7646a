//! A reader that closes the pipe, as `head -1` does, neither ends a command nor causes an error
//! message.

use std::{
    fs::OpenOptions,
    io::pipe,
    os::unix::process::CommandExt,
    process::{Command, Stdio},
};

use crate::simulated::Sim;

const BINARY: &str = env!("CARGO_BIN_EXE_rackhand-agent");

/// The binary under a name, with the location of the rack.
fn command(sim: &Sim, name: &str, args: &[&str]) -> Command {
    let mut command = Command::new(BINARY);
    command
        .arg0(name)
        .args(args)
        .env("RACKHAND_SOCKET", sim.socket())
        .env("RACKHAND_AGENT_CONFIG", sim.config())
        .stdin(Stdio::null())
        .stderr(Stdio::piped());
    command
}

/// A pipe without a reader.
fn closed() -> Stdio {
    let (reader, writer) = pipe().unwrap();
    drop(reader);
    writer.into()
}

#[test]
fn closed_pipe_keeps_the_exit_code_of_every_command() {
    let sim = Sim::start(&["--hosts", "2", "--dead", "0"]);
    let agent: [&[&str]; 17] = [
        &["check"],
        &["--help"],
        &["power", "--help"],
        &["--version"],
        &["host", "list"],
        &["host", "list", "-o", "yaml"],
        &["host", "show", "sim-01"],
        &["host", "check", "--all"],
        &["power", "status", "--all"],
        &["power", "status", "--all", "-o", "json"],
        &["power", "off", "sim-01", "--yes"],
        &["power", "on", "sim-01", "--dry-run"],
        &["operations", "list"],
        &["term", "list"],
        &["sensors", "sim-01"],
        &["events", "list", "sim-01", "-o", "json"],
        &["completions", "bash"],
    ];
    let socket = format!("--socket={}", sim.socket().display());
    let fence: [&[&str]; 3] = [
        &["--action=metadata"],
        &["--help"],
        &["--action=status", "--plug=sim-02", &socket],
    ];
    let agent = agent.map(|args| ("rackhand-agent", args));
    let fence = fence.map(|args| ("fence_rackhand", args));
    for (name, args) in agent.into_iter().chain(fence) {
        let with_reader = command(&sim, name, args).output().unwrap();
        let mut without = command(&sim, name, args);
        let without = without
            .stdout(closed())
            .spawn()
            .unwrap()
            .wait_with_output()
            .unwrap();
        let told = String::from_utf8_lossy(&without.stderr);
        assert_eq!(
            without.status.code(),
            with_reader.status.code(),
            "{args:?}: {told}"
        );
        assert!(!with_reader.stdout.is_empty(), "{args:?} printed nothing");
        for word in ["panicked", "Broken pipe", "os error 32"] {
            assert!(!told.contains(word), "{args:?}: {told}");
        }
        // Both outputs: `2>&1
        //  head -1`.
        let mut blind = command(&sim, name, args);
        let blind = blind.stdout(closed()).stderr(closed()).status().unwrap();
        assert_eq!(blind.code(), with_reader.status.code(), "{args:?}");
    }
}

#[test]
fn unwritable_output_is_a_failure() {
    let sim = Sim::start(&["--hosts", "1", "--dead", "0"]);
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut check = command(&sim, "rackhand-agent", &["check"]);
    let check = check.stdout(full).spawn().unwrap().wait_with_output();
    let check = check.unwrap();
    assert_eq!(check.status.code(), Some(1));
    let told = String::from_utf8(check.stderr).unwrap();
    assert!(
        told.starts_with("error: cannot write the output: "),
        "{told}"
    );
}
