//! PDUs, and the outlets that feed hosts.

use rackhand_bmc::{
    Trust,
    pdu::{HostOutlet, PduTable, SnmpAuth, SnmpPrivacy},
};

use super::*;

/// A PDU by Redfish, another by SNMP v3, and a host that both feed.
fn two_feeds() -> String {
    format!(
        "{HEAD}\
[pdus.a]
address = 'redfish://10.1.9.1'
username = 'ops'
password = 's3cret'
trust = {{ insecure = true }}
outlet_delay = '200ms'
[pdus.b]
address = 'snmp://[fd00::9]:1161'
table = 'apc-rpdu2'
username = 'ops'
password = 'auth-s3cret'
auth_protocol = 'sha1'
privacy_password = 'priv-s3cret'
[pdus.c]
power_on_interval = '3s'
{}{}",
        host(
            "n1",
            "outlets = [{ pdu = 'a', outlet = '12' }, { pdu = 'b', outlet = '3' }]",
            "redfish://10.1.0.1",
            ""
        ),
        host("n2", "pdu = 'c'", "redfish://10.1.0.2", ""),
    )
}

/// A PDU `a` with these lines, and a host with outlet 1 of it.
fn pdu(lines: &str) -> String {
    let host = host(
        "n1",
        "outlets = [{ pdu = 'a', outlet = '1' }]",
        "redfish://10.1.0.1",
        "",
    );
    format!("{HEAD}[pdus.a]\n{lines}\n{host}")
}

/// The outlets of two hosts, each a list of PDU and outlet.
fn outlets(first: &str, second: &str) -> String {
    let snmp = |name: &str, ip: &str| {
        format!("[pdus.{name}]\naddress = 'snmp://{ip}'\ntable = 'eaton'\ncommunity_file = 'c'\n")
    };
    let hosts = [("n1", first), ("n2", second)].map(|(name, outlets)| {
        let address = format!("redfish://10.1.0.{}", &name[1..]);
        host(name, &format!("outlets = [{outlets}]"), &address, "")
    });
    let (a, b) = (snmp("a", "10.1.9.1"), snmp("b", "10.1.9.2"));
    format!("{HEAD}{a}{b}[pdus.c]\n{}", hosts.concat())
}

#[test]
fn pdus_and_outlets_of_every_kind_are_parsed() {
    let config = parse(&two_feeds()).unwrap();
    let [one, two] = config.inventory.hosts.as_slice() else {
        panic!()
    };
    let named: Vec<String> = one.outlets.iter().map(HostOutlet::to_string).collect();
    assert_eq!(named, ["a/12", "b/3"]);
    assert_eq!(one.stagger_pdu(), Some("a"));
    assert_eq!((one.pdu.as_deref(), two.stagger_pdu()), (None, Some("c")));
    let names: Vec<&String> = config.inventory.pdus.keys().collect();
    assert_eq!(names, ["a", "b"], "a PDU without an address has no outlets");
    let a = &config.inventory.pdus["a"];
    assert_eq!(a.address.to_string(), "redfish://10.1.9.1:443");
    assert_eq!(a.outlet_delay, Duration::from_millis(200));
    let PduLogin::Redfish { trust, .. } = &a.login else {
        panic!("{a:?}")
    };
    assert_eq!(*trust, Trust::Insecure);
    let b = &config.inventory.pdus["b"];
    assert_eq!(b.address.to_string(), "snmp://[fd00::9]:1161");
    let PduLogin::SnmpV3 {
        table,
        auth,
        privacy,
        ..
    } = &b.login
    else {
        panic!("{b:?}")
    };
    assert_eq!(*table, PduTable::ApcRpdu2);
    assert_eq!(*auth, SnmpAuth::Sha1);
    assert_eq!(privacy.as_ref().unwrap().0, SnmpPrivacy::Aes128);
    let debug = format!("{config:?}");
    assert!(!debug.contains("s3cret"), "{debug}");
}

