//! Sensors of the chassis of a system.
//!
//! Owns: the documents to read, and their number. Must never: read without a limit, or discard
//! sensors because one document failed.

mod document;

#[cfg(test)]
mod document_tests;

use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use self::document::Reading;
use super::resources::Reader;
use crate::{
    BmcError, ErrorKind, Sensor, SensorRole,
    redfish::protocol::document::{Collection, Features, link, links},
};

/// Maximum number of documents read in one call, besides the system and the service root:
/// sufficient for every sensor of a large host one by one, and on a slow BMC still within the
/// minute of a call.
const MAX_READS: usize = 64;
/// Maximum number of chassis that are read. A host has one or two; more belong to an enclosure.
const MAX_CHASSIS: usize = 4;
const MAX_SENSORS: usize = 512;

/// A document to read, by its link.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    /// `EnvironmentMetrics`.
    Environment(String),
    /// `ThermalSubsystem`, and the metrics that it names.
    ThermalSubsystem(String),
    /// `PowerSubsystem`, and the metrics of each supply.
    PowerSubsystem(String),
    /// The `Sensors` collection.
    Sensors(String),
    /// `Power`, deprecated.
    Power(String),
    /// `Thermal`, deprecated.
    Thermal(String),
}

/// The documents to read for a chassis: the newer ones if collections can be expanded, otherwise
/// the two older ones with all sensors, otherwise the newer ones member by member.
fn plan(chassis: &Value, features: Features) -> Vec<Step> {
    let step = |name: &str, step: fn(String) -> Step| link(chassis, &[name]).map(step);
    let sensors = step("Sensors", Step::Sensors);
    let environment = step("EnvironmentMetrics", Step::Environment);
    let air = step("ThermalSubsystem", Step::ThermalSubsystem);
    let power = step("Power", Step::Power);
    let thermal = step("Thermal", Step::Thermal);
    let steps = if sensors.is_some() && features.expand.is_some() {
        // Without a power value of the chassis itself, the older document has it.
        let power = power.filter(|_| environment.is_none());
        [environment, power, air, sensors]
    } else if power.is_some() || thermal.is_some() {
        let environment = environment.filter(|_| power.is_none());
        let air = air.filter(|_| thermal.is_none());
        [power, thermal, environment, air]
    } else {
        let supplies = step("PowerSubsystem", Step::PowerSubsystem);
        [environment, air, supplies, sensors]
    };
    steps.into_iter().flatten().collect()
}

/// Assigns each role to the sensor with the best rank; sensors with a value are preferred, and the
/// first of equals is used.
fn with_roles(readings: Vec<Reading>) -> Vec<Sensor> {
    let best = |wanted: SensorRole| {
        readings
            .iter()
            .enumerate()
            .filter_map(|(index, reading)| {
                let (role, rank) = reading.claim?;
                (role == wanted).then_some((reading.sensor.value.is_none(), rank, index))
            })
            .min()
            .map(|(_, _, index)| index)
    };
    let roles = [SensorRole::PowerDraw, SensorRole::InletTemperature];
    let winners = roles.map(|role| (best(role), role));
    let mut sensors: Vec<Sensor> = readings.into_iter().map(|reading| reading.sensor).collect();
    for (winner, role) in winners {
        if let Some(sensor) = winner.and_then(|index| sensors.get_mut(index)) {
            sensor.role = Some(role);
        }
    }
    sensors
}

/// Reads documents within the limits of number and time.
struct SensorReader<'a> {
    bmc: Reader<'a>,
    left: usize,
    until: Instant,
    /// The first error.
    error: Option<BmcError>,
    readings: Vec<Reading>,
}

