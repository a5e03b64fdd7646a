//! Writes the histories of hosts, and reads them when this process begins to lead.

use std::time::{Duration, Instant};

use futures::{StreamExt, stream};
use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use rackhand_api::{
    kinds::host_history::{HostHistory, HostHistorySpec, HostHistoryStatus, HostRemediation},
    names::{GROUP, kinds},
};
use rackhand_core::overview::{FinishedRemediation, TimelineEntry};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{
    Histories,
    entry::{is_worth_recording, merge, object_name, remediation_id, unrecorded},
    known::Before,
    offenders::occurrence,
    queue::Batch,
    shared_cause::cause_line,
};
use crate::{
    leader::writer::Writer,
    store::{
        api::{ApiError, call, optional},
        clock,
        watch::pause,
    },
};

/// Objects that are written at one time.
const CONCURRENT: usize = 4;
/// Objects in one page of a list.
const PAGE: u32 = 500;
/// Pause before histories are listed again.
const LIST_RETRY: Duration = Duration::from_secs(30);
/// How long the last writes may take when this process ends.
const LAST_WRITES: Duration = Duration::from_secs(2);

impl Histories {
    /// Submits what is known of a remediation. It is written later.
    pub(crate) fn submit(&self, spec: HostHistorySpec, entry: HostRemediation) {
        if !is_worth_recording(&entry) {
            return;
        }
        let name = object_name(&spec.rack, &spec.host);
        if !self.queue.lock().put(name, spec, entry, Instant::now()) {
            tracing::warn!("too many histories wait to be written; one is dropped");
        }
        self.bell.notify_one();
    }

    /// Reads the histories once the remediations are `listed`, and writes what is submitted, until `cancel`.
    pub(crate) async fn run(&self, listed: CancellationToken, cancel: CancellationToken) {
        let load = async {
            tokio::select! {
                () = cancel.cancelled() => return,
                () = listed.cancelled() => {}
            }
            self.load(&cancel).await;
        };
        tokio::join!(load, self.write_all(&cancel));
    }

    async fn write_all(&self, cancel: &CancellationToken) {
        loop {
            let next = self.queue.lock().next_due();
            let wait = next.map(|next| tokio::time::sleep_until(next.into()));
            tokio::select! {
                () = cancel.cancelled() => break,
                () = self.bell.notified() => {}
                () = async { match wait { Some(wait) => wait.await, None => std::future::pending().await } } => {}
            }
            let writing = self.write_due();
            tokio::pin!(writing);
            tokio::select! {
                () = &mut writing => {}
                () = cancel.cancelled() => {
                    tokio::time::timeout(LAST_WRITES, writing).await.ok();
                    break;
                }
            }
        }
        self.queue.lock().flush(Instant::now());
        let last = tokio::time::timeout(LAST_WRITES, self.write_due());
        if last.await.is_err() {
            tracing::warn!("not every history of a host was written in time");
        }
    }

    async fn write_due(&self) {
        loop {
            let due = self.queue.lock().take_due(Instant::now(), CONCURRENT);
            if due.is_empty() {
                return;
            }
            let writes = due.into_iter().map(|(name, batch)| async move {
                let written = self.write(&name, &batch).await;
                (name, batch, written)
            });
            let mut writes = stream::iter(writes).buffer_unordered(CONCURRENT);
            while let Some((name, batch, written)) = writes.next().await {
                let Err(error) = written else {
                    self.queue.lock().written(&name);
                    continue;
                };
                let host = format!("{}/{}", batch.spec.rack, batch.spec.host);
                let mut queue = self.queue.lock();
                if queue.put_back(name, batch, Instant::now()) {
                    tracing::debug!(host, %error, "the history of a host is not written; trying again");
                } else {
                    tracing::warn!(host, %error, "the history of a host is not written");
                }
            }
        }
    }

