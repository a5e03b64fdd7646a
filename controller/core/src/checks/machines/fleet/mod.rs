//! The fleet of one check, evaluated incrementally.
//!
//! Owns the machines that a check selects, with their judgements, the counters, the deadlines and
//! the state of the limit. An event of one machine costs O(log n); a change that concerns all of them
//! (the rules, the Cluster, the workload API) O(n), which a large fleet does piece by piece. Must always equal the result of [`super::plan`] for
//! the same facts.

mod changes;
mod condition_filter;
mod counters;

use std::collections::BTreeMap;
use std::mem;
use std::ops::Bound;
use std::sync::Arc;

use jiff::Timestamp;

use super::{
    Check, CheckStatus, ClusterFacts, DialectRules, FleetCounts, FutureCause, Judgement,
    LimitStatus, MachineRemediation, NodeView, Target, judge,
};
pub use changes::{FleetChanges, PendingAction};
use condition_filter::{kinds, trim, trim_node};
use counters::Counters;

/// A machine of the fleet.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Member<M> {
    target: Target<M>,
    judgement: Judgement,
}

/// The fleet of one check. Callers report each change and [`Fleet::take`] what follows from it.
///
/// Only conditions that a rule of the check names are kept, so that a fleet of 100,000 machines
/// stays small.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Fleet<P: DialectRules = Check> {
    check: P,
    cluster: ClusterFacts,
    /// Why the workload cluster cannot be queried; `None` if it can.
    unreachable: Option<String>,
    now: Timestamp,
    members: BTreeMap<Arc<str>, Member<P::Machine>>,
    counters: Counters,
    /// Whether every selected machine was put.
    is_whole: bool,
    /// The machines that are left to evaluate after a change that concerns all of them.
    stale: Option<Stale>,
    open: bool,
    turn: FleetChanges,
}

/// Machines of a large fleet that are left to evaluate. They are not counted yet.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Stale {
    /// The first of them, in the order of their names; `None`: none was evaluated yet.
    from: Option<Arc<str>>,
    /// Whether all of them are reported, because an action may be due that was denied before.
    resumed: bool,
}

/// A fleet with more machines is evaluated piece by piece when something changes for all of them.
const AT_ONCE: usize = 1000;

// === impl Fleet ===

impl<P: DialectRules> Fleet<P> {
    /// An empty fleet. `unreachable`: why the workload cluster cannot be queried; `None` if it can.
    pub fn new(
        check: P,
        cluster: ClusterFacts,
        unreachable: Option<String>,
        now: Timestamp,
    ) -> Self {
        let mut fleet = Self::unfilled(check, cluster, unreachable, now);
        fleet.end_filling();
        fleet
    }

    /// A fleet whose machines are put one after the other, with changes in between. Nothing is due for any machine,
    /// and the limit allows nothing, before [`Fleet::end_filling`] (F13).
    pub fn unfilled(
        check: P,
        cluster: ClusterFacts,
        unreachable: Option<String>,
        now: Timestamp,
    ) -> Self {
        Self {
            check,
            cluster,
            unreachable,
            now,
            members: BTreeMap::new(),
            counters: Counters::default(),
            is_whole: false,
            stale: None,
            open: false,
            turn: FleetChanges {
                counts: true,
                targets: true,
                ..FleetChanges::default()
            },
        }
    }

    /// Every selected machine was put.
    pub fn end_filling(&mut self) {
        self.is_whole = true;
        self.settle();
    }

    /// Whether every selected machine was put and evaluated. Before that, counts and limit are those of a part of the
    /// fleet, the limit allows nothing, and nothing is due for any machine (F13).
    pub fn is_whole(&self) -> bool {
        self.is_whole && self.stale.is_none()
    }

    /// Whether machines are left to evaluate, see [`Self::evaluate_some`].
    pub fn is_stale(&self) -> bool {
        self.stale.is_some()
    }

    /// Evaluates at most so many of the machines that are left after a change that concerns all of them. Returns whether
    /// some are left.
    pub fn evaluate_some(&mut self, now: Timestamp, most: usize) -> bool {
        self.tick(now);
        let Some(Stale { from, resumed }) = self.stale.clone() else {
            return false;
        };
        let start = from.map_or(Bound::Unbounded, Bound::Included);
        let left = self.members.range::<Arc<str>, _>((start, Bound::Unbounded));
        let mut names: Vec<Arc<str>> = left
            .map(|(name, _)| name.clone())
            .take(most.saturating_add(1))
            .collect();
        let next = (names.len() > most).then(|| names.pop()).flatten();
        for name in names {
            let Some(mut member) = self.members.remove(&name) else {
                continue;
            };
            let judgement = self.judged(&member.target);
            self.put_evaluated(&name, &mut member, judgement, resumed);
            self.members.insert(name, member);
        }
        let is_left = next.is_some();
        self.stale = next.map(|next| Stale {
            from: Some(next),
            resumed,
        });
        if !is_left {
            self.turn.counts = true;
            self.settle();
        }
        is_left
    }