impl SensorReader<'_> {
    async fn get(&mut self, link: &str, query: Option<&str>) -> Option<Value> {
        if self.left == 0 || Instant::now() >= self.until {
            return None;
        }
        self.left -= 1;
        let read = tokio::time::timeout_at(self.until, self.try_get(link, query)).await;
        let read = read.unwrap_or_else(|_| {
            let message = "reading sensors: no complete response in time";
            Err(self.bmc.error(ErrorKind::Timeout, message))
        });
        match read {
            Ok(body) => Some(body),
            Err(error) => {
                let is_over = matches!(
                    error.kind,
                    ErrorKind::Unreachable
                        | ErrorKind::Timeout
                        | ErrorKind::Tls
                        | ErrorKind::Authentication
                );
                if is_over {
                    self.left = 0;
                }
                self.error.get_or_insert(error);
                None
            }
        }
    }

    async fn try_get(&self, link: &str, query: Option<&str>) -> Result<Value, BmcError> {
        let mut url = self.bmc.resolve(link)?;
        if query.is_some() {
            url.set_query(query);
        }
        self.bmc.fetch(&url, "reading sensors").await
    }

    async fn read(&mut self, step: &Step, features: Features) {
        let readings = match step {
            Step::Power(link) => self
                .get(link, None)
                .await
                .map(|body| document::power(&body)),
            Step::Thermal(link) => self
                .get(link, None)
                .await
                .map(|body| document::thermal(&body)),
            Step::Environment(link) => {
                let body = self.get(link, None).await;
                body.map(|body| document::environment(&body))
            }
            Step::ThermalSubsystem(link) => self.air(link).await,
            Step::PowerSubsystem(link) => Some(self.supplies(link).await),
            Step::Sensors(link) => Some(self.sensors(link, features).await),
        };
        self.readings.extend(readings.unwrap_or_default());
        self.readings.truncate(MAX_SENSORS);
    }

    async fn air(&mut self, subsystem: &str) -> Option<Vec<Reading>> {
        let body = self.get(subsystem, None).await?;
        let metrics = self.get(&link(&body, &["ThermalMetrics"])?, None).await?;
        Some(document::thermal_metrics(&metrics))
    }

    async fn supplies(&mut self, subsystem: &str) -> Vec<Reading> {
        let mut readings = Vec::new();
        let Some(body) = self.get(subsystem, None).await else {
            return readings;
        };
        let Some(collection) = link(&body, &["PowerSupplies"]) else {
            return readings;
        };
        let page = self.get(&collection, None).await;
        let page = page.as_ref().and_then(Collection::of).unwrap_or_default();
        for supply in page.members.into_iter().take(MAX_READS) {
            let Some(supply) = self.get(&supply, None).await else {
                continue;
            };
            let Some(metrics) = link(&supply, &["Metrics"]) else {
                continue;
            };
            let metrics = self.get(&metrics, None).await;
            readings.extend(metrics.iter().flat_map(document::supply_metrics));
        }
        readings
    }

    async fn sensors(&mut self, collection: &str, features: Features) -> Vec<Reading> {
        let mut readings = Vec::new();
        let mut next = Some((collection.to_owned(), features.expand));
        while let Some((page, query)) = next.take() {
            let Some(body) = self.get(&page, query).await else {
                break;
            };
            let members = body.get("Members").and_then(Value::as_array);
            for member in members.into_iter().flatten().take(MAX_SENSORS) {
                let reading = match (document::sensor(member), link(member, &[])) {
                    (Some(reading), _) => Some(reading),
                    // The members are only links, so each is read.
                    (None, Some(link)) if features.expand.is_none() => {
                        let body = self.get(&link, None).await;
                        body.as_ref().and_then(document::sensor)
                    }
                    _ => None,
                };
                readings.extend(reading);
            }
            if readings.len() >= MAX_SENSORS {
                break;
            }
            let following = Collection::of(&body).and_then(|page| page.next);
            next = following.map(|link| (link, None));
        }
        readings
    }
}

