//! The message of a [`Reason`], for conditions, Events and the command line.

use std::fmt;

use super::{super::handover::SILENT_OWNER, Reason};

/// The finalizer of a Metal3Remediation, by CAPM3 and by Rackhand.
const SHARED_FINALIZER: &str = "metal3remediation.infrastructure.cluster.x-k8s.io";

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Started => write!(f, "remediation started"),
            Self::Working => write!(f, "deciding what comes next"),
            Self::CollectingEvidence => write!(
                f,
                "reading the event log and the sensors of the BMC before the power-off"
            ),
            Self::WaitingForDump => write!(
                f,
                "the BMC took a diagnostic interrupt; the host has the rest of the evidence timeout to \
                 write a dump"
            ),
            Self::Holding => {
                write!(
                    f,
                    "setting our hold key on the BareMetalHost before the power-off"
                )
            }
            Self::Tainting => {
                write!(
                    f,
                    "confirmed off; setting the out-of-service taint on the node"
                )
            }
            Self::InvalidSpec(what) => write!(f, "{what}"),
            Self::MachineNotFound(what) => write!(f, "{what}; nothing is switched"),
            Self::HostNotFound(what) => write!(
                f,
                "no host was found for this machine: {what}; name it in an agent's inventory or link a \
                 BareMetalHost"
            ),
            Self::HostAmbiguous(what) => {
                write!(
                    f,
                    "it is not clear which host this machine runs on, so none is switched: {what}"
                )
            }
            Self::Paused => write!(f, "paused; nothing is switched until the pause ends"),
            Self::HostPaused(host) => write!(
                f,
                "BareMetalHost {host} is paused, so baremetal-operator would ignore our hold \
                 key; waiting until the annotation baremetalhost.metal3.io/paused is removed"
            ),
            Self::HostOffline(host) => write!(
                f,
                "BareMetalHost {host} has spec.online false: it is to be off, so it is not remediated"
            ),
            Self::HostNotProvisioned(host) => write!(
                f,
                "BareMetalHost {host} is not provisioned, so its power is left to baremetal-operator and nothing is \
                 sent; waiting until it is provisioned. An out-of-service taint that this remediation added \
                 stays until the Node is deleted or the BMC reports off"
            ),
            Self::HostServicing(host) => {
                write!(
                    f,
                    "BareMetalHost {host} is being serviced, so its power is left to baremetal-operator and nothing \
                     is sent; waiting until that has ended"
                )
            }
            Self::HostDeleting(host) => write!(
                f,
                "BareMetalHost {host} is being deleted; nothing is switched"
            ),
            Self::UnsupportedHost(why) => write!(f, "this host cannot be fenced: {why}"),
            Self::HeldByOthers(keys) => write!(
                f,
                "kept off by {keys}; waiting until these annotations are removed"
            ),
            Self::RivalController(trace) => write!(
                f,
                "CAPM3's own controller acts on this object too ({trace}), and finishes it: Rackhand does \
                 nothing with it any more. Use PowerRemediationTemplates beside CAPM3. If no controller of \
                 CAPM3 works on this object, delete it and remove the finalizer {SHARED_FINALIZER}: its health check makes \
                 another one"
            ),
            Self::HeldByPolicy(what) | Self::HeldBySharedCause(what) | Self::Settling(what) => {
                write!(f, "{what}; nothing is switched")
            }
            Self::PolicyLimitReached(what) => write!(f, "no attempt is made: {what}"),
            Self::OtherRemediation(which) => write!(f, "{which} is remediated first"),
            Self::ControlPlaneQuorum(why) => write!(
                f,
                "switching off this control-plane machine could cost etcd its quorum: {why}; repair the other \
                 members first. If nothing can be lost, because the majority is lost already or there is no \
                 etcd, annotate this remediation with rackhand.dev/override-quorum=<its UID>"
            ),
            Self::AgentUnreachable(why) => write!(f, "no rack agent can reach the BMC: {why}"),
            Self::BmcAccessMissing(what) => write!(
                f,
                "the BMC cannot be reached: {what}. Create it again, or delete this object: the host is \
                 then left as it is"
            ),
            Self::ClusterGone(cluster) => write!(
                f,
                "Cluster {cluster} is gone; its hosts are not remediated any more, and the power of this \
                 host is left to its owner"
            ),
            Self::HostGone(host) => write!(
                f,
                "BareMetalHost {host} is gone; the power of the host is left to its owner"
            ),
            Self::StateLost(what) => write!(
                f,
                "nothing is recorded about what this remediation has done, and {what}. Nothing is switched"
            ),
            Self::PowerOffRunning => write!(f, "switching the host off; not confirmed off yet"),
            Self::FenceUnconfirmed(why) => write!(
                f,
                "the host is not confirmed off, so no workload is moved: {why}. Retrying; or verify \
                 yourself that it is off and annotate this object with \
                 rackhand.dev/confirm-fenced=<its UID>"
            ),
            Self::IdentityMismatch(why) => write!(
                f,
                "the BMC belongs to another system: {why}. Correct the BMC address in the inventory or the \
                 BareMetalHost: it is then tried again. If this BMC never reports the UUID of its host, set \
                 system_uuid = \"none\" in the inventory, or annotate the BareMetalHost with \
                 rackhand.dev/bmc-system-uuid=none"
            ),
            Self::NodeReplaced(node) => write!(
                f,
                "node {node} was replaced by another object of the same name; checking that its kubelet \
                 does not renew its Lease before it is tainted"
            ),
            Self::NodeMismatch(why) => {
                write!(f, "nothing is tainted: {why}")
            }
            Self::OtherNodeOnHost(what) => write!(
                f,
                "this host is not switched off: {what}. If that Node runs on another host, name the Node of \
                 each host in the inventory of its agent, or annotate this object with \
                 rackhand.dev/override-other-node=<its UID>"
            ),
            Self::CheckingOtherNode(node) => write!(
                f,
                "checking that the kubelet of node {node}, which may run on this host, does not renew its \
                 Lease"
            ),
            Self::LeaseRenewed(node) => write!(
                f,
                "the kubelet of node {node} renewed its Lease although this host was confirmed off: \
                 another host was switched off, and is switched on again. Correct the BMC address of \
                 this host"
            ),
            Self::WaitingForQuietLease => {
                write!(
                    f,
                    "confirmed off; checking that the node's Lease is not renewed"
                )
            }
            Self::WaitingForRenewal => write!(
                f,
                "begun before, and the node is shown as Ready; waiting for its kubelet to renew its Lease"
            ),
            Self::WorkloadUnreachable(why) => {
                write!(f, "the workload cluster cannot be reached: {why}")
            }
            Self::PowerUnreadable(why) => write!(f, "the power state cannot be read: {why}"),
            Self::FenceViolated(what) => {
                write!(
                    f,
                    "the power was reported as {what} while the host had to stay off; switching it off again"
                )
            }
            Self::HoldLost(host) => write!(
                f,
                "our hold key on BareMetalHost {host} was removed while the host had to stay off; \
                 setting it again and confirming off again"
            ),
            Self::DrainSkipped(what) => write!(
                f,
                "switching on after the drain timeout, as drainPolicy requires, although the node is not \
                 drained: {what}"
            ),
            Self::Draining(what) => write!(f, "waiting until these are deleted: {what}"),
            Self::DrainBlocked(what) => {
                write!(
                    f,
                    "the node is not drained after the drain timeout, and the host stays off; not deleted: {what}"
                )
            }
            Self::PowerOnRunning => write!(f, "power-on requested; not confirmed yet"),
            Self::PowerOnStaged(why) => write!(f, "power-on requested; it {why}"),
            Self::PowerOnUnconfirmed(why) => {
                write!(f, "the host is not confirmed on: {why}. Retrying")
            }
            Self::Booting => write!(f, "confirmed on; waiting for the node to report"),
            Self::OffAgain => write!(
                f,
                "the BMC reports off although the host was switched on; switching it on again"
            ),
            Self::StaysOff(times) => write!(
                f,
                "the BMC reported off {times} times after the host was switched on; find out what \
                 switches it off. It is not switched on again before the next attempt"
            ),
            Self::BootTimeout => write!(f, "the node did not become healthy in time"),
            Self::WaitingForHealth => write!(f, "the node reports; waiting for it to be healthy"),
            Self::Recovered => write!(f, "the node is back"),
            Self::Withdrawn => write!(f, "withdrawn before the power-off; nothing was switched"),
            Self::WithdrawnAfterOff => {
                write!(
                    f,
                    "withdrawn after the power-off was started; switching on and cleaning up"
                )
            }
            Self::ExhaustedKeptOff(attempts) => write!(
                f,
                "not healthy after {}; the host is kept off until this object is deleted",
                Attempts(*attempts)
            ),
            Self::ExhaustedTold(attempts) => write!(
                f,
                "not healthy after {}; nothing more is done, as onExhausted requires",
                Attempts(*attempts)
            ),
            Self::Cycling => write!(
                f,
                "confirmed off for a plain power cycle: no workload is moved in this attempt"
            ),
            Self::Fenced => write!(
                f,
                "confirmed off and drained; the host stays off until this object is deleted"
            ),
            Self::DeletingNode(node) => write!(
                f,
                "confirmed off; deleting node {node}, whose labels and annotations are saved on this \
                 object"
            ),
            Self::NodeGone(node) => write!(
                f,
                "node {node} is gone, and nodeGonePolicy is to replace the machine at once"
            ),
            Self::NodeNotFound(node) => write!(
                f,
                "there is no node {node} in this cluster; nothing is switched"
            ),
            Self::TaintSkipped(why) => write!(
                f,
                "switching on without a taint, as unreachablePolicy requires, because the workload \
                 cluster was out of reach for too long: {why}"
            ),
            Self::DrainGivenUp(what) => write!(
                f,
                "given up after the drain timeout; the host stays off until this object is deleted. \
                 Not deleted: {what}"
            ),
            Self::TimedOut => write!(
                f,
                "the health check has requested to stop (remediation.medik8s.io/nhc-timed-out). If it makes \
                 no other remediation and the node stays unhealthy, repair the host; a check with a single \
                 template makes another one once this object is deleted"
            ),
            Self::ActionFailed(why) if why.contains("failed calling webhook") => write!(
                f,
                "the last action failed and is retried: {why}. While the webhook of baremetal-operator does not \
                 answer, no BareMetalHost can be held or released: start baremetal-operator"
            ),
            Self::ActionFailed(why) => write!(f, "the last action failed and is retried: {why}"),
            Self::StateUnreadable(why) => {
                write!(f, "cannot parse the recorded state; refusing to act: {why}")
            }
            Self::StateOutdated => write!(
                f,
                "the journal of an agent shows that this host was switched on again, or its hold released, \
                 after the recorded state was written, as after a restore of etcd. Nothing is switched because \
                 of that state, and what it added is removed. Make sure that the host is on; then delete \
                 this object, and if its Machine or Node is unhealthy, its health check makes another"
            ),
            Self::OperationLost(why) => write!(
                f,
                "withdrawn, and it is unknown whether the host was switched off: {why}; switching it on"
            ),
            Self::OtherAgentBusy(which) => write!(
                f,
                "an operation on this host may still run at {which}; nothing is sent to its BMC through \
                 another agent before that"
            ),
            Self::OutletsOffRunning(which) => write!(
                f,
                "the BMC could not prove that the host is off; switching off the outlets that feed it, not \
                 confirmed off yet: {which}"
            ),
            Self::OutletsOnRunning(names) => {
                write!(f, "switching on the outlets that feed the host: {names}")
            }
            Self::OutletsNotOn(why) => write!(
                f,
                "outlets that were switched off are not confirmed on, so the host may have no power: {why}. \
                 Retrying; repair the PDU or switch them on there, or remove them from the host's inventory \
                 entry at the agent if they no longer feed it"
            ),
            Self::OutletsRestored(names) => write!(
                f,
                "outlets {names} are on again; the host may boot by its restore policy, and its node is \
                 waited for whatever the BMC reports"
            ),
            Self::OwnerDoesNotReportOff(state) => write!(
                f,
                "the host can be switched on, but baremetal-operator does not report it off: {state}. Our hold \
                 key stays until it does, because Ironic would otherwise switch the host off again. Repair or \
                 start baremetal-operator and Ironic, and remove what pauses this host. If that is not \
                 possible, make sure that Ironic does not run or does not have this host, or has it as \
                 \"power on\" without a target; then annotate this object with \
                 rackhand.dev/override-owner=<its UID>: Rackhand then switches the host on"
            ),
            Self::OwnerDoesNotSwitchOn(state) => write!(
                f,
                "no annotation keeps the host off any more, and baremetal-operator does not switch it on: \
                 {state}. Rackhand does not, because Ironic may have the host as off and would switch it off \
                 again. Repair or start baremetal-operator and Ironic, and remove what pauses this host. If that \
                 is not possible, make sure that Ironic does not run or does not have this host; then annotate \
                 this object with rackhand.dev/override-owner=<its UID>: Rackhand then switches the host on"
            ),
            Self::OwnerDoesNotReportOn(host) => write!(
                f,
                "the node is back; waiting until baremetal-operator reports BareMetalHost {host} on, because \
                 Ironic may have it as off and switch it off again. The wait ends {} s after the node was back",
                SILENT_OWNER.as_secs()
            ),
            Self::OrphanedHold(what) => write!(
                f,
                "the host is kept off by a hold key of Rackhand whose remediation is gone: {what}"
            ),
            Self::MachineUpdating(what) => write!(
                f,
                "the Machine is being updated in place ({what}), and its node may restart; nothing is switched \
                 meanwhile"
            ),
            Self::MovedAway => write!(
                f,
                "clusterctl has moved this object to another cluster; nothing is done here any more"
            ),
            Self::Exhausted(attempts) => {
                write!(
                    f,
                    "not healthy after {}; the Machine's owner takes over",
                    Attempts(*attempts)
                )
            }
        }
    }
}

/// A number of attempts, in the singular or the plural.
struct Attempts(u32);

impl fmt::Display for Attempts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            1 => write!(f, "1 attempt"),
            several => write!(f, "{several} attempts"),
        }
    }
}