    /// Adds a selected machine, or replaces its facts.
    pub fn put(&mut self, mut target: Target<P::Machine>, now: Timestamp) {
        self.tick(now);
        trim(
            self.check.common(),
            target.machine.as_mut(),
            &mut target.node,
        );
        let name = self.name(&target.machine.as_ref().name);
        let judgement = self.judged(&target);
        let was_target = self.drop_member(&name);
        let is_target = judgement.verdict.is_target();
        self.count(&name, &target, &judgement);
        self.members
            .insert(name.clone(), Member { target, judgement });
        self.turn.targets |= was_target != is_target;
        self.turn.counts = true;
        self.turn.machines.insert(name);
        self.settle();
    }

    /// Removes a machine that is gone, or no longer selected.
    pub fn remove(&mut self, machine: &str, now: Timestamp) {
        self.tick(now);
        let name = self.name(machine);
        self.turn.targets |= self.drop_member(&name);
        self.turn.counts = true;
        self.turn.machines.remove(&name);
        self.settle();
    }

    /// Applies a change of a machine; `target`: its facts, if the check selects it. Returns whether it is or was in
    /// this fleet.
    pub fn set_target(
        &mut self,
        machine: &str,
        target: Option<Target<P::Machine>>,
        now: Timestamp,
    ) -> bool {
        match target {
            Some(target) => self.put(target, now),
            None if self.contains(machine) => self.remove(machine, now),
            None => return false,
        }
        true
    }

    /// Replaces the Node of a machine. A heartbeat changes no stored condition and has no effect.
    pub fn set_node(&mut self, machine: &str, mut node: NodeView, now: Timestamp) {
        trim_node(self.check.common(), &mut node);
        self.change(machine, now, |target| {
            let differs = target.node != node;
            target.node = node;
            differs
        });
    }

    /// Replaces the remediation of a machine.
    pub fn set_remediation(
        &mut self,
        machine: &str,
        remediation: MachineRemediation,
        now: Timestamp,
    ) {
        self.change(machine, now, |target| {
            let differs = target.remediation != remediation;
            target.remediation = remediation;
            differs
        });
    }

    /// Replaces the Cluster, and evaluates all machines if it has changed.
    pub fn set_cluster(&mut self, cluster: ClusterFacts, now: Timestamp) {
        self.tick(now);
        if self.cluster == cluster {
            return;
        }
        let resumed = self.paused() && !(self.check.common().paused || cluster.paused);
        self.cluster = cluster;
        self.judge_all(resumed);
    }

    /// Sets why the workload cluster cannot be queried; `None`: it can.
    pub fn set_unreachable(&mut self, unreachable: Option<String>, now: Timestamp) {
        self.tick(now);
        if self.unreachable != unreachable {
            self.unreachable = unreachable;
            self.judge_all(false);
        }
    }

    /// Replaces the rules, and evaluates all machines. If the rules name other conditions than before,
    /// `read` returns the facts of each machine again; a machine that it does not know leaves the fleet.
    pub fn set_check(
        &mut self,
        check: P,
        now: Timestamp,
        mut read: impl FnMut(&str) -> Option<Target<P::Machine>>,
    ) {
        self.tick(now);
        if self.check == check {
            return;
        }
        let (before, after) = (self.check.common(), check.common());
        let others = kinds(&after.node_conditions) != kinds(&before.node_conditions)
            || kinds(&after.machine_conditions) != kinds(&before.machine_conditions);
        self.check = check;
        if others {
            self.members.retain(|name, member| {
                let Some(mut target) = read(name) else {
                    self.turn.machines.remove(name);
                    return false;
                };
                trim(
                    self.check.common(),
                    target.machine.as_mut(),
                    &mut target.node,
                );
                member.target = target;
                true
            });
            self.turn.targets = true;
        }
        self.judge_all(true);
    }

    /// Evaluates the machines whose deadline has passed.
    pub fn advance(&mut self, now: Timestamp) {
        while self.advance_some(now, usize::MAX) {}
    }

    /// Evaluates at most so many of the machines whose deadline has passed. Returns whether some are left; until none is,
    /// nothing may be done for any machine, because the counts are those of a moment that never was (F13).
    pub fn advance_some(&mut self, now: Timestamp, most: usize) -> bool {
        self.tick(now);
        let due = self.counters.due(self.now, most);
        for name in &due {
            self.judge_again(name);
        }
        if !due.is_empty() {
            self.settle();
        }
        due.len() == most && !self.counters.due(self.now, 1).is_empty()
    }

