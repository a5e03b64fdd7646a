//! The state of the small world: the remediation object, the controller's memory, the host and its BMC,
//! the agent, the Node and the pod.

pub mod agent;
pub mod evictions;
pub mod operation;
pub mod other_host;
pub mod outlets;
pub mod owner;
pub mod restore;

use std::{collections::BTreeSet, time::Duration};

use jiff::Timestamp;
use rackhand_agent_core::ledger::Sequence;
use rackhand_core::remediation::{
    LeaseMemory, Next, NodeFacts, RemediationOutcome, Shell, State, Taint,
};

use crate::{
    copy_on_write::CopyOnWrite,
    remediation::{
        judge::Wrong,
        world::{
            agent::Agent,
            evictions::{Leaving, NodeCordon},
            other_host::OtherHost,
            outlets::Outlets,
            owner::Owner,
            restore::Backup,
        },
    },
    time::{NOW, shift, shift_leases, shift_shell, shift_some, shift_state},
};

/// UID of the remediation object.
pub const UID: &str = "r1";

/// Seconds from a command until the power has changed.
pub const SWITCH_TAKES: u64 = 2;
/// Seconds from power until the kubelet runs.
pub const BOOT_TAKES: u64 = 20;

/// The first term, before the first call.
const FIRST: Sequence = Sequence {
    term: 1,
    sequence: 0,
};

/// The remediation object, as stored in the Kubernetes API.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Object {
    /// The stored state.
    pub state: Option<State>,
    /// Our finalizer is on it.
    pub finalizer: bool,
    /// It has a deletionTimestamp.
    pub deleting: bool,
    /// It carries the confirmation of a person.
    pub confirmed: bool,
}

/// Objects that have another `resourceVersion` than when they were observed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Changed {
    /// The remediation object.
    pub object: bool,
    /// Its RemediationState.
    pub record: bool,
    /// The Node.
    pub node: bool,
    /// The BareMetalHost.
    pub host: bool,
    /// The pod. A kubelet that has booted reports about it.
    pub pod: bool,
}

/// A decision that was made and is not carried out yet; the world may change before it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Held {
    /// The state to write.
    pub state: State,
    /// What to do.
    pub next: Next,
    /// Whether a state is written without its copy in the object.
    pub is_passed: bool,
    /// What has changed since it was observed. A write of that is refused by the API.
    pub changed: Changed,
    /// Whether our hold was on the BareMetalHost when it was observed. Nobody can see what happens
    /// between the decision and the command; F3 covers that.
    pub hold: Option<bool>,
    /// It switches off a host on which another Node was Ready when it was observed, and nothing is moved.
    pub switches_healthy_off: bool,
    /// It begins to switch off a host whose kubelet was shown to work, with a pod on it that is waited for.
    pub ends_awaited_pod: bool,
    /// The term and the number of its call, once it was sent.
    pub sent: Sequence,
}

/// When the controller looks again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sleep {
    /// Now.
    Awake,
    /// At this time, or when anything changes.
    Watching(Timestamp),
    /// At this time, after a failure.
    Paused(Timestamp),
}

/// What the controller has in memory, and loses in a crash.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Process {
    /// The decision that is being carried out.
    pub held: Option<Held>,
    /// What its engine remembers.
    pub shell: Shell,
    /// Since when it has seen the Lease of the Node.
    pub leases: LeaseMemory,
    /// When it looks again.
    pub sleep: Sleep,
}

impl Process {
    /// A process that has just started.
    pub fn new() -> Self {
        Self {
            held: None,
            shell: Shell::new(UID),
            leases: LeaseMemory::default(),
            sleep: Sleep::Awake,
        }
    }
}

impl Default for Process {
    fn default() -> Self {
        Self::new()
    }
}

/// The true power of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Power {
    /// On.
    On,
    /// Still on, and off from then on.
    GoingOff(Timestamp),
    /// Off.
    Off,
    /// Still off, and on from then on.
    GoingOn(Timestamp),
}

/// The host.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Host {
    /// Its true power.
    pub power: Power,
    /// When its operating system has booted.
    pub boot: Option<Timestamp>,
    /// Its operating system runs.
    pub up: bool,
    /// The kubelet hangs, or is cut off: nobody hears it, and its processes run on.
    pub hung: bool,
    /// Boots so far.
    pub boots: u8,
}

/// The BMC.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Bmc {
    /// It does not answer.
    pub silent: bool,
    /// It was reset and takes its host for off, whatever that does: so it reports, and refuses a power-off.
    /// It learns the true state at any later time, or by a power-on, which it carries out.
    pub reset: bool,
    /// It reports off and takes every command, and never does anything.
    pub lying: bool,
}

/// An update of the host's firmware.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Flash {
    /// It has not begun.
    Ahead,
    /// It is being written: the host must not lose its power.
    Running,
    /// It has ended.
    Ended,
}

