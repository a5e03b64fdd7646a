//! `sensors`.

use std::process::ExitCode;

use rackhand_proto::v1::{self, read_sensors_response::Result as Read};
use serde::Serialize;

use super::call::{Client, answer, limit, request, severity_word, target};
use crate::{
    cli::{LongReadArgs, Output, SensorsArgs},
    host::fan_out::{self, HostResult},
    output::{
        TableRow, brief,
        exit_code::{ExitStatus, Fault},
        print, table,
    },
};

#[derive(Debug, Serialize)]
struct Sensor {
    name: String,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<f64>,
    unit: String,
    health: &'static str,
}

impl Sensor {
    fn of(sensor: v1::Sensor) -> Self {
        Self {
            kind: kind_word(sensor.kind()),
            health: severity_word(sensor.health(), "unknown"),
            name: sensor.name,
            value: sensor.value,
            unit: sensor.unit,
        }
    }

    fn value(&self) -> String {
        match self.value {
            None => "-".to_owned(),
            Some(value) => format!("{} {}", rounded(value), self.unit),
        }
    }
}

/// Name of what a sensor measures.
pub(crate) fn kind_word(kind: v1::SensorKind) -> &'static str {
    match kind {
        v1::SensorKind::Temperature => "temperature",
        v1::SensorKind::Power => "power",
        v1::SensorKind::Fan => "fan",
        v1::SensorKind::Voltage => "voltage",
        v1::SensorKind::Current => "current",
        v1::SensorKind::Other | v1::SensorKind::Unspecified => "other",
    }
}

/// The sensors of one host.
#[derive(Debug, Serialize)]
struct Row {
    host: String,
    /// Power draw of the host, in watts.
    #[serde(skip_serializing_if = "Option::is_none")]
    power_draw: Option<f64>,
    /// Inlet air temperature, in degrees Celsius.
    #[serde(skip_serializing_if = "Option::is_none")]
    inlet_temperature: Option<f64>,
    /// Worst health that the BMC reports.
    #[serde(skip_serializing_if = "str::is_empty")]
    health: &'static str,
    sensors: Vec<Sensor>,
    /// read, failed or unreachable.
    result: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    error: String,
    #[serde(skip)]
    end: ExitStatus,
}

impl Row {
    fn of(host: String, read: Result<Vec<v1::Sensor>, Fault>) -> Self {
        let sensors = match read {
            Ok(sensors) => sensors,
            Err(fault) => {
                return Self {
                    host,
                    power_draw: None,
                    inlet_temperature: None,
                    health: "",
                    sensors: Vec::new(),
                    result: fault.end.word(),
                    error: fault.message,
                    end: fault.end,
                };
            }
        };
        let role = |role| {
            let mut found = sensors.iter().filter(|sensor| sensor.role() == role);
            found.find_map(|sensor| sensor.value)
        };
        let worst = sensors.iter().map(|sensor| sensor.health()).max();
        Self {
            host,
            power_draw: role(v1::SensorRole::PowerDraw),
            inlet_temperature: role(v1::SensorRole::InletTemperature),
            health: severity_word(worst.unwrap_or_default(), "unknown"),
            sensors: sensors.into_iter().map(Sensor::of).collect(),
            result: "read",
            error: String::new(),
            end: ExitStatus::Done,
        }
    }

    /// The error, or the sensors with bad health.
    fn note(&self) -> String {
        if !self.error.is_empty() {
            return brief(&self.host, &self.error).to_owned();
        }
        let bad = self.sensors.iter();
        let bad = bad.filter(|sensor| matches!(sensor.health, "warning" | "critical"));
        let bad = bad.map(|sensor| format!("{} {} {}", sensor.name, sensor.value(), sensor.health));
        bad.collect::<Vec<_>>().join(", ")
    }
}

