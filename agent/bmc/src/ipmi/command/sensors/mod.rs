//! One reading of all sensors of a BMC.

mod dcmi;
pub(super) mod reading;
mod record;
mod roles;
mod sdr;
mod units;

use ipmi_rs_core::connection::NetFn;

use super::Raw;
use crate::{
    ErrorKind, Sensor, SensorHealth, SensorKind,
    ipmi::{
        requester::{RequestError, Requester},
        wire::CompletionCode,
    },
};
use reading::{Reading, THRESHOLD};
use record::SensorRecord;

/// Reads every sensor that the BMC describes, and the power draw of the host.
///
/// A sensor is returned without a value if it has no current reading, if it belongs to another
/// controller than the BMC, or if its conversion factors would have to be read for each reading.
/// [`roles::assign`] selects the sensors that represent the whole host.
///
/// # Errors
///
/// The BMC did not respond, rejects the privilege of the session, or supports neither sensors nor
/// DCMI.
pub(in crate::ipmi) async fn sensors<A: Requester>(ask: &A) -> Result<Vec<Sensor>, RequestError> {
    let draw = dcmi::power(ask).await?;
    let records = match sdr::sensors(ask).await {
        Err(RequestError::Code(code))
            if draw.is_some() && code.kind() == ErrorKind::Unsupported =>
        {
            Vec::new()
        }
        records => records?,
    };
    let mut sensors = Vec::new();
    for record in records {
        let reading = match record.is_the_bmcs_own() {
            true => reading(ask, record.number).await?,
            false => None,
        };
        sensors.push((record.entity, sensor(record, reading)));
    }
    Ok(roles::assign(sensors, draw))
}

