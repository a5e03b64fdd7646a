//! One task for each remediation object: begins it, wakes it, and ends it with the object.
//!
//! Decides nothing about a remediation; that is its engine's.

pub(super) mod claim;
mod shard;
mod supervise;
pub(super) mod wakeup;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use rackhand_transport::TraceContext;
use tokio::{
    sync::Notify,
    task::JoinSet,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span};

use crate::{
    remediation::{
        Context, engine,
        record::remediation_state::recorded_state,
        tasks::{
            shard::{is_of_shard, report_unclaimed},
            wakeup::{
                ChangeBatch, RecordChange, Wakeup, WatchInterest, batch_delay, comparison_pause,
            },
        },
    },
    shared_causes,
    store::{
        index::{Change, ChangeQueue},
        object::Kind,
        remediation::RemediationId,
        time_slice::{TimeSlice, beside},
        watch::pause,
    },
};

/// Pause before the remediations are listed and claimed again.
const LIST_RETRY: Duration = Duration::from_secs(1);

struct Task {
    uid: String,
    wake: Arc<Notify>,
    interest: Arc<Mutex<WatchInterest>>,
    stop: CancellationToken,
}

/// Runs the task of each remediation until `cancel`; `listed` is cancelled when all existing ones are claimed, and
/// what concerns shared causes is passed on to `of_causes`.
pub(super) async fn run(
    context: Arc<Context>,
    inbox: Arc<ChangeQueue>,
    of_causes: Arc<ChangeQueue>,
    listed: CancellationToken,
    cancel: CancellationToken,
) {
    while let Err(error) = context.claims.claim_remediations().await {
        tracing::warn!(%error, "the remediations cannot be listed and claimed; none begins before that");
        if pause(&cancel, LIST_RETRY).await {
            return;
        }
    }
    listed.cancel();
    let mut tasks: BTreeMap<RemediationId, Task> = BTreeMap::new();
    let mut running = JoinSet::new();
    for (id, _) in context.index.remediations() {
        // All of them before the first one is evaluated (F6).
        context.unevaluated.lock().insert(id.clone());
        inbox.push(Change::Object(id.kind, id.key));
    }
    let mut unclaimed: BTreeSet<String> = BTreeSet::new();
    let mut later: BTreeSet<RemediationId> = BTreeSet::new();
    let mut later_at: Option<Instant> = None;
    let mut compared_at = Instant::now();
    loop {
        let next_changes = async {
            sleep_until(compared_at + comparison_pause(tasks.len())).await;
            inbox.take().await
        };
        let changes = tokio::select! {
            () = cancel.cancelled() => break,
            changes = next_changes => changes,
            () = sleep_until(later_at.unwrap_or_else(Instant::now)), if later_at.is_some() => {
                later_at = None;
                wake_tasks(&tasks, &std::mem::take(&mut later));
                continue;
            }
            Some(done) = running.join_next() => {
                if let Err(error) = done {
                    tracing::error!(%error, "remediation task panicked");
                }
                continue;
            }
        };
        let mut touched: BTreeSet<RemediationId> = BTreeSet::new();
        let passed_on = changes
            .iter()
            .filter(|change| shared_causes::concerns(change));
        beside(changes.len(), || {
            passed_on.for_each(|change| of_causes.push(change.clone()));
        });
        let mut slice = TimeSlice::begin();
        for kind in Kind::REMEDIATIONS {
            for key in Change::objects(&changes, kind) {
                slice.pause_if_over().await;
                let id = RemediationId::new(kind, key.clone());
                if let Some(entry) = context.index.remediation(&id) {
                    let filter = context.claims.watch_filter();
                    report_unclaimed(&context.events, filter, &entry.object, &mut unclaimed);
                }
                refresh(&context, &mut tasks, &mut running, &id, &cancel);
                touched.insert(id);
            }
        }
        let record = |uid: &str| {
            let recorded = recorded_state(&context.index, uid);
            // A record that is gone does not change any more.
            let is_gone = matches!(recorded, Ok(None));
            let was_begun = !(is_gone && context.unbegun.lock().remove(uid));
            RecordChange::of(&recorded, was_begun)
        };
        let (now, not_yet) = compare(&tasks, changes, record);
        touched.extend(now);
        later.extend(not_yet);
        wake_tasks(&tasks, &touched);
        compared_at = Instant::now();
        if later_at.is_none() && !later.is_empty() {
            later_at = Some(Instant::now() + batch_delay(tasks.len()));
        }
    }
    while running.join_next().await.is_some() {}
}