    async fn histories(&self) -> Result<Api<HostHistory>, ApiError> {
        let found = self.served.find(&self.client, GROUP, kinds::HOST_HISTORY);
        match found.await {
            Ok(Some(_)) => Ok(Api::all(self.client.clone())),
            Ok(None) => Err(ApiError::other(
                kinds::HOST_HISTORY,
                "its CRD is not installed",
            )),
            Err(error) => Err(ApiError::other(kinds::HOST_HISTORY, error)),
        }
    }

    /// The history of a host, read live, with what this process has not written yet.
    pub(super) async fn read(&self, rack: &str, host: &str) -> Result<HostHistoryStatus, ApiError> {
        let objects = self.histories().await?;
        let name = object_name(rack, host);
        // Taken first: what is written meanwhile is merged twice, which changes nothing.
        let unwritten = self.queue.lock().unwritten(&name);
        let found = optional(call(format!("HostHistory {name}"), objects.get(&name)).await)?;
        let found = found.filter(|object| object.spec.rack == rack && object.spec.host == host);
        let status = found.and_then(|object| object.status).unwrap_or_default();
        Ok(unwritten.iter().fold(status, |s, entry| merge(&s, entry)))
    }

    /// Merges a batch into its object, which it creates if needed.
    async fn write(&self, name: &str, batch: &Batch) -> Result<(), ApiError> {
        let objects = self.histories().await?;
        let before = self.known.lock().before(name);
        let object = match before {
            Before::Kept(object) => match self.add(&objects, *object, batch).await {
                // Somebody else has changed or deleted it.
                Err(error) if error.is_conflict() || error.is_not_found() => {
                    self.read_or_create(&objects, name, batch).await?
                }
                written => return written,
            },
            Before::Absent => match create(&self.writer, &objects, name, &batch.spec).await {
                Err(error) if error.is_conflict() => {
                    self.read_or_create(&objects, name, batch).await?
                }
                created => created?,
            },
            Before::Unknown => self.read_or_create(&objects, name, batch).await?,
        };
        self.add(&objects, object, batch).await
    }

    async fn read_or_create(
        &self,
        objects: &Api<HostHistory>,
        name: &str,
        batch: &Batch,
    ) -> Result<HostHistory, ApiError> {
        let what = format!("HostHistory {name}");
        match optional(call(what, objects.get(name)).await)? {
            Some(object) => Ok(object),
            None => create(&self.writer, objects, name, &batch.spec).await,
        }
    }

    /// Merges a batch into an object, if that has not changed since.
    async fn add(
        &self,
        objects: &Api<HostHistory>,
        object: HostHistory,
        batch: &Batch,
    ) -> Result<(), ApiError> {
        let name = object.name_any();
        let what = format!("HostHistory {name}");
        if object.spec != batch.spec {
            let why = format!(
                "it is of the host {}/{}",
                object.spec.rack, object.spec.host
            );
            return Err(ApiError::other(what, why));
        }
        let before = object.status.clone().unwrap_or_default();
        let after = batch
            .entries
            .values()
            .fold(before.clone(), |s, e| merge(&s, e));
        for entry in batch.entries.values() {
            if let Some(occurrence) = occurrence(&after.remediations, entry) {
                let history = &self.shown;
                history.set_occurrence(&entry.uid, occurrence);
            }
        }
        let goes_on = (after.remediations.iter()).any(|entry| entry.outcome.is_none());
        if after == before {
            self.known.lock().written(object, goes_on);
            return Ok(());
        }
        let patch = json!({
            "metadata": { "resourceVersion": object.resource_version() },
            "status": after,
        });
        let objects = objects.clone();
        let write = move || async move {
            let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
            objects.patch_status(&name, &params, &patch).await
        };
        let written = self.writer.write("host_history", what, write).await?;
        self.known.lock().written(written, goes_on);
        Ok(())
    }

