//! Valid configurations, and the exact error messages of invalid ones.

use rackhand_bmc::ipmi::{self, SuiteChoice};
use secrecy::ExposeSecret;
use tempfile::TempDir;

use super::*;

mod inventory;
mod mistakes;
mod pdus;
mod reference;

pub(super) use reference::DurationText;

const HEAD: &str = "\
rack = 'r1'
listen = '0.0.0.0:7443'
tls = 'tls'
socket = '/run/rackhand/agent.sock'
state = '/var/lib/rackhand'
allowed_bmc_networks = ['10.1.0.0/16', 'fd00::/64']
";

fn parse(text: &str) -> Result<Config, Vec<String>> {
    parse_at(Path::new("/etc/rackhand/agent.toml"), text)
}

/// Parses a configuration; errors are returned without the file name.
fn parse_at(path: &Path, text: &str) -> Result<Config, Vec<String>> {
    let file = format!("{}:", path.display());
    Config::parse(path, text, None).map_err(|error| {
        let told = error.problems.iter().map(ToString::to_string);
        told.map(|one| one.strip_prefix(&file).unwrap_or(&one).to_owned())
            .collect()
    })
}

fn problems(text: &str) -> Vec<String> {
    parse(text).unwrap_err()
}

fn host(name: &str, rest: &str, address: &str, bmc: &str) -> String {
    format!(
        "[[hosts]]\nname = '{name}'\n{rest}\n[hosts.bmc]\naddress = '{address}'\n\
         username = 'ops'\npassword_file = 'bmc'\n{bmc}\n"
    )
}

fn with(hosts: &[String]) -> String {
    format!("{HEAD}{}", hosts.concat())
}

#[test]
fn configuration_with_every_key_is_parsed() {
    let dir = TempDir::new().unwrap();
    std::fs::write(dir.path().join("ca.pem"), "pem").unwrap();
    let text = format!(
        "{HEAD}\
admin_listen = '127.0.0.1:7444'
otlp_endpoint = 'http://collector:4317'
accept_endpoints_from_controller = true

[defaults]
trust = {{ ca_file = 'ca.pem' }}
connect_timeout = '2s'
call_timeout = '10s'
operation_deadline = '1m 30s'
poll_max = '1500ms'
resend_after = '5s'
shutdown_grace = '0s'
power_on_interval = '3s'

[pdus.p1]
power_on_interval = '500ms'

[[hosts]]
name = 'node-7'
node_name = 'worker-7.example'
provider_id = 'metal3://default/node-7/x'
system_uuid = '4c4c4544-0042-3510-8054-c2c04f4e4e32'
serial = 'ABC123'
pdu = 'p1'
[hosts.bmc]
address = 'redfish://10.1.2.3/redfish/v1/Systems/1'
username = 'ops'
password_file = 'node-7'

[[hosts]]
name = 'node-8'
bmc = {{ address = 'redfish://bmc-8.example', username = 'ops', password_file = '/run/x', trust = {{ insecure = true }} }}
"
    );
    let config = parse_at(&dir.path().join("agent.toml"), &text).unwrap();
    assert_eq!(config.rack, "r1");
    let remote = config.remote.unwrap();
    assert_eq!(remote.listen, "0.0.0.0:7443".parse().unwrap());
    assert_eq!(remote.tls, dir.path().join("tls"));
    assert_eq!(config.admin, Some("127.0.0.1:7444".parse().unwrap()));
    let receiver = config.otlp_endpoint.map(|endpoint| endpoint.to_string());
    assert_eq!(receiver.as_deref(), Some("http://collector:4317"));
    assert_eq!(config.times.operation, Duration::from_secs(90));
    assert_eq!(config.times.poll_max, Duration::from_millis(1500));
    assert_eq!(config.staging.of("p1"), Duration::from_millis(500));
    assert_eq!(config.staging.of("p2"), Duration::from_secs(3));
    let [seven, eight] = config.inventory.hosts.as_slice() else {
        panic!()
    };
    assert_eq!(
        seven.bmc.trust,
        rackhand_bmc::Trust::CaBundle(b"pem".as_slice().into())
    );
    assert_eq!(eight.bmc.trust, rackhand_bmc::Trust::Insecure);
    assert_eq!(eight.bmc.password.to_string(), "password file /run/x");
    assert_eq!(
        seven.bmc.password.to_string(),
        format!("password file {}", dir.path().join("node-7").display())
    );
    assert_eq!(
        config.sources.paths(),
        [dir.path().join("agent.toml"), dir.path().join("ca.pem")]
    );
}

