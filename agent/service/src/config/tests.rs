//! Good files, and the exact words about bad ones.

use rackhand_bmc::ipmi::{self, SuiteChoice};
use tempfile::TempDir;

use super::*;

const HEAD: &str = "\
rack: r1
listen: 0.0.0.0:7443
tls: tls
socket: /run/rackhand/agent.sock
state: /var/lib/rackhand
allowed_bmc_networks: [10.1.0.0/16, 'fd00::/64']
";

fn parse(text: &str) -> Result<Config, Vec<String>> {
    Config::parse(Path::new("/etc/rackhand/agent.yaml"), text, None).map_err(|error| error.problems)
}

fn problems(text: &str) -> Vec<String> {
    parse(text).unwrap_err()
}

fn host(name: &str, rest: &str, address: &str, bmc: &str) -> String {
    let rest = if rest.is_empty() {
        String::new()
    } else {
        format!("    {rest}\n")
    };
    let bmc = if bmc.is_empty() {
        String::new()
    } else {
        format!("      {bmc}\n")
    };
    format!(
        "  - name: {name}\n{rest}    bmc:\n      address: {address}\n      username: ops\n      \
         password_file: bmc\n{bmc}"
    )
}

fn with(hosts: &[String]) -> String {
    format!("{HEAD}hosts:\n{}", hosts.concat())
}

#[test]
fn a_full_file_is_understood() {
    let dir = TempDir::new().unwrap();
    std::fs::write(dir.path().join("ca.pem"), "pem").unwrap();
    let text = format!(
        "{HEAD}\
accept_endpoints_from_controller: true
defaults:
  trust: {{ca_file: ca.pem}}
  connect_timeout: 2s
  call_timeout: 10s
  operation_deadline: 1m 30s
  poll_max: 1500ms
  resend_after: 5s
  shutdown_grace: 0s
hosts:
  - name: node-7
    node_name: worker-7.example
    provider_id: metal3://default/node-7/x
    system_uuid: 4c4c4544-0042-3510-8054-c2c04f4e4e32
    serial: ABC123
    bmc:
      address: redfish://10.1.2.3/redfish/v1/Systems/1
      username: ops
      password_file: node-7
  - name: node-8
    bmc: {{address: 'redfish://bmc-8.example', username: ops, password_file: /run/x, trust: {{insecure: true}}}}
"
    );
    let config = Config::parse(&dir.path().join("agent.yaml"), &text, None).unwrap();
    assert_eq!(config.rack, "r1");
    let remote = config.remote.unwrap();
    assert_eq!(remote.listen, "0.0.0.0:7443".parse().unwrap());
    assert_eq!(remote.tls, dir.path().join("tls"));
    assert_eq!(config.times.operation, Duration::from_secs(90));
    assert_eq!(config.times.poll_max, Duration::from_millis(1500));
    let [seven, eight] = config.inventory.hosts.as_slice() else {
        panic!()
    };
    assert_eq!(
        seven.bmc.trust,
        rackhand_bmc::Trust::CaBundle(b"pem".to_vec())
    );
    assert_eq!(eight.bmc.trust, rackhand_bmc::Trust::Insecure);
    assert_eq!(eight.bmc.password.to_string(), "/run/x");
    assert_eq!(
        seven.bmc.password.to_string(),
        dir.path().join("node-7").display().to_string()
    );
}

#[test]
fn passwords_come_from_the_credentials_directory_of_systemd() {
    let dir = TempDir::new().unwrap();
    std::fs::write(dir.path().join("bmc"), "s3cret\n").unwrap();
    let text = with(&[host("a", "", "redfish://10.1.0.1", "")]);
    let path = Path::new("/etc/rackhand/agent.yaml");
    let config = Config::parse(path, &text, Some(dir.path())).unwrap();
    let password = config.inventory.hosts[0].bmc.password.read().unwrap();
    assert_eq!(secrecy::ExposeSecret::expose_secret(&password), "s3cret");
    assert!(!format!("{password:?}").contains("s3cret"));
}

#[test]
fn a_bad_password_file_is_named_but_never_shown() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("bmc");
    let text = with(&[host("a", "", "redfish://10.1.0.1", "")]);
    let config = Config::parse(&dir.path().join("agent.yaml"), &text, None).unwrap();
    let shown = path.display();
    assert_eq!(
        config.warnings(),
        [format!(
            "a: password file {shown}: No such file or directory (os error 2)"
        )]
    );
    std::fs::write(&path, "\n").unwrap();
    assert_eq!(
        config.warnings(),
        [format!("a: password file {shown}: empty")]
    );
    std::fs::write(&path, [0xff, 0xfe]).unwrap();
    assert_eq!(
        config.warnings(),
        [format!("a: password file {shown}: not UTF-8 text")]
    );
    std::fs::write(&path, "x").unwrap();
    assert_eq!(
        config.warnings(),
        [format!("a: password file {shown} can be read by everybody")]
    );
}

