//! Sensors in the older and newer documents.

use serde_json::Value;

use crate::{
    Sensor, SensorHealth, SensorKind, SensorRole,
    redfish::{
        protocol::document::{last_part, text},
        vendor::{self, Source},
    },
};

/// A sensor, and the role it may have with its rank.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Reading {
    pub(super) sensor: Sensor,
    pub(super) claim: Option<(SensorRole, usize)>,
}

/// Parts from which a reading is built.
struct Parts<'a> {
    name: String,
    kind: SensorKind,
    unit: &'a str,
    value: Option<f64>,
    source: Source,
    /// The object with `Status` and `PhysicalContext`.
    object: &'a Value,
}

impl Parts<'_> {
    /// `None`: the part that the sensor belongs to is absent.
    fn reading(self) -> Option<Reading> {
        let status = self.object.get("Status");
        let word = |name| status.and_then(|status| text(status, name));
        if word("State").as_deref() == Some("Absent") {
            return None;
        }
        let health = match (self.value, word("Health").as_deref()) {
            (None, _) => SensorHealth::Unknown,
            (_, Some("OK")) => SensorHealth::Ok,
            (_, Some("Warning")) => SensorHealth::Warning,
            (_, Some("Critical")) => SensorHealth::Critical,
            _ => SensorHealth::Unknown,
        };
        let context = text(self.object, "PhysicalContext").unwrap_or_default();
        Some(Reading {
            claim: vendor::role(self.kind, self.source, &context, &self.name),
            sensor: Sensor {
                name: self.name,
                kind: self.kind,
                role: None,
                value: self.value,
                unit: self.unit.to_owned(),
                health,
            },
        })
    }
}

/// A finite number, or a text that is one.
pub(super) fn number(value: Option<&Value>) -> Option<f64> {
    let number = match value? {
        Value::Number(number) => number.as_f64()?,
        Value::String(text) => text.trim().parse().ok()?,
        _ => return None,
    };
    number.is_finite().then_some(number)
}

/// The reading of an excerpt (`{"Reading": 1}`), or a plain number.
fn excerpt(value: &Value) -> Option<f64> {
    number(value.get("Reading")).or_else(|| number(Some(value)))
}

fn items<'a>(body: &'a Value, name: &str) -> impl Iterator<Item = &'a Value> {
    body.get(name)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .take(super::MAX_SENSORS)
}

fn name(object: &Value, names: &[&str]) -> String {
    names
        .iter()
        .find_map(|name| text(object, name))
        .unwrap_or_else(|| "unnamed".to_owned())
}

/// The `Power` document (deprecated 2020.4).
pub(super) fn power(body: &Value) -> Vec<Reading> {
    let watts = |object, label: &str, property: &str, source| {
        let value = number(Value::get(object, property));
        Parts {
            name: format!("{}{label}", name(object, &["Name", "MemberId"])),
            kind: SensorKind::Power,
            unit: "W",
            value,
            source,
            object,
        }
        .reading()
    };
    let draw = items(body, "PowerControl")
        .filter(|object| object.get("PowerConsumedWatts").is_some())
        .filter_map(|object| watts(object, "", "PowerConsumedWatts", Source::PowerControl));
    let supplies = items(body, "PowerSupplies")
        .filter(|object| object.get("PowerInputWatts").is_some())
        .filter_map(|object| watts(object, " input", "PowerInputWatts", Source::Other));
    let voltages = items(body, "Voltages").filter_map(|object| {
        Parts {
            name: name(object, &["Name", "MemberId"]),
            kind: SensorKind::Voltage,
            unit: "V",
            value: number(object.get("ReadingVolts")),
            source: Source::Other,
            object,
        }
        .reading()
    });
    draw.chain(supplies).chain(voltages).collect()
}

