//! A BMC that answers with as much data as it can: the client keeps little of it, and its neighbours are served.

use std::{mem::size_of, time::Duration};

use rackhand_bmc::{
    Credentials, EventLog, Facts, ResourceName, Sensor, SystemIdentity,
    pdu::{self, PduConfig, PduCredentials},
};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::bmc::{PASSWORD, RESET, Reply, SYSTEM, TestBmc, USER, inline, system};

const CHASSIS: &str = "/redfish/v1/Chassis/1";
const MANAGER: &str = "/redfish/v1/Managers/1";
const LOG: &str = "/redfish/v1/Systems/1/LogServices/SEL";
const LONG: usize = 200_000;
/// Memory that one reading may keep.
const SMALL: usize = 4 << 10;

/// A long text with escapes of a terminal.
fn text() -> String {
    "\u{1b}]0;x\u{7}abc".repeat(LONG / 9)
}

fn optional(text: Option<&String>) -> usize {
    text.map_or(0, String::capacity)
}

fn of_identity(identity: &SystemIdentity) -> usize {
    let SystemIdentity {
        system_uuid,
        serial,
        vendor,
        model,
        resource,
    } = identity;
    let ResourceName { path, id, name } = resource;
    let all = [system_uuid, serial, vendor, model, path, id, name];
    all.into_iter().map(|text| optional(text.as_ref())).sum()
}

fn of_log(log: &EventLog) -> usize {
    let entries = log.entries.iter();
    let texts = entries.map(|entry| {
        entry.id.capacity() + entry.message.capacity() + optional(entry.sensor.as_ref())
    });
    texts.sum::<usize>() + log.entries.capacity() * 128
}

fn of_sensors(sensors: &[Sensor]) -> usize {
    let texts = sensors
        .iter()
        .map(|sensor| sensor.name.capacity() + sensor.unit.capacity());
    texts.sum::<usize>() + size_of_val(sensors)
}

fn of_facts(facts: &Facts) -> usize {
    let texts = [&facts.service, &facts.firmware, &facts.privilege];
    let actions = facts.actions.iter().flatten().map(String::capacity);
    texts
        .into_iter()
        .map(|text| optional(text.as_ref()))
        .sum::<usize>()
        + actions.sum::<usize>()
        + size_of::<Facts>()
}

/// A BMC whose documents have huge texts, lists and extensions.
async fn hostile() -> TestBmc {
    let bmc = TestBmc::start().await;
    let huge = text();
    let links: Vec<Value> = (0..20_000)
        .map(|n| json!({"@odata.id": format!("/redfish/v1/C/{n}")}))
        .collect();
    let mut reset = inline(&["On", "ForceOff"]);
    reset["Oem"] = json!(huge);
    let mut body = system(SYSTEM, &reset);
    for name in ["SerialNumber", "Manufacturer", "Model"] {
        body[name] = json!(huge);
    }
    body["Links"] = json!({
        "Chassis": [{"@odata.id": CHASSIS}],
        "ManagedBy": [{"@odata.id": MANAGER}],
    });
    body["LogServices"] = json!({"@odata.id": "/redfish/v1/Systems/1/LogServices"});
    bmc.world(|world| world.systems[0].1 = body);
    let entries: Vec<Value> = (0..2)
        .map(|n| json!({"Id": format!("{n}{huge}"), "Message": huge}))
        .collect();
    bmc.put(
        "/redfish/v1/Systems/1/LogServices",
        json!({"Members": [{"@odata.id": LOG}]}),
    );
    bmc.put(
        LOG,
        json!({"Entries": {"@odata.id": format!("{LOG}/Entries")}}),
    );
    bmc.put(&format!("{LOG}/Entries"), json!({"Members": entries}));
    let temperatures: Vec<Value> = (0..3)
        .map(|n| json!({"Name": format!("{n}{huge}"), "ReadingCelsius": n}))
        .collect();
    bmc.put(
        CHASSIS,
        json!({"@odata.id": CHASSIS, "PowerState": "On", "Links": {"Contains": links},
        "Thermal": {"@odata.id": "/redfish/v1/Chassis/1/Thermal"}}),
    );
    bmc.put(
        "/redfish/v1/Chassis/1/Thermal",
        json!({"Temperatures": temperatures}),
    );
    bmc.put(MANAGER, json!({"FirmwareVersion": huge}));
    bmc.world(|world| {
        world.root = json!({"Vendor": huge, "Product": huge, "RedfishVersion": huge});
    });
    bmc
}

fn is_plain(text: &str) -> bool {
    !text.chars().any(char::is_control)
}