#[test]
fn every_mistake_is_told_at_once_with_its_place() {
    let text = "\
rack: rack one
listen: here
tls: tls
socket: s
state: s
allowed_bmc_networks: [10.1.0.0/33, 10.1.0.0/16]
defaults: {call_timeout: 0s, trust: {insecure: true, sha256: ab}}
hosts:
  - name: a
    system_uuid: nonsense
    bmc: {address: 'redfish://10.1.0.1', username: '', password_file: p, trust: {sha256: xyz}}
  - name: b
    system_uuid: 00000000-0000-0000-0000-000000000000
    bmc: {address: 'redfish://192.0.2.1', username: u, password_file: p, trust: {}}
  - name: c/c
    bmc: {address: 'ftp://10.1.0.9', username: u, password_file: p, trust: {ca_file: missing.pem}}
";
    assert_eq!(
        problems(text),
        [
            "rack: \"rack one\": a rack's name is 1 to 63 letters, digits, '.', '-' or '_'",
            "listen: \"here\": not an IP address and port, such as 0.0.0.0:7443 or [::]:7443",
            "allowed_bmc_networks[0]: \"10.1.0.0/33\": not a network, such as 10.1.0.0/16 or \
             fd00::/64",
            "defaults.call_timeout: must be longer than zero",
            "defaults.trust: give exactly one of ca_file, sha256 and insecure: true",
            "hosts[0] (a).system_uuid: \"nonsense\": not a UUID, such as \
             4c4c4544-0042-3510-8054-c2c04f4e4e32",
            "hosts[0] (a).bmc.username: is empty",
            "hosts[0] (a).bmc.trust.sha256: a certificate pin is 64 hexadecimal digits (SHA-256), \
             with or without colons",
            "hosts[1] (b).system_uuid: \"00000000-0000-0000-0000-000000000000\": a placeholder of \
             the firmware: it identifies nothing; leave it out",
            "hosts[1] (b).bmc.address: 192.0.2.1 is not in allowed_bmc_networks (10.1.0.0/16)",
            "hosts[1] (b).bmc.trust: give exactly one of ca_file, sha256 and insecure: true",
            "hosts[2] (c/c).name: must be 1 to 63 letters, digits, '.', '-' or '_'",
            "hosts[2] (c/c).bmc.address: BMC address scheme \"ftp\" is not known; use redfish:// \
             or ipmi://",
            "hosts[2] (c/c).bmc.trust.ca_file: /etc/rackhand/missing.pem: No such file or \
             directory (os error 2)",
        ]
    );
}

#[test]
fn nothing_may_stand_there_twice() {
    let text = with(&[
        host(
            "a",
            "node_name: n",
            "redfish://10.1.0.1/redfish/v1/Systems/1",
            "",
        ),
        host(
            "a",
            "node_name: n",
            "redfish://10.1.0.1:443/redfish/v1/Systems/1",
            "",
        ),
        host(
            "c",
            "system_uuid: 00112233-4455-6677-8899-aabbccddeeff",
            "redfish://10.1.0.3",
            "",
        ),
        host(
            "d",
            "system_uuid: 33221100-5544-7766-8899-AABBCCDDEEFF",
            "redfish://10.1.0.4",
            "",
        ),
        host("e", "provider_id: p", "redfish://10.1.0.1", ""),
        host(
            "f",
            "provider_id: p",
            "redfish://10.1.0.1/redfish/v1/Systems/2",
            "",
        ),
    ]);
    let several = "; where one BMC has several systems, name a different one in each address";
    assert_eq!(
        problems(&text),
        [
            "hosts[1] (a).name: is also that of hosts[0] (a)".to_owned(),
            "hosts[1] (a).node_name: is also that of hosts[0] (a)".to_owned(),
            "hosts[3] (d).system_uuid: is also that of hosts[2] (c)".to_owned(),
            "hosts[5] (f).provider_id: is also that of hosts[4] (e)".to_owned(),
            format!(
                "hosts[1] (a).bmc.address: redfish://10.1.0.1:443 is also the BMC of hosts[0] \
                 (a){several}"
            ),
            format!(
                "hosts[4] (e).bmc.address: redfish://10.1.0.1:443 is also the BMC of hosts[0] \
                 (a){several}"
            ),
            format!(
                "hosts[5] (f).bmc.address: redfish://10.1.0.1:443 is also the BMC of hosts[4] \
                 (e){several}"
            ),
        ]
    );
}