/// Reads at most [`MAX_READS`] documents, and stops after three quarters of the time limit; the
/// sensors read until then are returned.
pub(super) async fn read(bmc: Reader<'_>, call_limit: Duration) -> Result<Vec<Sensor>, BmcError> {
    let until = Instant::now() + call_limit * 3 / 4;
    let found = bmc.system().await?;
    let features = bmc.root().await?.features;
    let mut reader = SensorReader {
        bmc,
        left: MAX_READS,
        until,
        error: None,
        readings: Vec::new(),
    };
    let chassis = links(&found.body, &["Links", "Chassis"]);
    for link in chassis.iter().take(MAX_CHASSIS) {
        let Some(body) = reader.get(link, None).await else {
            continue;
        };
        for step in plan(&body, features) {
            reader.read(&step, features).await;
        }
    }
    match reader.error {
        Some(error) if reader.readings.is_empty() => Err(error),
        _ if chassis.is_empty() => Err(bmc.error(
            ErrorKind::Unsupported,
            "the BMC names no chassis of the system, and so no sensors",
        )),
        _ => Ok(with_roles(reader.readings)
            .into_iter()
            .map(|sensor| plain_sensor(bmc, sensor))
            .collect()),
    }
}

fn plain_sensor(bmc: Reader<'_>, mut sensor: Sensor) -> Sensor {
    let reporter = bmc.reporter();
    sensor.name = reporter.plain(&sensor.name, 100);
    sensor.unit = reporter.plain(&sensor.unit, 20);
    sensor
}

/// Parses a document as every kind of sensor document.
#[cfg(feature = "fuzzing")]
pub(in crate::redfish) fn fuzz(body: &Value) {
    use document::{environment, power, sensor, supply_metrics, thermal, thermal_metrics};
    let all = [
        power(body),
        thermal(body),
        environment(body),
        thermal_metrics(body),
        supply_metrics(body),
        sensor(body).into_iter().collect(),
    ];
    let mut values = all
        .iter()
        .flatten()
        .filter_map(|reading| reading.sensor.value);
    assert!(values.all(f64::is_finite));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn chassis(names: &[&str]) -> Value {
        let mut body = json!({});
        for name in names {
            body[name] = json!({"@odata.id": format!("/{name}")});
        }
        body
    }

    const EXPANDS: Features = Features {
        expand: Some("$expand=."),
        top_skip: false,
        filter: false,
    };

    #[test]
    fn plan_reads_the_fewest_documents() {
        let all = chassis(&[
            "Sensors",
            "EnvironmentMetrics",
            "ThermalSubsystem",
            "PowerSubsystem",
            "Power",
            "Thermal",
        ]);
        let new = |name: &str| format!("/{name}");
        assert_eq!(
            plan(&all, EXPANDS),
            [
                Step::Environment(new("EnvironmentMetrics")),
                Step::ThermalSubsystem(new("ThermalSubsystem")),
                Step::Sensors(new("Sensors")),
            ]
        );
        assert_eq!(
            plan(&all, Features::default()),
            [Step::Power(new("Power")), Step::Thermal(new("Thermal"))]
        );
        let half = chassis(&["Thermal", "EnvironmentMetrics"]);
        assert_eq!(
            plan(&half, EXPANDS),
            [
                Step::Thermal(new("Thermal")),
                Step::Environment(new("EnvironmentMetrics")),
            ]
        );
        let newer = chassis(&["Sensors", "PowerSubsystem"]);
        assert_eq!(
            plan(&newer, Features::default()),
            [
                Step::PowerSubsystem(new("PowerSubsystem")),
                Step::Sensors(new("Sensors")),
            ]
        );
        assert_eq!(plan(&json!({}), EXPANDS), []);
    }

    #[test]
    fn each_role_is_assigned_to_its_best_sensor() {
        let mut readings = document::thermal(&json!({"Temperatures": [
            {"Name": "Ambient", "ReadingCelsius": 20},
            {"Name": "Inlet 1", "ReadingCelsius": null},
            {"Name": "Inlet 2", "ReadingCelsius": 21},
            {"Name": "Inlet 3", "ReadingCelsius": 22},
        ]}));
        let power = json!({"PowerControl": [{"PowerConsumedWatts": 5}, {"PowerConsumedWatts": 6}]});
        readings.extend(document::power(&power));
        let sensors = with_roles(readings);
        let having: Vec<_> = sensors
            .iter()
            .filter_map(|sensor| Some((sensor.role?, sensor.value?)))
            .collect();
        assert_eq!(
            having,
            [
                (SensorRole::InletTemperature, 21.0),
                (SensorRole::PowerDraw, 5.0),
            ]
        );
    }
}
