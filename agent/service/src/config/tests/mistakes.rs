//! Errors of configurations, each with its line, column and key.

use super::*;

#[test]
fn every_invalid_value_is_reported_at_once_with_its_position() {
    let text = "\
rack = 'rack one'
listen = 'here'
tls = 'tls'
socket = 's'
state = 's'
allowed_bmc_networks = ['10.1.0.0/33', '10.1.0.0/16']
defaults = { call_timeout = '0s', power_on_interval = '2m', trust = { insecure = true, sha256 = 'ab' } }
[pdus.p9]
[[hosts]]
name = 'a'
system_uuid = 'nonsense'
bmc = { address = 'redfish://10.1.0.1', username = '', password_file = 'p', trust = { sha256 = 'xyz' } }
[[hosts]]
name = 'b'
system_uuid = '00000000-0000-0000-0000-000000000000'
bmc = { address = 'redfish://192.0.2.1', username = 'u', password_file = 'p', trust = {} }
[[hosts]]
name = 'c/c'
[hosts.bmc]
address = 'ftp://10.1.0.9'
username = 'u'
password_file = 'p'
trust = { ca_file = 'missing.pem' }
";
    assert_eq!(
        problems(text),
        [
            "1:8: rack: \"rack one\": a rack's name is 1 to 63 letters, digits, '.', '-' or '_'",
            "2:10: listen: \"here\": not an IP address and port, such as 0.0.0.0:7443 or [::]:7443",
            "6:25: allowed_bmc_networks[0]: \"10.1.0.0/33\": not a network, such as 10.1.0.0/16 \
             or fd00::/64",
            "7:29: defaults.call_timeout: must be longer than zero",
            "7:55: defaults.power_on_interval: longer than 60s",
            "7:69: defaults.trust: give exactly one of ca_file, sha256 and insecure = true",
            "8:1: pdus.p9: no host of the inventory has this pdu",
            "11:15: hosts[0] (a).system_uuid: \"nonsense\": not a UUID, such as \
             4c4c4544-0042-3510-8054-c2c04f4e4e32, and not \"none\"",
            "12:52: hosts[0] (a).bmc.username: is empty",
            "12:96: hosts[0] (a).bmc.trust.sha256: a certificate pin is 64 hexadecimal digits \
             (SHA-256), with or without colons",
            "15:15: hosts[1] (b).system_uuid: \"00000000-0000-0000-0000-000000000000\": a \
             placeholder of the firmware: it identifies nothing; leave it out",
            "16:19: hosts[1] (b).bmc.address: 192.0.2.1 is not in allowed_bmc_networks \
             (10.1.0.0/16)",
            "16:87: hosts[1] (b).bmc.trust: give exactly one of ca_file, sha256 and insecure = \
             true",
            "18:8: hosts[2] (c/c).name: must be 1 to 63 letters, digits, '.', '-' or '_'",
            "20:11: hosts[2] (c/c).bmc.address: unknown BMC address scheme \"ftp\"; use \
             redfish:// or ipmi://",
            "23:21: hosts[2] (c/c).bmc.trust.ca_file: /etc/rackhand/missing.pem: No such file or \
             directory (os error 2)",
        ]
    );
}

#[test]
fn f14_node_name_is_repeated_only_with_different_clusters() {
    let entry = |name: &str, cluster: &str| {
        let bmc = format!("redfish://bmc-{name}");
        host(name, &format!("node_name = 'n'\n{cluster}"), &bmc, "")
    };
    let two = |first: &str, second: &str| with(&[entry("a", first), entry("b", second)]);
    let of = |first: &str, second: &str| problems(&two(first, second));
    assert!(parse(&two("cluster = 'local'", "cluster = 'ns/c'")).is_ok());
    for second in ["cluster = 'local'", ""] {
        let told = of("cluster = 'local'", second);
        assert!(
            told[0].ends_with("(b).node_name: is also that of hosts[0] (a)"),
            "{told:?}"
        );
    }
    for odd in ["c", "ns/", "/c", "a/b/c", ""] {
        let told = of(&format!("cluster = '{odd}'"), "cluster = 'ns/c'");
        assert!(told[0].contains("(a).cluster: "), "{told:?}");
    }
}

