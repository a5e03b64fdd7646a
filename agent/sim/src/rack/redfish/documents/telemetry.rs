//! Power and temperature, in the deprecated form (one document each) and the current one (a tree of
//! sensors).
//!
//! The readings depend only on whether the machine is powered, so that a test can distinguish both.

use serde_json::{Value, json};

use super::{at, collection};
use crate::rack::redfish::path::ResourcePath;
use crate::rack::redfish::profile::Profile;
use crate::rack::redfish::service::Call;

/// One sensor: `Id`, reading with and without power, unit, type.
const SENSORS: [(&str, f64, f64, &str, &str); 4] = [
    ("CPUTemp", 48.0, 24.0, "Cel", "Temperature"),
    ("InletTemp", 23.0, 22.0, "Cel", "Temperature"),
    ("Fan1", 7200.0, 0.0, "{rev}/min", "Rotational"),
    ("TotalPower", 412.0, 18.0, "W", "Power"),
];

fn reading(id: &str, powered: bool) -> f64 {
    let sensor = SENSORS.iter().find(|sensor| sensor.0 == id);
    sensor.map_or(0.0, |(_, on, off, ..)| if powered { *on } else { *off })
}

pub(super) fn build(call: &Call<'_>, place: ResourcePath<'_>) -> Option<Value> {
    let profile = call.profile();
    let powered = call.host.real_power().is_powered();
    let base = format!("Chassis/{}", profile.chassis_id);
    Some(match place {
        ResourcePath::Power => power(&base, powered),
        ResourcePath::Thermal => thermal(&base, powered),
        ResourcePath::EnvironmentMetrics => json!({
            "@odata.id": at(&format!("{base}/EnvironmentMetrics")),
            "@odata.type": "#EnvironmentMetrics.v1_3_1.EnvironmentMetrics",
            "Id": "EnvironmentMetrics",
            "Name": "Environment Metrics",
            "PowerWatts": {
                "Reading": reading("TotalPower", powered),
                "DataSourceUri": at(&format!("{base}/Sensors/TotalPower")),
            },
            "TemperatureCelsius": {
                "Reading": reading("InletTemp", powered),
                "DataSourceUri": at(&format!("{base}/Sensors/InletTemp")),
            },
        }),
        ResourcePath::Sensors => {
            let ids = SENSORS.iter().map(|sensor| sensor.0);
            collection(&format!("{base}/Sensors"), "Sensor", ids)
        }
        ResourcePath::Sensor(id) => return sensor(profile, id, powered),
        _ => return None,
    })
}

fn sensor(profile: &Profile, id: &str, powered: bool) -> Option<Value> {
    let (id, .., unit, kind) = SENSORS.iter().find(|sensor| sensor.0 == id)?;
    Some(json!({
        "@odata.id": at(&format!("Chassis/{}/Sensors/{id}", profile.chassis_id)),
        "@odata.type": "#Sensor.v1_8_0.Sensor",
        "Id": id,
        "Name": id,
        "Reading": reading(id, powered),
        "ReadingUnits": unit,
        "ReadingType": kind,
        "Status": {"State": "Enabled", "Health": "OK"},
    }))
}

fn power(base: &str, powered: bool) -> Value {
    let path = at(&format!("{base}/Power"));
    json!({
        "@odata.id": path,
        "@odata.type": "#Power.v1_7_1.Power",
        "Id": "Power",
        "Name": "Power",
        "PowerControl": [{
            "@odata.id": format!("{path}#/PowerControl/0"),
            "MemberId": "0",
            "Name": "System Power Control",
            "PowerConsumedWatts": reading("TotalPower", powered),
            "PowerCapacityWatts": 1600,
            "Status": {"State": "Enabled", "Health": "OK"},
        }],
        "PowerSupplies": [{
            "@odata.id": format!("{path}#/PowerSupplies/0"),
            "MemberId": "0",
            "Name": "Power Supply 1",
            "PowerSupplyType": "AC",
            "PowerCapacityWatts": 1600,
            "Status": {"State": "Enabled", "Health": "OK"},
        }],
    })
}

fn thermal(base: &str, powered: bool) -> Value {
    let path = at(&format!("{base}/Thermal"));
    let temperature = |index: usize, name: &str, id: &str, context: &str| {
        json!({
            "@odata.id": format!("{path}#/Temperatures/{index}"),
            "MemberId": index.to_string(),
            "Name": name,
            "PhysicalContext": context,
            "ReadingCelsius": reading(id, powered),
            "Status": {"State": "Enabled", "Health": "OK"},
        })
    };
    json!({
        "@odata.id": path,
        "@odata.type": "#Thermal.v1_7_1.Thermal",
        "Id": "Thermal",
        "Name": "Thermal",
        "Temperatures": [
            temperature(0, "CPU", "CPUTemp", "CPU"),
            temperature(1, "Inlet", "InletTemp", "Intake"),
        ],
        "Fans": [{
            "@odata.id": format!("{path}#/Fans/0"),
            "MemberId": "0",
            "Name": "Fan 1",
            "Reading": if powered { 7200 } else { 0 },
            "ReadingUnits": "RPM",
            "Status": {"State": "Enabled", "Health": "OK"},
        }],
    })
}
