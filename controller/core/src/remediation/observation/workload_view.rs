//! The Node of a host, in its workload cluster.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;

use super::super::{BoundPod, Cordon, Step};

/// The out-of-service taint on a Node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Taint {
    /// The taint is not set.
    Absent,
    /// The taint is set with our value.
    Ours,
    /// The taint is set with another value, by a person.
    Other,
}

/// The Node's Lease in kube-node-lease.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LeaseFacts {
    /// `spec.renewTime` as written; compared for equality only.
    pub renewed: String,
    /// `spec.leaseDurationSeconds`; a kubelet renews after a quarter of it.
    pub duration: Duration,
    /// Since when, by our clock, this renewTime has been observed.
    pub unchanged_since: Timestamp,
}

/// How long a Lease of this duration must be observed unchanged to count as not renewed: the renewal interval of
/// a kubelet, and 2 s, by which a renewal may be late.
#[must_use]
pub fn renewal_limit(duration: Duration) -> Duration {
    (duration / 4).saturating_add(Duration::from_secs(2))
}

/// The Node, as it was read last from the workload cluster.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct NodeFacts {
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.creationTimestamp`: when a kubelet registered it, by the clock of the workload cluster.
    pub created: Option<Timestamp>,
    /// `status.nodeInfo.bootID`.
    pub boot_id: String,
    /// `status.nodeInfo.systemUUID`.
    pub system_uuid: String,
    /// Whether the condition Ready is True.
    pub ready: bool,
    /// Since when the condition Ready has its status.
    pub ready_since: Option<Timestamp>,
    /// Its other conditions: their status, by type.
    pub conditions: BTreeMap<String, String>,
    /// Whether the condition Ready is Unknown: the control plane has observed no Lease renewal for its
    /// grace period.
    pub ready_unknown: bool,
    /// The out-of-service taint.
    pub taint: Taint,
    /// Whether a taint with our value may be that of a former remediation of ours: nobody but Rackhand and
    /// kube-controller-manager was the last to change the taints of the Node, by its `managedFields`.
    pub tainted_by_rackhand: bool,
    /// Whether the scheduler is kept from it, and by whom.
    pub cordon: Cordon,
    /// The Lease of the Node; `None` if it has none.
    pub lease: Option<LeaseFacts>,
}

impl NodeFacts {
    /// When its Lease was renewed, as written; empty if it has none.
    #[must_use]
    pub fn renewed(&self) -> &str {
        let lease = self.lease.as_ref();
        lease.map_or("", |lease| &lease.renewed)
    }

    /// When its Lease counts as not renewed; `None`: it has none, or the control plane says so already.
    #[must_use]
    pub fn lease_quiet_at(&self) -> Option<Timestamp> {
        let lease = self.lease.as_ref().filter(|_| !self.ready_unknown)?;
        let at = lease
            .unchanged_since
            .checked_add(renewal_limit(lease.duration));
        Some(at.unwrap_or(Timestamp::MAX))
    }
}

/// The Node by a read of the workload cluster.
#[allow(
    clippy::large_enum_variant,
    reason = "most observations have a Node, and each is made once"
)]
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum WorkloadView {
    /// The workload cluster cannot be reached.
    Unreachable {
        /// The reason, as a clause for messages.
        why: String,
    },
    /// The Machine has never had a Node.
    NotJoined,
    /// The Cluster object is gone, and by live reads so are its kubeconfig and the Machine.
    ClusterGone {
        /// `namespace/name`.
        name: String,
    },
    /// The Node does not exist.
    Missing {
        /// Name of the Node.
        name: String,
    },
    /// The Node exists.
    Present(NodeFacts),
}

/// Which objects of its Node a step lists with each observation. What nothing reads is not listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WorkloadList {
    /// None.
    Nothing,
    /// The pods, which are evicted from a host that is still on.
    Pods,
    /// The pods and the VolumeAttachments, until none is left (F4).
    PodsAndVolumes,
}

impl WorkloadList {
    /// Of a recorded step. The drain of a Node begins with its taint.
    #[must_use]
    pub fn of(step: Option<Step>, workload: &WorkloadView) -> Self {
        let is_untainted =
            matches!(workload, WorkloadView::Present(node) if node.taint == Taint::Absent);
        match step {
            Some(Step::Draining) if is_untainted => Self::Nothing,
            Some(Step::Draining) => Self::PodsAndVolumes,
            Some(Step::Evicting | Step::Evicted) => Self::Pods,
            _ => Self::Nothing,
        }
    }
}

/// A VolumeAttachment of a Node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct BoundVolume {
    /// `metadata.name`.
    pub name: String,
    /// The PersistentVolumeClaim of its volume, as `namespace/name`; `None` if it has none, or that is not known.
    pub claim: Option<String>,
}

impl From<&str> for BoundVolume {
    fn from(name: &str) -> Self {
        Self {
            name: name.into(),
            claim: None,
        }
    }
}

/// The pods that are bound to a Node, and its volumes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Drain {
    /// Every pod that is bound to the Node.
    pub pods: Vec<BoundPod>,
    /// The Node's VolumeAttachments; none while its pods are evicted, which they do not concern.
    pub volumes: Vec<BoundVolume>,
}

impl Drain {
    /// The pods that keep the Node from being drained (F4).
    pub fn remaining(&self) -> impl Iterator<Item = &BoundPod> {
        self.pods.iter().filter(|pod| pod.keeps_from_drain())
    }

    /// The volumes that keep the Node from being drained (F4). A volume that only pods use which do not count stays
    /// attached for them, so that nobody else may use it, and comes back with the host.
    pub fn remaining_volumes(&self) -> impl Iterator<Item = &BoundVolume> {
        self.volumes.iter().filter(|volume| !self.is_kept(volume))
    }

    fn is_kept(&self, volume: &BoundVolume) -> bool {
        let Some(claim) = &volume.claim else {
            return false;
        };
        let mut users = self.pods.iter().filter(|pod| pod.claims.contains(claim));
        let mut has_users = false;
        users.all(|pod| {
            has_users = true;
            pod.keeps_its_volumes()
        }) && has_users
    }

    /// Whether nothing is left on the Node (F4).
    pub fn is_finished(&self) -> bool {
        self.remaining().next().is_none() && self.remaining_volumes().next().is_none()
    }

    /// What is left on the Node, by name, for messages; empty if nothing is.
    pub fn describe(&self) -> String {
        let pods: Vec<String> = self.remaining().map(|pod| pod.id.to_string()).collect();
        let volumes = self.remaining_volumes().map(|volume| volume.name.clone());
        let volumes: Vec<String> = volumes.collect();
        [
            list("pod", "pods", &pods),
            list("volume", "volumes", &volumes),
        ]
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(" and ")
    }
}

/// Names listed in one message.
const NAMES: usize = 5;

/// How many there are, and the first of them by name; `None` if there are none.
pub(in crate::remediation) fn list(one: &str, many: &str, names: &[String]) -> Option<String> {
    let shown: Vec<&str> = names.iter().take(NAMES).map(String::as_str).collect();
    let more = names.len().saturating_sub(NAMES);
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    let what = if names.len() == 1 { one } else { many };
    (!names.is_empty()).then(|| format!("{} {what} ({}{more})", names.len(), shown.join(", ")))
}
