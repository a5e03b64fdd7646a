//! The bookkeeping of the engine for the members of all its checks.
//!
//! Owns the order of what happens to a member: it is queued, gets its turn, is in flight, has ended, waits for its
//! retry. Callers evaluate a member, carry out its effect, and report how that ended.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use super::{
    EffectOutcome, Item, ItemState, LiveRead, Phase, Role, Turn, Unusable, Wanted, Window,
    handovers::Handovers,
    items::{Items, SEE_AGAIN},
    queue::Queue,
};
use crate::checks::machines::MachineRemediation;

/// The conditions of a Machine that were not written.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Unwritten {
    /// The outcome of the last effect, which they would have shown.
    pub outcome: Option<EffectOutcome>,
    /// Whether the write is tried again; false if the watch delivers a newer Machine.
    pub retries: bool,
}

/// The members of all evaluated checks. `K` is the key of a check; `now` is the time on a monotonic clock.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Members<K: Ord> {
    queue: Queue<K>,
    items: Items<K>,
    handovers: Handovers<K>,
}

impl<K: Ord + Clone> Default for Members<K> {
    fn default() -> Self {
        Self::with_window(Window::default())
    }
}

// === impl Members ===

impl<K: Ord + Clone> Members<K> {
    /// No members, with a window other than the default.
    pub fn with_window(window: Window) -> Self {
        Self {
            queue: Queue::with_window(window),
            items: Items::default(),
            handovers: Handovers::default(),
        }
    }

    /// Begins the evaluation of a check, or begins it anew: then no member is cleared.
    pub fn begin_check(&mut self, check: &K) {
        self.handovers.begin(check);
    }

    /// The members of a check whose remediation may exist since before its evaluation began: the caller reads the
    /// remediation of each again, and they are retried.
    pub fn resume_remediations(&mut self, check: &K, now: Duration) -> Vec<Item<K>> {
        let items = self.items.in_phase(check, Phase::remediation_may_exist);
        for item in &items {
            self.queue.later(item, now + SEE_AGAIN);
        }
        items
    }

    /// Ends the evaluation of a check. What is in flight ends by itself.
    pub fn end_check(&mut self, check: &K) {
        self.queue.forget(check);
        self.items.forget(check);
        self.handovers.end(check);
    }

    /// The remediation of a member as it counts against the limit (F10); `seen`: as the index shows it.
    pub fn counted(&self, item: &Item<K>, seen: MachineRemediation) -> MachineRemediation {
        self.items.phase(item).counted(seen)
    }

    /// The members whose remediation is being created.
    pub fn creating(&self) -> impl Iterator<Item = &Item<K>> {
        self.items.creating()
    }

    /// Why a due remediation of a check was not created; of several members, the first by name.
    pub fn not_created(&self, check: &K) -> Option<Unusable> {
        self.items.not_created(check)
    }

    /// Sets why the due remediation of a member was not created. Returns whether that is a change.
    pub fn set_not_created(&mut self, item: &Item<K>, why: Option<&Unusable>) -> bool {
        let known = self
            .items
            .get(item)
            .and_then(|state| state.not_created.as_ref());
        if known == why {
            return false;
        }
        self.items
            .change(item, |state| state.not_created = why.cloned());
        true
    }

    /// Queues a member if there is something to do for it. A member that is not to be handed over waits for no
    /// live read. `shows`: a condition has to be written.
    pub fn reconsider<E>(&mut self, item: &Item<K>, wanted: &Wanted<E>, shows: bool) {
        if !wanted.hands_over {
            self.withdraw(item);
        }
        if let Some(acts) = wanted.queued(self.items.get(item), shows) {
            self.queue.push(item.clone(), acts);
        }
    }

    /// Queues a member with an effect, unless it waits for its retry.
    pub fn enqueue(&mut self, item: Item<K>) {
        if !self.items.get(&item).is_some_and(ItemState::is_held) {
            self.queue.push(item, true);
        }
    }

    /// A member is no longer due to be handed over.
    pub fn withdraw(&mut self, item: &Item<K>) {
        self.handovers.withdraw(item);
    }

    /// All members of a check are no longer due to be handed over, or need another live read: they are evaluated
    /// again later, and may have recovered until then.
    pub fn withdraw_all(&mut self, check: &K) {
        self.handovers.withdraw_all(check);
    }

    /// Takes the next member from the queue.
    pub fn pop(&mut self) -> Option<Item<K>> {
        self.queue.pop()
    }

    /// Decides what is done for a member that was taken from the queue.
    pub fn turn<E>(
        &mut self,
        item: &Item<K>,
        wanted: Wanted<E>,
        role: Role,
        now: Duration,
    ) -> Turn<E> {
        let handovers = &mut self.handovers;
        let state = self.items.get(item);
        let turn = wanted.turn(state, role, || handovers.request(item, now));
        if matches!(turn, Turn::Yield) && state.is_some() {
            self.items.change(item, |state| state.unreported = None);
        }
        turn
    }

    /// Whether a member may be handed over now. Otherwise it waits for the live read of its batch.
    pub fn is_cleared(&mut self, item: &Item<K>, now: Duration) -> bool {
        self.handovers.request(item, now)
    }

    /// A member waits until the template of its check was read.
    pub fn await_template(&mut self, item: &Item<K>) {
        self.items.set_phase(item, Phase::AwaitingTemplate);
    }

    /// The template of a check was read, or not. Returns the members that have waited for it.
    pub fn template_read(&mut self, check: &K, is_read: bool, now: Duration) -> Vec<Item<K>> {
        let waiting = |phase| phase == Phase::AwaitingTemplate;
        let items = self.items.in_phase(check, waiting);
        for item in &items {
            self.items.set_phase(item, Phase::Ready);
            if !is_read {
                self.back_off(item, now);
            }
        }
        items
    }

