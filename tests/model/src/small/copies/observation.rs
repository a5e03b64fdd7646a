//! The observation that a controller makes of this world.

use std::{collections::BTreeMap, time::Duration};

use jiff::SignedDuration;
use rackhand_core::remediation::{
    AgentView, BareMetalHostFacts, BmcAccess, Collected, CommandTaken, Cordon, Drain, Evictions,
    HostRef, HostView, JournalFacts, LeaseFacts, MachineView, MoveBlock, NodeAction, NodeFacts,
    ObjectFacts, Observation, OffProof, OnExhausted, OnUpdate, OperationOutcome, OperationView,
    OtherNodes, PinnedOperation, PodDeletions, Policy, PowerState, PowerView, Reason, State, Taint,
    UpdateRules, WorkloadView, is_uncut, operation_id,
};

use super::world::{World, key, uid};
use crate::{remediation::world::operation::reading, time::NOW};

pub(super) const NODE: &str = "node-7";

fn policy() -> Policy {
    Policy {
        on_exhausted: OnExhausted::Escalate,
        retry_limit: 0,
        boot_timeout: Duration::from_secs(30),
        evidence_timeout: Duration::ZERO,
        cooperative_grace: Duration::ZERO,
        ..Policy::default()
    }
}

pub(super) fn host() -> HostRef {
    HostRef {
        rack: "r1".into(),
        host: "host-7".into(),
        bmh: Some("metal/host-7".into()),
        bmc: "10.0.0.7".into(),
    }
}

fn power(on: bool) -> PowerState {
    match on {
        true => PowerState::On,
        false => PowerState::Off,
    }
}

impl World {
    /// What a controller observes that goes on from this state.
    pub(super) fn observe(&self, state: Option<&State>) -> Observation {
        let copy = self.copy.as_ref().filter(|_| self.record.is_none());
        let copy = copy.map(|copy| &copy.state);
        Observation {
            object: ObjectFacts {
                ended_by_copy: copy.map(|s| s.step).filter(|step| step.is_terminal()),
                made_by_check: None,
                checked: None,
                uid: uid(self.object).into(),
                deleting: self.deleting,
                timed_out: false,
                given_up_at: None,
                by_node: true,
                node_backup: false,
                finalizer: self.finalizer,
                finalizer_is_shared: true,
                finalizer_by_copy: copy.map(|s| s.finalizer),
                uncut_by_copy: copy.is_some_and(is_uncut),
                move_block: MoveBlock::Other,
                moved_away: false,
                confirm_fenced: None,
                override_other_node: None,
                override_owner: None,
                paused: false,
                policy: Ok(policy()),
            },
            machine: Some(MachineView::not_asked()),
            cluster: None,
            cluster_removed: false,
            host_identity: None,
            host: HostView::Found(host()),
            bmh: Some(self.bare_metal_host()),
            workload: WorkloadView::Present(self.node()),
            other_nodes: OtherNodes::Compared(Vec::new()),
            agent: AgentView::Ready,
            access: BmcAccess::Known,
            agent_id: None,
            answered: None,
            pinned: PinnedOperation::Unknown,
            held: self.agent_holds == Some(self.object),
            journal: JournalFacts::default(),
            outlets: Vec::new(),
            operation: self.operation(state),
            power: self.read.map(|on| PowerView {
                asked: NOW,
                answered: NOW,
                lease: None,
                result: Ok(reading(power(on), 0)),
            }),
            silent_since: None,
            // Only the world of updates reads them.
            updates: None,
            update_rules: UpdateRules {
                on_running: OnUpdate::Proceed,
                ..UpdateRules::default()
            },
            approved: false,
            drain: Some(Drain {
                pods: Vec::new(),
                volumes: self.bound.then(|| "csi-1".into()).into_iter().collect(),
            }),
            pod_deletions: PodDeletions::default(),
            evictions: Evictions::default(),
            collected: Collected::default(),
            node_action: NodeAction::Taint,
            conflict: (!self.permitted).then(|| Reason::HeldByPolicy("freeze".into())),
            completed: self.completed.clone(),
            wall_ahead: SignedDuration::ZERO,
        }
    }

    fn bare_metal_host(&self) -> BareMetalHostFacts {
        let orphans = self.keys.iter().filter(|of| **of != self.object);
        BareMetalHostFacts {
            name: "metal/host-7".into(),
            online: true,
            provisioned: true,
            powered_on: Some(self.on),
            our_hold: self.keys.contains(&self.object),
            orphaned_holds: orphans.map(|of| key(*of)).collect(),
            move_block: MoveBlock::Other,
            ..BareMetalHostFacts::default()
        }
    }

    fn node(&self) -> NodeFacts {
        NodeFacts {
            name: NODE.into(),
            uid: "n7".into(),
            created: None,
            boot_id: format!("boot-{}", self.boots),
            system_uuid: "4c4c4544-0042-3510-8054-c2c04f4e4e32".into(),
            ready_since: None,
            conditions: BTreeMap::new(),
            ready: self.ready,
            ready_unknown: !self.ready,
            taint: match self.taint {
                true => Taint::Ours,
                false => Taint::Absent,
            },
            tainted_by_rackhand: true,
            cordon: Cordon::Absent,
            lease: Some(LeaseFacts {
                renewed: format!("{}-{}", self.boots, self.renewed),
                duration: Duration::from_secs(40),
                unchanged_since: NOW - Duration::from_secs(60),
            }),
        }
    }

    fn operation(&self, state: Option<&State>) -> Option<OperationView> {
        let id = operation_id(uid(self.object), state?)?;
        let is_off = *self.operations.get(&id)?;
        let read = |ms| reading(power(!is_off), ms);
        Some(OperationView::Finished {
            outcome: OperationOutcome::Confirmed {
                readings: vec![read(1000), read(4000)],
                taken: Some(CommandTaken {
                    command: "ForceOff".into(),
                    answer: "204".into(),
                    since_start_ms: 0,
                    proof: Some(OffProof::Taken),
                    updates_unknown: None,
                }),
            },
            commands_sent: 1,
        })
    }
}