#[test]
fn weak_access_to_a_pdu_is_a_warning() {
    let v2c = pdu("address = 'snmp://pdu.example'\ntable = 'raritan'\ncommunity = 'private'");
    let warnings = parse(&v2c).unwrap().warnings();
    let of_pdu: Vec<&String> = warnings
        .iter()
        .filter(|warning| warning.starts_with("PDU a: "))
        .collect();
    assert!(of_pdu[0].contains("neither encrypted nor authenticated"));
    assert_eq!(of_pdu.len(), 1);
    let plain = warnings
        .iter()
        .any(|warning| warning.contains("plaintext passwords (1)"));
    assert!(plain, "{warnings:?}");
    let warnings = parse(&two_feeds()).unwrap().warnings();
    assert!(warnings.contains(&"PDU a: the PDU's certificate is not verified".to_owned()));
}

#[test]
fn invalid_pdus_are_reported_with_their_position() {
    let redfish = "address = 'redfish://10.1.9.1'\nusername = 'u'\npassword_file = 'p'";
    let v3 =
        "address = 'snmp://10.1.9.1'\ntable = 'apc-rpdu2'\nusername = 'u'\npassword_file = 'p'";
    for (lines, wanted) in [
        (
            "address = 'snmp://10.1.9.1'\ncommunity_file = 'c'",
            "7:1: pdus.a.table: missing: give the table of the PDU's make, one of apc-rpdu2, \
             apc-rpdu, raritan, servertech, eaton",
        ),
        (
            "address = 'snmp://10.1.9.1'\ntable = 'acme'\ncommunity_file = 'c'",
            "9:9: pdus.a.table: \"acme\": must be one of apc-rpdu2, apc-rpdu, raritan, \
             servertech, eaton",
        ),
        (
            "address = 'snmp://10.1.9.1'\ntable = 'apc-rpdu2'",
            "7:1: pdus.a.community_file: missing: give one of community_file, \
             community_credential, community_command and community",
        ),
        (
            "address = 'snmp://10.2.0.1'\ntable = 'apc-rpdu2'\ncommunity_file = 'c'",
            "8:11: pdus.a.address: 10.2.0.1 is not in allowed_bmc_networks (10.1.0.0/16, fd00::/64)",
        ),
        (
            "address = 'redfish://10.2.0.1'\nusername = 'u'\npassword_file = 'p'",
            "8:11: pdus.a.address: 10.2.0.1 is not in allowed_bmc_networks (10.1.0.0/16, fd00::/64)",
        ),
        (
            "address = 'snmp://10.1.9.1:0'\ntable = 'apc-rpdu2'\ncommunity_file = 'c'",
            "8:11: pdus.a.address: the BMC address's port is not a number from 1 to 65535",
        ),
        (
            "address = 'ipmi://10.1.9.1'",
            "8:11: pdus.a.address: a PDU has no address of scheme \"ipmi\"; use redfish:// or snmp://",
        ),
        (
            "address = 'redfish://10.1.9.1'\npassword_file = 'p'",
            "7:1: pdus.a.username: missing, or empty",
        ),
        (
            &format!("{redfish}\ntable = 'apc-rpdu2'"),
            "11:9: pdus.a.table: has no meaning for Redfish; remove it",
        ),
        (
            &format!("{redfish}\noutlet_delay = '61s'"),
            "11:16: pdus.a.outlet_delay: longer than 60s",
        ),
        (
            "address = 'snmp://10.1.9.1'\ntable = 'apc-rpdu2'\ncommunity_file = 'c'\ntrust = { insecure = true }",
            "11:9: pdus.a.trust: has no meaning for SNMP; remove it",
        ),
        (
            &format!("{v3}\nversion = 'v1'"),
            "12:11: pdus.a.version: \"v1\": must be v2c or v3",
        ),
        (
            &format!("{v3}\ncommunity_file = 'c'"),
            "12:18: pdus.a.community_file: has no meaning for SNMP v3; remove it",
        ),
        (
            &format!("{v3}\nauth_protocol = 'crc'"),
            "12:17: pdus.a.auth_protocol: \"crc\": must be one of sha1, sha256, sha384, sha512",
        ),
        (
            &format!("{v3}\nprivacy_protocol = 'aes256'"),
            "7:1: pdus.a.privacy_password_file: missing: privacy_protocol needs a password",
        ),
        (
            "address = 'snmp://10.1.9.1'\ntable = 'apc-rpdu2'\nusername = 'u'\npassword = 'short'",
            "7:1: pdus.a: the password is shorter than the 8 bytes that SNMP v3 needs",
        ),
    ] {
        assert_eq!(problems(&pdu(lines)), [wanted], "{lines}");
    }
    let unplaced = format!(
        "{HEAD}[pdus.a]\nusername = 'u'\n{}",
        host("n", "pdu = 'a'", "redfish://10.1.0.1", "")
    );
    assert_eq!(
        problems(&unplaced),
        ["7:1: pdus.a.address: missing: username is given, but no address"]
    );
}