    /// The member is in flight from now on. `creates`: its remediation may exist from now on (F10).
    pub fn begin(&mut self, item: &Item<K>, creates: bool) {
        self.queue.begin(item.clone());
        if creates {
            self.items.set_phase(item, Phase::Creating);
        }
    }

    /// Whether the conditions of a member that was taken from the queue may be written now. Otherwise it is queued
    /// behind other conditions: a member that waits for a live read, or was acted on before, would take the room of
    /// remediations.
    pub fn may_show(&mut self, item: &Item<K>) -> bool {
        let may = self.queue.has_room_for_conditions();
        if !may {
            self.queue.push(item.clone(), false);
        }
        may
    }

    /// Takes the outcome of the last effect of a member, to be shown.
    pub fn take_unreported(&mut self, item: &Item<K>) -> Option<EffectOutcome> {
        self.items.get(item)?;
        self.items.change(item, |state| state.unreported.take())
    }

    /// A call has ended: adjusts how many may be in flight.
    pub fn call_ended(&mut self, in_time: bool, now: Duration) {
        if in_time {
            self.queue.answered();
        } else {
            self.queue.unanswered(now);
        }
    }

    /// Ends the effect of a member; `Err`: it failed. `is_seen`: the index shows the remediation. `shown`: the dialect
    /// writes outcomes as conditions of the Machine. Returns whether the check is evaluated: then the caller
    /// reads the remediation again, and reconsiders the member.
    pub fn effect_ended(
        &mut self,
        item: &Item<K>,
        result: Result<EffectOutcome, ()>,
        is_seen: bool,
        shown: bool,
        now: Duration,
    ) -> bool {
        self.queue.end(item);
        match result {
            Ok(outcome) => {
                self.queue.succeeded(item);
                if let Some(again) = self.items.effect_ended(item, outcome, is_seen, shown) {
                    self.queue.later(item, now + again);
                }
            }
            Err(()) => self.back_off(item, now),
        }
        let is_evaluated = self.handovers.knows(&item.check);
        if !is_evaluated {
            self.items
                .change(item, |state| *state = ItemState::default());
        }
        is_evaluated
    }

    /// Ends a write of conditions. Returns whether the caller reconsiders the member, which has changed meanwhile.
    pub fn conditions_ended(
        &mut self,
        item: &Item<K>,
        unwritten: Option<Unwritten>,
        now: Duration,
    ) -> bool {
        let has_changed = self.queue.end(item);
        let Some(unwritten) = unwritten else {
            self.queue.succeeded(item);
            return has_changed;
        };
        let kept = |outcome: &EffectOutcome| !outcome.follows_from_verdict();
        if let Some(outcome) = unwritten.outcome.filter(kept)
            && self.handovers.knows(&item.check)
        {
            self.items
                .change(item, |state| state.unreported = Some(outcome));
        }
        if unwritten.retries {
            self.queue.failed(item, now);
        }
        has_changed
    }

    /// Ends a batch of effects after which the member is evaluated anew. Returns whether the batch could have
    /// created a remediation, so that other checks may have waited for the member.
    pub fn batch_ended(&mut self, item: &Item<K>, succeeded: bool, now: Duration) -> bool {
        self.queue.end(item);
        let created = self.items.phase(item) == Phase::Creating;
        if created {
            self.items.set_phase(item, Phase::Ready);
        }
        if succeeded {
            self.queue.succeeded(item);
        } else if self.handovers.knows(&item.check) {
            self.back_off(item, now);
        }
        created
    }

    /// The members whose retry is due: the caller evaluates them again.
    pub fn due(&mut self, now: Duration) -> Vec<Item<K>> {
        let due = self.queue.due(now);
        for item in &due {
            self.items.retry_due(item);
        }
        due
    }

    /// When something is due although nothing happens: a retry, or the end of a settling time.
    pub fn next_due(&self) -> Option<Duration> {
        let all = [self.queue.next_retry(), self.handovers.settled_at()];
        all.into_iter().flatten().min()
    }

    /// The live reads that begin now. `settles`: whether one more failure could close the limit of a check.
    pub fn begin_reads(&mut self, settles: impl Fn(&K) -> bool, now: Duration) -> Vec<LiveRead<K>> {
        self.handovers.begin_reads(settles, now)
    }

    /// Ends a live read. Returns the members that may be handed over now, which the caller reconsiders; `None`:
    /// the read is outdated.
    pub fn read_ended(
        &mut self,
        read: &LiveRead<K>,
        result: Result<(), String>,
        now: Duration,
    ) -> Option<BTreeSet<Arc<str>>> {
        self.handovers.end_read(read, result, now)
    }

    /// Why due members of a check are not handed over, if its last live read failed.
    pub fn read_failure(&self, check: &K) -> Option<&str> {
        self.handovers.failure(check)
    }

    /// Replaces every stored time, for a model checker that shifts time.
    #[must_use]
    pub fn map_times(self, map: impl Fn(Duration) -> Duration) -> Self {
        Self {
            queue: self.queue.map_times(&map),
            handovers: self.handovers.map_times(map),
            ..self
        }
    }

    /// Numbers the live reads anew, for a model checker: the nth of those in flight gets number n.
    pub fn renumber_reads(&mut self, in_flight: &[u64]) {
        self.handovers.renumber(in_flight);
    }

    /// No new effect begins before the backoff has passed.
    fn back_off(&mut self, item: &Item<K>, now: Duration) {
        self.items.effect_failed(item);
        self.queue.failed(item, now);
    }
}

#[cfg(test)]
mod tests;
