//! The objects of the API server in the worlds of health checks, and the view that watches give of them.

use std::collections::BTreeSet;

use rackhand_core::checks::machines::{CheckState, Limit, orphaned};

use super::{
    api::{Kind, Name},
    breakage::Breakage,
    engine::{Listed, Since, Task},
};

/// The names of all machines, and of their Nodes.
pub const MACHINES: [Name; 3] = ["m1", "m2", "m3"];
/// The names of all checks; the first is the older one.
pub const CHECKS: [Name; 2] = ["check-a", "check-b"];

/// The name of the remediation of a machine, by the template that it is made from.
pub fn remediation_name(machine: Name, template: usize) -> Name {
    let names = [
        ["m1 from template a", "m1 from template b"],
        ["m2 from template a", "m2 from template b"],
        ["m3 from template a", "m3 from template b"],
    ];
    let place = MACHINES.iter().position(|name| *name == machine);
    let place = place.unwrap_or_default();
    names[place][template.min(1)]
}

/// What matters of a check.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CheckValue {
    /// Its limit.
    pub limit: Limit,
    /// It selects the first machine no more.
    pub narrowed: bool,
    /// From which template its remediations are made.
    pub template: usize,
    /// Seconds by which it is younger than the oldest.
    pub created: u64,
}

/// What matters of a remediation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RemediationValue {
    /// Name and UID of its machine.
    pub of: (Name, u8),
    /// Name and UID of the check that made it.
    pub maker: (Name, u8),
    /// The template that it was made from.
    pub template: usize,
    /// It is being deleted.
    pub deleting: bool,
}

/// The API server, and the view of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Api {
    /// Health checks.
    pub checks: Kind<CheckValue>,
    /// Machines.
    pub machines: Kind<()>,
    /// Nodes: whether they are Ready.
    pub nodes: Kind<bool>,
    /// Remediations.
    pub remediations: Kind<RemediationValue>,
    /// Nodes that a live read has not found.
    pub absent: BTreeSet<Name>,
    /// The latest resourceVersion.
    pub version: u64,
}

impl Api {
    /// All machines are healthy, and everybody knows it.
    pub fn new(checks: &[(Name, CheckValue)]) -> Self {
        Self {
            checks: Kind::new(checks.iter().cloned()),
            machines: Kind::new(MACHINES.map(|name| (name, ()))),
            nodes: Kind::new(MACHINES.map(|name| (name, true))),
            remediations: Kind::new([]),
            absent: BTreeSet::new(),
            version: 0,
        }
    }

    /// Whether a machine is selected by a check.
    pub fn is_selected(check: &CheckValue, machine: Name) -> bool {
        !(check.narrowed && machine == MACHINES[0])
    }

    /// Whether a machine is unhealthy, as it really is.
    pub fn is_unhealthy(&self, machine: Name) -> bool {
        self.nodes.get(machine).is_none_or(|ready| !ready)
    }

    /// Whether the limit of a check is open, for the fleet as it really is.
    pub fn is_open(&self, check: Name) -> bool {
        let Some(check) = self.checks.get(check) else {
            return false;
        };
        let selected = |name: &&Name| Self::is_selected(check, name);
        let machines: Vec<Name> = self
            .machines
            .objects
            .keys()
            .filter(selected)
            .copied()
            .collect();
        let counts = |name: &&Name| {
            let remediation = remediation_name(name, check.template);
            self.is_unhealthy(name) || self.remediations.get(remediation).is_some()
        };
        let expected = u32::try_from(machines.len()).unwrap_or(u32::MAX);
        let not_healthy = machines.iter().filter(counts).count();
        let not_healthy = u32::try_from(not_healthy).unwrap_or(u32::MAX);
        check.limit.allowance(expected, not_healthy).is_some()
    }

    /// The most machines of a fleet that a check allows to be not healthy.
    pub fn most(&self, check: &CheckValue) -> usize {
        let all = self.machines.objects.keys();
        let selected = all.filter(|name| Self::is_selected(check, name)).count();
        let expected = u32::try_from(selected).unwrap_or(u32::MAX);
        let allowed = |count: &u32| check.limit.allowance(expected, *count).is_some();
        let most = (0..=expected).filter(allowed).max();
        most.map_or(0, |most| most as usize)
    }