#[test]
fn repeated_host_names_and_bmcs_are_reported() {
    let text = with(&[
        host(
            "a",
            "node_name = 'n'",
            "redfish://10.1.0.1/redfish/v1/Systems/1",
            "",
        ),
        host(
            "a",
            "node_name = 'n'",
            "redfish://10.1.0.1:443/redfish/v1/Systems/1",
            "",
        ),
        host(
            "c",
            "system_uuid = '00112233-4455-6677-8899-aabbccddeeff'",
            "redfish://10.1.0.3",
            "",
        ),
        host(
            "d",
            "system_uuid = '33221100-5544-7766-8899-AABBCCDDEEFF'",
            "redfish://10.1.0.4",
            "",
        ),
        host("e", "provider_id = 'p'", "redfish://10.1.0.1", ""),
        host(
            "f",
            "provider_id = 'p'",
            "redfish://10.1.0.1/redfish/v1/Systems/2",
            "",
        ),
    ]);
    let several = "; where one BMC has several systems, name a different one in each address";
    let told = problems(&text);
    let told: Vec<&str> = told
        .iter()
        .map(|one| one.split_once(": ").unwrap().1)
        .collect();
    assert_eq!(
        told,
        [
            "hosts[1] (a).name: is also that of hosts[0] (a)".to_owned(),
            "hosts[1] (a).node_name: is also that of hosts[0] (a)".to_owned(),
            format!(
                "hosts[1] (a).bmc.address: redfish://10.1.0.1:443 is also the BMC of hosts[0] \
                 (a){several}"
            ),
            format!(
                "hosts[4] (e).bmc.address: redfish://10.1.0.1:443 is also the BMC of hosts[0] \
                 (a){several}"
            ),
            "hosts[5] (f).provider_id: is also that of hosts[4] (e)".to_owned(),
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
fn missing_unknown_and_mistyped_keys_are_reported() {
    let file = |text: &str| problems(&format!("{HEAD}{text}"));
    let bmc = |text: &str| file(&format!("[[hosts]]\nname = 'a'\nbmc = {text}\n"));
    for (told, wanted) in [
        (problems("rack = 'r1'\n"), "1:1: missing field `socket`"),
        (
            file("colour = 'red'\n"),
            "7:1: colour: unknown field `colour`, expected one of `rack`,",
        ),
        (
            file("hosts = 'text'\n"),
            "7:9: hosts: invalid type: string, expected a sequence",
        ),
        (
            file("[[hosts]]\nbmc = []\n"),
            "7:1: hosts[0]: missing field `name`",
        ),
        (
            bmc("'text'"),
            "9:7: hosts[0] (a).bmc: invalid type: string, expected a table, or a list",
        ),
        (
            bmc("[{}]"),
            "9:8: hosts[0] (a).bmc[0]: missing field `address`",
        ),
        (
            bmc("{ address = 'x' }"),
            "9:7: hosts[0] (a).bmc: missing field `username`",
        ),
        (
            bmc("{ colour = 1 }"),
            "9:9: hosts[0] (a).bmc.colour: unknown field `colour`",
        ),
        (
            bmc("{ min_interval = 5 }"),
            "9:24: hosts[0] (a).bmc.min_interval: must be a time with",
        ),
    ] {
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with(wanted), "{wanted}: {told:?}");
    }
}

#[test]
fn missing_settings_are_reported() {
    assert_eq!(
        problems(&HEAD.replace("tls = 'tls'\n", "")),
        ["1:1: tls: missing: `listen` needs the directory of a certificate"]
    );
    assert_eq!(
        problems(&HEAD.replace("listen = '0.0.0.0:7443'\n", "")),
        ["1:1: listen: missing: `tls` is given, but no address to listen on"]
    );
    let only_local = HEAD.replace("listen = '0.0.0.0:7443'\ntls = 'tls'\n", "");
    assert_eq!(parse(&only_local).unwrap().remote, None);
    assert_eq!(
        problems(&format!("{HEAD}[[hosts]]\nname = 'a'\nbmc = []\n")),
        [
            "9:7: hosts[0] (a).bmc: missing: give the BMC, or a list of its drivers in their \
             order of use"
        ]
    );
}

#[test]
fn labels_unsuitable_for_the_command_line_are_rejected() {
    let good = host(
        "node-1",
        "labels = {role = 'db', tier = '1'}\nposition = 'U12'\npdu = 'p1'",
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
        "labels = {rack = 'r2', 'a b' = 'c', role = 'x,y'}\npdu = ' '",
        "redfish://10.1.0.7",
        "",
    );
    let told = problems(&with(&[bad]));
    for wanted in [
        "9:18: hosts[0] (node-1).labels.rack: \"rack\"",
        "9:32: hosts[0] (node-1).labels.\"a b\": \"a b\"",
        "labels.role: \"x,y\"",
        "10:7: hosts[0] (node-1).pdu: is empty",
    ] {
        assert!(
            told.iter().any(|one| one.contains(wanted)),
            "{wanted}: {told:?}"
        );
    }
}

#[test]
fn each_driver_is_validated_completely_and_with_its_position() {
    let redfish = format!("{REDFISH}, cipher_suite = 3, kg_file = 'kg', min_interval = '1s'");
    let ipmi = "address = 'ipmi://10.2.0.1', username = 'a-name-of-17-byte', password_file = 'p', \
                trust = { insecure = true }, auth = 'session', keep_alive = false, \
                soft_off_by_button = false, min_interval = '7s'";
    let told = problems(&drivers(&[&redfish, ipmi, REDFISH]));
    let told: Vec<&str> = told
        .iter()
        .map(|one| one.split_once(": ").unwrap().1)
        .collect();
    assert_eq!(
        told,
        [
            "hosts[0] (a).bmc[0].cipher_suite: has no meaning for Redfish; remove it",
            "hosts[0] (a).bmc[0].kg_file: has no meaning for Redfish; remove it",
            "hosts[0] (a).bmc[0].min_interval: has no meaning for Redfish; remove it",
            "hosts[0] (a).bmc[1].address: 10.2.0.1 is not in allowed_bmc_networks (10.1.0.0/16, \
             fd00::/64)",
            "hosts[0] (a).bmc[1].username: 17 bytes long; IPMI allows 16",
            "hosts[0] (a).bmc[1].trust: has no meaning for IPMI; remove it",
            "hosts[0] (a).bmc[1].auth: has no meaning for IPMI; remove it",
            "hosts[0] (a).bmc[1].keep_alive: has no meaning for IPMI; remove it",
            "hosts[0] (a).bmc[1].soft_off_by_button: has no meaning for IPMI; remove it",
            "hosts[0] (a).bmc[1].min_interval: must be shorter than the time of one call, which \
             is 6.666666666s here",
            "hosts[0] (a).bmc[2].address: redfish://10.1.0.1:443 has another entry already; \
             give each driver once",
        ]
    );
}

#[test]
fn unknown_driver_values_are_reported() {
    for (entry, what) in [
        (
            format!("{REDFISH}, auth = 'none'"),
            "bmc[0].auth: \"none\": must be auto, session or basic",
        ),
        (
            format!("{IPMI}, cipher_suite = 8"),
            "bmc[0].cipher_suite: 8: must be auto, 3 or 17",
        ),
        (
            format!("{IPMI}, cipher_suite = -3"),
            "bmc[0].cipher_suite: -3: must be auto, 3 or 17",
        ),
    ] {
        let told = problems(&drivers(&[&entry]));
        assert!(told[0].starts_with("9:"), "{told:?}");
        assert!(told[0].ends_with(what), "{what}: {told:?}");
    }
}

#[test]
fn overlong_ipmi_secret_is_reported_but_not_shown() {
    let dir = TempDir::new().unwrap();
    std::fs::write(dir.path().join("p"), "s3cret-of-21-byte-xxx\n").unwrap();
    std::fs::write(dir.path().join("kg"), "k3y-of-22-bytes-xxxxxx").unwrap();
    let parse = |entry: &str| parse_at(&dir.path().join("agent.toml"), &drivers(&[entry]));
    let ipmi = format!("{IPMI}, kg_file = 'kg'");
    assert_eq!(
        parse(&ipmi).unwrap_err(),
        [
            "9:71: hosts[0] (a).bmc[0].password_file: the password is longer than the 20 bytes \
             that IPMI allows",
            "9:86: hosts[0] (a).bmc[0].kg_file: K_g is neither 20 bytes at most nor 0x and 40 \
             hexadecimal digits",
        ]
    );
    std::fs::write(dir.path().join("p"), "of-20-bytes-exactly!\n").unwrap();
    std::fs::write(dir.path().join("kg"), format!("0x{}\n", "5A".repeat(20))).unwrap();
    assert!(parse(&ipmi).is_ok());
    assert!(parse(REDFISH).is_ok(), "Redfish has no such limit");
}