#[tokio::test]
async fn what_is_kept_of_a_hostile_bmc_is_small() {
    let bmc = hostile().await;
    let client = bmc.client();
    let reading = client.power().await.unwrap();
    assert!(of_identity(&reading.identity) < SMALL);
    assert!(is_plain(reading.identity.serial.as_deref().unwrap()));
    assert!(of_identity(&client.identity().await.unwrap()) < SMALL);
    let log = client.event_log(100).await.unwrap();
    assert_eq!(log.entries.len(), 2);
    assert!(of_log(&log) < 2 * SMALL, "{}", of_log(&log));
    assert!(
        log.entries
            .iter()
            .all(|entry| is_plain(&entry.message) && is_plain(&entry.id))
    );
    let sensors = client.sensors().await.unwrap();
    assert_eq!(sensors.len(), 3);
    assert!(of_sensors(&sensors) < SMALL);
    assert!(of_facts(&client.facts().await.unwrap()) < SMALL);
    client.off().await.unwrap();
}

#[tokio::test]
async fn raw_state_and_errors_of_a_hostile_bmc_are_small() {
    let bmc = TestBmc::with(|seen, world| {
        world.power = json!(text());
        seen.is("POST", RESET)
            .then(|| Reply::message(400, &text(), &text()))
    })
    .await;
    let client = bmc.client();
    let reading = client.power().await.unwrap();
    assert!(reading.raw.capacity() < SMALL && is_plain(&reading.raw));
    let error = client.off().await.unwrap_err();
    assert!(error.message.capacity() < SMALL && is_plain(&error.message));
}