    /// Whether no live check stands behind a remediation any more. `by_view`: by what the view shows of the
    /// check that made it and of its machine; `others_by_view`: of other checks.
    pub fn is_orphan(
        &self,
        remediation: &RemediationValue,
        by_view: bool,
        others_by_view: bool,
    ) -> bool {
        let machines = if by_view {
            &self.machines.view
        } else {
            &self.machines.objects
        };
        let (machine, uid) = remediation.of;
        if machines.get(machine).is_none_or(|known| known.uid != uid) {
            // With its machine it is deleted by the garbage collector.
            return false;
        }
        let of = |by_view: bool| {
            if by_view {
                &self.checks.view
            } else {
                &self.checks.objects
            }
        };
        let (maker, maker_uid) = remediation.maker;
        let state = |name: Name, by_view: bool| {
            let check = of(by_view).get(name)?;
            Some(CheckState {
                uid: check.uid.to_string(),
                deleting: false,
                paused: false,
                cluster_active: true,
                dry_run: false,
                selects: Self::is_selected(&check.value, machine),
                makes: check.value.template == remediation.template,
            })
        };
        let others = of(others_by_view).keys();
        let covers = |state: CheckState| {
            state.is_live() && state.makes && state.uid != maker_uid.to_string()
        };
        let covered = others
            .filter_map(|name| state(name, others_by_view))
            .any(covers);
        let maker_state = state(maker, by_view);
        let maker_uid = maker_uid.to_string();
        orphaned(&maker_uid, maker_state.as_ref(), covered, false).is_some()
    }

    /// A quorum read of what feeds a check.
    pub fn list(&self, template: usize, breakage: Option<Breakage>) -> Listed {
        let remediations_read = breakage != Some(Breakage::RemediationsNotRead);
        let behind = [
            self.checks.list(self.version, |_| true),
            self.machines.list(self.version, |()| true),
            self.nodes.list(self.version, |_| true),
            self.remediations.list(self.version, |remediation| {
                remediations_read && remediation.template == template
            }),
        ];
        Listed {
            behind,
            since: Since::default(),
        }
    }

    /// Whether the view has reached a live read.
    pub fn reaches(&self, listed: &mut Listed) -> bool {
        let [checks, machines, nodes, remediations] = &mut listed.behind;
        let reached = [
            self.checks.reaches(checks),
            self.machines.reaches(machines),
            self.nodes.reaches(nodes),
            self.remediations.reaches(remediations),
        ];
        reached.into_iter().all(|reached| reached)
    }

    /// Numbers the versions anew, in their order; where nothing is on its way they do not matter.
    pub(super) fn canonical(&mut self, tasks: &mut [Task]) {
        let mut used = BTreeSet::from([0]);
        let mut reads = false;
        for task in tasks.iter() {
            if let Task::Read(_, Some(listed)) = task {
                reads = true;
                for catchup in &listed.behind {
                    catchup.versions(&mut used);
                }
            }
        }
        if !reads {
            settle(&mut self.checks);
            settle(&mut self.machines);
            settle(&mut self.nodes);
            settle(&mut self.remediations);
        }
        self.checks.versions(&mut used);
        self.machines.versions(&mut used);
        self.nodes.versions(&mut used);
        self.remediations.versions(&mut used);
        let ranks: Vec<u64> = used.into_iter().collect();
        let rank = |version: u64| {
            let place = ranks.binary_search(&version).unwrap_or_default();
            u64::try_from(place).unwrap_or_default()
        };
        self.checks.map_versions(rank);
        self.machines.map_versions(rank);
        self.nodes.map_versions(rank);
        self.remediations.map_versions(rank);
        for task in tasks {
            if let Task::Read(_, Some(listed)) = task {
                for catchup in &mut listed.behind {
                    catchup.map_versions(rank);
                }
            }
        }
        self.version = u64::try_from(ranks.len()).unwrap_or_default();
    }
}

fn settle<T: Clone + PartialEq>(kind: &mut Kind<T>) {
    if kind.is_settled() {
        kind.map_versions(|_| 0);
        kind.forget_ended();
    }
}
