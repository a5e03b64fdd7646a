//! Facts about a BMC, and the account in use.

use rackhand_bmc::ErrorKind;
use serde_json::{Value, json};

use crate::bmc::{Reply, TestBmc, USER};

const MANAGER: &str = "/redfish/v1/Managers/1";
const ACCOUNTS: &str = "/redfish/v1/AccountService/Accounts";

fn link(path: &str) -> Value {
    json!({ "@odata.id": path })
}

async fn talkative() -> TestBmc {
    with_facts(TestBmc::start().await)
}

fn with_facts(bmc: TestBmc) -> TestBmc {
    bmc.world(|world| {
        world.root = json!({
            "RedfishVersion": "1.15.0",
            "Vendor": "ACME",
            "AccountService": link("/redfish/v1/AccountService"),
        });
    });
    bmc.add_to_system(&json!({"Links": {"ManagedBy": [link(MANAGER)]}}));
    bmc.put(
        MANAGER,
        json!({"FirmwareVersion": "7.1", "DateTime": "2026-06-01T12:00:00+02:00"}),
    );
    bmc.put(
        "/redfish/v1/AccountService",
        json!({"Accounts": link(ACCOUNTS)}),
    );
    let (first, second) = (format!("{ACCOUNTS}/1"), format!("{ACCOUNTS}/2"));
    bmc.put(ACCOUNTS, json!({"Members": [link(&first), link(&second)]}));
    bmc.put(
        &first,
        json!({"UserName": "somebody", "RoleId": "Administrator"}),
    );
    bmc.put(&second, json!({"UserName": USER, "RoleId": "ReadOnly"}));
    bmc
}

#[tokio::test]
async fn boot_progress_is_read_with_the_system() {
    let bmc = TestBmc::start().await;
    assert_eq!(bmc.client().boot_state().await.unwrap().progress, None);
    bmc.add_to_system(&json!({"BootProgress": {"LastState": "MemoryInitializationStarted"}}));
    let state = bmc.client().boot_state().await.unwrap();
    assert_eq!(
        state.progress.as_deref(),
        Some("MemoryInitializationStarted")
    );
    assert!(state.faults.is_empty() && state.restart_cause.is_none());
}

#[tokio::test]
async fn facts_hold_service_firmware_clock_and_privilege() {
    let bmc = talkative().await;
    let facts = bmc.client().facts().await.unwrap();
    assert_eq!(facts.service.as_deref(), Some("Redfish 1.15.0 (ACME)"));
    assert_eq!(facts.firmware.as_deref(), Some("7.1"));
    let clock = facts.clock.unwrap();
    assert_eq!(clock.to_string(), "2026-06-01T10:00:00Z");
    assert_eq!(facts.privilege.as_deref(), Some("ReadOnly"));
    assert_eq!(
        facts.may_switch,
        Some(false),
        "the privileges of another account were used"
    );
    assert!(facts.actions.unwrap().iter().any(|word| word == "ForceOff"));
    assert!(bmc.sent("PATCH").is_empty());
    assert!(
        bmc.sent("POST")
            .iter()
            .all(|seen| seen.path.contains("Sessions"))
    );
}

#[tokio::test]
async fn privileges_of_the_role_decide_about_power_control() {
    let bmc = talkative().await;
    let role = "/redfish/v1/AccountService/Roles/Guest";
    bmc.put(
        &format!("{ACCOUNTS}/2"),
        json!({"UserName": USER, "RoleId": "Guest", "Links": {"Role": link(role)}}),
    );
    let facts = bmc.client().facts().await.unwrap();
    assert_eq!(facts.may_switch, None, "the role cannot be read");
    bmc.put(
        role,
        json!({"AssignedPrivileges": ["Login", "ConfigureComponents"]}),
    );
    let facts = bmc.client().facts().await.unwrap();
    assert_eq!(facts.may_switch, Some(true));
}

#[tokio::test]
async fn missing_facts_are_none_but_a_missing_system_is_an_error() {
    let bmc = TestBmc::start().await;
    let facts = bmc.client().facts().await.unwrap();
    assert!(facts.service.unwrap().starts_with("Redfish"));
    assert_eq!((facts.privilege, facts.clock), (None, None));
    bmc.world(|world| world.systems.clear());
    let error = bmc.client().facts().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Busy);
}