#[test]
fn passwords_are_read_from_every_source() {
    let dir = TempDir::new().unwrap();
    std::fs::write(dir.path().join("bmc"), "s3cret\n").unwrap();
    let bmc = |password: &str| {
        format!(
            "{HEAD}[[hosts]]\nname = 'a'\nbmc = {{ address = 'redfish://10.1.0.1', username = 'u', {password} }}\n"
        )
    };
    let path = dir.path().join("agent.toml");
    for password in [
        "password_file = 'bmc'",
        "password_credential = 'bmc'",
        "password = 's3cret'",
    ] {
        let config = Config::parse(&path, &bmc(password), Some(dir.path())).unwrap();
        let read = config.inventory.hosts[0].bmc.password.read_now();
        let read = read.unwrap().unwrap();
        assert_eq!(read.expose_secret(), "s3cret");
        assert!(!format!("{config:?}").contains("s3cret"));
        let warned = config
            .warnings()
            .iter()
            .any(|one| one.contains("contains plaintext passwords (1)"));
        assert_eq!(warned, password.contains("password ="));
    }
    for (password, wrong) in [
        (
            "password_command = ['vault']",
            "password_command: must begin with the absolute path of a program",
        ),
        (
            "password_command = []",
            "password_command: must begin with the absolute path of a program",
        ),
        (
            "password_credential = 'a/b'",
            "password_credential: must be the name of a credential of systemd, without a directory",
        ),
        ("password = ''", "password: is empty"),
        (
            "auth = 'auto'",
            "password_file: missing: give one of password_file, password_credential, password_command and password",
        ),
        (
            "password = 'x', password_file = 'bmc'",
            "password_file: hosts[0] (a).bmc.password is given too: one of them is enough",
        ),
        (
            "password = 5",
            "password: invalid type: integer, expected a string",
        ),
    ] {
        let told = problems(&bmc(password));
        let wanted = format!("hosts[0] (a).bmc.{wrong}");
        assert!(
            told.iter().any(|one| one.ends_with(&wanted)),
            "{password}: {told:?}"
        );
    }
}

#[test]
fn password_file_warning_has_the_path_but_no_content() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("bmc");
    let text = with(&[host("a", "", "redfish://10.1.0.1", "")]);
    let config = parse_at(&dir.path().join("agent.toml"), &text).unwrap();
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
fn host_is_found_by_each_of_its_names() {
    let text = with(&[
        host("a", "node_name = 'worker-1'", "redfish://10.1.0.1", ""),
        host(
            "b",
            "system_uuid = '00112233-4455-6677-8899-aabbccddeeff'",
            "redfish://10.1.0.2",
            "",
        ),
        host("c", "provider_id = 'metal3://x'", "redfish://10.1.0.3", ""),
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
        "\"worker-1\" matches several hosts: a, worker-1; use one of these names"
    );
    let address = "redfish://10.1.0.3:443".parse().unwrap();
    assert_eq!(inventory.find_bmc(&address).unwrap().name, "c");
}

#[test]
fn allowed_networks_match_ipv4_mapped_addresses() {
    let networks = Networks(vec!["10.1.0.0/16".parse().unwrap()]);
    assert!(networks.allow("10.1.2.3".parse().unwrap()));
    assert!(networks.allow("::ffff:10.1.2.3".parse().unwrap()));
    assert!(!networks.allow("10.2.2.3".parse().unwrap()));
    assert!(!networks.allow("::1".parse().unwrap()));
}

/// A host with these drivers.
fn drivers(entries: &[&str]) -> String {
    let list: Vec<String> = entries.iter().map(|e| format!("{{ {e} }}")).collect();
    format!(
        "{HEAD}[[hosts]]\nname = 'a'\nbmc = [{}]\n",
        list.join(",\n")
    )
}

const REDFISH: &str = "address = 'redfish://10.1.0.1', username = 'u', password_file = 'p'";
const IPMI: &str = "address = 'ipmi://10.1.0.1', username = 'u', password_file = 'p'";

#[test]
fn host_has_several_drivers_in_configured_order() {
    let redfish =
        format!("{REDFISH}, auth = 'basic', keep_alive = true, soft_off_by_button = true");
    let ipmi = format!("{IPMI}, cipher_suite = 17, kg_file = 'kg', min_interval = '500ms'");
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
            keep_alive: rackhand_bmc::KeepAlive::Always,
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
    let kg = second.kg.as_ref().unwrap().to_string();
    assert_eq!(kg, "password file /etc/rackhand/kg");
    for (text, suite) in [
        ("'auto'", SuiteChoice::Auto),
        ("3", SuiteChoice::Only(ipmi::Suite::Cipher3)),
        ("'17'", SuiteChoice::Only(ipmi::Suite::Cipher17)),
    ] {
        let ipmi = format!("{IPMI}, cipher_suite = {text}");
        let config = parse(&drivers(&[&ipmi])).unwrap();
        assert_eq!(config.inventory.hosts[0].bmc.options.cipher_suite, suite);
    }
    let by_ipmi = "ipmi://10.1.0.1".parse().unwrap();
    assert!(config.inventory.find_bmc(&by_ipmi).is_some());
}

#[test]
fn f6_hosts_that_share_an_endpoint_share_one_queue() {
    let host = |name: &str, addresses: &[&str]| {
        let rest = "username = 'u', password_file = 'p'";
        let entry = |a: &&str| format!("{{ address = '{a}', {rest} }}");
        let entries: Vec<String> = addresses.iter().map(entry).collect();
        format!(
            "[[hosts]]\nname = '{name}'\nbmc = [{}]\n",
            entries.join(", ")
        )
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
    let queues = parse(&text).unwrap().inventory.queue_endpoints();
    let queue = |endpoint: &str| queues.get(endpoint).unwrap().as_str();
    let shared = queue("bmc://10.1.0.1");
    for endpoint in ["bmc://10.1.1.1", "bmc://10.1.0.3", "bmc://10.1.1.3"] {
        assert_eq!(queue(endpoint), shared, "{endpoint}");
    }
    assert_ne!(queue("bmc://10.1.0.2"), shared);
    assert_eq!(queue("bmc://10.1.0.2"), queue("bmc://10.1.1.2"));
    assert_eq!(queues.len(), 6);
}
