//! The figures of a campaign.

use std::{collections::BTreeMap, fmt, time::Duration};

use super::Fault;

/// Faults and results of a campaign.
#[derive(Debug, Clone)]
pub struct Report {
    /// Seed of the faults.
    pub seed: u64,
    /// Time during which faults were injected.
    pub duration: Duration,
    /// Number of hosts.
    pub hosts: usize,
    /// Number of injections of each fault.
    pub faults: BTreeMap<Fault, usize>,
    /// Times from each hang until the Node was Ready again, the shortest first.
    pub recoveries: Vec<Duration>,
    /// Number of out-of-service taints that were set.
    pub taints: usize,
    /// Number of times that Rackhand deleted pods of a host.
    pub deletions: usize,
    /// Number of power-offs that the BMCs received.
    pub offs: usize,
    /// The last term of the leader Lease.
    pub terms: i32,
}

impl Report {
    fn percentile(&self, percent: usize) -> f64 {
        let last = self.recoveries.len().saturating_sub(1);
        let at = self.recoveries.get(last * percent / 100);
        at.map_or(0.0, Duration::as_secs_f64)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all: usize = self.faults.values().sum();
        writeln!(
            f,
            "seed {}: {} s of faults over {} hosts, 2 controllers and 5 agents",
            self.seed,
            self.duration.as_secs(),
            self.hosts
        )?;
        writeln!(f, "{all:>5} faults")?;
        for (fault, count) in &self.faults {
            writeln!(f, "      {count:>4}  {fault}")?;
        }
        writeln!(f, "{:>5} terms of the leader", self.terms)?;
        writeln!(
            f,
            "{:>5} power-offs, each requested by a remediation",
            self.offs
        )?;
        writeln!(f, "{:>5} taints, each while the host was off", self.taints)?;
        writeln!(
            f,
            "{:>5} deletions of pods, each while the host was off",
            self.deletions
        )?;
        writeln!(
            f,
            "{:>5} hung hosts recovered, in {:.1} s (50 %), {:.1} s (90 %), {:.1} s (100 %)",
            self.recoveries.len(),
            self.percentile(50),
            self.percentile(90),
            self.percentile(100)
        )?;
        write!(
            f,
            "    0 pods on two hosts; no taint, hold, finalizer or remediation is left; all hosts are on"
        )
    }
}