/// The `Thermal` document (deprecated 2020.4).
pub(super) fn thermal(body: &Value) -> Vec<Reading> {
    let temperatures = items(body, "Temperatures").filter_map(|object| {
        Parts {
            name: name(object, &["Name", "MemberId"]),
            kind: SensorKind::Temperature,
            unit: "C",
            value: number(object.get("ReadingCelsius")),
            source: Source::Other,
            object,
        }
        .reading()
    });
    let fans = items(body, "Fans").filter_map(|object| {
        let in_percent = text(object, "ReadingUnits").as_deref() == Some("Percent");
        Parts {
            name: name(object, &["Name", "FanName", "MemberId"]),
            kind: SensorKind::Fan,
            unit: if in_percent { "%" } else { "RPM" },
            value: number(object.get("Reading")).or_else(|| number(object.get("ReadingRPM"))),
            source: Source::Other,
            object,
        }
        .reading()
    });
    temperatures.chain(fans).collect()
}

/// `EnvironmentMetrics` of a chassis.
pub(super) fn environment(body: &Value) -> Vec<Reading> {
    let part = |property: &str, kind, unit, source| {
        let object = body.get(property)?;
        Parts {
            name: property.to_owned(),
            kind,
            unit,
            value: Some(excerpt(object)?),
            source,
            object,
        }
        .reading()
    };
    [
        part("PowerWatts", SensorKind::Power, "W", Source::ChassisPower),
        part(
            "TemperatureCelsius",
            SensorKind::Temperature,
            "C",
            Source::Other,
        ),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// `ThermalMetrics` of a thermal subsystem.
pub(super) fn thermal_metrics(body: &Value) -> Vec<Reading> {
    let summary = body.get("TemperatureSummaryCelsius");
    let part = |place: &str, source| {
        let object = summary?.get(place)?;
        Parts {
            name: format!("{place} temperature"),
            kind: SensorKind::Temperature,
            unit: "C",
            value: Some(excerpt(object)?),
            source,
            object,
        }
        .reading()
    };
    [
        part("Intake", Source::IntakeSummary),
        part("Exhaust", Source::Other),
        part("Ambient", Source::Other),
        part("Internal", Source::Other),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// `PowerSupplyMetrics` of one power supply.
pub(super) fn supply_metrics(body: &Value) -> Vec<Reading> {
    let Some(object) = body.get("InputPowerWatts") else {
        return Vec::new();
    };
    // The metrics of all supplies have the same name; only their path distinguishes them.
    let place = text(body, "@odata.id").unwrap_or_default();
    let supply = place
        .trim_end_matches('/')
        .rsplit_once('/')
        .map_or("", |(supply, _)| last_part(supply));
    let reading = Parts {
        name: format!("{supply} input").trim().to_owned(),
        kind: SensorKind::Power,
        unit: "W",
        value: excerpt(object),
        source: Source::Other,
        object,
    };
    reading.reading().into_iter().collect()
}

/// Parses a `Sensor` resource.
pub(super) fn sensor(body: &Value) -> Option<Reading> {
    body.get("Reading")?;
    let units = text(body, "ReadingUnits").unwrap_or_default();
    let by_unit = match units.as_str() {
        "Cel" | "C" | "Celsius" => (SensorKind::Temperature, "C"),
        "W" | "Watts" => (SensorKind::Power, "W"),
        "RPM" | "{rev}/min" => (SensorKind::Fan, "RPM"),
        "V" | "Volts" => (SensorKind::Voltage, "V"),
        "A" | "Amps" => (SensorKind::Current, "A"),
        other => (SensorKind::Other, other),
    };
    let is_fan = text(body, "PhysicalContext").as_deref() == Some("Fan");
    let kind = match text(body, "ReadingType").as_deref() {
        Some("Temperature") => SensorKind::Temperature,
        Some("Power") => SensorKind::Power,
        Some("Rotational") => SensorKind::Fan,
        Some("Voltage") => SensorKind::Voltage,
        Some("Current") => SensorKind::Current,
        _ if is_fan && by_unit.1 == "%" => SensorKind::Fan,
        Some(_) => SensorKind::Other,
        None => by_unit.0,
    };
    let unit = match (kind, by_unit.1) {
        (SensorKind::Temperature, "") => "C",
        (SensorKind::Power, "") => "W",
        (SensorKind::Fan, "") => "RPM",
        (SensorKind::Voltage, "") => "V",
        (SensorKind::Current, "") => "A",
        (_, unit) => unit,
    };
    Parts {
        name: name(body, &["Name", "Id"]),
        kind,
        unit,
        value: number(body.get("Reading")),
        source: Source::Other,
        object: body,
    }
    .reading()
}