/// The Node object and its Lease.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Node {
    /// Its UID.
    pub uid: u8,
    /// bootID as the kubelet reported it.
    pub boot: u8,
    /// renewTime of its Lease.
    pub lease: u8,
    /// Condition Ready is True; otherwise it is Unknown.
    pub ready: bool,
    /// The out-of-service taint.
    pub taint: Taint,
    /// Who keeps the scheduler from it.
    pub cordon: NodeCordon,
}

/// The name under which the kubelet registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Registration {
    /// That of the Node that is remediated.
    Pinned,
    /// Another one from the next boot on.
    OtherAtNextBoot,
    /// Another one; the Node with that name is Ready or not.
    Other {
        /// Condition Ready.
        ready: bool,
    },
}

/// The pod with a volume.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Pod {
    /// The API has it bound to our Node.
    pub bound: bool,
    /// Its volume is attached to our Node.
    pub volume: bool,
    /// Its process truly runs on our host.
    pub process: bool,
    /// It was started on another host.
    pub elsewhere: bool,
}

/// The state of the world.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct World {
    /// The remediation object.
    pub object: CopyOnWrite<Object>,
    /// The controller's memory.
    pub process: CopyOnWrite<Process>,
    /// A call that the controller before this one had sent. It may arrive at any time.
    pub late: Option<Held>,
    /// Another controller has taken over.
    pub deposed: bool,
    /// The term of the controller, and the number of its last call of the agent.
    pub sent: Sequence,
    /// The controller has claimed its term at the agent, as far as it knows.
    pub claimed: bool,
    /// The remediation has ended.
    pub done: Option<RemediationOutcome>,
    /// The host.
    pub host: Host,
    /// Its BMC.
    pub bmc: Bmc,
    /// The outlets that feed the host; `None`: no inventory names them.
    pub outlets: Option<Outlets>,
    /// The host that our BMC switches, if it is another one.
    pub other: Option<OtherHost>,
    /// The agent and its journal.
    pub agent: CopyOnWrite<Agent>,
    /// The policy asks for a diagnostic interrupt before the power-off.
    pub interrupts: bool,
    /// The kubelet renews its Lease at a boot, and reports its first status at any later time.
    pub late_status: bool,
    /// An update of firmware that may begin at any time; `None`: in this world there is none, and none is read.
    pub flash: Option<Flash>,
    /// Diagnostic interrupts that the BMC took in this attempt.
    pub interrupted: u8,
    /// Whether our hold key is on the BareMetalHost; `None` if there is none.
    pub hold: Option<bool>,
    /// baremetal-operator and Ironic; without a BareMetalHost they do nothing.
    pub owner: Owner,
    /// The Node.
    pub node: Node,
    /// The name under which the kubelet registers.
    pub registration: Registration,
    /// The pod.
    pub pod: Pod,
    /// How the pod is to leave a Node that is Ready; `None`: the kubelet hangs from the beginning on.
    pub leaving: Option<Leaving>,
    /// A backup of the management cluster.
    pub backup: Backup,
    /// Our remediation has begun to switch the host on again, or has released it. It switches nothing off
    /// from then on.
    pub ended_off: bool,
    /// Faults that may still happen.
    pub budget: u8,
    /// The BMC was silent at some time, so the host may be left off.
    pub was_silent: bool,
    /// What went wrong.
    pub wrong: Option<Wrong>,
}

impl World {
    /// A hung kubelet whose pod still runs, and a remediation that was just requested.
    pub fn new(cooperative: bool, lying: bool, budget: u8) -> Self {
        Self {
            object: CopyOnWrite::from(Object {
                state: None,
                finalizer: false,
                deleting: false,
                confirmed: false,
            }),
            process: Process::new().into(),
            late: None,
            deposed: false,
            sent: FIRST,
            claimed: true,
            done: None,
            host: Host {
                power: Power::On,
                boot: None,
                up: true,
                hung: true,
                boots: 1,
            },
            bmc: Bmc {
                silent: false,
                reset: false,
                lying,
            },
            outlets: None,
            other: None,
            interrupts: false,
            late_status: false,
            flash: None,
            interrupted: 0,
            agent: Agent::new(FIRST.term).into(),
            hold: cooperative.then_some(false),
            owner: Owner::new(),
            node: Node {
                uid: 1,
                boot: 1,
                lease: 0,
                ready: false,
                taint: Taint::Absent,
                cordon: NodeCordon::Absent,
            },
            registration: Registration::Pinned,
            pod: Pod {
                bound: true,
                volume: true,
                process: true,
                elsewhere: false,
            },
            leaving: None,
            backup: Backup::Never,
            ended_off: false,
            budget,
            was_silent: false,
            wrong: None,
        }
    }

    /// The next number of a call of the agent.
    pub fn next_call(&mut self) -> Sequence {
        self.sent.sequence += 1;
        self.sent
    }

    /// Another process leads, in the next term, which it has to claim.
    pub fn new_leader(&mut self) {
        self.process = Process::new().into();
        self.sent = Sequence {
            term: self.sent.term + 1,
            sequence: 0,
        };
        self.claimed = false;
    }