impl TableRow for Row {
    const HEAD: &'static [&'static str] =
        &["HOST", "POWER DRAW", "INLET", "HEALTH", "SENSORS", "NOTE"];
    const SHORT: usize = 6;

    fn fields(&self) -> Vec<String> {
        let with = |value: Option<f64>, unit: &str| {
            value.map_or_else(
                || "-".to_owned(),
                |value| format!("{} {unit}", rounded(value)),
            )
        };
        vec![
            self.host.clone(),
            with(self.power_draw, "W"),
            with(self.inlet_temperature, "C"),
            self.health.to_owned(),
            self.sensors.len().to_string(),
            self.note(),
        ]
    }

    fn name(&self) -> &str {
        &self.host
    }
}

impl HostResult for Row {
    fn result(&self) -> &str {
        self.result
    }

    fn end(&self) -> ExitStatus {
        self.end
    }
}

pub(crate) async fn sensors(args: SensorsArgs) -> anyhow::Result<ExitCode> {
    let LongReadArgs { timeout, common } = args.long;
    let read = |mut client: Client, host: String| {
        let asked = v1::ReadSensorsRequest {
            target: target(&host),
            timeout: limit(timeout),
        };
        async move {
            let read = answer(client.read_sensors(request(asked, timeout)).await);
            let sensors = read.and_then(|response| match response.result {
                Some(Read::Sensors(sensors)) => Ok(sensors.sensors),
                Some(Read::Failure(failure)) => Err(Fault::of_failure(failure)),
                None => Err(Fault::empty()),
            });
            Row::of(host, sensors)
        }
    };
    let (rows, _) = fan_out::read_chosen(&args.hosts, &common, read).await?;
    match common.output {
        Output::Table | Output::Wide if args.each => out!("{}", each_sensor(&rows)),
        output => print(&rows, output)?,
    }
    Ok(fan_out::finish(&rows, common.output, "read"))
}

/// One row per sensor; a host that could not be read has one row with the error.
fn each_sensor(rows: &[Row]) -> String {
    let mut lines = Vec::new();
    for row in rows {
        if row.end != ExitStatus::Done {
            let empty = String::new;
            lines.push(vec![row.host.clone(), empty(), empty(), row.note()]);
        }
        for sensor in &row.sensors {
            lines.push(vec![
                row.host.clone(),
                sensor.name.clone(),
                sensor.value(),
                sensor.health.to_owned(),
            ]);
        }
    }
    table(&["HOST", "SENSOR", "VALUE", "HEALTH"], lines)
}

/// Formats a value: an integer if it is large, otherwise with significant digits.
fn rounded(value: f64) -> String {
    let text = if value.abs() >= 100.0 {
        format!("{value:.0}")
    } else {
        format!("{value:.2}")
    };
    match text.split_once('.') {
        Some(_) => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sensor(name: &str, value: f64, role: v1::SensorRole, health: v1::Severity) -> v1::Sensor {
        v1::Sensor {
            name: name.to_owned(),
            value: Some(value),
            role: role.into(),
            unit: "C".to_owned(),
            health: health.into(),
            ..v1::Sensor::default()
        }
    }

    #[test]
    fn host_health_is_its_worst_sensor() {
        use v1::{SensorRole, Severity};
        let row = Row::of(
            "n1".to_owned(),
            Ok(vec![
                sensor("Inlet", 23.5, SensorRole::InletTemperature, Severity::Ok),
                sensor("CPU1", 98.0, SensorRole::Unspecified, Severity::Critical),
                sensor("Draw", 312.4, SensorRole::PowerDraw, Severity::Unspecified),
            ]),
        );
        assert_eq!(
            row.fields(),
            [
                "n1",
                "312 W",
                "23.5 C",
                "critical",
                "3",
                "CPU1 98 C critical"
            ]
        );
        let none = Row::of("n2".to_owned(), Ok(Vec::new()));
        assert_eq!(none.fields()[1..4], ["-", "-", "unknown"]);
    }

    #[test]
    fn sensor_values_are_rounded_for_display() {
        for (value, text) in [
            (12.0, "12"),
            (12.06, "12.06"),
            (8400.4, "8400"),
            (0.5, "0.5"),
            (-3.1, "-3.1"),
            (100.0, "100"),
        ] {
            assert_eq!(rounded(value), text);
        }
    }
}
