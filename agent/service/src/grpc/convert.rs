//! Conversion of boot override, sensors and event log between messages and drivers.

use rackhand_bmc::{
    Accepted, BootDevice, BootMode, BootOverride, BootPersistence, EventLog, Sensor, SensorHealth,
    SensorKind, SensorRole,
};
use rackhand_proto::v1;
use tonic::Status;

use crate::convert::entry_to_proto;

pub(super) fn changed(accepted: Accepted) -> v1::Changed {
    v1::Changed {
        command: accepted.command,
        answer: accepted.answer,
    }
}

pub(super) fn boot_to_proto(boot: BootOverride) -> v1::BootOverride {
    let device = match boot.device {
        BootDevice::Normal => v1::BootDevice::None,
        BootDevice::Pxe => v1::BootDevice::Pxe,
        BootDevice::UefiHttp => v1::BootDevice::UefiHttp,
        BootDevice::Disk => v1::BootDevice::Disk,
        BootDevice::Cd => v1::BootDevice::Cd,
        BootDevice::Usb => v1::BootDevice::Usb,
        BootDevice::BiosSetup => v1::BootDevice::BiosSetup,
        BootDevice::Diagnostics => v1::BootDevice::Diagnostics,
    };
    let mode = match boot.mode {
        None => v1::BootMode::Unspecified,
        Some(BootMode::Uefi) => v1::BootMode::Uefi,
        Some(BootMode::Legacy) => v1::BootMode::Legacy,
    };
    v1::BootOverride {
        device: device.into(),
        persistent: boot.persistence == BootPersistence::Persistent,
        mode: mode.into(),
    }
}

/// # Errors
/// No device is named, or an unknown one.
pub(super) fn boot_from_proto(boot: Option<v1::BootOverride>) -> Result<BootOverride, Status> {
    let unnamed = || Status::invalid_argument("boot.device: name a device, or none");
    let boot = boot.ok_or_else(unnamed)?;
    let device = v1::BootDevice::try_from(boot.device).map_err(|_| unnamed())?;
    let device = match device {
        v1::BootDevice::Unspecified => return Err(unnamed()),
        v1::BootDevice::None => BootDevice::Normal,
        v1::BootDevice::Pxe => BootDevice::Pxe,
        v1::BootDevice::UefiHttp => BootDevice::UefiHttp,
        v1::BootDevice::Disk => BootDevice::Disk,
        v1::BootDevice::Cd => BootDevice::Cd,
        v1::BootDevice::Usb => BootDevice::Usb,
        v1::BootDevice::BiosSetup => BootDevice::BiosSetup,
        v1::BootDevice::Diagnostics => BootDevice::Diagnostics,
    };
    let mode = v1::BootMode::try_from(boot.mode)
        .map_err(|_| Status::invalid_argument("boot.mode: unknown mode"))?;
    Ok(BootOverride {
        device,
        persistence: if boot.persistent {
            BootPersistence::Persistent
        } else {
            BootPersistence::Once
        },
        mode: match mode {
            v1::BootMode::Unspecified => None,
            v1::BootMode::Uefi => Some(BootMode::Uefi),
            v1::BootMode::Legacy => Some(BootMode::Legacy),
        },
    })
}

pub(super) fn sensors_to_proto(sensors: Vec<Sensor>) -> v1::Sensors {
    v1::Sensors {
        sensors: sensors.into_iter().map(sensor).collect(),
    }
}

fn sensor(sensor: Sensor) -> v1::Sensor {
    let kind = match sensor.kind {
        SensorKind::Temperature => v1::SensorKind::Temperature,
        SensorKind::Power => v1::SensorKind::Power,
        SensorKind::Fan => v1::SensorKind::Fan,
        SensorKind::Voltage => v1::SensorKind::Voltage,
        SensorKind::Current => v1::SensorKind::Current,
        SensorKind::Other => v1::SensorKind::Other,
    };
    let role = match sensor.role {
        None => v1::SensorRole::Unspecified,
        Some(SensorRole::PowerDraw) => v1::SensorRole::PowerDraw,
        Some(SensorRole::InletTemperature) => v1::SensorRole::InletTemperature,
    };
    let health = match sensor.health {
        SensorHealth::Ok => v1::Severity::Ok,
        SensorHealth::Warning => v1::Severity::Warning,
        SensorHealth::Critical => v1::Severity::Critical,
        SensorHealth::Unknown => v1::Severity::Unspecified,
    };
    v1::Sensor {
        name: sensor.name,
        kind: kind.into(),
        role: role.into(),
        value: sensor.value,
        unit: sensor.unit,
        health: health.into(),
    }
}

pub(super) fn log_to_proto(log: EventLog) -> v1::EventLog {
    v1::EventLog {
        entries: log.entries.into_iter().map(entry_to_proto).collect(),
        total: log.total.and_then(|total| u32::try_from(total).ok()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boot_overrides_round_trip() {
        for device in BootDevice::ALL {
            for mode in [None, Some(BootMode::Uefi), Some(BootMode::Legacy)] {
                let boot = BootOverride {
                    device,
                    persistence: BootPersistence::Persistent,
                    mode,
                };
                assert_eq!(boot_from_proto(Some(boot_to_proto(boot))).unwrap(), boot);
            }
        }
    }

    #[test]
    fn unknown_boot_device_is_rejected() {
        for device in [0, -1, 99] {
            let boot = v1::BootOverride {
                device,
                ..v1::BootOverride::default()
            };
            assert!(boot_from_proto(Some(boot)).is_err(), "{device}");
        }
        assert!(boot_from_proto(None).is_err());
    }
}
