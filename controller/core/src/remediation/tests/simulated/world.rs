//! A simulated world with virtual time: two hosts, a BMC, an agent, baremetal-operator, a kubelet and the
//! controllers of the workload cluster. [`super::driver`] acts in it.

use std::collections::BTreeMap;

use super::{
    super::*,
    bmc::Op,
    build::mk_pod,
    driver::time,
    faults::{Plan, Rng},
};

/// One step of time in milliseconds.
pub(in crate::remediation::tests) const TICK: i64 = 500;
/// Interval of Ironic's power synchronisation in milliseconds.
const SYNC: i64 = 40_000;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::remediation::tests) enum Power {
    On,
    GoingOff(i64),
    Off,
    GoingOn(i64),
}

#[derive(Debug, Clone)]
pub(in crate::remediation::tests) struct Host {
    pub(in crate::remediation::tests) power: Power,
    /// When the kubelet starts to run.
    pub(in crate::remediation::tests) up_from: Option<i64>,
    pub(in crate::remediation::tests) boots: u32,
    pub(in crate::remediation::tests) offs: u32,
    pub(in crate::remediation::tests) power_on_repeats: u32,
}

/// The objects of the workload cluster, and what really runs.
#[derive(Debug, Clone)]
pub(in crate::remediation::tests) struct Cluster {
    pub(in crate::remediation::tests) node: bool,
    /// How often the Node was deleted; it has another UID each time.
    pub(in crate::remediation::tests) deleted: u32,
    pub(in crate::remediation::tests) boot_id: u32,
    pub(in crate::remediation::tests) lease: i64,
    pub(in crate::remediation::tests) taint: Taint,
    /// Whether this remediation has cordoned the node.
    pub(in crate::remediation::tests) cordoned: bool,
    /// The pod that is bound to our node; `Some(true)`: it has a deletionTimestamp.
    pub(in crate::remediation::tests) pod: Option<bool>,
    pub(in crate::remediation::tests) volume: bool,
    /// Whether the process of the pod runs on our host, whatever the API shows.
    pub(in crate::remediation::tests) process: bool,
    /// Whether the pod was started on another node.
    pub(in crate::remediation::tests) elsewhere: bool,
    node_gone_at: Option<i64>,
    pod_gone_at: Option<i64>,
}

pub(in crate::remediation::tests) struct World {
    pub(in crate::remediation::tests) now: i64,
    pub(in crate::remediation::tests) rng: Rng,
    pub(in crate::remediation::tests) plan: Plan,
    /// The host that is remediated, and another one.
    pub(in crate::remediation::tests) hosts: [Host; 2],
    pub(in crate::remediation::tests) cluster: Cluster,
    pub(in crate::remediation::tests) agent_up: bool,
    pub(in crate::remediation::tests) agent_holds: bool,
    /// Which agent serves the rack, and which journal it has.
    pub(in crate::remediation::tests) serving: (u32, u32),
    pub(in crate::remediation::tests) ops: BTreeMap<String, Op>,
    /// What each agent has in its journal, the newest first.
    pub(in crate::remediation::tests) journals: BTreeMap<u32, Vec<JournalEntry>>,
    /// The BareMetalHost, in cooperative mode.
    pub(in crate::remediation::tests) bmh: Option<BareMetalHostFacts>,
    pub(in crate::remediation::tests) silent: bool,
    pub(in crate::remediation::tests) workload_down: bool,
    pub(in crate::remediation::tests) bmo_down: bool,
    /// The power state in Ironic's database.
    pub(in crate::remediation::tests) stored_on: bool,
    pub(in crate::remediation::tests) partitioned: bool,
    pub(in crate::remediation::tests) object: ObjectFacts,
    pub(in crate::remediation::tests) conflict: bool,
    /// CAPM3's own controller works on the object.
    pub(in crate::remediation::tests) rival: bool,
    pub(in crate::remediation::tests) escalated: bool,
    /// The times of consecutive readings of exactly off.
    pub(in crate::remediation::tests) said_off: Vec<i64>,
    /// When a person has switched the host on.
    pub(in crate::remediation::tests) meddled_at: Option<i64>,
    /// Whether another controller's hold may have switched the host off once more.
    pub(in crate::remediation::tests) switched_by_others: bool,
    /// Whether a violation is outside the assumptions, and so does not count.
    pub(in crate::remediation::tests) excused: bool,
    pub(in crate::remediation::tests) trace: Vec<String>,
}

