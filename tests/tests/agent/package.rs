//! The agent's Debian package, from the programs of this build: its content works, and lintian
//! reports no error.

use std::{path::PathBuf, process::Command};

use rackhand_tests::{
    repository::{self, root},
    stage::binaries,
};

/// Standard output of a command that must succeed.
fn output(command: &mut Command) -> String {
    repository::output(command).unwrap()
}

fn is_there(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}

fn unpacked() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let said = output(
        Command::new(root().join("hack/package"))
            .arg("--agent")
            .arg(binaries().unwrap().join("rackhand-agent"))
            .arg("--output")
            .arg(dir.path()),
    );
    let package = PathBuf::from(said.lines().last().unwrap());
    let tree = dir.path().join("tree");
    output(
        Command::new("dpkg-deb")
            .arg("--raw-extract")
            .arg(package)
            .arg(&tree),
    );
    (dir, tree)
}

#[test]
fn package_is_complete_and_passes_lintian() {
    if !is_there("dpkg-deb") {
        println!("this is no Debian: there is nothing to make a package with");
        return;
    }
    let (_dir, tree) = unpacked();

    for (program, args, says) in [
        (
            "usr/bin/rackhand-agent",
            &["--version"][..],
            "rackhand-agent ",
        ),
        (
            "usr/sbin/fence_rackhand",
            &["--action=metadata"],
            "<resource-agent name=\"fence_rackhand\"",
        ),
    ] {
        let said = output(Command::new(tree.join(program)).args(args));
        assert!(said.contains(says), "{program}: {said}");
    }
    for (page, says) in [
        ("man1/rackhand-agent.1.gz", "rackhand-agent-power(1)"),
        ("man1/rackhand-agent-power-off.1.gz", "--then-force"),
        ("man8/fence_rackhand.8.gz", "--password-script"),
    ] {
        let page = tree.join("usr/share/man").join(page);
        let said = output(
            Command::new("man")
                .arg("-l")
                .arg(page)
                .env("MANWIDTH", "200"),
        );
        assert!(said.contains(says), "{said}");
    }
    for file in [
        "usr/share/bash-completion/completions/rackhand-agent",
        "usr/share/zsh/vendor-completions/_rackhand-agent",
        "usr/share/fish/vendor_completions.d/rackhand-agent.fish",
    ] {
        let text = std::fs::read_to_string(tree.join(file)).unwrap();
        assert!(text.contains("boot-device"), "{file}");
    }

    // The example is a valid configuration, and the one that the service is started with.
    let config = tree.join("etc/rackhand/agent.toml");
    let judged = output(
        Command::new(tree.join("usr/bin/rackhand-agent"))
            .arg("check")
            .arg("--config")
            .arg(&config),
    );
    assert!(judged.contains("rack-1"), "{judged}");
    let conffiles = std::fs::read_to_string(tree.join("DEBIAN/conffiles")).unwrap();
    assert_eq!(conffiles.trim(), "/etc/rackhand/agent.toml");
    let unit = tree.join("usr/lib/systemd/system/rackhand-agent.service");
    let unit = std::fs::read_to_string(unit).unwrap();
    for line in [
        "ExecStart=/usr/bin/rackhand-agent serve --config /etc/rackhand/agent.toml",
        "LoadCredential=bmc:/etc/rackhand/bmc",
    ] {
        assert!(unit.lines().any(|one| one == line), "{line}: {unit}");
    }
    // systemd reads the passwords from this directory, and does not start a service without it.
    let script = std::fs::read_to_string(tree.join("DEBIAN/postinst")).unwrap();
    assert!(
        script.contains("/etc/rackhand/bmc") && script.contains("-m 0700"),
        "{script}"
    );
    assert!(
        script.contains("update-state rackhand-agent.service"),
        "{script}"
    );

    let control = std::fs::read_to_string(tree.join("DEBIAN/control")).unwrap();
    let version = format!("Version: {}-1", env!("CARGO_PKG_VERSION"));
    assert!(control.lines().any(|line| line == version), "{control}");
    let changelog = std::fs::read_to_string(root().join("deploy/deb/changelog")).unwrap();
    let head = format!("rackhand-agent ({}-1) ", env!("CARGO_PKG_VERSION"));
    assert!(
        changelog.starts_with(&head),
        "a new version goes into {changelog}"
    );
}
