//! A search for secrets in everything that an agent writes or prints.

use std::{os::unix::fs::PermissionsExt, path::Path, time::Duration};

use rackhand_proto::{
    convert::duration_to_proto,
    v1::{self, begin_request::Action},
};
use rackhand_tests::rack::ipmi::{Farm, FarmConfig, Privilege, User};
use serde_json::json;

use super::site::{PASSWORD, Site, target, term};

const INLINE: &str = "inl1ne-s3cret";
const OF_COMMAND: &str = "c0mmand-s3cret";
const WRONG: &str = "wr0ng-s3cret";
const BROUGHT: &str = "br0ught-s3cret";
const KG: &str = "kg-s3cret-0f-20-byte";
const SECRETS: [&str; 6] = [PASSWORD, INLINE, OF_COMMAND, WRONG, BROUGHT, KG];

/// Every file below `dir`, except those that contain the secrets intentionally.
fn files(dir: &Path, found: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files(&path, found);
        } else if path.is_file() {
            found.push(path);
        }
    }
}

fn search(what: &str, bytes: &[u8]) {
    for secret in SECRETS {
        let is_there = bytes
            .windows(secret.len())
            .any(|part| part == secret.as_bytes());
        assert!(!is_there, "{secret} is in {what}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn agent_output_and_files_contain_no_secret() {
    let mut config = FarmConfig::new(5);
    let users = [PASSWORD, INLINE, OF_COMMAND, BROUGHT];
    let users = users.iter().enumerate();
    config.bmc.users = users
        .map(|(n, password)| User::new(&format!("u{n}"), password, Privilege::Administrator))
        .collect();
    let farm = Farm::start(&config).await.unwrap();
    let address = |n: usize| format!("ipmi://{}", farm.bmcs()[n].address());
    let mut site = Site::new(&json!([
        {"name": "file", "bmc":
            {"address": address(0), "username": "u0", "password_file": "password"}},
        {"name": "inline", "bmc":
            {"address": address(1), "username": "u1", "password": INLINE}},
        {"name": "command", "bmc":
            {"address": address(2), "username": "u2", "password_command": ["/bin/sh", "say"]}},
        {"name": "wrong", "bmc":
            {"address": address(3), "username": "u0", "password": WRONG, "kg": KG}},
    ]));
    // The script is given by its absolute path, because the agent has another working directory.
    let script = site.dir.path().join("say");
    std::fs::write(&script, format!("echo {OF_COMMAND}\n")).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o700)).unwrap();
    let text = std::fs::read_to_string(site.config()).unwrap();
    let text = text.replace("\"say\"", &format!("{:?}", script.display().to_string()));
    std::fs::write(site.config(), text).unwrap();
    site.start().await;

    let mut client = site.local().await;
    let mut shown = String::new();
    for host in ["file", "inline", "command", "wrong"] {
        let request = v1::BeginRequest {
            operation_id: format!("op-{host}"),
            target: target(host),
            action: Some(Action::PowerOff(v1::PowerOff {
                confirm_interval: Some(duration_to_proto(Duration::from_millis(100))),
                ..v1::PowerOff::default()
            })),
            deadline: Some(duration_to_proto(Duration::from_secs(20))),
            ..v1::BeginRequest::default()
        };
        client.begin(request).await.unwrap();
        let request = v1::AwaitRequest {
            operation_id: format!("op-{host}"),
        };
        let mut events = client.r#await(request).await.unwrap().into_inner();
        let mut last = String::new();
        while let Some(event) = events.message().await.unwrap() {
            last = format!("{event:?}");
            shown.push_str(&last);
        }
        assert_eq!(
            last.contains("Confirmed"),
            host != "wrong",
            "{host}: {last}"
        );
    }
    // A secret that a controller sends, valid and rejected.
    let controller = site.certificate("spiffe://rackhand/controller");
    let mut controller = site.remote(Some(&controller));
    controller
        .claim_term(v1::ClaimTermRequest {
            term: term(1),
            ..v1::ClaimTermRequest::default()
        })
        .await
        .unwrap();
    for username in ["u3", "nobody"] {
        let request = v1::ReadPowerRequest {
            target: Some(v1::Target {
                host: "brought".into(),
                endpoint: Some(v1::BmcEndpoint {
                    address: address(4),
                    username: username.into(),
                    password: BROUGHT.into(),
                    ..v1::BmcEndpoint::default()
                }),
            }),
            timeout: None,
            ..v1::ReadPowerRequest::default()
        };
        let read = controller.read_power(request).await.unwrap();
        shown.push_str(&format!("{read:?}"));
    }
    // An invalid reload repeats nothing of the file either.
    let good = std::fs::read_to_string(site.config()).unwrap();
    std::fs::write(
        site.config(),
        good.replace(
            &format!("password = \"{INLINE}\""),
            &format!("password = [\"{INLINE}\"]"),
        ),
    )
    .unwrap();
    site.agent()
        .signal(nix::sys::signal::Signal::SIGHUP)
        .unwrap();
    while site
        .metric("rackhand_agent_reloads_total{result=\"refused\"}")
        .await
        == 0
    {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }

    let process = format!("/proc/{}", site.agent().pid());
    for name in ["cmdline", "environ", "status", "limits"] {
        let bytes = std::fs::read(format!("{process}/{name}")).unwrap();
        search(name, &bytes);
    }
    let limits = std::fs::read_to_string(format!("{process}/limits")).unwrap();
    let core = limits
        .lines()
        .find(|line| line.starts_with("Max core file size"));
    let core: Vec<&str> = core.unwrap().split_whitespace().collect();
    assert_eq!(core[4..6], ["0", "0"], "{core:?}");
    search("metrics", site.metrics().await.as_bytes());
    search("answers", shown.as_bytes());
    site.stop();

    // The log at level debug, the journal, and all other files.
    let mut written = Vec::new();
    files(site.dir.path(), &mut written);
    let by_intent = ["agent.toml", "password", "say"];
    written.retain(|path| !by_intent.iter().any(|name| path.ends_with(name)));
    let names: Vec<String> = written.iter().map(|p| p.display().to_string()).collect();
    for wanted in ["agent.log", "journal.redb"] {
        assert!(names.iter().any(|name| name.ends_with(wanted)), "{names:?}");
    }
    for path in written {
        search(&path.display().to_string(), &std::fs::read(&path).unwrap());
    }
    assert!(
        site.log().contains("configuration not reloaded"),
        "{}",
        site.log()
    );
}