impl World {
    pub(in crate::remediation::tests) fn new(
        plan: Plan,
        object: ObjectFacts,
        bmh: Option<BareMetalHostFacts>,
    ) -> Self {
        let host = Host {
            power: Power::On,
            up_from: Some(0),
            boots: 1,
            offs: 0,
            power_on_repeats: 0,
        };
        Self {
            now: 0,
            rng: Rng(plan.seed),
            hosts: [host.clone(), host],
            cluster: Cluster {
                node: true,
                deleted: 0,
                boot_id: 1,
                lease: if plan.hung { -60_000 } else { 0 },
                taint: Taint::Absent,
                cordoned: false,
                pod: Some(false),
                volume: !plan.no_volume,
                process: true,
                elsewhere: false,
                node_gone_at: None,
                pod_gone_at: None,
            },
            agent_up: true,
            agent_holds: false,
            serving: (0, 0),
            ops: BTreeMap::new(),
            journals: BTreeMap::new(),
            bmh,
            silent: plan.silent,
            workload_down: false,
            bmo_down: false,
            stored_on: true,
            partitioned: plan.hung,
            object,
            conflict: false,
            rival: false,
            escalated: false,
            said_off: Vec::new(),
            meddled_at: None,
            switched_by_others: false,
            excused: plan.lying || (plan.wrong_host && plan.hung),
            trace: Vec::new(),
            plan,
        }
    }

    pub(in crate::remediation::tests) fn fail(&self, what: &str) -> ! {
        let trace = self.trace.join("\n");
        panic!(
            "{trace}\nseed {} at {} ms: {what}\n{:#?}",
            self.plan.seed, self.now, self.plan
        );
    }

    pub(in crate::remediation::tests) fn log(&mut self, what: &str) {
        if self.trace.last().is_none_or(|last| !last.ends_with(what)) {
            self.trace.push(format!("{:>9} {what}", self.now));
        }
    }

    /// The agent that serves the rack.
    pub(in crate::remediation::tests) fn agent_id(&self) -> AgentId {
        AgentId {
            agent: format!("agent-{}", self.serving.0),
            journal: format!("journal-{}", self.serving.1),
        }
    }

    /// Key of an operation at the agent that serves the rack; another agent does not know it.
    pub(in crate::remediation::tests) fn op_key(&self, id: &str) -> String {
        format!("agent-{}: {id}", self.serving.0)
    }

    /// The agent that serves the rack notes what it does.
    pub(in crate::remediation::tests) fn note(&mut self, id: &str, is_off: bool, is_release: bool) {
        let journal = self.journals.entry(self.serving.0).or_default();
        if journal.iter().all(|entry| entry.id != id || is_release) {
            let entry = JournalEntry {
                id: id.to_owned(),
                host: super::build::mk_host().host,
                is_off,
                is_release,
                progress: EntryProgress::Ended,
            };
            journal.insert(0, entry);
        }
    }

    /// F6: fails if an operation runs at another agent.
    pub(in crate::remediation::tests) fn alone(&self) {
        let mine = self.op_key("");
        let open = self.ops.iter().filter(|(_, op)| op.outcome.is_none());
        let mut others = open.filter(|(key, _)| !key.starts_with(&mine));
        if let Some((other, _)) = others.next() {
            self.fail(&format!("F6: begun while {other} runs at another agent"));
        }
    }

    /// The host that our BMC really belongs to.
    pub(in crate::remediation::tests) fn target(&self) -> usize {
        usize::from(self.plan.wrong_host)
    }

