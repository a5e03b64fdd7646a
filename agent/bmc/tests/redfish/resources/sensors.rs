//! Sensors.

use rackhand_bmc::{Bmc, ErrorKind, Sensor, SensorHealth, SensorRole};
use serde_json::{Value, json};

use crate::bmc::{Reply, SYSTEM, TestBmc};

const CHASSIS: &str = "/redfish/v1/Chassis/1";

fn at(path: &str) -> Value {
    json!({"@odata.id": path})
}

fn below(name: &str) -> String {
    format!("{CHASSIS}/{name}")
}

/// A chassis with these documents below it.
fn fill(bmc: &TestBmc, documents: &[(&str, Value)]) {
    bmc.add_to_system(&json!({"Links": {"Chassis": [at(CHASSIS)]}}));
    let mut chassis = json!({});
    for (name, document) in documents {
        if !name.contains('/') {
            chassis[name] = at(&below(name));
        }
        bmc.put(&below(name), document.clone());
    }
    bmc.put(CHASSIS, chassis);
}

fn expand(bmc: &TestBmc) {
    let features = json!({"ExpandQuery": {"NoLinks": true, "Levels": true}});
    bmc.world(|world| world.root = json!({"ProtocolFeaturesSupported": features}));
}

fn having(sensors: &[Sensor], role: SensorRole) -> Option<f64> {
    let mut found = sensors.iter().filter(|sensor| sensor.role == Some(role));
    let value = found.next()?.value;
    assert!(found.next().is_none(), "one sensor for each role");
    value
}

async fn roles(client: &dyn Bmc) -> (Option<f64>, Option<f64>) {
    let sensors = client.sensors().await.unwrap();
    let draw = having(&sensors, SensorRole::PowerDraw);
    (draw, having(&sensors, SensorRole::InletTemperature))
}

fn power() -> Value {
    json!({"PowerControl": [{"Name": "System Power Control", "PowerConsumedWatts": 250}]})
}

fn thermal() -> Value {
    json!({
        "Temperatures": [
            {"Name": "CPU1 Temp", "ReadingCelsius": 60, "Status": {"Health": "Warning"}},
            {"Name": "Inlet", "PhysicalContext": "Intake", "ReadingCelsius": 21},
        ],
        "Fans": [{"Name": "Fan 1", "Reading": 5000, "ReadingUnits": "RPM"}],
    })
}

#[tokio::test]
async fn power_and_thermal_take_one_read_each() {
    let bmc = TestBmc::start().await;
    fill(&bmc, &[("Power", power()), ("Thermal", thermal())]);
    let client = bmc.client();
    assert_eq!(roles(&*client).await, (Some(250.0), Some(21.0)));
    let reads = bmc.sent("GET").into_iter();
    assert_eq!(
        reads.filter(|seen| seen.path.starts_with(CHASSIS)).count(),
        3
    );
    let sensors = client.sensors().await.unwrap();
    let names: Vec<_> = sensors.iter().map(|sensor| sensor.name.as_str()).collect();
    assert_eq!(
        names,
        ["System Power Control", "CPU1 Temp", "Inlet", "Fan 1"]
    );
    assert_eq!(sensors[1].health, SensorHealth::Warning);
    assert_eq!(
        (sensors[3].unit.as_str(), sensors[3].value),
        ("RPM", Some(5000.0))
    );
}

#[tokio::test]
async fn subsystem_documents_are_expanded_where_supported() {
    let bmc = TestBmc::start().await;
    expand(&bmc);
    let sensor = json!({
        "@odata.id": below("Sensors/1"), "Name": "CPU", "ReadingType": "Temperature", "Reading": 55,
    });
    fill(
        &bmc,
        &[
            ("Power", json!({})),
            (
                "EnvironmentMetrics",
                json!({"PowerWatts": {"Reading": 301.5}}),
            ),
            (
                "ThermalSubsystem",
                json!({"ThermalMetrics": at(&below("ThermalSubsystem/Metrics"))}),
            ),
            (
                "ThermalSubsystem/Metrics",
                json!({"TemperatureSummaryCelsius": {"Intake": {"Reading": 19}}}),
            ),
            ("Sensors", json!({"Members": [sensor]})),
        ],
    );
    let client = bmc.client();
    assert_eq!(roles(&*client).await, (Some(301.5), Some(19.0)));
    assert_eq!(client.sensors().await.unwrap().len(), 3);
    let all = bmc.sent("GET");
    let queries: Vec<_> = all.iter().map(|seen| seen.query.as_str()).collect();
    assert!(queries.contains(&"$expand=.($levels=1)"), "{queries:?}");
    assert_eq!(bmc.count("GET", &below("Sensors/1")), 0);
    assert_eq!(bmc.count("GET", &below("Power")), 0);
}

