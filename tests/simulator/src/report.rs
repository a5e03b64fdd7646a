//! The figures of runs.

use std::{fmt, time::Duration};

use crate::{fleet::FleetSpec, run::Outcome};

/// The figures of several seeds.
#[derive(Debug)]
pub struct Report {
    outcomes: Vec<Outcome>,
    elapsed: Duration,
    fleet: FleetSpec,
}

impl Report {
    /// Of runs of a fleet, which took so long together.
    #[must_use]
    pub fn new(fleet: FleetSpec, outcomes: Vec<Outcome>, elapsed: Duration) -> Self {
        Self {
            outcomes,
            elapsed,
            fleet,
        }
    }
}

pub(crate) fn percentile(sorted: &[Duration], percent: usize) -> f64 {
    let place = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(place).map_or(0.0, Duration::as_secs_f64)
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sum = |count: fn(&Outcome) -> u64| -> u64 { self.outcomes.iter().map(count).sum() };
        let time: Duration = self.outcomes.iter().map(|o| o.time).sum();
        let hours = time.as_secs_f64() / 3600.0;
        let mut faults = std::collections::BTreeMap::new();
        for (name, count) in self.outcomes.iter().flat_map(|o| &o.counts.faults) {
            *faults.entry(name).or_insert(0) += count;
        }
        writeln!(f, "fleet: {}", self.fleet)?;
        let count = faults.values().sum::<u64>();
        writeln!(f, "faults: {count}, {:.1} each hour", count as f64 / hours)?;
        for (name, count) in &faults {
            writeln!(f, "  {count:>6}  {name}")?;
        }
        let all = |times: fn(&Outcome) -> &Vec<Duration>| {
            let mut all: Vec<Duration> = self.outcomes.iter().flat_map(times).copied().collect();
            all.sort_unstable();
            all
        };
        let recoveries = all(|o| &o.counts.recoveries);
        let healed = all(|o| &o.healed);
        writeln!(
            f,
            "remediations: {}, power-offs: {}, hosts cut by their outlets: {}, taints: {}, deleted pods: {}, starts of processes: {}",
            sum(|o| o.counts.remediations),
            sum(|o| o.counts.power_offs),
            sum(|o| o.counts.outlet_cuts),
            sum(|o| o.counts.taints),
            sum(|o| o.counts.pod_deletions),
            sum(|o| o.starts.into()),
        )?;
        writeln!(
            f,
            "maintenances: {}, parked hosts: {}, evicted pods: {}, evictions that a budget forbade: {}, resumed: {}",
            sum(|o| o.counts.maintenances),
            sum(|o| o.counts.parked),
            sum(|o| o.counts.evictions),
            sum(|o| o.counts.blocked_evictions),
            sum(|o| o.counts.resumed),
        )?;
        writeln!(
            f,
            "requests to the API server: {}, to BMCs: {}, to PDUs: {}, commands that both took: {}",
            sum(|o| o.api_requests),
            sum(|o| o.counts.bmc_calls),
            sum(|o| o.counts.pdu_calls),
            sum(|o| o.counts.commands),
        )?;
        writeln!(
            f,
            "hosts back: {} (50 %: {:.0} s, 90 %: {:.0} s, all: {:.0} s)",
            recoveries.len(),
            percentile(&recoveries, 50),
            percentile(&recoveries, 90),
            percentile(&recoveries, 100),
        )?;
        writeln!(
            f,
            "nothing left after the last fault: {} times (50 %: {:.0} s, all: {:.0} s)",
            healed.len(),
            percentile(&healed, 50),
            percentile(&healed, 100),
        )?;
        let hosts = self.fleet.hosts();
        let cpu: Duration = self.outcomes.iter().map(|o| o.cpu).sum();
        let cpu = cpu.as_secs_f64();
        let elapsed = self.elapsed.as_secs_f64();
        writeln!(
            f,
            "{hours:.1} fleet-hours of {hosts} hosts ({:.0} host-hours) in {elapsed:.1} s, and {cpu:.1} s of a \
             core: {:.2} fleet-hours per second of a core",
            hours * hosts as f64,
            hours / cpu.max(f64::MIN_POSITIVE),
        )?;
        let violations: Vec<_> = self
            .outcomes
            .iter()
            .flat_map(|o| o.violations.iter().map(move |v| (o.seed, v)))
            .collect();
        write!(f, "violations: {}", violations.len())?;
        for (seed, violation) in violations {
            write!(
                f,
                "\n  seed {seed}, {:.3} s: {}",
                violation.at.as_secs_f64(),
                violation.what
            )?;
        }
        Ok(())
    }
}
