//! A Node that is Ready, and whose pods leave before its host is switched off; who cordons it, and what the Eviction API
//! answers.

use std::time::Duration;

use rackhand_core::remediation::{
    Cordon, EvictionPolicy, EvictionResult, LeaseMemory, Observation, PodRef, Policy, Step,
    Strategy, WorkloadView, eviction_is_justified,
};

use crate::{
    remediation::{
        breakage::Breakage,
        judge::Wrong,
        world::{Registration, UID, World},
    },
    time::NOW,
};

/// Time for the pods to leave: some polls, so that few states differ only in their times.
const EVICTION: Duration = Duration::from_secs(6);

/// Who keeps the scheduler from a Node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NodeCordon {
    /// Nobody.
    Absent,
    /// Our remediation.
    Ours,
    /// A person.
    Person,
}

impl NodeCordon {
    /// As the controller reads it.
    pub(crate) fn facts(self) -> Cordon {
        match self {
            Self::Absent => Cordon::Absent,
            Self::Ours => Cordon::Rackhand { uid: UID.into() },
            Self::Person => Cordon::Other,
        }
    }
}

/// How the pod is to leave its Node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Leaving {
    /// What happens when it does not leave in time; the same in every state of a run.
    pub blocked: EvictionPolicy,
    /// Its budget forbids that it is evicted.
    pub forbids: bool,
    /// It was evicted, and its kubelet is to end it.
    pub evicted: bool,
    /// How many pods of its name there were before it.
    pub former: u8,
    /// Whoever made the remediation has given it up.
    pub given_up: bool,
    /// A person has asked for the host to be emptied and left on; the same in every state of a run.
    pub left_on: bool,
    /// A person has asked since that it is switched off after all.
    pub asked_off: bool,
}

impl Leaving {
    /// The rules of the remediation about evictions.
    pub(crate) fn policy(self) -> Policy {
        Policy {
            strategy: match (self.left_on, self.asked_off) {
                (false, _) => Strategy::Reboot,
                (true, false) => Strategy::Evict,
                (true, true) => Strategy::PowerOff,
            },
            eviction_timeout: EVICTION,
            eviction_blocked: self.blocked,
            ..Policy::default()
        }
    }
}

impl World {
    /// The same world with a kubelet that works, and a pod whose budget forbids its eviction at first; with each policy,
    /// and of a host that is left on with those that wait.
    pub(crate) fn of_evictions(mut self) -> Vec<Self> {
        self.host.hung = false;
        self.node.ready = true;
        let policies = [
            (EvictionPolicy::Proceed, false),
            (EvictionPolicy::Wait, false),
            (EvictionPolicy::Abort, false),
            (EvictionPolicy::Proceed, true),
            (EvictionPolicy::Wait, true),
        ];
        let with = |(blocked, left_on)| {
            let leaving = Leaving {
                blocked,
                forbids: true,
                evicted: false,
                former: 0,
                given_up: false,
                left_on,
                asked_off: false,
            };
            Self {
                leaving: Some(leaving),
                ..self.clone()
            }
        };
        policies.map(with).into()
    }

    /// Whether the kubelet of the Node works.
    pub(crate) fn is_heard(&self) -> bool {
        let is_pinned = matches!(
            self.registration,
            Registration::Pinned | Registration::OtherAtNextBoot
        );
        self.host.up && !self.host.hung && is_pinned
    }

    /// The UID of the pod.
    pub(crate) fn pod_uid(&self) -> String {
        let former = self.leaving.map_or(0, |leaving| leaving.former);
        format!("pod-{}", former.saturating_add(1))
    }

    /// Whether the pod is Terminating because it was evicted.
    pub(crate) fn is_evicted(&self) -> bool {
        self.pod.bound && self.leaving.is_some_and(|leaving| leaving.evicted)
    }

    /// Whether the budget of the pod forbids its eviction.
    pub(crate) fn forbids_eviction(&self) -> bool {
        self.leaving.is_some_and(|leaving| leaving.forbids)
    }

    /// Whether its pods may still be evicted: nothing was switched yet.
    pub(crate) fn may_evict(&self) -> bool {
        let step = self.object.state.as_ref().map(|s| s.step);
        let early = [
            Step::Pending,
            Step::Evicting,
            Step::Evicted,
            Step::Holding,
            Step::Retrying,
        ];
        step.is_none_or(|step| early.contains(&step))
    }

    fn change_leaving(&mut self, change: impl FnOnce(&mut Leaving)) {
        if let Some(leaving) = &mut self.leaving {
            change(leaving);
        }
    }

    pub(crate) fn pod_ends(&mut self) {
        (self.pod.bound, self.pod.process) = (false, false);
        self.change_leaving(|leaving| leaving.evicted = false);
    }

    pub(crate) fn budget_permits(&mut self) {
        self.change_leaving(|leaving| leaving.forbids = false);
    }

    pub(crate) fn given_up(&mut self) {
        self.change_leaving(|leaving| leaving.given_up = true);
    }

    /// Whether the host is to stay on, and nobody has asked for anything else.
    pub(crate) fn is_left_on(&self) -> bool {
        (self.leaving).is_some_and(|leaving| leaving.left_on && !leaving.asked_off)
    }

    /// A person has a host switched after all that was to be left on.
    pub(crate) fn asked_off(&mut self) {
        self.change_leaving(|leaving| leaving.asked_off = true);
    }