#[test]
fn two_systems_of_one_bmc_are_two_hosts() {
    let text = with(&[
        host("a", "", "redfish://10.1.0.1/redfish/v1/Systems/1", ""),
        host("b", "", "redfish://10.1.0.1/redfish/v1/Systems/2", ""),
    ]);
    assert_eq!(parse(&text).unwrap().inventory.hosts.len(), 2);
}

#[test]
fn unknown_and_missing_fields_are_told_with_their_line() {
    let unknown = problems(&format!("{HEAD}colour: red\n"));
    assert!(
        unknown[0].contains("line 7") && unknown[0].contains("colour"),
        "{unknown:?}"
    );
    let missing = problems("rack: r1\n");
    assert!(missing[0].contains("socket"), "{missing:?}");
    let password = problems(&with(&[host("a", "", "redfish://10.1.0.1", "password: x")]));
    assert!(password[0].contains("password"), "{password:?}");
    let time = problems(&format!("{HEAD}defaults: {{call_timeout: 5}}\n"));
    assert!(time[0].contains("a time with its unit"), "{time:?}");
    assert!(problems("{")[0].contains("line"), "{:?}", problems("{"));
}

#[test]
fn listening_needs_a_certificate_and_the_other_way_round() {
    let only_local = HEAD.replace("listen: 0.0.0.0:7443\ntls: tls\n", "");
    assert_eq!(parse(&only_local).unwrap().remote, None);
    assert_eq!(
        problems(&HEAD.replace("tls: tls\n", "")),
        ["tls: missing: `listen` needs the directory of a certificate"]
    );
    assert_eq!(
        problems(&HEAD.replace("listen: 0.0.0.0:7443\n", "")),
        ["listen: missing: `tls` is given, but no address to listen on"]
    );
}

#[test]
fn a_host_is_found_by_each_of_its_names() {
    let text = with(&[
        host("a", "node_name: worker-1", "redfish://10.1.0.1", ""),
        host(
            "b",
            "system_uuid: 00112233-4455-6677-8899-aabbccddeeff",
            "redfish://10.1.0.2",
            "",
        ),
        host("c", "provider_id: metal3://x", "redfish://10.1.0.3", ""),
        host("worker-1", "", "redfish://10.1.0.4", ""),
    ]);
    let inventory = parse(&text).unwrap().inventory;
    for (name, found) in [
        ("a", Some("a")),
        ("33221100-5544-7766-8899-AABBCCDDEEFF", Some("b")),
        ("metal3://x", Some("c")),
        ("nobody", None),
    ] {
        let host = inventory.find(name).unwrap();
        assert_eq!(host.map(|host| host.name.as_str()), found);
    }
    assert_eq!(
        inventory.find("worker-1").unwrap_err().to_string(),
        "\"worker-1\" means several hosts: a, worker-1; use one of these names"
    );
    let address = "redfish://10.1.0.3:443".parse().unwrap();
    assert_eq!(inventory.find_bmc(&address).unwrap().name, "c");
}

#[test]
fn labels_must_read_on_a_command_line_as_they_are_written() {
    let good = host(
        "node-1",
        "labels: {role: db, tier: '1'}\n    position: U12\n    pdu: p1",
        "redfish://10.1.0.7",
        "",
    );
    let config = parse(&with(&[good])).unwrap();
    let entry = &config.inventory.hosts[0];
    assert_eq!(entry.labels.get("role").map(String::as_str), Some("db"));
    assert_eq!(entry.position.as_deref(), Some("U12"));
    assert_eq!(entry.pdu.as_deref(), Some("p1"));
    let bad = host(
        "node-1",
        "labels: {rack: r2, 'a b': c, role: 'x,y'}\n    pdu: ' '",
        "redfish://10.1.0.7",
        "",
    );
    let told = problems(&with(&[bad]));
    for wanted in [
        "\"rack\"",
        "\"a b\"",
        "labels.role: \"x,y\"",
        "pdu: is empty",
    ] {
        assert!(
            told.iter().any(|one| one.contains(wanted)),
            "{wanted}: {told:?}"
        );
    }
}

