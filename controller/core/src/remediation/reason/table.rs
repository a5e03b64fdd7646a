//! The table of reasons: who ends each, and its message for conditions, Events and the command line.

use std::fmt;

use super::{
    super::handover::{SILENT_OWNER, WEBHOOK_FAILED},
    Reason,
    words::way_out,
};

/// The finalizer of a Metal3Remediation, by CAPM3 and by Rackhand.
const SHARED_FINALIZER: &str = "metal3remediation.infrastructure.cluster.x-k8s.io";

/// The end of messages whose way out is the annotation `override-owner`.
const OVERRIDE_OWNER: &str = "annotate this object with rackhand.dev/override-owner=<its UID>: Rackhand then switches \
                              the host on";
/// The same, where words of persons are ignored. Nothing else lets Rackhand switch on.
const ACCEPT_AND_OVERRIDE: &str = "start the controller with --words-of-persons=accepted, and annotate this object \
                                   with rackhand.dev/override-owner=<its UID>";

/// Who ends the wait that a reason describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum EndedBy {
    /// Rackhand, by its next step or when a time is over.
    Rackhand,
    /// Whoever deletes the remediation. It has done what it had to do.
    Withdrawal,
    /// Something outside the remediation. The message names what has to change.
    Outside,
}

impl Reason {
    /// Passes the row of this reason to `row`.
    pub(super) fn with_row<T>(&self, row: impl FnOnce(EndedBy, fmt::Arguments<'_>) -> T) -> T {
        use EndedBy::{Outside, Rackhand, Withdrawal};
        match self {
            Self::Started => row(Rackhand, format_args!("remediation started")),
            Self::Working => row(Rackhand, format_args!("deciding what comes next")),
            Self::CollectingEvidence => row(
                Rackhand,
                format_args!(
                    "reading the event log and the sensors of the BMC before the power-off"
                ),
            ),
            Self::WaitingForDump => row(
                Rackhand,
                format_args!(
                    "the BMC took a diagnostic interrupt; the host has the rest of the evidence timeout to \
                 write a dump"
                ),
            ),
            Self::Holding => row(
                Rackhand,
                format_args!(
                    "recording before the power-off that the host has to be off, with our hold key where it has a \
                     BareMetalHost"
                ),
            ),
            Self::Evicting(what) => row(
                Rackhand,
                format_args!(
                    "the node is cordoned and its pods are evicted before anything is switched; not gone yet: {what}"
                ),
            ),
            Self::EvictionBlocked(what) => row(
                Rackhand,
                format_args!(
                    "pods do not leave the node, and their eviction is requested again until the eviction timeout; \
                     nothing is switched meanwhile: {what}"
                ),
            ),
            Self::EvictionWaits(what) => row(
                Outside,
                format_args!(
                    "the eviction timeout is over, and nothing is switched before these have left, as evictionPolicy \
                     Wait requires: {what}. Change what keeps them, or delete this object"
                ),
            ),
            Self::EvictionUnfinished(what) => row(
                Rackhand,
                format_args!(
                    "switching off although pods have not left the node; they move once the host is confirmed off: {what}"
                ),
            ),
            Self::EvictionAborted(what) => row(
                Rackhand,
                format_args!(
                    "ended without a power-off, as evictionPolicy Abort requires, because pods did not leave the node: {what}"
                ),
            ),
            Self::Evicted => row(
                Withdrawal,
                format_args!(
                    "no pod is left that could be evicted; the host stays on, and its node cordoned, until this object is \
                     deleted"
                ),
            ),
            Self::EvictedInPart(what) => row(
                Withdrawal,
                format_args!(
                    "the host stays on, and its node cordoned, until this object is deleted; these pods have not left: {what}"
                ),
            ),
            Self::SilentHostLeftOn(what) => row(
                Outside,
                format_args!(
                    "{what}. They would move only once the host is off, and it is left on, because a person may be \
                     working on it: make its kubelet report again; or have the host switched off, with powerOff true in \
                     its HostMaintenance or, without one, strategy.type PowerOff here; or end the maintenance (delete \
                     this object), and a health check may act on the host"
                ),
            ),
            Self::CordonRemoved(what) => row(
                Outside,
                format_args!(
                    "{what}. Until then no pod of it is evicted, and pods may be bound to it. Find who does that (kubectl get \
                     node NAME --show-managed-fields --output yaml), or delete this object"
                ),
            ),
            Self::FailedWithPods(what) => row(
                Rackhand,
                format_args!(
                    "the host has failed, and nothing on it ends a pod any more: what is left on it moves once the host \
                     is confirmed off, whatever PodDisruptionBudgets say: {what}"
                ),
            ),
            Self::Tainting => row(
                Rackhand,
                format_args!("confirmed off; setting the out-of-service taint on the node"),
            ),
            Self::InvalidSpec(what) => row(Outside, format_args!("{what}")),
            Self::MachineNotFound(what) => {
                row(Outside, format_args!("{what}; nothing is switched"))
            }
            Self::HostNotFound(what) => row(
                Outside,
                format_args!(
                    "no host was found for this machine: {what}; name it in an agent's inventory or link a \
                 BareMetalHost"
                ),
            ),
            Self::HostAmbiguous(what) => row(
                Outside,
                format_args!(
                    "it is not clear which host this machine runs on, so none is switched: {what}"
                ),
            ),
            Self::Paused => row(
                Outside,
                format_args!("paused; nothing is switched until the pause ends"),
            ),
            Self::HostPaused(host) => row(
                Outside,
                format_args!(
                    "BareMetalHost {host} is paused, so baremetal-operator would ignore our hold \
                 key; waiting until the annotation baremetalhost.metal3.io/paused is removed"
                ),
            ),
            Self::HostOffline(host) => row(
                Outside,
                format_args!(
                    "BareMetalHost {host} has spec.online false: it is to be off, so it is not remediated"
                ),
            ),
            Self::HostNotProvisioned(host) => row(
                Outside,
                format_args!(
                    "BareMetalHost {host} is not provisioned, so its power is left to baremetal-operator and nothing is \
                 sent; waiting until it is provisioned. An out-of-service taint that this remediation added \
                 stays until the Node is deleted or the BMC reports off"
                ),
            ),
            Self::HostServicing(host) => row(
                Outside,
                format_args!(
                    "BareMetalHost {host} is being serviced, so its power is left to baremetal-operator and nothing \
                     is sent; waiting until that has ended"
                ),
            ),
            Self::HostDeleting(host) => row(
                Outside,
                format_args!("BareMetalHost {host} is being deleted; nothing is switched"),
            ),
            Self::UnsupportedHost(why) => {
                row(Outside, format_args!("this host cannot be fenced: {why}"))
            }
            Self::HeldByOthers(keys) => row(
                Outside,
                format_args!("kept off by {keys}; waiting until these annotations are removed"),
            ),
            Self::RivalController(trace) => row(
                Outside,
                format_args!(
                    "CAPM3's own controller acts on this object too ({trace}), and finishes it: Rackhand ends \
                 what it has begun, and begins nothing on it any more. Use PowerRemediationTemplates beside CAPM3. If no controller of \
                 CAPM3 works on this object, delete it and remove the finalizer {SHARED_FINALIZER}: its health check makes \
                 another one"
                ),
            ),
            Self::SettingMarks(by) => row(
                Rackhand,
                format_args!(
                    "{by} tells health checks to leave the host alone, which takes seconds; nothing is evicted or switched \
                     before"
                ),
            ),
            Self::WaitingForMarks(by) => row(
                Outside,
                format_args!(
                    "nothing is evicted or switched before health checks are told to leave the host alone; its marks are \
                     set by {by}, whose status says what keeps them"
                ),
            ),
            Self::HeldByPolicy(what) | Self::HeldBySharedCause(what) => {
                row(Outside, format_args!("{what}; nothing is switched"))
            }
            Self::Settling(what) => row(Rackhand, format_args!("{what}; nothing is switched")),
            Self::PolicyLimitReached(what) => {
                row(Rackhand, format_args!("no attempt is made: {what}"))
            }
            Self::ApiServerSlow(cluster) => row(
                Rackhand,
                format_args!(
                    "the API server of cluster {cluster} is slow, so that remediations begin one after another, those \
                     first whose workload waits; this one begins when it has its turn. Nothing is switched"
                ),
            ),
            Self::OtherRemediation(which) => {
                row(Outside, format_args!("{which} is remediated first"))
            }
            Self::ControlPlaneQuorum(why) => row(
                Outside,
                format_args!(
                    "switching off this control-plane machine could cost etcd its quorum: {why}; repair the other \
                 members first. {}",
                    way_out(
                        why,
                        "If nothing can be lost, because the majority is lost already or there is no etcd, annotate \
                         this remediation with rackhand.dev/override-quorum=<its UID>",
                        "If nothing can be lost, delete this object and repair the host by hand"
                    )
                ),
            ),
            Self::AgentUnreachable(why) => row(
                Outside,
                format_args!("no rack agent can reach the BMC: {why}"),
            ),
            Self::BmcAccessMissing(what) => row(
                Outside,
                format_args!(
                    "the BMC cannot be reached: {what}. Create it again, or delete this object: the host is \
                 then left as it is"
                ),
            ),
            Self::ClusterGone(cluster) => row(
                Outside,
                format_args!(
                    "Cluster {cluster} is gone; its hosts are not remediated any more, and the power of this \
                 host is left to its owner"
                ),
            ),
            Self::HostGone(host) => row(
                Outside,
                format_args!(
                    "BareMetalHost {host} is gone; the power of the host is left to its owner"
                ),
            ),
            Self::StateLost(what) => row(
                Outside,
                format_args!(
                    "nothing is recorded about what this remediation has done, and {what}. Nothing is switched"
                ),
            ),
            Self::AskingToShutDown => row(
                Rackhand,
                format_args!(
                    "the operating system of the host is asked to shut down, and was not yet; the power is cut after that, \
                     or when its time is over"
                ),
            ),
            Self::ShuttingDown => row(
                Rackhand,
                format_args!(
                    "the operating system of the host was asked to shut down; the power is cut after that, or when its \
                     time is over"
                ),
            ),
            Self::PowerOffRunning => row(
                Rackhand,
                format_args!("switching the host off; not confirmed off yet"),
            ),
            Self::FenceUnconfirmed(why) => row(
                Outside,
                format_args!(
                    "the host is not confirmed off, so no workload is moved: {why}. Retrying; {}",
                    way_out(
                        why,
                        "or verify yourself that it is off and annotate this object with \
                         rackhand.dev/confirm-fenced=<its UID>",
                        "repair the BMC or the way to it, or delete this object and move the workload by hand"
                    )
                ),
            ),
            Self::IdentityMismatch(why) => row(
                Outside,
                format_args!(
                    "the BMC belongs to another system: {why}. Correct the BMC address in the inventory or the \
                 BareMetalHost: it is then tried again. If this BMC never reports the UUID of its host, set \
                 system_uuid = \"none\" in the inventory, or annotate the BareMetalHost with \
                 rackhand.dev/bmc-system-uuid=none"
                ),
            ),
            Self::NodeReplaced(node) => row(
                Rackhand,
                format_args!(
                    "node {node} was replaced by another object of the same name; checking that its kubelet \
                 does not renew its Lease before it is tainted"
                ),
            ),
            Self::NodeMismatch(why) => row(Outside, format_args!("nothing is tainted: {why}")),
            Self::OtherNodeOnHost(what) => row(
                Outside,
                format_args!(
                    "this host is not switched off: {what}. If that Node runs on another host, name the Node of \
                 each host in the inventory of its agent, or {}",
                    way_out(
                        what,
                        "annotate this object with rackhand.dev/override-other-node=<its UID>",
                        "delete this object and repair the host by hand"
                    )
                ),
            ),
            Self::CheckingOtherNode(node) => row(
                Rackhand,
                format_args!(
                    "checking that the kubelet of node {node}, which may run on this host, does not renew its \
                 Lease"
                ),
            ),
            Self::LeaseRenewed(node) => row(
                Outside,
                format_args!(
                    "the kubelet of node {node} renewed its Lease although this host was confirmed off: \
                 another host was switched off, and is switched on again. Correct the BMC address of \
                 this host"
                ),
            ),
            Self::WaitingForQuietLease => row(
                Rackhand,
                format_args!("confirmed off; checking that the node's Lease is not renewed"),
            ),
            Self::WaitingForRenewal => row(
                Rackhand,
                format_args!(
                    "begun before, and the node is shown as Ready; waiting for its kubelet to renew its Lease"
                ),
            ),
            Self::WorkloadUnreachable(why) => row(
                Outside,
                format_args!("the workload cluster cannot be reached: {why}"),
            ),
            Self::PowerUnreadable(why) => row(
                Outside,
                format_args!("the power state cannot be read: {why}"),
            ),
            Self::FenceViolated(what) => row(
                Outside,
                format_args!(
                    "the power was reported as {what} while the host had to stay off; switching it off again"
                ),
            ),
            Self::HoldLost(host) => row(
                Outside,
                format_args!(
                    "our hold key on BareMetalHost {host} was removed while the host had to stay off; \
                 setting it again and confirming off again"
                ),
            ),
            Self::DrainSkipped(what) => row(
                Outside,
                format_args!(
                    "switching on after the drain timeout, as drainPolicy requires, although the node is not \
                 drained: {what}"
                ),
            ),
            Self::Draining(what) => row(
                Rackhand,
                format_args!("waiting until these are deleted: {what}"),
            ),
            Self::DrainBlocked(what) => row(
                Outside,
                format_args!(
                    "the node is not drained after the drain timeout, and the host stays off; not deleted: {what}"
                ),
            ),
            Self::PowerOnRunning => row(
                Rackhand,
                format_args!("power-on requested; not confirmed yet"),
            ),
            Self::PowerOnStaged(why) => row(Rackhand, format_args!("power-on requested; it {why}")),
            Self::PowerOnUnconfirmed(why) => row(
                Outside,
                format_args!("the host is not confirmed on: {why}. Retrying"),
            ),
            Self::Booting => row(
                Rackhand,
                format_args!("confirmed on; waiting for the node to report"),
            ),
            Self::OffAgain => row(
                Outside,
                format_args!(
                    "the BMC reports off although the host was switched on; switching it on again"
                ),
            ),
            Self::StaysOff(times) => row(
                Outside,
                format_args!(
                    "the BMC reported off {times} times after the host was switched on; find out what \
                 switches it off. It is not switched on again before the next attempt"
                ),
            ),
            Self::BootTimeout => row(
                Outside,
                format_args!("the node did not become healthy in time"),
            ),
            Self::WaitingForHealth => row(
                Rackhand,
                format_args!("the node reports; waiting for it to be healthy"),
            ),
            Self::Recovered => row(Rackhand, format_args!("the node is back")),
            Self::Withdrawn => row(
                Rackhand,
                format_args!("withdrawn before the power-off; nothing was switched"),
            ),
            Self::KeptOffUntilDeleted => row(
                Rackhand,
                format_args!(
                    "the host was kept off until this object was deleted, as its strategy says; switching on and cleaning up"
                ),
            ),
            Self::EmptiedUntilDeleted => row(
                Rackhand,
                format_args!(
                    "the node was kept without pods until this object was deleted, as its strategy says; uncordoning it"
                ),
            ),
            Self::WithdrawnAfterOff => row(
                Rackhand,
                format_args!(
                    "withdrawn after the power-off was started; switching on and cleaning up"
                ),
            ),
            Self::ExhaustedKeptOff(attempts) => row(
                Withdrawal,
                format_args!(
                    "not healthy after {}; the host is kept off until this object is deleted",
                    Attempts(*attempts)
                ),
            ),
            Self::ExhaustedTold(attempts) => row(
                Rackhand,
                format_args!(
                    "not healthy after {}; nothing more is done, as onExhausted requires",
                    Attempts(*attempts)
                ),
            ),
            Self::Cycling => row(
                Rackhand,
                format_args!(
                    "confirmed off for a plain power cycle: no workload is moved in this attempt"
                ),
            ),
            Self::Fenced => row(
                Withdrawal,
                format_args!(
                    "confirmed off and drained; the host stays off until this object is deleted"
                ),
            ),
            Self::DeletingNode(node) => row(
                Rackhand,
                format_args!(
                    "confirmed off; deleting node {node}, whose labels and annotations are saved on this \
                 object"
                ),
            ),
            Self::NodeGone(node) => row(
                Rackhand,
                format_args!(
                    "node {node} is gone, and nodeGonePolicy is to replace the machine at once"
                ),
            ),
            Self::NodeNotFound(node) => row(
                Outside,
                format_args!("there is no node {node} in this cluster; nothing is switched"),
            ),
            Self::TaintSkipped(why) => row(
                Rackhand,
                format_args!(
                    "switching on without a taint, as unreachablePolicy requires, because the workload \
                 cluster was out of reach for too long: {why}"
                ),
            ),
            Self::DrainGivenUp(what) => row(
                Outside,
                format_args!(
                    "given up after the drain timeout; the host stays off until this object is deleted. \
                 Not deleted: {what}"
                ),
            ),
            Self::TimedOut => row(
                Rackhand,
                format_args!(
                    "the health check has requested to stop (remediation.medik8s.io/nhc-timed-out). If it makes \
                 no other remediation and the node stays unhealthy, repair the host; a check with a single \
                 template makes another one once this object is deleted"
                ),
            ),
            Self::ActionFailed(why) if why.contains(WEBHOOK_FAILED) => row(
                Outside,
                format_args!(
                    "the last action failed and is retried: {why}. While the webhook of baremetal-operator does not \
                 answer, no BareMetalHost can be held or released: start baremetal-operator. If it is to stay away, \
                 or a host that is on still has our hold key, for which it would switch the host off, remove its \
                 ValidatingWebhookConfiguration first"
                ),
            ),
            Self::ActionFailed(why) => row(
                Outside,
                format_args!("the last action failed and is retried: {why}"),
            ),
            Self::StateUnreadable(why) => row(
                Outside,
                format_args!("cannot parse the recorded state; refusing to act: {why}"),
            ),
            Self::StateOutdated => row(
                Outside,
                format_args!(
                    "the journal of an agent shows that this host was switched on again, or its hold released, \
                 after the recorded state was written, as after a restore of etcd. Nothing is switched because \
                 of that state, and what it added is removed. Make sure that the host is on; then delete \
                 this object, and if its Machine or Node is unhealthy, its health check makes another"
                ),
            ),
            Self::OperationLost(why) => row(
                Rackhand,
                format_args!(
                    "withdrawn, and it is unknown whether the host was switched off: {why}; switching it on"
                ),
            ),
            Self::OtherAgentBusy(which) => row(
                Outside,
                format_args!(
                    "an operation on this host may still run at {which}; nothing is sent to its BMC through \
                 another agent before that"
                ),
            ),
            Self::OutletsOffRunning(which) => row(
                Rackhand,
                format_args!(
                    "the BMC could not prove that the host is off; switching off the outlets that feed it, not \
                 confirmed off yet: {which}"
                ),
            ),
            Self::OutletsOnRunning(names) => row(
                Rackhand,
                format_args!("switching on the outlets that feed the host: {names}"),
            ),
            Self::OutletsNotOn(why) => row(
                Outside,
                format_args!(
                    "outlets that were switched off are not confirmed on, so the host may have no power: {why}. \
                 Retrying; repair the PDU or switch them on there, or remove them from the host's inventory \
                 entry at the agent if they no longer feed it"
                ),
            ),
            Self::OutletsRestored(names) => row(
                Rackhand,
                format_args!(
                    "outlets {names} are on again; the host may boot by its restore policy, and its node is \
                 waited for whatever the BMC reports"
                ),
            ),
            Self::OwnerDoesNotReportOff(state) => row(
                Outside,
                format_args!(
                    "the host can be switched on, but baremetal-operator does not report it off: {state}. Our hold \
                 key stays until it does, because Ironic would otherwise switch the host off again. Repair or \
                 start baremetal-operator and Ironic, and remove what pauses this host. If that is not \
                 possible, make sure that Ironic does not run or does not have this host, or has it as \
                 \"power on\" without a target; then {}",
                    way_out(state, OVERRIDE_OWNER, ACCEPT_AND_OVERRIDE)
                ),
            ),
            Self::OwnerDoesNotSwitchOn(state) => row(
                Outside,
                format_args!(
                    "the host can be switched on, and baremetal-operator does not do so: {state}. Rackhand does not, \
                 because Ironic may have the host as off and would switch it off again. Repair or start \
                 baremetal-operator and Ironic, and remove what pauses this host. If that is not possible, make sure \
                 that Ironic does not run or does not have this host; then {}",
                    way_out(state, OVERRIDE_OWNER, ACCEPT_AND_OVERRIDE)
                ),
            ),
            Self::OwnerDoesNotReportOn(host) => row(
                Rackhand,
                format_args!(
                    "the node is back; waiting until baremetal-operator reports BareMetalHost {host} on, because \
                 Ironic may have it as off and switch it off again. The wait ends {} s after the node was back",
                    SILENT_OWNER.as_secs()
                ),
            ),
            Self::OrphanedHold(what) => row(
                Outside,
                format_args!(
                    "the host is kept off by a hold key of Rackhand whose remediation is gone: {what}"
                ),
            ),
            Self::CheckingFirmware => row(
                Rackhand,
                format_args!(
                    "reading from the BMC whether the firmware of the host is being updated"
                ),
            ),
            Self::FirmwareUpdateRunning(what) => row(
                Outside,
                format_args!(
                    "the firmware of the host is being updated, and it may be unusable if it loses its power now, so \
                     nothing is switched: {what}. Waiting for the end of the update{}",
                    way_out(
                        what,
                        "; to switch the host all the same: kubectl rackhand approve",
                        ", or for the time in spec.firmwareUpdate of a PowerPolicy; or delete this object"
                    )
                ),
            ),
            Self::UpdateDuringPowerOff(what) => row(
                Outside,
                format_args!(
                    "an update of the firmware of the host was seen after a power-off or a shutdown had been sent: {what}. \
                     The host may be going down in order, so nothing more is sent before the end of the update{}",
                    way_out(
                        what,
                        "; to switch the host off all the same: kubectl rackhand approve",
                        ", or before the time in spec.firmwareUpdate of a PowerPolicy is over; or delete this object, \
                         which switches the host on again"
                    )
                ),
            ),
            Self::FirmwareUpdateUnknown(why) => row(
                Outside,
                format_args!(
                    "it is not known whether the firmware of the host is being updated, and a PowerPolicy \
                     (spec.firmwareUpdate.onUnknown) holds it for that, so nothing is switched: {why}. Waiting for the \
                     BMC{}",
                    way_out(
                        why,
                        "; to switch the host all the same: kubectl rackhand approve",
                        "; or change the policy, or delete this object"
                    )
                ),
            ),
            Self::BootingThroughUpdate(what) => row(
                Rackhand,
                format_args!(
                    "the host updates its firmware while it starts, so the time for its boot stands still: {what}"
                ),
            ),
            Self::MachineUpdating(what) => row(
                Outside,
                format_args!(
                    "the Machine is being updated in place ({what}), and its node may restart; nothing is switched \
                 meanwhile"
                ),
            ),
            Self::MovedAway => row(
                Rackhand,
                format_args!(
                    "clusterctl has moved this object to another cluster; nothing is done here any more"
                ),
            ),
            Self::Exhausted(attempts) => row(
                Rackhand,
                format_args!(
                    "not healthy after {}; the owner of its Machine takes over; where it has no Machine with an owner, \
                     repair the host, and then delete this object",
                    Attempts(*attempts)
                ),
            ),
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
