//! Habits of API servers, by which a controller may take for absent or healthy what it cannot read.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::{
    api::{
        Resource, Restriction,
        resource::{
            BARE_METAL_HOSTS, CLUSTERS, HOST_MAINTENANCES, MACHINE_HEALTH_CHECKS, MACHINES,
            METAL3_MACHINES, METAL3_REMEDIATION_TEMPLATES, METAL3_REMEDIATIONS, NODE_HEALTH_CHECKS,
            NODES, OPENSHIFT_HEALTH_CHECKS, OPENSHIFT_MACHINES, PODS, POWER_POLICIES,
            POWER_REMEDIATION_TEMPLATES, POWER_REMEDIATIONS, RACK_AGENTS, REMEDIATION_STATES,
            REMEDIATION_TRIGGERS, SECRETS, VOLUME_ATTACHMENTS,
        },
    },
    fleet::{Check, HostId},
    kernel::World,
};

/// A habit, as a test begins it for every health check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Habit {
    /// Rights on a kind are taken away; everything else goes on.
    RightsTaken,
    /// A version of a group stops being served.
    VersionDropped,
    /// CRDs are established after a controller has looked for their kinds.
    CrdsLate,
    /// Requests are accepted before the CRDs are listed.
    ApiStarting,
    /// Conditions of Nodes and Machines have no time.
    NullTransition,
}

/// Kinds on which rights are taken away: all that Rackhand reads, without the Leases by which it leads.
pub(crate) const DENIABLE: [Resource; 21] = [
    NODES,
    PODS,
    VOLUME_ATTACHMENTS,
    SECRETS,
    CLUSTERS,
    MACHINES,
    MACHINE_HEALTH_CHECKS,
    OPENSHIFT_MACHINES,
    OPENSHIFT_HEALTH_CHECKS,
    METAL3_MACHINES,
    METAL3_REMEDIATIONS,
    METAL3_REMEDIATION_TEMPLATES,
    BARE_METAL_HOSTS,
    POWER_REMEDIATIONS,
    POWER_REMEDIATION_TEMPLATES,
    POWER_POLICIES,
    RACK_AGENTS,
    REMEDIATION_STATES,
    NODE_HEALTH_CHECKS,
    HOST_MAINTENANCES,
    REMEDIATION_TRIGGERS,
];

/// Kinds whose CRD may be established late: without their objects nothing begins.
pub(crate) const LATE: [Resource; 5] = [
    MACHINE_HEALTH_CHECKS,
    OPENSHIFT_HEALTH_CHECKS,
    NODE_HEALTH_CHECKS,
    METAL3_REMEDIATION_TEMPLATES,
    POWER_REMEDIATION_TEMPLATES,
];

/// Kinds whose version may stop being served.
pub(crate) const DROPPABLE: [Resource; 3] = [MACHINES, OPENSHIFT_MACHINES, NODE_HEALTH_CHECKS];

/// The condition of a small agent, which sets no times.
const TIMELESS: &str = "ExampleAgentHealthy";

/// The kinds that a health check must be able to read before it makes a remediation (F12).
pub(crate) fn feeds(check: Check) -> &'static [Resource] {
    match check {
        Check::Metal3 => &[
            NODES,
            CLUSTERS,
            MACHINES,
            MACHINE_HEALTH_CHECKS,
            METAL3_REMEDIATIONS,
        ],
        Check::Power => &[
            NODES,
            CLUSTERS,
            MACHINES,
            MACHINE_HEALTH_CHECKS,
            POWER_REMEDIATIONS,
        ],
        Check::Node => &[NODES, NODE_HEALTH_CHECKS, POWER_REMEDIATIONS],
        Check::OpenShift => &[
            NODES,
            OPENSHIFT_MACHINES,
            OPENSHIFT_HEALTH_CHECKS,
            POWER_REMEDIATIONS,
        ],
    }
}

// === impl Habit ===

impl Habit {
    /// Every one.
    pub const ALL: [Self; 5] = [
        Self::RightsTaken,
        Self::VersionDropped,
        Self::CrdsLate,
        Self::ApiStarting,
        Self::NullTransition,
    ];

    /// Whether nothing may be remediated while the habit acts.
    #[must_use]
    pub fn withholds(self) -> bool {
        self != Self::NullTransition
    }

    fn restrictions(self) -> Vec<Restriction> {
        let checks = [
            MACHINE_HEALTH_CHECKS,
            OPENSHIFT_HEALTH_CHECKS,
            NODE_HEALTH_CHECKS,
        ];
        match self {
            Self::RightsTaken => [MACHINES, OPENSHIFT_MACHINES, NODE_HEALTH_CHECKS]
                .map(Restriction::Denied)
                .to_vec(),
            Self::VersionDropped => DROPPABLE.map(dropped).to_vec(),
            Self::CrdsLate => checks.map(Restriction::NotEstablished).to_vec(),
            Self::ApiStarting => vec![Restriction::Starting],
            Self::NullTransition => Vec::new(),
        }
    }
}

/// The restriction by which the version of a kind is not served.
pub(crate) fn dropped(resource: Resource) -> Restriction {
    Restriction::Dropped(resource.group, resource.version)
}

impl World {
    /// Begins a habit.
    pub fn begin_habit(&mut self, habit: Habit) {
        for restriction in habit.restrictions() {
            self.restrict(restriction);
        }
        if habit == Habit::NullTransition {
            for id in self.fleet.ids() {
                self.take_times(id);
            }
        }
    }

    /// Ends a habit.
    pub fn end_habit(&mut self, habit: Habit) {
        for restriction in habit.restrictions() {
            self.lift(restriction);
        }
        if habit == Habit::NullTransition {
            for id in self.fleet.ids() {
                self.remove_timeless(id);
            }
        }
    }

    /// The conditions of a host's Node and Machine lose their times, and a small agent adds one without.
    pub(crate) fn take_times(&mut self, id: HostId) {
        self.change_conditions(id, |conditions| {
            for condition in conditions.iter_mut() {
                condition["lastTransitionTime"] = Value::Null;
            }
            let timeless = json!({
                "type": TIMELESS, "status": "False", "lastTransitionTime": null, "reason": "Unknown",
                "message": "",
            });
            conditions.push(timeless);
        });
    }

    /// The small agent is removed.
    pub(crate) fn remove_timeless(&mut self, id: HostId) {
        self.change_conditions(id, |conditions| {
            conditions.retain(|condition| condition["type"] != TIMELESS);
        });
    }

    fn change_conditions(&mut self, id: HostId, change: impl Fn(&mut Vec<Value>)) {
        let name = self.fleet.host(id).name.clone();
        let namespace = crate::fleet::NAMESPACE;
        for (resource, namespace) in [
            (NODES, ""),
            (MACHINES, namespace),
            (OPENSHIFT_MACHINES, namespace),
        ] {
            self.api.modify(resource, namespace, &name, |object| {
                let before = object
                    .pointer("/status/conditions")
                    .and_then(Value::as_array);
                let before = before.cloned().unwrap_or_default();
                let mut conditions = before.clone();
                change(&mut conditions);
                if conditions != before {
                    object["status"]["conditions"] = conditions.into();
                }
            });
        }
        self.settle_changes();
    }
}