    pub(in crate::remediation::tests) fn kubelet_up(&self) -> bool {
        let host = &self.hosts[0];
        matches!(host.power, Power::On | Power::GoingOff(_))
            && host.up_from.is_some_and(|t| t <= self.now)
    }

    /// Whether the control plane receives reports of the kubelet.
    pub(in crate::remediation::tests) fn heard(&self) -> bool {
        self.kubelet_up() && !self.partitioned
    }

    pub(in crate::remediation::tests) fn unknown(&self) -> bool {
        self.now - self.cluster.lease > 40_000
    }

    pub(in crate::remediation::tests) fn ready(&self) -> bool {
        self.cluster.node && !self.unknown() && !(self.plan.sick && self.hosts[0].boots > 1)
    }

    /// Whether the node is ready and was rebooted.
    pub(in crate::remediation::tests) fn healthy(&self) -> bool {
        self.ready() && self.hosts[0].boots > 1
    }

    pub(in crate::remediation::tests) fn switch(&mut self, host: usize, on: bool) {
        let takes = if on { 1000 } else { self.plan.off_takes };
        let until = self.now + takes;
        let host = &mut self.hosts[host];
        match (host.power, on) {
            (Power::Off, true) => {
                host.power = Power::GoingOn(until);
                host.power_on_repeats += 1;
            }
            (Power::On | Power::GoingOn(_), false) => {
                host.power = Power::GoingOff(until);
                host.up_from = host.up_from.filter(|t| *t <= self.now);
                host.offs += 1;
            }
            _ => {}
        }
    }

    pub(in crate::remediation::tests) fn tick(&mut self) {
        self.now += TICK;
        while let Some(i) = self.plan.faults.iter().position(|(t, _)| *t <= self.now) {
            let (_, fault) = self.plan.faults.remove(i);
            self.apply(fault);
        }
        for i in 0..2 {
            self.move_host(i);
        }
        if self.agent_up {
            let open = self.ops.iter().filter(|(_, op)| op.outcome.is_none());
            for id in open.map(|(id, _)| id.clone()).collect::<Vec<_>>() {
                self.move_op(&id);
            }
        }
        self.move_operator();
        self.move_cluster();
    }

    fn move_host(&mut self, i: usize) {
        let now = self.now;
        let boot = now + self.plan.boot_takes;
        let host = &mut self.hosts[i];
        match host.power {
            Power::GoingOff(t) if t <= now => {
                host.power = Power::Off;
                host.up_from = None;
                if i == 0 {
                    self.cluster.process = false;
                }
            }
            Power::GoingOn(t) if t <= now => {
                host.power = Power::On;
                host.up_from = Some(boot);
                host.boots += 1;
                // A reboot heals a hung kubelet.
                if i == 0 {
                    self.partitioned = false;
                }
            }
            _ => {}
        }
    }

    /// baremetal-operator looks every 3 s. Ironic forces a host off that came on by another hand, whoever else
    /// runs.
    fn move_operator(&mut self) {
        if self.bmh.is_none() {
            return;
        }
        let readable = !self.silent && !self.plan.lying;
        if readable && !self.stored_on && self.now % SYNC == 0 {
            self.switch(self.target(), false);
        }
        if self.now % 3000 == 0 {
            self.owner_looks();
        }
    }

    /// A BareMetalHost cannot be changed while the webhook of baremetal-operator is away with it.
    pub(in crate::remediation::tests) fn refuses_change_of_host(
        &mut self,
        command: &Command,
    ) -> bool {
        let changes_hold = matches!(
            command,
            Command::AddHold | Command::RenewHold | Command::RemoveHold
        );
        let changes_host = matches!(
            command,
            Command::RemoveOrphanedHolds { .. }
                | Command::BlockMove
                | Command::UnblockMove
                | Command::UnblockHost
        );
        let is_away = self.bmo_down && self.plan.webhook;
        if let Some(bmh) = self.bmh.as_mut().filter(|_| changes_hold) {
            let why = "failed calling webhook \"baremetalhost.metal3.io\"";
            bmh.hold_refused = is_away.then(|| HoldRefusal::new(why, time(self.now)));
        }
        is_away && (changes_hold || changes_host) && self.bmh.is_some()
    }