#[tokio::test]
async fn subsystem_documents_are_read_singly_without_expand() {
    let bmc = TestBmc::start().await;
    let supply = "PowerSubsystem/PowerSupplies/1";
    fill(
        &bmc,
        &[
            (
                "Sensors",
                json!({"Members": [at(&below("Sensors/a")), at(&below("Sensors/b"))]}),
            ),
            (
                "Sensors/a",
                json!({"Name": "total power", "ReadingUnits": "W", "Reading": 400}),
            ),
            (
                "Sensors/b",
                json!({"ReadingUnits": "Cel", "PhysicalContext": "Intake", "Reading": 22}),
            ),
            (
                "PowerSubsystem",
                json!({"PowerSupplies": at(&below("PowerSubsystem/PowerSupplies"))}),
            ),
            (
                "PowerSubsystem/PowerSupplies",
                json!({"Members": [at(&below(supply))]}),
            ),
            (
                supply,
                json!({"Metrics": at(&below("PowerSubsystem/PowerSupplies/1/Metrics"))}),
            ),
            (
                "PowerSubsystem/PowerSupplies/1/Metrics",
                json!({
                    "@odata.id": below("PowerSubsystem/PowerSupplies/1/Metrics"),
                    "InputPowerWatts": {"Reading": 205},
                }),
            ),
        ],
    );
    let client = bmc.client();
    assert_eq!(roles(&*client).await, (Some(400.0), Some(22.0)));
    let sensors = client.sensors().await.unwrap();
    assert!(
        sensors
            .iter()
            .any(|s| s.name == "1 input" && s.value == Some(205.0))
    );
}

#[tokio::test]
async fn sensors_are_returned_when_one_document_fails() {
    let bmc =
        TestBmc::with(|seen, _| seen.path.ends_with("/Thermal").then(|| Reply::status(503))).await;
    fill(&bmc, &[("Power", power()), ("Thermal", thermal())]);
    assert_eq!(roles(&*bmc.client()).await, (Some(250.0), None));
}

#[tokio::test]
async fn failure_of_every_document_returns_the_first_error() {
    let bmc = TestBmc::with(|seen, _| {
        let busy = || Reply::status(503).header("Retry-After", "9");
        seen.path.starts_with(CHASSIS).then(busy)
    })
    .await;
    fill(&bmc, &[("Power", power())]);
    let error = bmc.client().sensors().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Busy);
    assert!(error.retry_after.is_some());
}

#[tokio::test]
async fn system_without_a_chassis_has_no_sensors() {
    let bmc = TestBmc::start().await;
    let error = bmc.client().sensors().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported);
}

#[tokio::test]
async fn number_of_sensor_reads_is_limited() {
    let bmc = TestBmc::with(|seen, _| {
        let sensor = json!({"Name": "x", "ReadingUnits": "V", "Reading": 1});
        seen.path
            .contains("/Sensors/")
            .then(|| Reply::json(200, &sensor))
    })
    .await;
    let members: Vec<_> = (0..1000)
        .map(|n| at(&below(&format!("Sensors/{n}"))))
        .collect();
    fill(&bmc, &[("Sensors", json!({"Members": members}))]);
    let sensors = bmc.client().sensors().await.unwrap();
    assert_eq!(sensors.len(), 62);
    let reads = bmc.sent("GET").into_iter();
    assert_eq!(
        reads.filter(|seen| seen.path.starts_with(CHASSIS)).count(),
        64
    );
}

#[tokio::test]
async fn endless_sensor_pages_are_limited() {
    let bmc = TestBmc::start().await;
    expand(&bmc);
    let page = json!({"Members": [], "Members@odata.nextLink": below("Sensors")});
    fill(&bmc, &[("Sensors", page)]);
    assert_eq!(bmc.client().sensors().await.unwrap(), []);
    assert!(bmc.seen().len() < 80);
}

#[tokio::test]
async fn chassis_link_to_another_host_is_not_followed() {
    let bmc = TestBmc::start().await;
    bmc.add_to_system(&json!({"Links": {"Chassis": [at("http://127.0.0.1:9/x")]}}));
    let error = bmc.client().sensors().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Protocol);
    assert_eq!(bmc.count("GET", SYSTEM), 1);
}