/// The remediations that these changes wake at once, and later.
fn compare(
    tasks: &BTreeMap<RemediationId, Task>,
    changes: BTreeSet<Change>,
    record: impl Fn(&str) -> RecordChange,
) -> (Vec<RemediationId>, Vec<RemediationId>) {
    beside(changes.len().max(tasks.len()), || {
        let changes = ChangeBatch::arrange(changes, record);
        let (mut now, mut later) = (Vec::new(), Vec::new());
        for (id, task) in tasks {
            match task.interest.lock().wakeup(id, &changes) {
                Wakeup::No => {}
                Wakeup::Now => now.push(id.clone()),
                Wakeup::Later => later.push(id.clone()),
            }
        }
        (now, later)
    })
}

fn wake_tasks(tasks: &BTreeMap<RemediationId, Task>, who: &BTreeSet<RemediationId>) {
    for task in who.iter().filter_map(|id| tasks.get(id)) {
        task.wake.notify_one();
    }
}

/// Starts the task of a new object and ends that of an object that is gone, or another shard's.
fn refresh(
    context: &Arc<Context>,
    tasks: &mut BTreeMap<RemediationId, Task>,
    running: &mut JoinSet<()>,
    id: &RemediationId,
    cancel: &CancellationToken,
) {
    let filter = context.claims.watch_filter();
    let object = context.index.remediation(id).map(|entry| entry.object);
    let is_known = object.is_some();
    let uid = object
        .filter(|object| is_of_shard(filter, object))
        .and_then(|object| object.metadata.uid.clone());
    if let Some(task) = tasks.get(id)
        && Some(&task.uid) != uid.as_ref()
    {
        task.stop.cancel();
        context.active.lock().remove(&task.uid);
        context.metrics.forget(&task.uid);
        context.live.remove(id);
        tasks.remove(id);
    }
    if tasks.contains_key(id) {
        return;
    }
    let mut unevaluated = context.unevaluated.lock();
    match is_known {
        true => unevaluated.insert(id.clone()),
        false => unevaluated.remove(id),
    };
    drop(unevaluated);
    let Some(uid) = uid else { return };
    let task = Task {
        uid: uid.clone(),
        wake: Arc::default(),
        interest: Arc::default(),
        stop: cancel.child_token(),
    };
    let engine = {
        let (context, id) = (context.clone(), id.clone());
        let (wake, interest) = (task.wake.clone(), task.interest.clone());
        move || {
            let (id, uid) = (id.clone(), uid.clone());
            let (wake, interest) = (wake.clone(), interest.clone());
            Box::new(engine::RemediationLoop::new(
                &context, id, uid, wake, interest,
            ))
        }
    };
    let (metrics, stop) = (context.metrics.clone(), task.stop.clone());
    let what = id.to_string();
    let run = async move {
        let run = || Box::pin(engine().run(stop.clone()));
        supervise::supervise(&what, &metrics, &stop, run).await;
    };
    running.spawn(run.instrument(trace_span(&task.uid, id)));
    tasks.insert(id.clone(), task);
}

/// The trace span that the log lines of a remediation share with those of the agents, at every log level.
fn trace_span(uid: &str, id: &RemediationId) -> Span {
    let Some(trace) = TraceContext::of_remediation(uid, "") else {
        return Span::none();
    };
    let span = tracing::error_span!("remediation", trace_id = trace.trace_id());
    trace.adopt(&span, [("rackhand.remediation", id.to_string())]);
    span
}

#[cfg(test)]
mod stalls;