#[tokio::test]
async fn huge_collection_is_refused_and_neighbours_are_served() {
    let page = |count: usize| {
        let members = (0..count).map(|n| format!("{{\"@odata.id\":\"/a/{n}\"}}"));
        let members: Vec<String> = members.collect();
        format!("{{\"Members\":[{}]}}", members.join(",")).into_bytes()
    };
    // The larger one exceeds the limit of parsing, the smaller one the limit of searching.
    for body in [page(150_000), page(40_000)] {
        let hostile = TestBmc::with(move |seen, _| {
            seen.is("GET", "/redfish/v1/Systems")
                .then(|| Reply::status(200).body(body.clone()))
        })
        .await;
        let good = TestBmc::start().await;
        let (hostile, good) = (hostile.client(), good.client());
        let neighbour = async {
            for _ in 0..5 {
                good.power().await.unwrap();
            }
        };
        let both = async { tokio::join!(hostile.power(), neighbour) };
        let (refused, ()) = timeout(Duration::from_secs(20), both).await.unwrap();
        let error = refused.unwrap_err();
        assert!(
            error
                .message
                .contains("put the path of the system into the address"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn many_systems_are_refused_without_reading_them() {
    let members: Vec<Value> = (0..10_000)
        .map(|n| json!({"@odata.id": format!("/redfish/v1/Systems/{n}")}))
        .collect();
    let body = json!({"Members": members});
    let bmc = TestBmc::with(move |seen, _| {
        seen.is("GET", "/redfish/v1/Systems")
            .then(|| Reply::json(200, &body))
    })
    .await;
    let error = bmc.client().power().await.unwrap_err();
    assert!(error.message.contains("too many systems"), "{error}");
    assert_eq!(bmc.sent("GET").len(), 2);
}

/// Endless pages: each names itself as the next.
fn endless(members: &Value, path: &str) -> Value {
    json!({"Members": members, "Members@odata.nextLink": path, "Members@odata.count": 1 << 30})
}

#[tokio::test]
async fn endless_pages_end() {
    let bmc = hostile().await;
    let entry = json!({"Id": "1", "Message": text(), "Created": "2026-05-04T03:02:01Z"});
    let entries = format!("{LOG}/Entries");
    bmc.put(&entries, endless(&json!(vec![entry; 2]), &entries));
    let error = bmc.client().event_log(1000).await.unwrap_err();
    assert!(error.message.contains("pages"), "{error}");

    let sensors = "/redfish/v1/Chassis/1/Sensors";
    bmc.world(|world| {
        world.root = json!({"ProtocolFeaturesSupported": {"ExpandQuery": {"NoLinks": true}}});
    });
    let sensor =
        json!({"@odata.id": "/s", "Name": text(), "ReadingType": "Temperature", "Reading": 1});
    bmc.put(sensors, endless(&json!(vec![sensor; 2]), sensors));
    bmc.put(
        CHASSIS,
        json!({"@odata.id": CHASSIS, "Sensors": {"@odata.id": sensors}}),
    );
    let read = bmc.client().sensors().await.unwrap();
    assert!(read.len() <= 512, "{}", read.len());
    assert!(of_sensors(&read) < read.len() * 1024);

    let systems = "/redfish/v1/Systems";
    bmc.put(systems, endless(&json!([{"@odata.id": SYSTEM}]), systems));
    let bmc = TestBmc::with(move |seen, _| {
        let page = endless(&json!([{"@odata.id": SYSTEM}]), systems);
        seen.is("GET", systems).then(|| Reply::json(200, &page))
    })
    .await;
    let error = bmc.client().power().await.unwrap_err();
    assert!(error.message.contains("too many systems"), "{error}");
}

#[tokio::test]
async fn what_is_kept_of_topology_and_boot_is_small() {
    let bmc = hostile().await;
    let adapters = "/redfish/v1/Chassis/1/NetworkAdapters";
    let ports = "/redfish/v1/Chassis/1/NetworkAdapters/1/Ports";
    let many =
        |path: &str| json!({"Members": vec![json!({"@odata.id": format!("{path}/1")}); 20_000]});
    let neighbour = json!({"ChassisId": "00:11", "PortId": text(), "SystemName": text()});
    bmc.put(
        CHASSIS,
        json!({"@odata.id": CHASSIS, "NetworkAdapters": {"@odata.id": adapters},
        "Location": {"Placement": {"Rack": text()}}}),
    );
    bmc.put(adapters, many(adapters));
    bmc.put(
        &format!("{adapters}/1"),
        json!({"Ports": {"@odata.id": ports}, "Oem": text()}),
    );
    bmc.put(ports, many(ports));
    bmc.put(
        &format!("{ports}/1"),
        json!({"Id": text(), "Ethernet": {"LLDPReceive": neighbour}}),
    );
    bmc.add_to_system(&json!({"BootProgress": {"LastState": text()}}));
    let client = bmc.client();
    let topology = client.topology().await.unwrap();
    assert!(topology.neighbors.len() <= 16);
    assert!(format!("{topology:?}").len() < 4 * SMALL);
    let state = client.boot_state().await.unwrap();
    assert!(state.progress.is_none_or(|progress| progress.len() < SMALL));
}

/// A PDU, or the chassis of a chassis manager, whose outlets have huge texts.
#[tokio::test]
async fn what_is_kept_of_outlets_is_small() {
    let outlets = "/redfish/v1/PowerEquipment/RackPDUs/1/Outlets";
    for standby_watts in [None, Some(5.0)] {
        let bmc = TestBmc::start().await;
        bmc.world(|world| {
            world.root = json!({
                "PowerEquipment": {"@odata.id": "/redfish/v1/PowerEquipment"},
                "Chassis": {"@odata.id": "/redfish/v1/Chassis"},
            });
        });
        bmc.put(
            "/redfish/v1/PowerEquipment",
            json!({"RackPDUs": {"@odata.id": "/p"}}),
        );
        bmc.put("/p", json!({"Members": [{"@odata.id": "/p/1"}]}));
        bmc.put("/p/1", json!({"Outlets": {"@odata.id": outlets}}));
        bmc.put(outlets, json!({"Members": [{"@odata.id": "/o/A1"}]}));
        bmc.put(
            "/o/A1",
            json!({"PowerState": text(), "UserLabel": text(), "OutletType": text()}),
        );
        bmc.put(
            "/redfish/v1/Chassis",
            json!({"Members": [{"@odata.id": CHASSIS}]}),
        );
        bmc.put(
            CHASSIS,
            json!({"ChassisType": text(), "PowerState": text(), "AssetTag": text()}),
        );
        let address = format!("redfish+http://127.0.0.1:{}", bmc.port);
        let login = Credentials::new(USER, PASSWORD);
        let pdu = pdu::connect(PduConfig {
            chassis_standby_watts: standby_watts,
            ..PduConfig::new(address.parse().unwrap(), PduCredentials::Password(login))
        });
        let read = pdu.unwrap().outlets().await.unwrap();
        assert_eq!(read.len(), 1);
        let kept = read[0].raw.capacity() + optional(read[0].label.as_ref());
        assert!(kept < SMALL && is_plain(&read[0].raw), "{kept}");
    }
}

#[tokio::test]
async fn enclosure_of_endless_chassis_is_refused() {
    let bmc = TestBmc::with(|seen, _| {
        let number: u64 = seen.path.strip_prefix("/c/")?.parse().ok()?;
        let links = (1..=1000).map(|n| json!({"@odata.id": format!("/c/{}", number * 1000 + n)}));
        let links: Vec<Value> = links.collect();
        let body =
            json!({"ChassisType": "Enclosure", "PowerState": "Off", "Links": {"Contains": links}});
        Some(Reply::json(200, &body))
    })
    .await;
    bmc.world(|world| world.root = json!({"Chassis": {"@odata.id": "/redfish/v1/Chassis"}}));
    bmc.put(
        "/redfish/v1/Chassis",
        json!({"Members": [{"@odata.id": "/c/1"}]}),
    );
    let address = format!("redfish+http://127.0.0.1:{}", bmc.port);
    let login = Credentials::new(USER, PASSWORD);
    let pdu = pdu::connect(PduConfig {
        chassis_standby_watts: Some(5.0),
        ..PduConfig::new(address.parse().unwrap(), PduCredentials::Password(login))
    });
    let error = pdu.unwrap().outlets().await.unwrap_err();
    assert!(error.message.contains("more than"), "{error}");
    assert!(bmc.seen().len() < 10, "{}", bmc.seen().len());
}