#[test]
fn networks_see_through_mapped_addresses() {
    let networks = Networks(vec!["10.1.0.0/16".parse().unwrap()]);
    assert!(networks.allow("10.1.2.3".parse().unwrap()));
    assert!(networks.allow("::ffff:10.1.2.3".parse().unwrap()));
    assert!(!networks.allow("10.2.2.3".parse().unwrap()));
    assert!(!networks.allow("::1".parse().unwrap()));
}

/// One host with these entries under `bmc:`.
fn drivers(entries: &[&str]) -> String {
    let list: Vec<String> = entries.iter().map(|e| format!("      - {e}\n")).collect();
    format!("{HEAD}hosts:\n  - name: a\n    bmc:\n{}", list.concat())
}

const REDFISH: &str = "address: 'redfish://10.1.0.1', username: u, password_file: p";
const IPMI: &str = "address: 'ipmi://10.1.0.1', username: u, password_file: p";

#[test]
fn a_host_may_have_several_drivers_in_their_order() {
    let redfish = format!("{{{REDFISH}, auth: basic, keep_alive: true, soft_off_by_button: true}}");
    let ipmi = format!("{{{IPMI}, cipher_suite: 17, kg_file: kg, min_interval: 500ms}}");
    let config = parse(&drivers(&[&redfish, &ipmi])).unwrap();
    let [host] = config.inventory.hosts.as_slice() else {
        panic!()
    };
    let [first, second] = host.bmcs().collect::<Vec<_>>()[..] else {
        panic!()
    };
    assert_eq!(first.address.protocol(), Protocol::Redfish);
    assert_eq!(
        first.options,
        BmcOptions {
            auth: rackhand_bmc::AuthPolicy::Basic,
            keep_alive: true,
            soft_off_by_button: true,
            ..BmcOptions::default()
        }
    );
    assert_eq!(second.address.protocol(), Protocol::Ipmi);
    assert_eq!(
        second.options,
        BmcOptions {
            cipher_suite: SuiteChoice::Only(ipmi::Suite::Cipher17),
            min_interval: Some(Duration::from_millis(500)),
            ..BmcOptions::default()
        }
    );
    assert_eq!(second.kg.as_ref().unwrap().to_string(), "/etc/rackhand/kg");
    for (text, suite) in [
        ("auto", SuiteChoice::Auto),
        ("3", SuiteChoice::Only(ipmi::Suite::Cipher3)),
        ("'17'", SuiteChoice::Only(ipmi::Suite::Cipher17)),
    ] {
        let ipmi = format!("{{{IPMI}, cipher_suite: {text}}}");
        let config = parse(&drivers(&[&ipmi])).unwrap();
        assert_eq!(config.inventory.hosts[0].bmc.options.cipher_suite, suite);
    }
    let by_ipmi = "ipmi://10.1.0.1".parse().unwrap();
    assert!(config.inventory.find_bmc(&by_ipmi).is_some());
}

#[test]
fn each_driver_is_judged_whole_and_with_its_place() {
    let redfish = format!("{{{REDFISH}, cipher_suite: 3, kg_file: kg, min_interval: 1s}}");
    let ipmi = "{address: 'ipmi://10.2.0.1', username: a-name-of-17-byte, password_file: p, \
                trust: {insecure: true}, auth: session, keep_alive: false, \
                soft_off_by_button: false, min_interval: 7s}";
    let twice = format!("{{{REDFISH}}}");
    assert_eq!(
        problems(&drivers(&[&redfish, ipmi, &twice])),
        [
            "hosts[0] (a).bmc[0].cipher_suite: means nothing to Redfish; take it out",
            "hosts[0] (a).bmc[0].kg_file: means nothing to Redfish; take it out",
            "hosts[0] (a).bmc[0].min_interval: means nothing to Redfish; take it out",
            "hosts[0] (a).bmc[1].address: 10.2.0.1 is not in allowed_bmc_networks (10.1.0.0/16, \
             fd00::/64)",
            "hosts[0] (a).bmc[1].trust: means nothing to IPMI; take it out",
            "hosts[0] (a).bmc[1].auth: means nothing to IPMI; take it out",
            "hosts[0] (a).bmc[1].keep_alive: means nothing to IPMI; take it out",
            "hosts[0] (a).bmc[1].soft_off_by_button: means nothing to IPMI; take it out",
            "hosts[0] (a).bmc[1].username: 17 bytes long; IPMI has room for 16",
            "hosts[0] (a).bmc[1].min_interval: must be shorter than the time of one call, which \
             is 6.666666666s here",
            "hosts[0] (a).bmc[2].address: redfish://10.1.0.1:443 stands there already: one \
             driver, one entry",
        ]
    );
    assert_eq!(
        problems(&format!("{HEAD}hosts: [{{name: a, bmc: []}}]\n")),
        [
            "hosts[0] (a).bmc: empty: give the BMC, or its drivers in the order in which they are \
             asked"
        ]
    );
}

