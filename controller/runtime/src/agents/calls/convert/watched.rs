//! A host that an agent watches.

use jiff::{SignedDuration, Timestamp};
use rackhand_core::{
    remediation::PowerState,
    signals::{HardwareDefect, HardwareDefectKind, OsStop, WatchedReading},
};
use rackhand_proto::{convert::duration_from_proto, limits::HARDWARE_FAULTS, v1};

use super::power_state;

/// What an agent reports of a host that it watches. Times are by the monotonic clock of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WatchedHost {
    /// Its name in the stream.
    pub(crate) id: String,
    /// The readings of its present observation, the oldest first; empty if the last one failed.
    pub(crate) readings: Vec<WatchedReading>,
    /// Whether the agent does not read it until it is added again.
    pub(crate) is_refused: bool,
    /// What of this agent switches the host, or keeps it off.
    pub(crate) switched_by: Option<String>,
    /// When this agent switched the host last.
    pub(crate) last_switch: Option<Timestamp>,
    /// Whether its locator LED is known to be lit.
    pub(crate) is_locator_lit: bool,
    /// The stop of the operating system in its event log, since its last boot.
    pub(crate) stop: Option<OsStop>,
    /// Its defects; `None` if they were not read.
    pub(crate) defects: Option<Vec<HardwareDefect>>,
}

/// Maximum length of an entry of an event log, in characters.
const LONGEST_ENTRY: usize = 256;

fn bounded(text: &str) -> String {
    text.chars().take(LONGEST_ENTRY).collect()
}

/// The time that lies this long before `now`.
fn ago(age: Option<&prost_types::Duration>, now: Timestamp) -> Option<Timestamp> {
    let age = duration_from_proto(age?).ok()?;
    let age = SignedDuration::try_from(age).ok()?;
    now.checked_sub(age).ok()
}

pub(in crate::agents::calls) fn watched(host: &v1::WatchedHost, now: Timestamp) -> WatchedHost {
    let power = host.power.as_ref().filter(|_| host.failure.is_none());
    let last_switch = host.last_switch.as_ref();
    let switched_by = if host.operation_running {
        Some("an operation at its agent".to_owned())
    } else if host.held_by.is_empty() {
        None
    } else {
        Some(format!("a hold of {}", host.held_by))
    };
    WatchedHost {
        id: host.id.clone(),
        readings: power.map_or_else(Vec::new, |power| readings(power, now)),
        is_refused: host.refused,
        switched_by,
        last_switch: last_switch.and_then(|switch| ago(switch.age.as_ref(), now)),
        is_locator_lit: power.and_then(|power| power.identify_led) == Some(true),
        stop: host.stops.as_ref().and_then(|stops| stop(stops, now)),
        defects: host.health.as_ref().and_then(defects),
    }
}

/// The last reading of on, the first of the readings in a row and the latest one, as far as there are any.
fn readings(power: &v1::WatchedPower, now: Timestamp) -> Vec<WatchedReading> {
    let Some(latest) = ago(power.age.as_ref(), now).filter(|_| power.observation != 0) else {
        return Vec::new();
    };
    let reading = |state, at| WatchedReading {
        observation: power.observation,
        state,
        at,
    };
    let state = power_state(power.state());
    let on = ago(power.last_on_age.as_ref(), now).map(|at| reading(PowerState::On, at));
    let first =
        ago(power.state_age.as_ref(), now).filter(|first| power.readings > 1 && *first < latest);
    let first = first.map(|at| reading(state, at));
    let known = on.filter(|on| on.at < latest).into_iter().chain(first);
    known.chain([reading(state, latest)]).collect()
}

fn stop(stops: &v1::StopReading, now: Timestamp) -> Option<OsStop> {
    if stops.failure.is_some() || stops.kind() == v1::StopKind::Unspecified {
        return None;
    }
    let entry = stops.entry.as_ref()?;
    let read = ago(stops.age.as_ref(), now)?;
    Some(OsStop {
        entry: bounded(&entry.message),
        read,
        written: ago(stops.stop_age.as_ref(), read),
        has_start: stops.start.is_some(),
    })
}

