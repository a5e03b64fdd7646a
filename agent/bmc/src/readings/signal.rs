//! Signals of a host in the event log of its BMC: stops of the operating system, and faults of the hardware.
//!
//! Pure. Must never: take a stop or an error from before the last start of the host for a present one.

use jiff::Timestamp;

use super::{EventLog, EventMeaning, FaultKind, HealthRollup, LogEntry, Severity, StopKind};

/// Maximum number of faults that are reported.
pub const MAX_FAULTS: usize = 16;

/// A stop of the operating system after the last start of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SystemStop {
    /// Whether the system itself stopped, or its watchdog expired.
    pub kind: StopKind,
    /// The first entry of the stop.
    pub entry: LogEntry,
    /// The last start before it. `None`: the entries that were read have none, so a BMC that logs no starts may have
    /// started the host since.
    pub start: Option<LogEntry>,
}

impl SystemStop {
    /// When the stop was written, by the clock of the BMC. `None`: it has no time, or the clock was set back since
    /// the start before it, so that its time says nothing.
    pub fn written(&self) -> Option<Timestamp> {
        let at = self.entry.at?;
        let start = self.start.as_ref().and_then(|start| start.at);
        start.is_none_or(|start| start <= at).then_some(at)
    }
}

/// The stop of the operating system that no start follows; `None`: there is none.
pub fn stop_since_start(log: &EventLog) -> Option<SystemStop> {
    let is_start = |entry: &LogEntry| entry.meaning == EventMeaning::Start;
    let start = log.entries.iter().rposition(is_start);
    let after = log.entries.get(start.map_or(0, |start| start + 1)..)?;
    after.iter().find_map(|entry| match entry.meaning {
        EventMeaning::Stop(kind) => Some(SystemStop {
            kind,
            entry: entry.clone(),
            start: start.and_then(|start| log.entries.get(start)).cloned(),
        }),
        _ => None,
    })
}

/// A fault of the hardware that has not ended, as far as the BMC reports ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HardwareFault {
    /// The kind of component or supply that failed.
    pub kind: FaultKind,
    /// The severity that the BMC gives it.
    pub severity: Severity,
    /// The entry of the event log; `None`: it is the rollup of the BMC.
    pub entry: Option<LogEntry>,
}

impl FaultKind {
    /// The severity of a fault by itself, whatever the make gives the entry: one of them is about to take the host
    /// down, or has; without redundancy it runs on.
    pub fn severity(self) -> Severity {
        match self {
            Self::CriticalHealth | Self::UncorrectableMemory | Self::ThermalTrip => {
                Severity::Critical
            }
            Self::PowerRedundancyLost => Severity::Warning,
        }
    }

    /// Whether a start of the host ends it: an error that happened, rather than a state that lasts.
    fn ends_with_start(self) -> bool {
        matches!(self, Self::UncorrectableMemory | Self::ThermalTrip)
    }
}

