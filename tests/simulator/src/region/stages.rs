//! When the hosts that need help have come how far, second by second.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::Duration,
};

use crate::{
    api::resource::{NODES, POWER_REMEDIATIONS},
    fleet::{HostId, OUT_OF_SERVICE, Power, has_taint},
    kernel::World,
    report::percentile,
};

/// How far a host has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// Its health check has made a remediation.
    Remediated,
    /// Its BMC has taken a power-off.
    SwitchedOff,
    /// Its Node has the out-of-service taint.
    Tainted,
    /// It is on after that.
    On,
    /// Its Node is Ready.
    Ready,
}

impl Stage {
    const ALL: [(Self, &'static str); 5] = [
        (Self::Remediated, "has a remediation"),
        (Self::SwitchedOff, "is switched off"),
        (Self::Tainted, "is tainted"),
        (Self::On, "is on again"),
        (Self::Ready, "is Ready"),
    ];

    fn is_reached(self, world: &World, id: HostId, after: Duration) -> bool {
        let host = world.fleet.host(id);
        match self {
            Self::Remediated => {
                let made = &mut world.api.bound_to(POWER_REMEDIATIONS, &host.name);
                made.next().is_some()
            }
            Self::SwitchedOff => host.last_off > after,
            Self::Tainted => {
                let node = world.api.get(NODES, "", &host.name);
                node.is_some_and(|node| has_taint(&node, OUT_OF_SERVICE))
            }
            Self::On => host.last_off > after && host.power == Power::On && !host.is_switched_off,
            Self::Ready => host.ready_since.is_some_and(|ready| ready > after),
        }
    }
}

/// The times of all of them.
#[derive(Debug, Clone, Default)]
pub(super) struct Stages {
    /// The return of power.
    from: Duration,
    hosts: BTreeSet<HostId>,
    /// The stages that a host has not been seen to reach.
    missing: BTreeSet<(Stage, HostId)>,
    times: BTreeMap<Stage, Vec<Duration>>,
}

impl Stages {
    /// Before any of them.
    pub(super) fn new(hosts: BTreeSet<HostId>, from: Duration) -> Self {
        let of_host = |id: &HostId| Stage::ALL.map(|(stage, _)| (stage, *id));
        Self {
            from,
            missing: hosts.iter().flat_map(of_host).collect(),
            hosts,
            times: BTreeMap::new(),
        }
    }

    /// The hosts.
    pub(super) fn hosts(&self) -> &BTreeSet<HostId> {
        &self.hosts
    }

    /// Records who has come further until now.
    pub(super) fn look(&mut self, world: &World) {
        let now = world.now() - self.from;
        let (from, times) = (self.from, &mut self.times);
        self.missing.retain(|(stage, id)| {
            let is_reached = stage.is_reached(world, *id, from);
            if is_reached {
                times.entry(*stage).or_default().push(now);
            }
            !is_reached
        });
    }
}

impl fmt::Display for Stages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "of them, after 10 %, 50 %, 90 % and 99 %:")?;
        for (stage, name) in Stage::ALL {
            let mut times = self.times.get(&stage).cloned().unwrap_or_default();
            // Percentages are of all, also of those that have never come so far.
            times.resize(self.hosts.len(), Duration::MAX);
            let at = |percent| match percentile(&times, percent) {
                never if never > 1e9 => "never".to_owned(),
                seconds => format!("{seconds:.0}"),
            };
            let [a, b, c, d] = [10, 50, 90, 99].map(at);
            write!(f, "\n  {name:<18} {a:>5} {b:>5} {c:>5} {d:>5} s")?;
        }
        Ok(())
    }
}
