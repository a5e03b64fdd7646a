//! Where a host is, which policies select it, and what waits for it: what a remediation counts against.

mod workload;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

pub use workload::{HostWorkload, WaitingPod};

/// Where a host is, for budgets and shared causes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Placement {
    /// `namespace/name` of the workload cluster.
    pub cluster: Option<String>,
    /// Rack of the agent that serves the host.
    pub rack: Option<String>,
    /// PDUs that feed it.
    pub pdus: BTreeSet<String>,
    /// Switches that connect it.
    pub switches: BTreeSet<String>,
    /// Kernel version of its Node.
    pub kernel: Option<String>,
    /// Labels of its Node; `None` if they cannot be read.
    pub labels: Option<BTreeMap<String, String>>,
}

/// The policies of a host, and where it is, as the budgets of others count it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct PolicyFacts {
    /// Names of the policies that select the host.
    pub policies: BTreeSet<String>,
    /// Where the host is.
    pub placement: Placement,
    /// What waits for the host: its priority in the queue for a budget.
    pub workload: HostWorkload,
    /// The policy that holds the remediation, if one does.
    pub held_by: Option<String>,
}

/// What a remediation that has begun counts against, recorded with its beginning.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CountedFacts {
    /// Names of the policies that selected the host.
    pub policies: BTreeSet<String>,
    /// Where the host was.
    pub placement: Placement,
}

impl PolicyFacts {
    /// The record of a remediation that begins.
    pub fn counted(&self) -> CountedFacts {
        CountedFacts {
            policies: self.policies.clone(),
            placement: self.placement.clone(),
        }
    }

    /// With what was recorded at the beginning: the remediation stays in each budget in which it began, and in those
    /// of policies that select it since.
    #[must_use]
    pub fn since_beginning(mut self, counted: &CountedFacts) -> Self {
        self.policies.extend(counted.policies.iter().cloned());
        let (now, then) = (&mut self.placement, &counted.placement);
        fn pin<T: Clone>(now: &mut Option<T>, then: &Option<T>) {
            if then.is_some() {
                now.clone_from(then);
            }
        }
        pin(&mut now.cluster, &then.cluster);
        pin(&mut now.rack, &then.rack);
        pin(&mut now.labels, &then.labels);
        now.pdus.extend(then.pdus.iter().cloned());
        now.switches.extend(then.switches.iter().cloned());
        self
    }
}
