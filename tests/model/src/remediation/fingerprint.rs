//! Which states of the world of a remediation count as one: those that behave alike.
//!
//! Everything in a state counts, but of some times only what decisions compare them with:
//!
//! - When the host was confirmed off: whether the latest reading is from before that (`power_within`).
//! - When the drain was finished, and the times of attempts: that there is one. They are only reported.
//! - How many pods were deleted: not at all. It is only reported.
//! - Until when a pinned operation may command the BMC: the time itself while it is long enough to begin
//!   the operation (`begin_operation`); later it decides nothing, because there is one agent.
//! - The term of the controller: whether the agent knows it, an older one, or none. The numbers of calls: not
//!   at all. A late call is the last one of its controller, and the next controller claims a higher term
//!   before it commands, so whether the ledger takes a call depends on the terms.
//! - In the journal: of an operation its outcome, and whether a command was sent; of a hold its owner. When
//!   and by whom an operation was begun decides nothing here. Of numbers in the queue, the order.
//! - A state in a backup: as it is. The order of records in the journal, and those of releases: where a state
//!   may be restored.
//! - Since when a Lease has not been renewed: whether the latest reading is from before that
//!   (`read_since_renewal`); and the time itself, as long as that is short and the Node Ready
//!   (`lease_quiet_from`). A Node that is not Ready becomes so with another renewal.
//!
//! The states of the core are taken apart field by field, so that a new field does not compile here until it
//! is decided how it counts.