/// The faults of the log and of the rollup, the most severe first; at most [`MAX_FAULTS`], the newest of each kind and
/// sensor.
pub fn hardware_faults(log: Option<&EventLog>, rollup: Option<HealthRollup>) -> Vec<HardwareFault> {
    let mut faults: Vec<HardwareFault> = Vec::new();
    for entry in log.into_iter().flat_map(|log| &log.entries) {
        let is_same = |fault: &HardwareFault, kind: FaultKind| {
            let sensor = fault.entry.as_ref().and_then(|known| known.sensor.as_ref());
            fault.kind == kind && sensor == entry.sensor.as_ref()
        };
        match entry.meaning {
            EventMeaning::Start => faults.retain(|fault| !fault.kind.ends_with_start()),
            EventMeaning::Fault(kind) => {
                faults.retain(|fault| !is_same(fault, kind));
                faults.push(HardwareFault {
                    kind,
                    severity: kind.severity(),
                    entry: Some(entry.clone()),
                });
            }
            EventMeaning::FaultEnded(kind) => faults.retain(|fault| !is_same(fault, kind)),
            EventMeaning::Stop(_) | EventMeaning::Other => {}
        }
    }
    faults.reverse();
    if rollup.is_some_and(|rollup| rollup.severity == Severity::Critical) {
        faults.push(HardwareFault {
            kind: FaultKind::CriticalHealth,
            severity: Severity::Critical,
            entry: None,
        });
    }
    faults.sort_by_key(|fault| (fault.severity != Severity::Critical, fault.kind));
    faults.truncate(MAX_FAULTS);
    faults
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry(id: usize, sensor: &str, meaning: EventMeaning) -> LogEntry {
        LogEntry {
            id: id.to_string(),
            at: None,
            severity: Severity::Unknown,
            message: format!("{meaning:?}"),
            sensor: (!sensor.is_empty()).then(|| sensor.to_owned()),
            meaning,
        }
    }

    fn log(entries: &[(&str, EventMeaning)]) -> EventLog {
        let entries = entries.iter().enumerate();
        EventLog {
            entries: entries
                .map(|(id, (sensor, meaning))| entry(id, sensor, *meaning))
                .collect(),
            total: None,
        }
    }

    const START: (&str, EventMeaning) = ("", EventMeaning::Start);
    const PANIC: (&str, EventMeaning) = ("", EventMeaning::Stop(StopKind::OperatingSystem));
    const WATCHDOG: (&str, EventMeaning) = ("", EventMeaning::Stop(StopKind::Watchdog));
    const OTHER: (&str, EventMeaning) = ("", EventMeaning::Other);

    #[test]
    fn stop_counts_until_the_next_start() {
        let of = |entries: &[(&str, EventMeaning)]| {
            stop_since_start(&log(entries)).map(|stop| {
                let start = stop.start.map(|start| start.id);
                (stop.kind, stop.entry.id, start)
            })
        };
        let one = || Some("1".to_owned());
        assert_eq!(
            of(&[OTHER, START, OTHER, PANIC, WATCHDOG]),
            Some((StopKind::OperatingSystem, "3".to_owned(), one())),
            "the first of several entries is the cause"
        );
        assert_eq!(of(&[PANIC, START, OTHER]), None);
        assert_eq!(of(&[PANIC, START]), None);
        assert_eq!(
            of(&[OTHER, WATCHDOG]),
            Some((StopKind::Watchdog, "1".to_owned(), None))
        );
        assert_eq!(of(&[OTHER]), None);
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn time_of_a_stop_before_the_start_in_front_of_it_says_nothing() {
        let at = |second| Some(Timestamp::from_second(second).unwrap());
        let written = |start, stop| {
            let mut log = log(&[START, PANIC]);
            (log.entries[0].at, log.entries[1].at) = (start, stop);
            stop_since_start(&log).unwrap().written()
        };
        assert_eq!(written(at(100), at(200)), at(200));
        assert_eq!(written(None, at(200)), at(200));
        assert_eq!(written(at(100), at(99)), None, "the clock was set back");
        assert_eq!(written(at(100), None), None);
    }

    #[test]
    fn faults_last_until_their_end_at_the_same_sensor() {
        let lost = |sensor| (sensor, EventMeaning::Fault(FaultKind::PowerRedundancyLost));
        let full = |sensor| {
            (
                sensor,
                EventMeaning::FaultEnded(FaultKind::PowerRedundancyLost),
            )
        };
        let memory = ("DIMM", EventMeaning::Fault(FaultKind::UncorrectableMemory));
        let kinds = |entries: &[(&str, EventMeaning)], rollup| {
            let rollup = Some(HealthRollup { severity: rollup });
            let faults = hardware_faults(Some(&log(entries)), rollup);
            let kinds = faults.iter().map(|fault| fault.kind);
            kinds.collect::<Vec<_>>()
        };
        let ok = Severity::Ok;
        let redundancy = FaultKind::PowerRedundancyLost;
        assert_eq!(kinds(&[lost("a"), full("b")], ok), [redundancy]);
        assert!(kinds(&[lost("a"), full("a")], ok).is_empty());
        assert_eq!(kinds(&[lost("a"), full("a"), lost("a")], ok), [redundancy]);
        assert_eq!(kinds(&[lost("a"), START], ok), [redundancy], "it lasts");
        assert!(kinds(&[memory, START], ok).is_empty(), "it happened before");
        assert_eq!(
            kinds(&[lost("a"), START, memory, memory], Severity::Critical),
            [
                FaultKind::CriticalHealth,
                FaultKind::UncorrectableMemory,
                redundancy
            ]
        );
        assert!(hardware_faults(None, None).is_empty());
    }

    fn any_meaning() -> impl Strategy<Value = EventMeaning> {
        prop::sample::select(vec![
            EventMeaning::Start,
            PANIC.1,
            WATCHDOG.1,
            EventMeaning::Fault(FaultKind::ThermalTrip),
            EventMeaning::Fault(FaultKind::PowerRedundancyLost),
            EventMeaning::FaultEnded(FaultKind::PowerRedundancyLost),
            EventMeaning::Other,
        ])
    }

    proptest! {
        #[test]
        fn no_stop_is_from_before_the_last_start(
            entries in prop::collection::vec((prop::sample::select(vec!["", "a", "b"]), any_meaning()), 0..60),
        ) {
            let log = log(&entries);
            if let Some(stop) = stop_since_start(&log) {
                let at = log.entries.iter().position(|entry| entry.id == stop.entry.id).unwrap();
                prop_assert!(log.entries[at..].iter().all(|entry| entry.meaning != EventMeaning::Start));
            }
            prop_assert!(hardware_faults(Some(&log), None).len() <= MAX_FAULTS);
        }
    }
}
