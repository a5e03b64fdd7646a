//! What is printed of the scenario.

use std::{fmt, time::Duration};

use super::{OUTAGE, Region, Stages, phase::Phase};
use crate::oracle::Violation;

/// What came of it.
#[derive(Debug)]
pub struct RegionReport {
    pub(super) region: Region,
    pub(super) phases: Vec<Phase>,
    /// From the return of power: the hosts that start by themselves, and those that do not.
    pub(super) by_themselves: Vec<Duration>,
    pub(super) remediated: Vec<Duration>,
    /// How far those that do not have come.
    pub(super) stages: Stages,
    /// Bytes held by each controller and by all agents, at rest and at most.
    pub(super) at_rest: [usize; 3],
    pub(super) at_most: [usize; 3],
    pub(super) left: Vec<String>,
    pub(super) violations: Vec<Violation>,
    pub(super) cpu: Duration,
}

impl RegionReport {
    /// Whether every host is back and every rule held.
    #[must_use]
    pub fn is_well(&self) -> bool {
        self.left.is_empty() && self.violations.is_empty()
    }
}

impl fmt::Display for RegionReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Region {
            hosts,
            racks,
            api_rate,
            seed,
            ..
        } = self.region;
        writeln!(
            f,
            "region of {hosts} hosts in {racks} racks, {} s without power; API servers that serve \
             {api_rate} requests a second; seed {seed}",
            OUTAGE.as_secs()
        )?;
        for phase in &self.phases {
            writeln!(f, "{phase}")?;
        }
        for (name, times) in [
            ("hosts that start by themselves", &self.by_themselves),
            ("hosts that stay off or hang", &self.remediated),
        ] {
            let at = |percent| crate::report::percentile(times, percent);
            writeln!(
                f,
                "{name}: {}, Ready after 50 %: {:.0} s, 99 %: {:.0} s, 100 %: {:.0} s",
                times.len(),
                at(50),
                at(99),
                at(100)
            )?;
        }
        writeln!(f, "{}", self.stages)?;
        let [a, b, agents] = self.at_rest;
        let [most_a, most_b, most_agents] = self.at_most;
        let each = |bytes: usize, of: usize| bytes as f64 / of.max(1) as f64 / 1024.0;
        let mib = |bytes: usize| bytes as f64 / f64::from(1 << 20);
        writeln!(
            f,
            "heap of the leading controller: {:.0} MiB at rest ({:.2} KiB for each host), {:.0} MiB at most \
             ({:.2}); of the other one: {:.0} and {:.0} MiB",
            mib(a.max(b)),
            each(a.max(b), hosts),
            mib(most_a.max(most_b)),
            each(most_a.max(most_b), hosts),
            mib(a.min(b)),
            mib(most_a.min(most_b)),
        )?;
        writeln!(
            f,
            "heap of an agent: {:.0} KiB at rest, {:.0} KiB at most ({:.2} and {:.2} KiB for each host)",
            each(agents, racks),
            each(most_agents, racks),
            each(agents, hosts),
            each(most_agents, hosts),
        )?;
        writeln!(f, "{:.0} s of a core", self.cpu.as_secs_f64())?;
        write!(f, "left: {}", self.left.len())?;
        for left in self.left.iter().take(10) {
            write!(f, "\n  {left}")?;
        }
        write!(f, "\nviolations: {}", self.violations.len())?;
        for violation in self.violations.iter().take(10) {
            let at = violation.at.as_secs_f64();
            write!(f, "\n  {at:.3} s: {}", violation.what)?;
        }
        Ok(())
    }
}
