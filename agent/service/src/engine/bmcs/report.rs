//! Collection of data that may show why a host failed, before it is switched off.
//!
//! Must never: make a power operation wait, command the BMC, or take longer than its limit.

use std::time::Duration;

use rackhand_bmc::{
    Bmc, BmcError, BmcFuture, BootState, ErrorKind, EventLog, PowerReading, Sensor, SensorHealth,
};
use tokio::time::Instant;

use super::reads::Reads;
use crate::engine::{Target, settings::Clock};

/// Maximum time for one part. It is below the time after which a dropped call counts as unanswered at the
/// circuit breaker, so that a BMC whose event log hangs is still switched off at once.
const PART: Duration = Duration::from_secs(4);
/// Parts without an answer after which the others are not read, because more of them would open the
/// circuit breaker just before the power-off.
const UNANSWERED: u32 = 2;

/// The parts of a report to read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extent {
    /// Number of entries of the event log.
    pub(crate) entries: usize,
    /// Whether the event log is the only part.
    pub(crate) log_only: bool,
}

/// The parts that were read; `None` for a part that was not requested, or for which no time was left.
#[derive(Debug, Default)]
pub(crate) struct FailureReport {
    pub(crate) power: Option<Result<(PowerReading, Duration), BmcError>>,
    pub(crate) log: Option<Result<EventLog, BmcError>>,
    pub(crate) boot: Option<Result<BootState, BmcError>>,
    /// The sensors that are not OK.
    pub(crate) sensors: Option<Result<Vec<Sensor>, BmcError>>,
}

/// The time that is left, and the calls that the BMC has not answered.
struct Budget<'a> {
    reads: &'a Reads,
    target: &'a Target,
    end: Instant,
    unanswered: u32,
}

impl Budget<'_> {
    /// Reads one part within the `share`th part of the time that is left; `None` if no time is left, or too many
    /// calls were unanswered.
    async fn part<T: Send>(
        &mut self,
        share: u32,
        call: impl for<'a> Fn(&'a dyn Bmc) -> BmcFuture<'a, T> + Send + Sync,
    ) -> Option<Result<T, BmcError>> {
        let left = self.end.saturating_duration_since(Instant::now());
        if left.is_zero() || self.unanswered >= UNANSWERED {
            return None;
        }
        let limit = (left / share).min(PART);
        let result = self.reads.other(self.target, limit, call).await;
        let is_silent =
            |error: &BmcError| matches!(error.kind, ErrorKind::Timeout | ErrorKind::Unreachable);
        if result.as_ref().is_err_and(is_silent) {
            self.unanswered += 1;
        }
        Some(result)
    }
}

/// Reads the parts one after the other, the event log first because it is the most valuable one. No part may use up the
/// time of the later ones.
pub(super) async fn collect(
    reads: &Reads,
    clock: Clock,
    target: &Target,
    limit: Duration,
    extent: Extent,
) -> FailureReport {
    let mut budget = Budget {
        reads,
        target,
        end: Instant::now() + limit,
        unanswered: 0,
    };
    let entries = extent.entries;
    let mut report = FailureReport::default();
    if extent.log_only {
        report.log = budget.part(1, move |bmc| bmc.event_log(entries)).await;
        return report;
    }
    let power = budget.part(3, |bmc| bmc.power()).await;
    report.power = power.map(|read| read.map(|reading| (reading, clock.since_start())));
    report.log = budget.part(2, move |bmc| bmc.event_log(entries)).await;
    report.boot = budget.part(2, |bmc| bmc.boot_state()).await;
    let sensors = budget.part(1, |bmc| bmc.sensors()).await;
    report.sensors = sensors.map(|read| read.map(alarms));
    report
}

fn alarms(sensors: Vec<Sensor>) -> Vec<Sensor> {
    let is_alarm = |sensor: &Sensor| {
        matches!(
            sensor.health,
            SensorHealth::Warning | SensorHealth::Critical
        )
    };
    sensors.into_iter().filter(is_alarm).collect()
}