#[test]
fn an_outlet_feeds_one_host_and_belongs_to_a_pdu_with_an_address() {
    for (first, second, wanted) in [
        (
            "{ pdu = 'a', outlet = '1' }",
            "{ pdu = 'b', outlet = '2' }, { pdu = 'a', outlet = '1' }",
            "hosts[1] (n2).outlets[1]: outlet a/1 also feeds hosts[0] (n1); if it does, such as the enclosure \
             of several sleds, write shared = true at every host that it feeds",
        ),
        (
            "{ pdu = 'a', outlet = '1', shared = true }",
            "{ pdu = 'b', outlet = '2' }, { pdu = 'a', outlet = '1' }",
            "hosts[1] (n2).outlets[1]: outlet a/1 also feeds hosts[0] (n1); if it does, such as the enclosure \
             of several sleds, write shared = true at every host that it feeds",
        ),
        (
            "{ pdu = 'a', outlet = '1', shared = true }",
            "{ pdu = 'b', outlet = '2' }",
            "hosts[0] (n1).outlets[0].shared: outlet a/1 is shared, but no other host lists it: list every host \
             that it feeds, or remove shared",
        ),
        (
            "{ pdu = 'a', outlet = '1' }, { pdu = 'a', outlet = '1' }",
            "{ pdu = 'b', outlet = '1' }",
            "hosts[0] (n1).outlets[1]: outlet a/1 is listed twice",
        ),
        (
            "{ pdu = 'a', outlet = '1' }, { pdu = 'x', outlet = '1' }",
            "{ pdu = 'b', outlet = '1' }",
            "hosts[0] (n1).outlets[1].pdu: \"x\": there is no such PDU in [pdus]",
        ),
        (
            "{ pdu = 'c', outlet = '1' }, { pdu = 'a', outlet = '1' }",
            "{ pdu = 'b', outlet = '1' }",
            "hosts[0] (n1).outlets[0].pdu: the PDU c has no address",
        ),
        (
            "{ pdu = 'a', outlet = '01' }, { pdu = 'c', outlet = '1' }",
            "{ pdu = 'b', outlet = '1' }",
            "hosts[0] (n1).outlets[0].outlet: \"01\" is no outlet of this make; its outlets are named like 12 \
             at the first unit and 2.12 at the second: see `pdu outlets`",
        ),
        (
            "{ pdu = 'a', outlet = '1.7' }",
            "{ pdu = 'b', outlet = '1' }",
            "hosts[0] (n1).outlets[0].outlet: \"1.7\" is no outlet of this make; its outlets are named like 12 \
             at the first unit and 2.12 at the second: see `pdu outlets`",
        ),
        (
            "{ pdu = 'a', outlet = '2.1.4' }",
            "{ pdu = 'b', outlet = '1' }",
            "hosts[0] (n1).outlets[0].outlet: \"2.1.4\" is no outlet of this make; its outlets are named like 12 \
             at the first unit and 2.12 at the second: see `pdu outlets`",
        ),
        (
            "{ pdu = 'a', outlet = ' ' }, { pdu = 'c', outlet = '1' }",
            "{ pdu = 'b', outlet = '1' }",
            "hosts[0] (n1).outlets[0].outlet: is empty, or has spaces at an end",
        ),
    ] {
        let found = problems(&outlets(first, second));
        let found: Vec<&str> = found
            .iter()
            .map(|one| one.split_once(": ").unwrap().1)
            .collect();
        assert!(found.contains(&wanted), "{wanted}: {found:?}");
    }
    let good = outlets(
        "{ pdu = 'a', outlet = '2.4' }",
        "{ pdu = 'b', outlet = '1' }",
    );
    let told = problems(&good);
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(
        told[0].ends_with("pdus.c: no host of the inventory has this pdu"),
        "{told:?}"
    );
}