    /// Shows what happened under earlier leaders, and ends the entries of remediations that are gone.
    async fn load(&self, cancel: &CancellationToken) {
        let mut reported = false;
        while let Err(error) = self.load_once().await {
            if !std::mem::replace(&mut reported, true) {
                tracing::warn!(%error, "the histories of hosts cannot be read; trying again");
            }
            if pause(cancel, LIST_RETRY).await {
                return;
            }
        }
    }

    /// Reads page by page: the histories of a large fleet are large.
    async fn load_once(&self) -> Result<(), ApiError> {
        let objects = self.histories().await?;
        let mut params = ListParams::default().limit(PAGE);
        loop {
            let page = call(kinds::HOST_HISTORY, objects.list(&params)).await?;
            for object in page.items {
                self.known.lock().seen(&object.name_any());
                self.take_in(&object);
            }
            match page.metadata.continue_.filter(|token| !token.is_empty()) {
                Some(token) => params = params.continue_token(&token),
                None => break,
            }
        }
        self.known.lock().listed();
        Ok(())
    }

    fn take_in(&self, object: &HostHistory) {
        let (spec, now) = (&object.spec, clock::wall_now());
        // The object has times of the wall clock, and what is shown is kept by the clock of the engine.
        let ahead = clock::wall_ahead();
        let history = &self.shown;
        let entries = object.status.as_ref().map_or(&[][..], |s| &s.remediations);
        for entry in entries {
            if let Some(mut shown) = finished_remediation(spec, entry) {
                shown.occurrence = occurrence(entries, entry);
                history.add_finished(&entry.uid, shown.moved(-ahead), clock::monotonic_now());
            } else if self.is_gone(entry) {
                let ended = unrecorded(entry, now);
                self.submit(spec.clone(), ended);
            } else {
                let steps = timeline(entry).into_iter();
                let steps = steps.map(|step| step.moved(-ahead)).collect();
                history.add_steps(&entry.uid, entry.created_at, steps);
                if let Some(cause) = &entry.shared_cause {
                    history.put_shared_cause(&entry.uid, entry.created_at, cause.clone());
                }
            }
        }
    }

    /// Whether the remediation was one of this controller's and does not exist any more. The remediations
    /// were listed live before.
    fn is_gone(&self, entry: &HostRemediation) -> bool {
        let Some(id) = remediation_id(entry) else {
            return false;
        };
        let watched = self.namespace.as_ref();
        let mine = watched.is_none_or(|namespace| *namespace == entry.namespace)
            && self.served.known(id.kind).is_some();
        let found = self.index.remediation(&id);
        let exists = found.is_some_and(|found| found.object.uid().as_ref() == Some(&entry.uid));
        mine && !exists
    }
}

async fn create(
    writer: &Writer,
    objects: &Api<HostHistory>,
    name: &str,
    spec: &HostHistorySpec,
) -> Result<HostHistory, ApiError> {
    let object = HostHistory::new(name, spec.clone());
    let objects = objects.clone();
    let create = move || async move { objects.create(&PostParams::default(), &object).await };
    let what = format!("HostHistory {name}");
    writer.write("host_history", what, create).await
}

fn timeline(entry: &HostRemediation) -> Vec<TimelineEntry> {
    let steps = entry.steps.iter().map(|step| TimelineEntry {
        step: step.step.clone(),
        at: step.at,
    });
    steps.collect()
}

/// As the status page shows it; `None` while it runs.
fn finished_remediation(
    spec: &HostHistorySpec,
    entry: &HostRemediation,
) -> Option<FinishedRemediation> {
    Some(FinishedRemediation {
        remediation: format!("{} {}/{}", entry.kind, entry.namespace, entry.name),
        node: entry.node.clone(),
        host: Some(format!("{}/{}", spec.rack, spec.host)),
        created: entry.created_at,
        timeline: timeline(entry),
        finished: entry.finished_at?,
        outcome: entry.outcome.clone()?,
        reason: entry.reason.clone().unwrap_or_default(),
        occurrence: None,
        shared_cause: entry.shared_cause.as_ref().map(cause_line),
    })
}
