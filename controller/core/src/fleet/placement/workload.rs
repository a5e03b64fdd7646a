//! What waits for a host to be off: the priority of its remediation in the queue for a budget.

use std::time::Duration;

/// The facts about a pod that decide what waits for its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "independent facts of one pod"
)]
pub struct WaitingPod {
    /// It belongs to a StatefulSet, which starts no replacement while this pod exists.
    pub of_stateful_set: bool,
    /// It mounts a PersistentVolumeClaim, which stays attached to the Node.
    pub has_volume: bool,
    /// Nothing replaces it elsewhere: a pod of a DaemonSet, or a static one.
    pub is_bound_to_node: bool,
    /// All its containers have ended.
    pub has_ended: bool,
}

/// What can run elsewhere only once the host is off.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum HostWorkload {
    /// Pods that have to be gone before their replacement starts, or not known: what cannot be read is not
    /// put behind others.
    #[default]
    Waits,
    /// Pods that are replaced elsewhere meanwhile.
    Replaced,
    /// No pods that anybody waits for.
    None,
}

impl HostWorkload {
    /// By the pods of the Node.
    pub fn of(pods: impl IntoIterator<Item = WaitingPod>) -> Self {
        let counted = pods
            .into_iter()
            .filter(|pod| !pod.is_bound_to_node && !pod.has_ended);
        let each = counted.map(|pod| match pod.of_stateful_set || pod.has_volume {
            true => Self::Waits,
            false => Self::Replaced,
        });
        each.min().unwrap_or(Self::None)
    }

    /// How much younger than it is a remediation counts where the oldest goes first. The time is bounded, so that
    /// later ones do not make it wait for ever (L1).
    pub(crate) fn precedence_delay(self) -> Duration {
        match self {
            Self::Waits => Duration::ZERO,
            Self::Replaced => Duration::from_secs(2 * 60),
            Self::None => Duration::from_secs(10 * 60),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: WaitingPod = WaitingPod {
        of_stateful_set: false,
        has_volume: false,
        is_bound_to_node: false,
        has_ended: false,
    };

    #[test]
    fn host_is_classed_by_the_pod_that_waits_most() {
        let of_stateful_set = WaitingPod {
            of_stateful_set: true,
            ..PLAIN
        };
        let with_volume = WaitingPod {
            has_volume: true,
            ..PLAIN
        };
        let of_daemon_set = WaitingPod {
            is_bound_to_node: true,
            ..with_volume
        };
        let ended = WaitingPod {
            has_ended: true,
            ..with_volume
        };
        for (pods, expected) in [
            (vec![], HostWorkload::None),
            (vec![of_daemon_set, ended], HostWorkload::None),
            (vec![of_daemon_set, PLAIN], HostWorkload::Replaced),
            (vec![PLAIN, with_volume], HostWorkload::Waits),
            (vec![of_stateful_set, PLAIN], HostWorkload::Waits),
        ] {
            assert_eq!(HostWorkload::of(pods.clone()), expected, "{pods:?}");
        }
        assert_eq!(HostWorkload::default(), HostWorkload::Waits);
    }
}