#[test]
fn siblings_are_the_hosts_that_share_an_outlet() {
    let shared = "{ pdu = 'a', outlet = '1', shared = true }";
    let text = outlets(shared, &format!("{{ pdu = 'b', outlet = '2' }}, {shared}"))
        .replace("[pdus.c]\n", "");
    let config = parse(&text).unwrap();
    let hosts = &config.inventory.hosts;
    let siblings = config.inventory.siblings(&hosts[0]);
    let siblings: Vec<_> = siblings.map(|host| host.name.as_str()).collect();
    assert_eq!(siblings, ["n2"]);
    assert_eq!(config.inventory.fed_by(&hosts[0].outlets[0]), 2);
    assert_eq!(config.inventory.fed_by(&hosts[1].outlets[0]), 1);
}

#[test]
fn chassis_manager_is_a_redfish_service_without_a_path() {
    let redfish = "type = 'chassis'\nusername = 'u'\npassword_file = 'p'\naddress = ";
    let good = pdu(&format!("{redfish}'redfish://10.1.9.1'"));
    let standby = |text: &str| parse(text).unwrap().inventory.pdus["a"].chassis_standby_watts;
    assert_eq!(standby(&good), Some(5.0));
    let watts = pdu(&format!(
        "{redfish}'redfish://10.1.9.1'\nstandby_watts = 60.5"
    ));
    assert_eq!(standby(&watts), Some(60.5));
    let rack = "address = 'redfish://10.1.9.1'\nusername = 'u'\npassword_file = 'p'";
    assert_eq!(standby(&pdu(rack)), None);
    for (lines, wanted) in [
        (
            format!("{redfish}'redfish://10.1.9.1/redfish/v1/Chassis/1'"),
            "pdus.a.address: has a path; leave it out, the chassis are named as outlets of the hosts",
        ),
        (
            format!("{redfish}'redfish://10.1.9.1'\nstandby_watts = -1"),
            "pdus.a.standby_watts: must be from 0 to 1000",
        ),
        (
            format!("{rack}\nstandby_watts = 60"),
            "pdus.a.standby_watts: has no meaning for a PDU; remove it",
        ),
        (
            format!("{rack}\ntype = 'blade'"),
            "pdus.a.type: \"blade\": must be pdu or chassis",
        ),
        (
            "type = 'chassis'\naddress = 'snmp://10.1.9.1'\ntable = 'eaton'\ncommunity_file = 'c'"
                .into(),
            "pdus.a.address: a chassis manager is reached by redfish:// only",
        ),
    ] {
        let found = problems(&pdu(&lines));
        assert!(
            found.iter().any(|one| one.ends_with(wanted)),
            "{wanted}: {found:?}"
        );
    }
}

#[test]
fn two_names_of_one_pdu_are_reported() {
    let text = outlets("{ pdu = 'a', outlet = '1' }", "{ pdu = 'b', outlet = '1' }")
        .replace("[pdus.c]\n", "")
        .replace("snmp://10.1.9.2", "snmp://10.1.9.1:161");
    assert_eq!(
        problems(&text),
        ["12:11: pdus.b.address: snmp://10.1.9.1:161 is also the PDU a"]
    );
}