/// Reads one sensor. Not with `ipmi-rs-core`, which does not expose discrete states.
async fn reading<A: Requester>(ask: &A, number: u8) -> Result<Option<Reading>, RequestError> {
    match ask.ask(Raw::new(NetFn::SensorEvent, 0x2d, [number])).await {
        Ok(data) => Ok(Reading::parse(&data)),
        // Every sensor would be rejected: return the error instead of sensors without values.
        Err(RequestError::Code(CompletionCode::PRIVILEGE)) => {
            Err(RequestError::Code(CompletionCode::PRIVILEGE))
        }
        Err(RequestError::Code(_) | RequestError::Data(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

fn sensor(record: SensorRecord, reading: Option<Reading>) -> Sensor {
    let factors = record.factors;
    let is_number = factors.is_some() || record.event_type == THRESHOLD;
    let (kind, unit) = match is_number {
        true => record.units.measure(record.sensor_type),
        false => (SensorKind::Other, String::new()),
    };
    let value = reading
        .zip(factors)
        .and_then(|(reading, factors)| factors.value(reading.raw));
    let health = match reading {
        None => SensorHealth::Unknown,
        Some(reading) if record.event_type == THRESHOLD => {
            reading.threshold_health(record.has_thresholds())
        }
        Some(reading) => reading.discrete_health(record.event_type, record.sensor_type),
    };
    Sensor {
        name: record.name,
        kind,
        role: None,
        value: value.map(|value| record.units.normal(value)),
        unit,
        health,
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::fake::{FakeBmc, Fault, records},
        *,
    };
    use crate::SensorRole;

    fn bmc() -> FakeBmc {
        FakeBmc {
            sdr: vec![
                (1, records::DELL_FAN.to_vec()),
                (2, records::DELL_INLET.to_vec()),
                (3, records::compact(0x51, 0x08, 0x6f, b"PS1 Status")),
                (4, records::watts(0x77, b"Pwr Consumption")),
            ],
            readings: [
                (0x32, Ok(vec![0x2c, 0xc0, 0xc0])),
                (0x04, Ok(vec![0x99, 0xc0, 0xc8])),
                (0x51, Ok(vec![0x00, 0xc0, 0x0b, 0x80])),
                (0x77, Ok(vec![0x1f, 0xc0, 0xc0])),
            ]
            .into(),
            ..FakeBmc::default()
        }
    }

    #[tokio::test]
    async fn sensors_have_value_unit_health_and_role() {
        let sensors = sensors(&bmc()).await.unwrap();
        let shown: Vec<_> = sensors
            .iter()
            .map(|sensor| {
                let Sensor {
                    name, value, unit, ..
                } = sensor;
                (
                    name.as_str(),
                    sensor.kind,
                    *value,
                    unit.as_str(),
                    sensor.health,
                    sensor.role,
                )
            })
            .collect();
        assert_eq!(
            shown,
            [
                (
                    "Fan2A",
                    SensorKind::Fan,
                    Some(5280.0),
                    "RPM",
                    SensorHealth::Ok,
                    None
                ),
                (
                    "Inlet Temp",
                    SensorKind::Temperature,
                    Some(25.0),
                    "C",
                    SensorHealth::Warning,
                    Some(SensorRole::InletTemperature)
                ),
                (
                    "PS1 Status",
                    SensorKind::Other,
                    None,
                    "",
                    SensorHealth::Critical,
                    None
                ),
                (
                    "Pwr Consumption",
                    SensorKind::Power,
                    Some(310.0),
                    "W",
                    SensorHealth::Ok,
                    Some(SensorRole::PowerDraw)
                ),
            ]
        );
    }

    #[tokio::test]
    async fn sensor_without_a_reading_has_no_value() {
        for answer in [
            Err(0xcb),
            Err(0xcd),
            Err(0xff),
            Ok(vec![0x2c, 0xe0]),
            Ok(vec![]),
        ] {
            let mut bmc = bmc();
            bmc.readings.insert(0x32, answer.clone());
            let sensors = sensors(&bmc).await.unwrap();
            let fan = &sensors[0];
            assert_eq!(
                (fan.value, fan.health),
                (None, SensorHealth::Unknown),
                "{answer:?}"
            );
            assert_eq!((fan.kind, fan.unit.as_str()), (SensorKind::Fan, "RPM"));
        }
    }

    #[tokio::test]
    async fn satellite_sensor_is_not_read_from_the_bmc() {
        let mut bmc = bmc();
        bmc.sdr[0].1[5] = 0x2c;
        let sensors = sensors(&bmc).await.unwrap();
        assert_eq!(sensors[0].value, None);
        assert_eq!(bmc.asked_with(0x04, 0x2d, |data| data == [0x32]), 0);
    }

    #[tokio::test]
    async fn power_draw_is_read_from_dcmi_without_sensor_records() {
        let mut dcmi = vec![0xdc, 0x38, 0x01];
        dcmi.extend([0; 14]);
        dcmi.push(0x40);
        let bmc = FakeBmc {
            dcmi: Ok(dcmi),
            ..FakeBmc::default()
        };
        bmc.fail(Fault::always(0x0a, 0x20, 0xc1));
        bmc.fail(Fault::always(0x04, 0x20, 0xc1));
        let sensors = sensors(&bmc).await.unwrap();
        assert_eq!(sensors.len(), 1);
        assert_eq!(sensors[0].value, Some(312.0));
        assert_eq!(sensors[0].role, Some(SensorRole::PowerDraw));
    }

    #[tokio::test]
    async fn missing_read_privilege_is_reported() {
        let mut bmc = bmc();
        bmc.readings.insert(0x32, Err(0xd4));
        let refused = RequestError::Code(CompletionCode::PRIVILEGE);
        assert_eq!(sensors(&bmc).await, Err(refused));
    }

    #[tokio::test]
    async fn lost_bmc_during_a_sensor_read_is_an_error() {
        for after in 0..10 {
            let bmc = bmc();
            bmc.die_after(after);
            let result = sensors(&bmc).await;
            assert!(matches!(result, Err(RequestError::Bmc(_))), "{after}");
        }
    }
}