/// `None` if nothing was read.
fn defects(health: &v1::HealthReading) -> Option<Vec<HardwareDefect>> {
    let faults = health.faults.iter().take(HARDWARE_FAULTS);
    let faults = faults.filter_map(|fault| {
        let kind = match fault.kind() {
            v1::FaultKind::CriticalHealth => HardwareDefectKind::HealthCritical,
            v1::FaultKind::UncorrectableMemory => HardwareDefectKind::UncorrectableMemory,
            v1::FaultKind::ThermalTrip => HardwareDefectKind::ThermalTrip,
            v1::FaultKind::PowerRedundancyLost => HardwareDefectKind::PowerRedundancyLost,
            v1::FaultKind::Unspecified => return None,
        };
        let entry = bounded(&fault.message);
        Some(HardwareDefect { kind, entry })
    });
    let faults: Vec<HardwareDefect> = faults.collect();
    let is_read = health.failure.is_none() || !faults.is_empty();
    is_read.then_some(faults)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rackhand_core::signals::PowerReadings;
    use rackhand_proto::convert::duration_to_proto;

    use super::*;

    fn ages(seconds: u64) -> Option<prost_types::Duration> {
        Some(duration_to_proto(Duration::from_secs(seconds)))
    }

    fn mk_off(readings: u32) -> v1::WatchedHost {
        v1::WatchedHost {
            id: "r1/h1".into(),
            power: Some(v1::WatchedPower {
                state: v1::PowerState::Off.into(),
                age: ages(1),
                observation: 7,
                readings,
                state_age: ages(4),
                previous: v1::PowerState::On.into(),
                last_on_age: ages(12),
                identify_led: Some(true),
                ..v1::WatchedPower::default()
            }),
            ..v1::WatchedHost::default()
        }
    }

    fn now() -> Timestamp {
        Timestamp::from_second(1_000).unwrap()
    }

    fn recorded(host: &v1::WatchedHost) -> PowerReadings {
        let mut recorded = PowerReadings::default();
        for reading in watched(host, now()).readings {
            recorded.record(reading);
        }
        recorded
    }

    #[test]
    fn host_that_was_on_and_off_twice_is_a_loss_read_twice() {
        let loss = recorded(&mk_off(2)).loss().unwrap();
        assert!(loss.is_read_twice());
        assert_eq!(loss.on.as_second(), 988);
        assert_eq!(
            (loss.first_off.as_second(), loss.latest_off.as_second()),
            (996, 999)
        );
        assert!(watched(&mk_off(2), now()).is_locator_lit);
        let once = recorded(&mk_off(1)).loss().unwrap();
        assert!(!once.is_read_twice());
    }

    #[test]
    fn odd_reports_are_no_readings() {
        let mut failed = mk_off(2);
        failed.failure = Some(v1::Failure::default());
        let mut timeless = mk_off(2);
        timeless.power.as_mut().unwrap().age = None;
        let mut negative = mk_off(2);
        let age = prost_types::Duration {
            seconds: -5,
            nanos: 0,
        };
        negative.power.as_mut().unwrap().age = Some(age);
        let mut unnumbered = mk_off(2);
        unnumbered.power.as_mut().unwrap().observation = 0;
        for host in [failed, timeless, negative, unnumbered] {
            assert!(watched(&host, now()).readings.is_empty(), "{host:?}");
        }
        let mut never_on = mk_off(2);
        never_on.power.as_mut().unwrap().last_on_age = None;
        assert_eq!(recorded(&never_on).loss(), None);
    }

    #[test]
    fn health_that_was_not_read_is_not_health() {
        let of = |health| {
            let host = v1::WatchedHost {
                health,
                ..v1::WatchedHost::default()
            };
            watched(&host, now()).defects
        };
        assert_eq!(of(None), None);
        let failure = Some(v1::Failure::default());
        let failed = v1::HealthReading {
            failure,
            ..v1::HealthReading::default()
        };
        assert_eq!(of(Some(failed)), None);
        assert_eq!(of(Some(v1::HealthReading::default())), Some(Vec::new()));
    }
}