    /// baremetal-operator copies Ironic's state, then requests the power that is wanted.
    pub(in crate::remediation::tests) fn owner_looks(&mut self) {
        let target = self.target();
        let (down, silent, lying) = (self.bmo_down, self.silent, self.plan.lying);
        let Some(bmh) = self.bmh.as_mut().filter(|_| !down) else {
            return;
        };
        bmh.powered_on = Some(self.stored_on);
        let on = bmh.online
            && !bmh.our_hold
            && bmh.foreign_holds.is_empty()
            && bmh.orphaned_holds.is_empty();
        // A BMC that always reports off has reached off, and never reaches on.
        if silent || lying && on {
            return;
        }
        self.stored_on = on;
        if !lying {
            self.switch(target, on);
        }
    }

    fn move_cluster(&mut self) {
        let heard = self.heard();
        if self.kubelet_up() && self.hosts[0].up_from == Some(self.now) {
            // A kubelet that comes back starts even a pod that has a deletionTimestamp.
            self.cluster.process = self.cluster.pod.is_some();
        }
        let boots = self.hosts[0].boots;
        let (now, unheard) = (self.now, self.unknown());
        let c = &mut self.cluster;
        if heard {
            c.node = true;
            c.boot_id = boots;
            if now - c.lease >= 10_000 {
                c.lease = now;
            }
        }
        if c.taint != Taint::Absent && c.pod == Some(false) {
            c.pod = Some(true);
        }
        let orphan = !c.node && c.node_gone_at.is_some_and(|t| now - t > 40_000);
        let forced = c.taint != Taint::Absent && (unheard || !heard && now - c.lease > 40_000);
        if c.pod == Some(true) && heard && !self.plan.pod_stuck {
            // The kubelet stops the pod gracefully.
            c.process = false;
            c.pod = None;
            c.pod_gone_at = Some(now);
        } else if (c.pod == Some(true) && forced || c.pod.is_some() && orphan)
            && now % 20_000 == 0
            && !self.plan.pod_stuck
        {
            c.pod = None;
            c.pod_gone_at = Some(now);
        }
        if let Some(gone) = c.pod_gone_at
            && now - gone >= 1000
        {
            c.elsewhere = true;
            c.volume = c.volume && now - gone < 4000;
            if c.process && !self.excused {
                self.fail("a workload runs twice");
            }
        }
    }

    /// The pod that is bound to our node. A kubelet that comes back reports about it, which changes its version.
    pub(in crate::remediation::tests) fn bound_pod(&self) -> Option<BoundPod> {
        let is_terminating = self.cluster.pod?;
        let mut pod = mk_pod("db-0");
        pod.is_terminating = is_terminating;
        pod.id.version = format!("{is_terminating}-{}", self.cluster.boot_id);
        Some(pod)
    }

    /// The API server deletes the pod at once, if it is still that pod. Returns whether it was.
    pub(in crate::remediation::tests) fn force_delete(&mut self, pod: &PodRef) -> bool {
        let same = self.bound_pod().is_some_and(|bound| bound.id == *pod);
        if same {
            self.cluster.pod = None;
            self.cluster.pod_gone_at = Some(self.now);
        }
        same
    }

    pub(in crate::remediation::tests) fn delete_node(&mut self) {
        // Kubernetes removes the pods of a Node that a person deletes, running or not.
        self.excused |= self.cluster.process;
        self.forget_node();
    }

    pub(in crate::remediation::tests) fn forget_node(&mut self) {
        self.cluster.cordoned = false;
        self.cluster.node = false;
        self.cluster.deleted += 1;
        self.cluster.taint = Taint::Absent;
        self.cluster.node_gone_at = Some(self.now);
    }
}
