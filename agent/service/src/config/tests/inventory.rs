//! Inventory files: TOML, and manifests of Metal3.

use super::*;

const MANIFESTS: &str = "\
apiVersion: v1
kind: Secret
metadata: {name: node-1-bmc, namespace: metal3}
data: {username: b3Bz, password: czNjcmV0Cg==}
---
apiVersion: metal3.io/v1alpha1
kind: BareMetalHost
metadata:
  name: node-1
  namespace: metal3
  labels: {role: db, topology.example.org/row: r7}
  annotations: {rackhand.dev/pdu: p1, rackhand.dev/position: U7}
spec:
  online: true
  bmc:
    address: idrac-virtualmedia://10.1.0.1/redfish/v1/Systems/1
    credentialsName: node-1-bmc
    disableCertificateVerification: true
status:
  hardware: {systemVendor: {serialNumber: ABC}}
---
kind: ConfigMap
metadata: {name: other}
data: {password: 5}
";

fn site(files: &[(&str, &str)], inventory: &str) -> (TempDir, Result<Config, Vec<String>>) {
    let dir = TempDir::new().unwrap();
    for (name, text) in files {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let text = format!("{HEAD}inventory = {inventory}\n");
    let read = parse_at(&dir.path().join("agent.toml"), &text);
    let at = format!("{}/", dir.path().display());
    let read = read.map_err(|told| told.iter().map(|one| one.replace(&at, "")).collect());
    (dir, read)
}

fn names(config: &Config) -> Vec<&str> {
    let hosts = config.inventory.hosts.iter();
    hosts.map(|host| host.name.as_str()).collect()
}

#[test]
fn metal3_manifests_are_an_inventory() {
    let (dir, read) = site(&[("bmh.yaml", MANIFESTS)], "['bmh.yaml']");
    let config = read.unwrap();
    let [host] = config.inventory.hosts.as_slice() else {
        panic!()
    };
    assert_eq!(
        (host.name.as_str(), host.serial.as_deref()),
        ("node-1", Some("ABC"))
    );
    assert_eq!(host.pdu.as_deref(), Some("p1"));
    assert_eq!(host.position.as_deref(), Some("U7"));
    assert_eq!(
        host.labels,
        BTreeMap::from([("role".to_owned(), "db".to_owned())])
    );
    assert_eq!(host.bmc.username, "ops");
    assert_eq!(host.bmc.trust, Trust::Insecure);
    let password = host.bmc.password.read_now().unwrap().unwrap();
    assert_eq!(password.expose_secret(), "s3cret");
    assert!(!format!("{config:?}").contains("s3cret"));
    let path = dir.path().join("bmh.yaml");
    let warning = format!("{}: contains plaintext passwords (1)", path.display());
    assert!(
        config
            .warnings()
            .iter()
            .any(|one| one.starts_with(&warning))
    );
    assert!(config.sources.paths().contains(&path));
}

#[test]
fn f14_entry_may_say_that_the_uuid_of_its_bmc_identifies_nothing() {
    let toml = "\
[[hosts]]
name = 'a'
system_uuid = 'none'
serial = 'SN1'
bmc = {address = 'ipmi://10.1.0.1', username = 'ops', password = 'x'}
[[hosts]]
name = 'b'
system_uuid = 'none'
bmc = {address = 'ipmi://10.1.0.2', username = 'ops', password = 'x'}
";
    let config = site(&[("h.toml", toml)], "['h.toml']").1.unwrap();
    for host in &config.inventory.hosts {
        assert_eq!((&host.system_uuid, host.no_system_uuid), (&None, true));
    }
    assert_eq!(config.inventory.hosts[0].serial.as_deref(), Some("SN1"));
    assert!(config.inventory.find("none").unwrap().is_none());
    let annotated = MANIFESTS.replace(
        "annotations: {",
        "annotations: {rackhand.dev/bmc-system-uuid: none, ",
    );
    let config = site(&[("bmh.yaml", &annotated)], "['bmh.yaml']").1.unwrap();
    assert!(config.inventory.hosts[0].no_system_uuid);
    let config = site(&[("bmh.yaml", MANIFESTS)], "['bmh.yaml']").1.unwrap();
    assert!(!config.inventory.hosts[0].no_system_uuid);
    let wrong = toml.replace("'none'", "'None'");
    let told = site(&[("h.toml", &wrong)], "['h.toml']").1.unwrap_err();
    assert!(told[0].contains("not a UUID"), "{told:?}");
}

#[test]
fn kubectl_list_and_string_data_are_read() {
    let list = "\
kind: List
items:
- kind: BareMetalHost
  metadata: {name: a}
  spec: {bmc: {address: 'ipmi://10.1.0.2', credentialsName: s, disableCertificateVerification: true}}
- kind: Secret
  metadata: {name: s}
  stringData: {username: ops, password: s3cret}
";
    let config = site(&[("i.yml", list)], "['i.yml']").1.unwrap();
    assert_eq!(names(&config), ["a"]);
    assert_eq!(config.inventory.hosts[0].bmc.trust, Trust::System);
}

#[test]
fn manifest_errors_have_positions_but_no_secrets() {
    let text = MANIFESTS
        .replace("czNjcmV0Cg==", "s3cret!")
        .replace("10.1.0.1", "10.9.0.1")
        .replace("credentialsName: node-1-bmc", "credentialsName: lost");
    let told = site(&[("bmh.yaml", &text)], "['bmh.yaml']").1.unwrap_err();
    assert_eq!(
        told,
        [
            "bmh.yaml:2:7: documents[0] (Secret node-1-bmc).data.password: must be text in base64",
            "bmh.yaml:16:14: documents[1] (BareMetalHost node-1).bmc.address: 10.9.0.1 is not in \
             allowed_bmc_networks (10.1.0.0/16, fd00::/64)",
            "bmh.yaml:17:22: documents[1] (BareMetalHost node-1).bmc.credentialsName: Secret \
             metal3/lost is in no inventory file",
        ]
    );
    for broken in [
        "kind: [",
        "kind: Secret\nstringData: s3cret\nkind: Secret\n",
        "- s3cret\n",
    ] {
        let told = site(&[("b.yaml", broken)], "['b.yaml']").1.unwrap_err();
        assert!(told[0].starts_with("b.yaml:"), "{told:?}");
        assert!(!told.concat().contains("s3cret"), "{told:?}");
    }
}

#[test]
fn inventory_directory_is_read_in_name_order() {
    let host = |name: &str, n: u8| host(name, "", &format!("redfish://10.1.0.{n}"), "");
    let (a, b) = (host("a", 1), host("b", 2));
    let files = [
        ("hosts.d/20-b.toml", b.as_str()),
        ("hosts.d/10-a.toml", &a),
        ("hosts.d/.hidden.toml", "x"),
        ("hosts.d/README", "x"),
        (
            "hosts.d/30.yaml",
            &MANIFESTS.replace("10.1.0.1", "10.1.0.3"),
        ),
    ];
    let (dir, read) = site(&files, "['hosts.d']");
    let config = read.unwrap();
    assert_eq!(names(&config), ["a", "b", "node-1"]);
    let password = config.inventory.hosts[0].bmc.password.to_string();
    let beside = dir.path().join("hosts.d/bmc");
    assert_eq!(password, format!("password file {}", beside.display()));
    assert_eq!(config.sources, config.sources.now());
    std::fs::write(dir.path().join("hosts.d/40.toml"), "").unwrap();
    assert_ne!(config.sources, config.sources.now());
}

#[test]
fn errors_of_all_files_are_reported_at_once() {
    let twice = host("a", "pdu = 'p1'", "redfish://10.1.0.1", "");
    let files = [
        ("one.toml", twice.as_str()),
        ("two.toml", &twice),
        ("three.toml", "rack = 'r2'\n"),
    ];
    let list = "['one.toml', 'two.toml', 'three.toml', 'none.toml']\n[pdus.p9]";
    let told = site(&files, list).1.unwrap_err();
    let two = "two.toml:2:8: hosts[0] (a)";
    for (told, wanted) in told.iter().zip([
        "three.toml:1:1: rack: unknown field `rack`, expected `hosts`",
        "7:52: inventory[3]: none.toml: No such file",
        &format!("{two}.name: is also that of hosts[0] (a) in one.toml"),
        "two.toml:5:11: hosts[0] (a).bmc.address: redfish://10.1.0.1:443 is also the BMC of",
    ]) {
        assert!(told.starts_with(wanted), "{wanted}: {told}");
    }
    assert_eq!(
        told.len(),
        4,
        "p9 may be in a file that was not read: {told:?}"
    );
    let told = site(&[("bad.txt", "")], "['bad.txt']").1.unwrap_err();
    assert!(told[0].contains("an inventory ends in .toml"), "{told:?}");
}

#[test]
fn inventory_file_that_cannot_be_read_is_a_mistake() {
    let a = host("a", "", "redfish://10.1.0.1", "");
    let (dir, read) = site(&[("hosts.d/10-a.toml", &a)], "['hosts.d']");
    read.unwrap();
    let hosts = dir.path().join("hosts.d");
    std::os::unix::fs::symlink("nowhere", hosts.join("20.toml")).unwrap();
    let made = std::process::Command::new("mkfifo")
        .arg(hosts.join("30.toml"))
        .status();
    assert!(made.unwrap().success());
    let text = format!("{HEAD}inventory = ['hosts.d']\n");
    let told = parse_at(&dir.path().join("agent.toml"), &text).unwrap_err();
    let told = told.join("\n");
    assert!(told.contains("20.toml: No such file"), "{told}");
    assert!(told.contains("30.toml: not a regular file"), "{told}");
}

#[test]
fn paths_in_an_inventory_file_are_relative_to_it() {
    let trust = "trust = { ca_file = 'ca.pem' }";
    let host = host("a", "", "redfish://10.1.0.1", trust);
    let files = [("hosts.d/a.toml", host.as_str()), ("hosts.d/ca.pem", "pem")];
    let config = site(&files, "['hosts.d']").1.unwrap();
    let trust = &config.inventory.hosts[0].bmc.trust;
    assert_eq!(*trust, Trust::CaBundle(b"pem".as_slice().into()));
}

#[test]
fn plaintext_password_warning_names_the_file_of_the_secret() {
    let (secret, host) = MANIFESTS.split_once("---\n").unwrap();
    let files = [("host.yaml", host), ("secret.yaml", secret)];
    let (dir, read) = site(&files, "['host.yaml', 'secret.yaml']");
    let warning = format!(
        "{}: contains plaintext passwords (1)",
        dir.path().join("secret.yaml").display()
    );
    let warnings = read.unwrap().warnings();
    assert!(
        warnings.iter().any(|one| one.starts_with(&warning)),
        "{warnings:?}"
    );
}

#[test]
fn manifests_of_1100_hosts_are_read() {
    let one = MANIFESTS.split_once("---\nkind: ConfigMap").unwrap().0;
    let all: Vec<String> = (0..1100)
        .map(|n| {
            let address = format!("10.1.{}.{}", n / 200, n % 200 + 1);
            one.replace("node-1", &format!("node-{n}"))
                .replace("10.1.0.1", &address)
        })
        .collect();
    let config = site(&[("bmh.yaml", &all.join("---\n"))], "['bmh.yaml']").1;
    assert_eq!(config.unwrap().inventory.hosts.len(), 1100);
}
