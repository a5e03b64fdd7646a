//! The readings of power that an agent reports of a host that it watches.

use std::time::Duration;

use jiff::Timestamp;

use crate::remediation::PowerState;

/// Least time between two readings of off that count as two, as in F1.
const APART: Duration = Duration::from_secs(2);

/// A reading of a watched host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct WatchedReading {
    /// Number of the uninterrupted observation at the agent: the BMC may have restarted between two numbers.
    pub observation: u64,
    /// What the BMC reported.
    pub state: PowerState,
    /// When, by the clock of the controller.
    pub at: Timestamp,
}

/// What one uninterrupted observation has read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct PowerReadings {
    observation: Option<u64>,
    /// The latest reading of exactly on.
    on: Option<Timestamp>,
    /// The first and the latest reading of exactly off, with no other state between them.
    off: Option<(Timestamp, Timestamp)>,
    latest: Option<(PowerState, Timestamp)>,
}

/// A host that was on and is off, by one uninterrupted observation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Loss {
    /// The last reading of exactly on.
    pub on: Timestamp,
    /// The first reading of exactly off.
    pub first_off: Timestamp,
    /// The latest reading of exactly off.
    pub latest_off: Timestamp,
}

impl Loss {
    /// Whether off was read twice, 2 s or more apart.
    #[must_use]
    pub fn is_read_twice(&self) -> bool {
        after_apart(self.first_off) <= self.latest_off
    }
}

fn after_apart(at: Timestamp) -> Timestamp {
    super::after(at, APART)
}

impl PowerReadings {
    /// Records a reading. One that was recorded already, or that is older, changes nothing.
    pub fn record(&mut self, reading: WatchedReading) {
        if self.observation != Some(reading.observation) {
            *self = Self {
                observation: Some(reading.observation),
                ..Self::default()
            };
        }
        if self.latest.is_some_and(|(_, at)| reading.at <= at) {
            return;
        }
        self.latest = Some((reading.state, reading.at));
        self.off = match (reading.state, self.off) {
            (PowerState::Off, Some((first, _))) => Some((first, reading.at)),
            (PowerState::Off, None) => Some((reading.at, reading.at)),
            _ => None,
        };
        if reading.state == PowerState::On {
            self.on = Some(reading.at);
        }
    }

    /// Ends the observation: the BMC or its agent was out of reach.
    pub fn interrupt(&mut self) {
        *self = Self::default();
    }

    /// Whether the latest reading is exactly on.
    #[must_use]
    pub fn is_on(&self) -> bool {
        matches!(self.latest, Some((PowerState::On, _)))
    }

    /// The loss of power that this observation shows.
    #[must_use]
    pub fn loss(&self) -> Option<Loss> {
        let (first_off, latest_off) = self.off?;
        Some(Loss {
            on: self.on?,
            first_off,
            latest_off,
        })
    }
}
