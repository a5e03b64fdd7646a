//! The observations of the test driver.

use std::{collections::BTreeMap, time::Duration};

use super::{
    super::*,
    bmc::Op,
    build::{UID, mk_host},
    driver::{Run, time},
};

impl Run {
    pub(in crate::remediation::tests) fn note_lease(&mut self) {
        let w = &self.world;
        if !w.workload_down && self.lease.is_none_or(|(lease, _)| lease != w.cluster.lease) {
            self.lease = Some((w.cluster.lease, w.now));
        }
    }

    pub(in crate::remediation::tests) fn observe(&mut self) -> Observation {
        let w = &self.world;
        let id = self.state.as_ref().and_then(|s| operation_id(UID, s));
        let workload = if w.workload_down {
            WorkloadView::Unreachable {
                why: "connection refused".into(),
            }
        } else if w.cluster.node {
            WorkloadView::Present(NodeFacts {
                name: "node-7".into(),
                uid: format!("n7-{}", w.cluster.deleted),
                created: None,
                boot_id: format!("boot-{}", w.cluster.boot_id),
                system_uuid: "4c4c4544-0042-3510-8054-c2c04f4e4e32".into(),
                ready_since: None,
                conditions: BTreeMap::new(),
                ready: w.ready(),
                ready_unknown: w.unknown(),
                taint: w.cluster.taint,
                tainted_by_rackhand: true,
                cordon: match w.cluster.cordoned {
                    true => Cordon::Rackhand { uid: UID.into() },
                    false => Cordon::Absent,
                },
                lease: Some(LeaseFacts {
                    renewed: w.cluster.lease.to_string(),
                    duration: Duration::from_secs(40),
                    unchanged_since: time(self.lease.map_or(w.now, |(_, since)| since)),
                }),
            })
        } else {
            WorkloadView::Missing {
                name: "node-7".into(),
            }
        };
        let draining = self
            .state
            .as_ref()
            .is_some_and(|s| matches!(s.step, Step::Evicting | Step::Evicted | Step::Draining));
        let drain = || Drain {
            pods: w.bound_pod().into_iter().collect(),
            volumes: w
                .cluster
                .volume
                .then(|| "csi-1".into())
                .into_iter()
                .collect(),
        };
        let mut o = Observation {
            object: w.object.clone(),
            machine: Some(MachineView {
                created: None,
                provider_id: String::new(),
                health_check_succeeded: Some(w.healthy()),
                owner_remediated_false: w.escalated,
                not_checked: false,
                is_requested: false,
                updating: None,
            }),
            cluster: None,
            cluster_removed: false,
            host_identity: None,
            host: HostView::Found(HostRef {
                bmh: w.bmh.as_ref().map(|b| b.name.clone()),
                ..mk_host()
            }),
            bmh: w.bmh.clone(),
            workload,
            other_nodes: OtherNodes::Compared(Vec::new()),
            agent: if w.agent_up {
                AgentView::Ready
            } else {
                AgentView::Unreachable {
                    why: "rack r1 is dark".into(),
                }
            },
            access: BmcAccess::Known,
            agent_id: w.agent_up.then(|| w.agent_id()),
            answered: id.as_ref().filter(|_| w.agent_up).map(|_| w.agent_id()),
            pinned: PinnedOperation::Unknown,
            held: w.agent_up && w.agent_holds,
            journal: {
                let journals: Vec<_> = w.journals.values().cloned().collect();
                JournalFacts::of(UID, self.state.as_ref(), &journals)
            },
            outlets: Vec::new(),
            operation: id
                .filter(|_| w.agent_up)
                .and_then(|id| w.ops.get(&w.op_key(&id)))
                .map(Op::view),
            power: self.power.clone(),
            updates: None,
            // The updates have tests of their own; a host without them is not asked.
            update_rules: UpdateRules {
                on_running: OnUpdate::Proceed,
                ..UpdateRules::default()
            },
            approved: false,
            silent_since: None,
            node_action: if w.plan.legacy {
                NodeAction::Delete
            } else {
                NodeAction::Taint
            },
            drain: (draining && !w.workload_down).then(drain),
            pod_deletions: self.pod_deletions.clone(),
            evictions: self.evictions.clone(),
            collected: self.collected.clone(),
            conflict: match (w.rival, w.conflict) {
                (true, _) => Some(Reason::RivalController("its key".into())),
                (false, true) => Some(Reason::OtherRemediation("another one".into())),
                (false, false) => None,
            },
            completed: self.completed.clone(),
            wall_ahead: jiff::SignedDuration::ZERO,
        };
        self.silent = o.silence(self.state.as_ref(), self.silent, time(self.world.now));
        o.silent_since = self.silent;
        o
    }
}