    /// Whether a person may remove our cordon. Between the last list of the pods and the power-off nobody does: a pod that
    /// comes then is not known.
    pub(crate) fn can_return(&self) -> bool {
        let step = self.object.state.as_ref().map(|s| s.step);
        let evicts = matches!(step, Some(Step::Evicting | Step::Evicted));
        let evicts = evicts && self.process.held.is_none();
        evicts && self.node.cordon == NodeCordon::Ours
    }

    /// A person removes our cordon; if the pod has left and runs nowhere yet, the next of its name is bound here.
    pub(crate) fn pod_returns(&mut self) {
        self.node.cordon = NodeCordon::Absent;
        if !self.pod.bound && !self.pod.elsewhere {
            self.pod.bound = true;
            self.pod.volume = true;
            self.pod.process = self.is_heard();
            self.change_leaving(|leaving| {
                leaving.former = leaving.former.saturating_add(1);
                leaving.evicted = false;
            });
        }
    }

    /// Our cordon is set or removed. The API server has compared the version of the Node.
    pub(crate) fn sets_cordon(&mut self, on: bool) {
        if self.node.cordon == NodeCordon::Person {
            self.broken(Wrong::Cordon);
        }
        self.node.cordon = match on {
            true => NodeCordon::Ours,
            false => NodeCordon::Absent,
        };
    }

    /// The controller reads the Node live and asks for the eviction of these pods, if that is still the same.
    pub(crate) fn evicts(&mut self, node: &str, pods: &[PodRef], breakage: Option<Breakage>) {
        let live = crate::remediation::observe::node(self, &mut LeaseMemory::default());
        let is_guarded = breakage != Some(Breakage::EvictionUnguarded);
        if is_guarded && eviction_is_justified(Some(&live), node).is_err() {
            self.process.shell.node.forget();
            return;
        }
        if live.uid != node {
            self.broken(Wrong::EvictedOther);
        }
        for pod in pods {
            let result = self.answers_eviction(pod, breakage);
            self.process.shell.pod_evicted(pod.clone(), result, NOW);
        }
    }

    /// The API server answers to one eviction.
    fn answers_eviction(&mut self, pod: &PodRef, breakage: Option<Breakage>) -> EvictionResult {
        if !self.pod.bound || pod.uid != self.pod_uid() {
            return EvictionResult::Gone;
        }
        if self.forbids_eviction() && !self.is_evicted() {
            if breakage != Some(Breakage::BudgetOverruled) {
                return EvictionResult::Blocked("shop/db".into());
            }
            self.broken(Wrong::Budget);
        }
        self.change_leaving(|leaving| leaving.evicted = true);
        EvictionResult::Evicted
    }

    /// Whether any command was sent to the BMC: then the host may go off at any moment, and the power-off is finished.
    pub(crate) fn has_sent(&self) -> bool {
        let mut operations = self.agent.ledger.operations.values();
        operations.any(|op| !op.sending.is_empty())
    }

    /// Whether a pod runs under a kubelet that works and is shown to, and nobody has written that its budget is overruled:
    /// it must not lose its power. Nobody can see what happens between the decision and the command.
    pub(crate) fn has_awaited_pod(&self) -> bool {
        let is_awaited =
            (self.leaving).is_some_and(|leaving| leaving.blocked != EvictionPolicy::Proceed);
        let is_shown = self.node.ready && self.is_heard();
        is_awaited && is_shown && self.pod.bound && self.pod.process
    }
}

impl Breakage {
    /// Whether it needs a Node whose pods are evicted.
    pub(crate) fn is_of_evictions(self) -> bool {
        matches!(
            self,
            Self::CordonLeft
                | Self::ForeignUncordoned
                | Self::ForeignCordonTaken
                | Self::WaitIgnored
                | Self::AbortIgnored
                | Self::BudgetOverruled
                | Self::EvictionUnguarded
                | Self::DeadAwaited
                | Self::ParkedCut
                | Self::LeftOnCut
                | Self::ReadyAgainCut
        )
    }

    /// Distorts what the controller sees of the Node that is emptied.
    pub(crate) fn eviction_seen(self, o: &mut Observation, step: Step, w: &World) {
        if let (Self::WaitIgnored, Ok(policy)) = (self, &mut o.object.policy)
            && policy.eviction_blocked == EvictionPolicy::Wait
        {
            policy.eviction_blocked = EvictionPolicy::Proceed;
        }
        if let (Self::ReadyAgainCut, Ok(policy)) = (self, &mut o.object.policy)
            && matches!(step, Step::Holding | Step::PoweringOff)
        {
            policy.eviction_blocked = EvictionPolicy::Proceed;
        }
        let cut = match self {
            Self::ParkedCut => Some(Step::Evicted),
            Self::LeftOnCut => Some(Step::Evicting),
            _ => None,
        };
        if cut == Some(step) && w.is_left_on() {
            // What a health check has asked for is fenced.
            o.object.made_by_check = Some(NOW);
        }
        let WorkloadView::Present(node) = &mut o.workload else {
            return;
        };
        match self {
            Self::CordonLeft if !matches!(step, Step::Pending | Step::Evicting) => {
                node.cordon = Cordon::Absent;
            }
            Self::ForeignUncordoned if node.cordon == Cordon::Other => {
                node.cordon = NodeCordon::Ours.facts();
            }
            Self::ForeignCordonTaken if node.cordon == Cordon::Other => {
                node.cordon = Cordon::Absent;
            }
            Self::DeadAwaited if step == Step::Evicting && w.host.hung => {
                (node.ready, node.ready_unknown) = (true, false);
                if let Some(lease) = &mut node.lease {
                    lease.unchanged_since = NOW;
                }
            }
            _ => {}
        }
    }
}