    /// Wakes a controller that waits for a change.
    pub fn changed(&mut self) {
        if matches!(self.process.sleep, Sleep::Watching(_)) {
            self.process.sleep = Sleep::Awake;
        }
    }

    /// Begins to switch the host.
    pub fn switch(&mut self, on: bool) {
        if !on && self.flash == Some(Flash::Running) && self.host.power != Power::Off {
            self.broken(Wrong::Bricked);
        }
        let due = crate::time::after(SWITCH_TAKES);
        match (self.host.power, on) {
            (Power::Off, true) => self.host.power = Power::GoingOn(due),
            (Power::On | Power::GoingOn(_), false) => {
                self.host.power = Power::GoingOff(due);
                self.host.boot = None;
            }
            _ => {}
        }
    }

    /// The host is off from now on.
    pub fn cut(&mut self) {
        self.host.power = Power::Off;
        self.host.boot = None;
        self.host.up = false;
        self.pod.process = false;
    }

    /// The host has power from now on, and boots.
    pub fn powered(&mut self) {
        self.host.power = Power::On;
        if !self.host.up {
            self.host.boot = Some(crate::time::after(BOOT_TAKES));
        }
    }

    /// The operating system and the kubelet run, and start the pods that the API has for the Node.
    pub fn booted(&mut self) {
        self.host.boot = None;
        self.host.up = true;
        self.host.hung = false;
        self.host.boots = self.host.boots.saturating_add(1);
        if self.registration == Registration::Pinned {
            self.pod.process = self.pod.bound;
            if self.late_status {
                self.node.lease = self.new_lease();
            } else {
                self.report();
            }
        } else {
            // It runs the pods of the other Node only.
            self.pod.process = false;
            self.registration = Registration::Other { ready: true };
        }
    }

    /// The kubelet registers under another name from the next boot on. A host that runs reboots by itself.
    pub fn renamed(&mut self) {
        self.registration = Registration::OtherAtNextBoot;
        if self.host.up {
            self.booted();
        }
    }

    /// Whether another Node runs on the host.
    pub fn runs_as_other_node(&self) -> bool {
        self.host.up && self.registration == Registration::Other { ready: true }
    }

    /// Whether the Node has changed since the controller has read it, and its watch does not show that yet.
    pub(crate) fn is_watch_behind(&self) -> bool {
        let now = crate::remediation::observe::node(self, &mut LeaseMemory::default());
        let is_other = |read: &NodeFacts| {
            (
                &read.uid,
                &read.boot_id,
                read.ready,
                read.taint,
                &read.cordon,
            ) != (&now.uid, &now.boot_id, now.ready, now.taint, &now.cordon)
        };
        let kept = self.process.shell.node.kept.as_ref();
        kept.is_some_and(|kept| is_other(&kept.node))
    }

    /// Whether the API shows a status of the present boot.
    pub fn is_reported(&self) -> bool {
        self.node.boot == self.host.boots
    }

    /// The kubelet renews its Lease, and reports its Node if it has done so in this boot.
    pub fn renew(&mut self) {
        if self.is_reported() {
            self.report();
        } else {
            self.node.lease = self.new_lease();
        }
    }

    /// The kubelet reports its Node.
    pub fn report(&mut self) {
        self.node.ready = true;
        self.node.boot = self.host.boots;
        self.node.lease = self.new_lease();
    }

    /// A renewTime that differs from every one that is remembered anywhere.
    fn new_lease(&self) -> u8 {
        let Process {
            held,
            shell,
            leases,
            ..
        } = &*self.process;
        let calls = held.iter().chain(&self.late).map(|call| &call.state);
        let states = calls.chain(&self.object.state).chain(&shell.state);
        let pinned = states.filter_map(|s| s.attempt.lease_at_off.as_ref());
        let read = shell.power.iter().filter_map(|p| p.lease.as_ref());
        let seen = leases.seen.values().map(|(renewed, _)| renewed);
        let names: BTreeSet<&String> = pinned.chain(read).chain(seen).collect();
        let used = |n: u8| n == self.node.lease || names.contains(&n.to_string());
        (0..=u8::MAX).find(|n| !used(*n)).unwrap_or_default()
    }

    /// Lets the time pass.
    pub fn pass(&mut self, passed: Duration) {
        if let Some(state) = &mut self.object.state {
            shift_state(state, passed);
        }
        let p = &mut *self.process;
        if let Some(held) = &mut p.held {
            shift_state(&mut held.state, passed);
        }
        if let Some(late) = &mut self.late {
            shift_state(&mut late.state, passed);
        }
        shift_shell(&mut p.shell, passed);
        shift_leases(&mut p.leases, passed);
        if let Sleep::Watching(t) | Sleep::Paused(t) = &mut p.sleep {
            shift(t, passed);
            if *t <= NOW {
                p.sleep = Sleep::Awake;
            }
        }
        if let Power::GoingOff(t) | Power::GoingOn(t) = &mut self.host.power {
            shift(t, passed);
        }
        shift_some(&mut self.host.boot, passed);
        if !self.agent.runs.is_empty() {
            self.agent.pass(passed);
        }
    }
}