use std::{
    hash::{Hash, Hasher},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use rackhand_agent_core::ledger::{Operation, RecordedOutcome};
use rackhand_core::remediation::{
    AgentPin, Attempt, AttemptRecord, Collected, Eviction, EvictionAnswer, KeptReading,
    LeaseMemory, OffEvidence, PowerView, Shell, State, Step,
};

use crate::{
    remediation::world::{
        Held, Object, Process, World,
        agent::{Agent, ELECTION, HOST, Ledger},
        evictions::Leaving,
        operation::{Run, is_interrupt},
        restore::Backup,
    },
    time::{NOW, until},
};

/// The least time that a pin must reach ahead to begin an operation: the shorter deadline of both
/// operations in the policy, and 20 s in which the call and the last command may be on their way.
const LEAST_PIN: Duration = Duration::from_secs(10 + 20);
/// Longer than a Lease must be quiet: a quarter of its duration of 40 s, and 2 s.
const QUIET: i64 = 13;
/// After so long the eviction of a pod is requested again.
const EVICTED_AGAIN: SignedDuration = SignedDuration::from_secs(5);
/// Older than any reading of the power that decides anything about an eviction.
const OLD: SignedDuration = SignedDuration::from_secs(16);

impl Hash for World {
    fn hash<H: Hasher>(&self, h: &mut H) {
        let Self {
            object,
            process,
            late,
            deposed,
            sent,
            claimed,
            done,
            host,
            bmc,
            outlets,
            other,
            // The same in every state of a world.
            interrupts: _,
            late_status: _,
            flash,
            interrupted,
            agent,
            hold,
            owner,
            node,
            registration,
            pod,
            leaving,
            backup,
            ended_off,
            budget,
            was_silent,
            wrong,
        } = self;
        let asked = process.shell.power.as_ref().map(|view| view.asked);
        let Object {
            state,
            finalizer,
            deleting,
            confirmed,
        } = &**object;
        hash_some(state.as_ref(), h, |state, h| hash_state(state, asked, h));
        (finalizer, deleting, confirmed).hash(h);
        let Process {
            held,
            shell,
            leases,
            sleep,
        } = &**process;
        for call in [held, late] {
            hash_some(call.as_ref(), h, |call, h| hash_call(call, asked, h));
        }
        hash_shell(shell, h);
        hash_leases(leases, asked, node.ready, h);
        (sleep, deposed, claimed, done, host, bmc).hash(h);
        hash_agent(agent, sent.term, h);
        registration.hash(h);
        (hold, node, pod, budget, was_silent, wrong, outlets).hash(h);
        (other, interrupted, owner, flash).hash(h);
        hash_some(leaving.as_ref(), h, |leaving, h| {
            hash_leaving(leaving, self.may_evict(), pod.bound, h);
        });
        hash_backup(backup, *budget, h);
        // What was done counts where an older state may come back.
        if *backup != Backup::Never {
            ended_off.hash(h);
            for entry in agent.history() {
                (entry.id, entry.is_off, entry.is_release, entry.progress).hash(h);
            }
        }
    }
}

fn hash_some<T, H: Hasher>(value: Option<T>, h: &mut H, hash: impl FnOnce(T, &mut H)) {
    h.write_u8(u8::from(value.is_some()));
    if let Some(value) = value {
        hash(value, h);
    }
}

/// `asked`: when the latest reading was begun.
fn hash_state<H: Hasher>(state: &State, asked: Option<Timestamp>, h: &mut H) {
    let State {
        step,
        since,
        attempt,
        tries,
        unsent,
        power_off_repeats,
        retry_at,
        mode,
        strategy,
        // Those of the world, since the first attempt.
        policy: _,
        // Only other remediations count it.
        counted: _,
        causes,
        keep_off,
        failure,
        cluster,
        host,
        cordoned,
        agent_holds,
        pinned,
        confirmation_used,
        node_was_down,
        former_lease,
        node_back,
        other_node,
        refused_entry,
        rival,
        attempts,
        finalizer,
    } = state;
    finalizer.hash(h);
    // While pods are evicted, only the first reading of the power is compared with it.
    let since = match step {
        Step::Evicting => Err(asked.is_some_and(|asked| asked >= *since)),
        // A host that is left on waits for others, however long.
        Step::Evicted => Err(false),
        _ => Ok(since),
    };
    (step, since, tries, unsent).hash(h);
    (power_off_repeats, retry_at, mode).hash(h);
    (strategy, causes, keep_off, failure, cluster, host).hash(h);
    (agent_holds, confirmation_used, node_was_down).hash(h);
    (former_lease, cordoned).hash(h);
    (node_back, other_node, refused_entry, rival).hash(h);
    hash_attempt(attempt, asked, h);
    hash_some(pinned.as_ref(), h, |pinned, h| {
        let AgentPin {
            agent,
            operation,
            until: time,
        } = pinned;
        let suffices = |time: Timestamp| until(time) >= LEAST_PIN;
        let time = time.map(|time| (is_interrupt(operation) || suffices(time)).then_some(time));
        (agent, operation, time).hash(h);
    });
    attempts.len().hash(h);
    for attempt in attempts {
        let AttemptRecord {
            number,
            started: _,
            off,
            drained,
            outlets: _,
            pods_evicted: _,
            evicted_pods: _,
            pods_deleted: _,
            deleted_pods: _,
            on,
            ended: _,
            step,
            reason,
        } = attempt;
        (number, off.is_some(), drained.is_some(), on.is_some()).hash(h);
        (step, reason).hash(h);
    }
}

fn hash_attempt<H: Hasher>(attempt: &Attempt, asked: Option<Timestamp>, h: &mut H) {
    let Attempt {
        number,
        started,
        node,
        // Compared with the time of the update's limit; no world has one.
        updating_since: _,
        update,
        update_refusals,
        eviction,
        soft_off,
        off,
        outlets,
        lease_at_off,
        taint,
        node_action,
        drained,
        pods_deleted: _,
        deleted_pods: _,
        evidence,
        on,
        handover,
        power_on_repeats,
        end_reason,
    } = attempt;
    (number, started, power_on_repeats, node_action).hash(h);
    (update, update_refusals, soft_off).hash(h);
    hash_some(eviction.as_ref(), h, |eviction, h| {
        hash_eviction(eviction, h);
    });
    (node, lease_at_off, taint, drained.is_some(), on).hash(h);
    (handover, end_reason, outlets).hash(h);
    // Nothing else of it decides anything.
    let collected = evidence.as_ref().map(|e| {
        let boot_log = e.boot_log.is_some();
        (e.newest.is_some(), boot_log, e.may_have_interrupted())
    });
    collected.hash(h);
    hash_some(off.as_ref(), h, |off, h| {
        asked.is_some_and(|asked| asked < off.at()).hash(h);
        match off {
            OffEvidence::Bmc {
                at: _,
                readings,
                taken,
            } => (0, readings, taken).hash(h),
            OffEvidence::Outlets {
                at: _,
                readings,
                taken,
            } => (2, readings, taken).hash(h),
            OffEvidence::Person { at: _ } => 1.hash(h),
        }
    });
}

/// Of times that are over, that they are. How many pods were evicted is only reported; and later, all of it.
fn hash_eviction<H: Hasher>(eviction: &Eviction, h: &mut H) {
    let Eviction {
        until: end,
        ready,
        left,
        moved,
        evicted: _,
        pods: _,
        forbidden: _,
        finished,
    } = eviction;
    ((*end).max(NOW), ready, left, finished).hash(h);
    (!ready).then_some(moved).hash(h);
}

/// `is_early`: nothing was switched yet.
fn hash_leaving<H: Hasher>(leaving: &Leaving, is_early: bool, is_bound: bool, h: &mut H) {
    let Leaving {
        blocked,
        forbids,
        evicted,
        former,
        given_up,
        left_on,
        asked_off,
    } = leaving;
    (left_on, asked_off).hash(h);
    (is_early.then_some((blocked, former)), given_up).hash(h);
    ((is_early || is_bound).then_some(forbids), evicted).hash(h);
}

/// While pods are evicted, how old a reading of the power is counts only while it is young.
fn hash_power<H: Hasher>(power: &PowerView, evicts: bool, h: &mut H) {
    let PowerView {
        asked,
        answered,
        lease,
        result,
    } = power;
    let bounded = |t: Timestamp| match evicts {
        true => t.max(before(OLD)),
        false => t,
    };
    (bounded(*asked), bounded(*answered), lease, result).hash(h);
}

fn before(age: SignedDuration) -> Timestamp {
    NOW.checked_sub(age).unwrap_or(Timestamp::MIN)
}

fn hash_call<H: Hasher>(call: &Held, asked: Option<Timestamp>, h: &mut H) {
    let Held {
        state,
        next,
        is_passed,
        changed,
        hold,
        switches_healthy_off,
        ends_awaited_pod,
        sent: _,
    } = call;
    hash_state(state, asked, h);
    (next, is_passed, changed, hold).hash(h);
    (switches_healthy_off, ends_awaited_pod).hash(h);
}

fn hash_shell<H: Hasher>(shell: &Shell, h: &mut H) {
    let Shell {
        uid: _,
        loaded,
        // A process of these worlds reads the record first.
        unread: _,
        state,
        journal,
        operation,
        node,
        power,
        is_read_after_end,
        updates,
        access,
        silent_since,
        completed,
        pod_deletions,
        evictions,
        collected,
        machine_sought,
        last,
        failures,
        hold_refused,
    } = shell;
    hash_some(node.kept.as_ref(), h, |kept, h| {
        let KeptReading {
            node,
            asked,
            // Each observation says it anew.
            is_live: _,
            after_end,
        } = kept;
        // Since when its Lease has not been renewed is that of the Leases.
        (&node.uid, &node.boot_id, node.ready, node.taint).hash(h);
        node.cordon.hash(h);
        (node.renewed(), asked, after_end).hash(h);
    });
    let asked = power.as_ref().map(|view| view.asked);
    hash_some(state.as_ref(), h, |state, h| hash_state(state, asked, h));
    (loaded, journal, operation, access, silent_since).hash(h);
    is_read_after_end.hash(h);
    let evicts = (state.as_ref()).is_some_and(|s| matches!(s.step, Step::Evicting | Step::Evicted));
    hash_some(power.as_ref(), h, |power, h| hash_power(power, evicts, h));
    let Collected { evidence, boot_log } = collected;
    let read = evidence.as_ref().map(|e| {
        let newest = e.newest.is_some();
        (newest, e.interrupted, e.may_have_interrupted())
    });
    (read, boot_log.is_some()).hash(h);
    updates.hash(h);
    (completed, pod_deletions, machine_sought, last, failures).hash(h);
    for (pod, answer) in &evictions.answers {
        let EvictionAnswer { pod: _, at, result } = answer;
        (pod, (*at).max(before(EVICTED_AGAIN)), result).hash(h);
    }
    hold_refused.hash(h);
}

fn hash_leases<H: Hasher>(leases: &LeaseMemory, asked: Option<Timestamp>, ready: bool, h: &mut H) {
    let LeaseMemory { seen } = leases;
    for (renewed, since) in seen.values() {
        let age = NOW.duration_since(*since).as_secs().min(QUIET);
        let is_read_since = asked.is_some_and(|asked| asked >= *since);
        (renewed, is_read_since, ready.then_some(age)).hash(h);
    }
}

fn hash_backup<H: Hasher>(backup: &Backup, budget: u8, h: &mut H) {
    std::mem::discriminant(backup).hash(h);
    // Without a fault that is left, it is not restored.
    if let Backup::Made(object) = backup
        && budget > 0
    {
        object.hash(h);
    }
}

/// `term`: that of the controller that leads.
fn hash_agent<H: Hasher>(agent: &Agent, term: u64, h: &mut H) {
    let Agent {
        journal,
        ledger,
        queue,
        runs,
    } = agent;
    journal.hash(h);
    let Ledger {
        terms,
        sequences: _,
        holds,
        operations,
        // Which operations run or have ended follows from their outcomes. No term is set back.
        running: _,
        ended: _,
        set_back: _,
    } = ledger;
    let known = terms.get(ELECTION).map(|known| known.number == term);
    known.hash(h);
    for hold in holds.values() {
        hold.owner.hash(h);
    }
    // No decision looks for the record of a release.
    let operations = operations.values().filter(|op| op.action != "release");
    for operation in operations {
        let Operation {
            id,
            action,
            sending,
            outcome,
            ..
        } = operation;
        (id, action, sending.is_empty()).hash(h);
        hash_some(outcome.as_ref(), h, |outcome, h| match outcome {
            RecordedOutcome::Reported(end) => (0, end).hash(h),
            RecordedOutcome::Interrupted { .. } => 1.hash(h),
            RecordedOutcome::Released { .. } => 2.hash(h),
        });
    }
    let queue: Vec<(u64, bool)> = queue.operations(HOST).collect();
    for run in runs {
        let Run {
            id,
            on: _,
            number,
            phase,
            due,
            deadline,
            cancelled,
            expects,
            cut,
            taken,
            during_update,
        } = run;
        (id, phase, due, deadline, cancelled).hash(h);
        (expects, cut, taken, during_update).hash(h);
        let place = queue.iter().position(|(queued, _)| queued == number);
        (place, place.map(|place| queue[place].1)).hash(h);
    }
}