#[test]
fn what_is_no_driver_is_told_with_its_line() {
    for (entry, what) in [
        (
            "{address: x, username: u, password_file: p, colour: red}",
            "colour",
        ),
        (
            "{address: x, username: u, password_file: p, cipher_suite: 8}",
            "auto, 3 or 17",
        ),
        (
            "{address: x, username: u, password_file: p, cipher_suite: -3}",
            "auto, 3 or 17",
        ),
        (
            "{address: x, username: u, password_file: p, auth: none}",
            "auth",
        ),
        ("{address: x, username: u}", "password_file"),
    ] {
        let listed = problems(&drivers(&[entry]));
        assert!(
            listed[0].contains("line") && (listed[0].contains(what) || what == "auth"),
            "{listed:?}"
        );
        let alone = problems(&format!("{HEAD}hosts:\n  - name: a\n    bmc: {entry}\n"));
        assert!(
            alone[0].contains("line") && (alone[0].contains(what) || what == "auth"),
            "{alone:?}"
        );
    }
    let text = problems(&format!("{HEAD}hosts:\n  - {{name: a, bmc: text}}\n"));
    assert!(text[0].contains("a BMC (address,"), "{text:?}");
}

#[test]
fn a_secret_that_ipmi_has_no_room_for_is_told_and_not_shown() {
    let dir = TempDir::new().unwrap();
    std::fs::write(dir.path().join("p"), "s3cret-of-21-byte-xxx\n").unwrap();
    std::fs::write(dir.path().join("kg"), "k3y-of-22-bytes-xxxxxx").unwrap();
    let parse = |entry: &str| {
        Config::parse(&dir.path().join("agent.yaml"), &drivers(&[entry]), None)
            .map_err(|error| error.problems)
    };
    let wrong = parse(&format!("{{{IPMI}, kg_file: kg}}")).unwrap_err();
    assert_eq!(
        wrong,
        [
            "hosts[0] (a).bmc[0].password_file: what is in it is longer than IPMI's 20 bytes",
            "hosts[0] (a).bmc[0].kg_file: what is in it is neither 20 bytes at most nor 0x and 40 \
             hexadecimal digits",
        ]
    );
    std::fs::write(dir.path().join("p"), "of-20-bytes-exactly!\n").unwrap();
    std::fs::write(dir.path().join("kg"), format!("0x{}\n", "5A".repeat(20))).unwrap();
    assert!(parse(&format!("{{{IPMI}, kg_file: kg}}")).is_ok());
    assert!(parse(&format!("{{{REDFISH}}}")).is_ok(), "Redfish has room");
}

#[test]
fn f6_hosts_that_share_an_endpoint_share_all_of_theirs() {
    let host = |name: &str, addresses: &[&str]| {
        let entry = |a: &&str| format!("{{address: '{a}', username: u, password_file: p}}");
        let entries: Vec<String> = addresses.iter().map(entry).collect();
        format!("  - {{name: {name}, bmc: [{}]}}\n", entries.join(", "))
    };
    let text = with(&[
        host(
            "a",
            &["redfish://10.1.0.1/redfish/v1/Systems/1", "ipmi://10.1.1.1"],
        ),
        host("b", &["redfish://10.1.0.2", "ipmi://10.1.1.2"]),
        host(
            "c",
            &["ipmi://10.1.1.3", "redfish://10.1.0.3/redfish/v1/Systems/1"],
        ),
        host(
            "d",
            &[
                "redfish://10.1.0.1/redfish/v1/Systems/2",
                "redfish://10.1.0.3/redfish/v1/Systems/2",
            ],
        ),
    ]);
    let lanes = parse(&text).unwrap().inventory.lanes();
    let lane = |endpoint: &str| lanes.get(endpoint).unwrap().as_str();
    let shared = lane("redfish://10.1.0.1:443");
    for endpoint in [
        "ipmi://10.1.1.1:623",
        "redfish://10.1.0.3:443",
        "ipmi://10.1.1.3:623",
    ] {
        assert_eq!(lane(endpoint), shared, "{endpoint}");
    }
    assert_ne!(lane("redfish://10.1.0.2:443"), shared);
    assert_eq!(lane("redfish://10.1.0.2:443"), lane("ipmi://10.1.1.2:623"));
    assert_eq!(lanes.len(), 6);
}