    /// The unhealthy machines, in the order of their names.
    pub fn unhealthy(&self) -> impl Iterator<Item = &Arc<str>> + '_ {
        self.counters.unhealthy()
    }

    /// At most so many of the unhealthy machines after this one, in the order of their names.
    pub fn unhealthy_after(&self, machine: Option<&Arc<str>>, most: usize) -> Vec<Arc<str>> {
        self.counters.unhealthy_after(machine, most)
    }

    /// When the first judgement changes by time alone; `None` while the check is paused or the fleet is not whole.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        let next = self.counters.next_deadline();
        next.filter(|_| !self.paused() && self.is_whole())
    }

    /// Takes the changes since the last call.
    pub fn take(&mut self) -> FleetChanges {
        mem::take(&mut self.turn)
    }

    /// What is due for a machine now; `None`: the machine is not in this fleet.
    pub fn wanted(&self, machine: &str) -> Option<PendingAction<'_, P::Action>> {
        let Member { target, judgement } = self.members.get(machine)?;
        let verdict = &judgement.verdict;
        let acts = !self.paused() && self.is_whole();
        Some(PendingAction {
            uid: &target.machine.as_ref().uid,
            verdict,
            condition: P::condition(&target.machine, verdict).filter(|_| acts),
            action: self
                .check
                .action(target, verdict, self.open)
                .filter(|_| acts),
        })
    }

    /// The state of the limit, with the first names of the machines that count against it.
    pub fn gate(&self) -> LimitStatus {
        LimitStatus::new(&self.check, self.tally(), self.counters.counting())
    }

    /// The values for the status of the check; O(n), because of the names.
    pub fn status(&self) -> CheckStatus {
        let is_target =
            |(_, member): &(_, &Member<P::Machine>)| member.judgement.verdict.is_target();
        let targets = self.members.iter().filter(is_target);
        let tally = self.tally();
        CheckStatus {
            expected: tally.expected,
            healthy: tally.healthy,
            unhealthy: tally.unhealthy,
            targets: targets.map(|(name, _)| name.to_string()).collect(),
        }
    }

    /// The counts of the machines.
    pub fn tally(&self) -> &FleetCounts {
        self.counters.tally()
    }

    /// Number of unhealthy machines by their first cause.
    pub fn causes(&self) -> impl Iterator<Item = (&'static str, u32)> + '_ {
        self.counters.causes()
    }

    /// The machines with causes whose recorded time is in the future, in the order of their names.
    pub fn ahead(&self) -> impl ExactSizeIterator<Item = (&Arc<str>, &[FutureCause])> + '_ {
        self.counters.ahead().map(|name| {
            let member = self.members.get(name);
            (
                name,
                member.map_or(&[][..], |m| m.judgement.ahead.as_slice()),
            )
        })
    }

    /// Whether the limit allows remediation now.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Whether a machine is in this fleet.
    pub fn contains(&self, machine: &str) -> bool {
        self.members.contains_key(machine)
    }

    /// Whether a machine has a remediation, including one that is being deleted, or a mark in place of one.
    pub fn has_remediation(&self, machine: &str) -> bool {
        let member = self.members.get(machine);
        member.is_some_and(|m| {
            matches!(
                m.target.remediation,
                MachineRemediation::Open | MachineRemediation::Deleting
            ) || self.check.is_marked(&m.target.machine)
        })
    }

    /// The machines, skipped ones included, in the order of their names.
    pub fn machines(&self) -> impl Iterator<Item = &Arc<str>> + '_ {
        self.members.keys()
    }

    /// At most so many of the machines after this one, skipped ones included, in the order of their names.
    pub fn machines_after(&self, machine: Option<&Arc<str>>, most: usize) -> Vec<Arc<str>> {
        let after = machine.map_or(Bound::Unbounded, Bound::Excluded);
        let range = self.members.range::<Arc<str>, _>((after, Bound::Unbounded));
        range.take(most).map(|(name, _)| name.clone()).collect()
    }

    /// Whether the check or its Cluster is paused, so that nothing is due.
    pub fn paused(&self) -> bool {
        self.check.common().paused || self.cluster.paused
    }

    /// Time never goes back, so that a clock that is set back reverts no verdict.
    fn tick(&mut self, now: Timestamp) {
        self.now = self.now.max(now);
    }

    /// One allocation per name, however many sets hold it.
    fn name(&self, machine: &str) -> Arc<str> {
        let known = self.members.get_key_value(machine);
        known.map_or_else(|| Arc::from(machine), |(name, _)| name.clone())
    }

    fn judged(&self, target: &Target<P::Machine>) -> Judgement {
        let hidden = self.unreachable.as_ref().map(|why| NodeView::Unreachable {
            why: why.clone(),
            joined: target.node != NodeView::NotJoined,
        });
        let node = hidden.as_ref().unwrap_or(&target.node);
        let machine = target.machine.as_ref();
        judge(self.check.common(), &self.cluster, machine, node, self.now)
    }

    /// Removes a member. Returns whether it was a target.
    fn drop_member(&mut self, name: &str) -> bool {
        let Some((name, old)) = self.members.remove_entry(name) else {
            return false;
        };
        self.uncount(&name, &old.target, &old.judgement);
        old.judgement.verdict.is_target()
    }

    /// Changes the facts of a machine, and evaluates it again if they differ.
    fn change(
        &mut self,
        machine: &str,
        now: Timestamp,
        change: impl FnOnce(&mut Target<P::Machine>) -> bool,
    ) {
        self.tick(now);
        let Some(member) = self.members.get_mut(machine) else {
            return;
        };
        let before = member.target.remediation.clone();
        if !change(&mut member.target) {
            return;
        }
        let Some((name, mut member)) = self.members.remove_entry(machine) else {
            return;
        };
        let judgement = self.judged(&member.target);
        if judgement != member.judgement || member.target.remediation != before {
            let after = mem::replace(&mut member.target.remediation, before);
            self.uncount(&name, &member.target, &member.judgement);
            member.target.remediation = after;
            self.replace(&name, &mut member, judgement);
        }
        self.members.insert(name, member);
        self.settle();
    }

    fn judge_again(&mut self, name: &str) {
        let Some((name, mut member)) = self.members.remove_entry(name) else {
            return;
        };
        let judgement = self.judged(&member.target);
        if judgement != member.judgement {
            self.uncount(&name, &member.target, &member.judgement);
            self.replace(&name, &mut member, judgement);
        }
        self.members.insert(name, member);
    }

    /// Counts a machine that was taken out of the counters with its new judgement.
    fn replace(&mut self, name: &Arc<str>, member: &mut Member<P::Machine>, judgement: Judgement) {
        self.turn.targets |= judgement.verdict.is_target() != member.judgement.verdict.is_target();
        self.turn.counts = true;
        self.turn.machines.insert(name.clone());
        self.count(name, &member.target, &judgement);
        member.judgement = judgement;
    }

    /// Evaluates every machine. `resumed`: reports all of them, because an action may be due that was
    /// denied before.
    fn judge_all(&mut self, resumed: bool) {
        self.counters = Counters::default();
        if self.members.len() > AT_ONCE {
            let resumed = resumed || self.stale.as_ref().is_some_and(|stale| stale.resumed);
            self.stale = Some(Stale {
                from: None,
                resumed,
            });
            self.settle();
            return;
        }
        self.stale = None;
        let mut members = mem::take(&mut self.members);
        for (name, member) in &mut members {
            let judgement = self.judged(&member.target);
            self.put_evaluated(name, member, judgement, resumed);
        }
        self.members = members;
        self.turn.counts = true;
        self.settle();
    }

    /// Takes over the judgement of a machine that is not counted.
    fn put_evaluated(
        &mut self,
        name: &Arc<str>,
        member: &mut Member<P::Machine>,
        judgement: Judgement,
        resumed: bool,
    ) {
        if resumed || judgement != member.judgement {
            self.turn.machines.insert(name.clone());
        }
        self.turn.targets |= judgement.verdict.is_target() != member.judgement.verdict.is_target();
        let counts = self.check.counts(&member.target, &judgement.verdict);
        self.counters.add(name, counts, &judgement);
        member.judgement = judgement;
    }

    /// Whether a machine of this name is counted. One that is left to evaluate is not.
    fn is_counted(&self, name: &str) -> bool {
        self.stale.as_ref().is_none_or(|stale| {
            let from = stale.from.as_deref();
            from.is_some_and(|from| name < from)
        })
    }

    fn count(&mut self, name: &Arc<str>, target: &Target<P::Machine>, judgement: &Judgement) {
        if self.is_counted(name) {
            let counts = self.check.counts(target, &judgement.verdict);
            self.counters.add(name, counts, judgement);
        }
    }

    fn uncount(&mut self, name: &Arc<str>, target: &Target<P::Machine>, judgement: &Judgement) {
        if self.is_counted(name) {
            let counts = self.check.counts(target, &judgement.verdict);
            self.counters.remove(name, counts, judgement);
        }
    }

    /// Opens or closes the limit by the counters, and then reports all unhealthy machines: those that waited to
    /// be handed over when it closed need another live read once it opens (F10).
    fn settle(&mut self) {
        let open = self.is_whole() && self.check.allowance(self.tally()).is_some();
        if open != self.open {
            self.turn.counts = true;
            if self.counters.unhealthy_count() > AT_ONCE {
                self.turn.unhealthy = true;
            } else {
                let unhealthy = self.counters.unhealthy().cloned();
                self.turn.machines.extend(unhealthy);
            }
        }
        self.open = open;
    }
}