#[tokio::test]
async fn password_is_changed_in_the_account_in_use_only() {
    let bmc = talkative().await;
    let accepted = bmc.client().set_password("n3w".into()).await.unwrap();
    assert_eq!(accepted.command, "PATCH Password");
    let sent = bmc.sent("PATCH");
    let sent: Vec<_> = sent
        .iter()
        .map(|seen| (seen.path.as_str(), &seen.body))
        .collect();
    let own = format!("{ACCOUNTS}/2");
    assert_eq!(sent, [(own.as_str(), &json!({"Password": "n3w"}))]);
}

#[tokio::test]
async fn password_is_not_changed_without_an_account_of_that_name() {
    let bmc = talkative().await;
    bmc.put(&format!("{ACCOUNTS}/2"), json!({"UserName": "another"}));
    let error = bmc.client().set_password("n3w".into()).await.unwrap_err();
    assert_eq!(
        (error.kind, error.maybe_sent),
        (ErrorKind::Unsupported, false)
    );
    assert!(error.message.contains(USER), "{error}");
    assert_eq!(bmc.sent("PATCH").len(), 0);
}

#[tokio::test]
async fn refused_password_is_an_error_that_does_not_show_it() {
    let refusing = TestBmc::with(|seen, _| {
        let own = format!("{ACCOUNTS}/2");
        let refusal = || Reply::message(400, "Base.1.8.PropertyValueFormatError", "too simple");
        seen.is("PATCH", &own).then(refusal)
    });
    let bmc = with_facts(refusing.await);
    let error = bmc.client().set_password("n3w".into()).await.unwrap_err();
    assert!(
        !error.maybe_sent && error.message.contains("too simple"),
        "{error}"
    );
    assert!(!format!("{error:?}").contains("n3w"), "{error:?}");
}

const CHASSIS: &str = "/redfish/v1/Chassis/1";

#[tokio::test]
async fn topology_holds_the_rack_and_the_neighbors_of_the_ports() {
    let bmc = TestBmc::start().await;
    assert!(bmc.client().topology().await.unwrap().is_empty());
    bmc.add_to_system(&json!({"Links": {"Chassis": [link(CHASSIS)]}}));
    let (adapters, ports) = (
        format!("{CHASSIS}/NetworkAdapters"),
        format!("{CHASSIS}/NetworkAdapters/1/Ports"),
    );
    bmc.put(
        CHASSIS,
        json!({
            "Location": {"Placement": {"Row": "row-3", "Rack": "12"}},
            "NetworkAdapters": link(&adapters),
        }),
    );
    let adapter = |id: &str| format!("{adapters}/{id}");
    bmc.put(
        &adapters,
        json!({"Members": [link(&adapter("1")), link(&adapter("2"))]}),
    );
    bmc.put(&adapter("1"), json!({"Ports": link(&ports)}));
    let members: Vec<Value> = (1..=3).map(|n| link(&format!("{ports}/{n}"))).collect();
    bmc.put(&ports, json!({"Members": members}));
    let received =
        json!({"ChassisId": "00:11:22:33:44:55", "PortId": "Eth1/7", "SystemName": "tor-1"});
    bmc.put(
        &format!("{ports}/1"),
        json!({"Id": "1", "Ethernet": {"LLDPReceive": received}}),
    );
    // The second port has no link, the third one cannot be read, and neither can the second adapter.
    bmc.put(&format!("{ports}/2"), json!({"Id": "2", "Ethernet": {}}));
    let topology = bmc.client().topology().await.unwrap();
    assert_eq!(topology.rack.as_deref(), Some("row-3/12"));
    let [only] = topology.neighbors.as_slice() else {
        panic!("{topology:?}");
    };
    assert_eq!(
        (
            only.port.as_str(),
            only.system_name.as_deref(),
            only.port_id.as_deref()
        ),
        ("1", Some("tor-1"), Some("Eth1/7"))
    );
}
