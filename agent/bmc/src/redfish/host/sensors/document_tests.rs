//! Tests of sensor parsing.

use proptest::prelude::*;
use serde_json::json;

use super::document::*;
use crate::{SensorHealth, SensorKind, SensorRole, redfish::protocol::document_tests::any_json};

fn short(readings: &[Reading]) -> Vec<(String, Option<f64>, String)> {
    readings
        .iter()
        .map(|reading| &reading.sensor)
        .map(|sensor| (sensor.name.clone(), sensor.value, sensor.unit.clone()))
        .collect()
}

fn row(name: &str, value: impl Into<Option<f64>>, unit: &str) -> (String, Option<f64>, String) {
    (name.to_owned(), value.into(), unit.to_owned())
}

#[test]
fn power_document_is_parsed() {
    let readings = power(&json!({
        "PowerControl": [{"Name": "System Power Control", "PowerConsumedWatts": 250},
                         {"Name": "limits only"}],
        "PowerSupplies": [{"Name": "PS1", "PowerInputWatts": "130.5"},
                          {"Name": "PS2", "PowerInputWatts": 1, "Status": {"State": "Absent"}}],
        "Voltages": [{"Name": "12V", "ReadingVolts": null}],
    }));
    assert_eq!(
        short(&readings),
        [
            row("System Power Control", 250.0, "W"),
            row("PS1 input", 130.5, "W"),
            row("12V", None, "V"),
        ]
    );
    let role = readings[0].claim.map(|(role, _)| role);
    assert_eq!(role, Some(SensorRole::PowerDraw));
    assert!(readings[1].claim.is_none());
}

#[test]
fn thermal_document_is_parsed() {
    let readings = thermal(&json!({
        "Temperatures": [
            {"Name": "Inlet", "PhysicalContext": "Intake", "ReadingCelsius": 21,
             "Status": {"State": "Enabled", "Health": "OK"}},
            {"MemberId": "2", "ReadingCelsius": 90, "Status": {"Health": "Critical"}},
        ],
        "Fans": [{"FanName": "F1", "Reading": 40, "ReadingUnits": "Percent"},
                 {"Name": "F2", "ReadingRPM": 9000}],
    }));
    assert_eq!(
        short(&readings),
        [
            row("Inlet", 21.0, "C"),
            row("2", 90.0, "C"),
            row("F1", 40.0, "%"),
            row("F2", 9000.0, "RPM"),
        ]
    );
    assert_eq!(readings[0].sensor.health, SensorHealth::Ok);
    assert_eq!(readings[1].sensor.health, SensorHealth::Critical);
}

#[test]
fn environment_and_subsystem_metrics_are_parsed() {
    let chassis = environment(&json!({"PowerWatts": {"Reading": 300}, "FanSpeedsPercent": []}));
    assert_eq!(short(&chassis), [row("PowerWatts", 300.0, "W")]);
    let air = json!({"TemperatureSummaryCelsius": {"Intake": {"Reading": 20.5}, "Exhaust": null}});
    assert_eq!(
        short(&thermal_metrics(&air)),
        [row("Intake temperature", 20.5, "C")]
    );
    let supply = json!({
        "@odata.id": "/redfish/v1/Chassis/1/PowerSubsystem/PowerSupplies/Bay1/Metrics",
        "InputPowerWatts": {"Reading": 120},
    });
    assert_eq!(
        short(&supply_metrics(&supply)),
        [row("Bay1 input", 120.0, "W")]
    );
}

#[test]
fn sensor_kind_follows_reading_type_or_unit() {
    for (body, kind, unit) in [
        (
            json!({"ReadingType": "Power", "ReadingUnits": "W"}),
            SensorKind::Power,
            "W",
        ),
        (json!({"ReadingUnits": "Cel"}), SensorKind::Temperature, "C"),
        (json!({"ReadingType": "Rotational"}), SensorKind::Fan, "RPM"),
        (
            json!({"ReadingType": "Percent", "ReadingUnits": "%", "PhysicalContext": "Fan"}),
            SensorKind::Fan,
            "%",
        ),
        (
            json!({"ReadingType": "Percent", "ReadingUnits": "%"}),
            SensorKind::Other,
            "%",
        ),
        (
            json!({"ReadingType": "Altitude", "ReadingUnits": "m"}),
            SensorKind::Other,
            "m",
        ),
    ] {
        let mut body = body;
        body["Reading"] = json!(7);
        let sensor = sensor(&body).unwrap().sensor;
        assert_eq!((sensor.kind, sensor.unit.as_str()), (kind, unit), "{body}");
    }
    assert_eq!(sensor(&json!({"Name": "a link only"})), None);
}

#[test]
fn sensor_value_is_finite_or_none() {
    for (value, expected) in [
        (json!(3), Some(3.0)),
        (json!("3.5 "), Some(3.5)),
        (json!("NaN"), None),
        (json!("inf"), None),
        (json!("n/a"), None),
        (json!(true), None),
        (json!(null), None),
    ] {
        assert_eq!(number(Some(&value)), expected, "{value}");
    }
}

const NAMES: &[&str] = &[
    "PowerControl",
    "PowerConsumedWatts",
    "Temperatures",
    "ReadingCelsius",
    "Fans",
    "Reading",
    "ReadingUnits",
    "ReadingType",
    "Status",
    "State",
    "PhysicalContext",
    "PowerWatts",
    "TemperatureSummaryCelsius",
    "Intake",
    "InputPowerWatts",
    "@odata.id",
    "Name",
];
const WORDS: &[&str] = &["Intake", "1e400", "NaN", "-inf", "Absent", "Cel", "/a/b/c"];

proptest! {
    #[test]
    fn arbitrary_documents_do_not_panic_and_values_are_finite(body in any_json(NAMES, WORDS)) {
        let all = [power(&body), thermal(&body), environment(&body), thermal_metrics(&body),
                   supply_metrics(&body), sensor(&body).into_iter().collect()];
        for reading in all.concat() {
            prop_assert!(reading.sensor.value.is_none_or(f64::is_finite));
        }
    }
}
