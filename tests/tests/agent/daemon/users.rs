//! Local users under the shipped systemd unit: the journal distinguishes them.

use std::{
    fs::Permissions,
    os::unix::fs::{MetadataExt, PermissionsExt, chown},
    path::Path,
    process::Command,
};

use rackhand_tests::stage::binaries;
use serde_json::{Value, json};

use super::site::Site;

/// Operators of the machine, and the group that may use the socket.
const USERS: [u32; 2] = [41_234, 41_235];
const GROUP: u32 = 41_000;

/// Whether the unit uses a separate user namespace, in which every other user is nobody.
fn hides_users(unit: &str) -> bool {
    let mut values = unit
        .lines()
        .filter_map(|line| line.strip_prefix("PrivateUsers="));
    values
        .next_back()
        .is_some_and(|value| !matches!(value.trim(), "" | "no" | "false" | "0" | "off"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn local_users_are_distinguished_under_the_shipped_unit() {
    let unit =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/systemd/rackhand-agent.service");
    let unit = std::fs::read_to_string(unit).unwrap();
    // Operators reach the socket through a group.
    assert!(unit.lines().any(|line| line == "Group=rackhand"), "{unit}");
    let is_root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
    if !is_root {
        assert!(!hides_users(&unit), "{unit}");
        println!("only root can become two users: the journal was not looked at");
        return;
    }
    // A BMC that must never be called: the port is closed.
    let mut site = Site::new(&json!([{
        "name": "h1",
        "bmc": {"address": "redfish+http://127.0.0.1:9/redfish/v1/Systems/1", "username": "u",
                "password_file": "password"},
    }]));
    // As systemd does for PrivateUsers=yes: only the service's user and root exist.
    let namespace: &[&str] = if hides_users(&unit) {
        &["unshare", "--user", "--map-root-user"]
    } else {
        &[]
    };
    site.start_under(namespace).await;
    let dir = site.dir.path();
    let socket = dir.join("agent.sock");
    std::fs::set_permissions(dir, Permissions::from_mode(0o755)).unwrap();
    chown(&socket, None, Some(GROUP)).unwrap();
    let program = dir.join("rackhand-agent");
    let built = binaries().unwrap().join("rackhand-agent");
    if std::fs::hard_link(&built, &program).is_err() {
        std::fs::copy(&built, &program).unwrap();
    }

    let run = |user: u32, args: &[&str]| {
        let output = Command::new("setpriv")
            .arg(format!("--reuid={user}"))
            .arg(format!("--regid={GROUP}"))
            .arg("--clear-groups")
            .arg(&program)
            .args(args)
            .arg("--socket")
            .arg(&socket)
            .current_dir(dir)
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (text(&output.stdout), text(&output.stderr))
    };
    for user in USERS {
        let (told, _) = run(user, &["power", "off", "h1", "--timeout", "3s"]);
        println!("{user}: {told}");
    }
    let (listed, errors) = run(USERS[0], &["operations", "list", "-o", "json"]);
    let listed: Value = serde_json::from_str(&listed).unwrap_or_else(|_| panic!("{errors}"));
    let shown = listed.to_string();
    for user in USERS {
        assert!(shown.contains(&format!("local:{user}")), "{user}: {shown}");
    }
    site.stop();
}
