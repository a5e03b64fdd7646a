//! Begins remediations in batches, each after a live read of all that feeds its check (F13).

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use k8s_openapi::api::core::v1::Node;
use kube::core::ApiResource;
use rackhand_api::names::{groups, kinds};
use rackhand_core::{
    handover::Step,
    nodes::{Action, can_close},
};

use super::{
    Driver, Timer,
    carry::{Done, UnderWay},
    touch::kinds_of,
};
use crate::{
    api::words,
    nodes::{Context, versions::Versions, watches::Requests},
    sync::{SyncError, live_listing, reach},
};

/// Something that feeds a check, and what the driver has taken in of it.
struct Feed {
    kind: FeedKind,
    held: Arc<Versions>,
}

enum FeedKind {
    Checks,
    Nodes,
    Requests(Requests),
}

// === impl Feed ===

impl Feed {
    /// Where it is served; `None`: nowhere, so that it has no objects.
    async fn resource(&self, context: &Context) -> Result<Option<ApiResource>, SyncError> {
        let client = &context.client;
        match &self.kind {
            FeedKind::Nodes => Ok(Some(ApiResource::erase::<Node>(&()))),
            FeedKind::Checks => {
                let kind = kinds::NODE_HEALTH_CHECK;
                let found = context.served.find(client, groups::MEDIK8S, kind).await;
                found.map_err(|error| SyncError::Read(words(&error)))
            }
            FeedKind::Requests(of) => {
                let (version, kind) = (&of.api_version, &of.kind);
                let found = context.served.resource_of(client, version, kind).await;
                found.map_err(|error| SyncError::Read(error.to_string()))
            }
        }
    }

    /// Waits until the driver has taken in what a live read shows.
    async fn reach(&self, context: &Context) -> Result<(), SyncError> {
        let Some(resource) = self.resource(context).await? else {
            return Ok(());
        };
        let namespace = match &self.kind {
            FeedKind::Requests(of) => of.namespace.as_str(),
            FeedKind::Checks | FeedKind::Nodes => "",
        };
        let listing = live_listing(&context.client, &resource, namespace).await;
        let listing = listing.map_err(|error| SyncError::Read(error.to_string()))?;
        reach(&resource.plural, listing, &*self.held).await
    }
}

impl Driver {
    /// Keeps back the remediations that may not be begun yet: they are begun once the read of their batch
    /// has shown that the view of the check is not behind, and are decided anew then.
    pub(super) fn cleared(&mut self, name: &str, mut actions: Vec<Action>) -> Vec<Action> {
        let now = self.started.elapsed();
        let Some(watched) = self.watched.get_mut(name) else {
            return Vec::new();
        };
        let creates = actions.iter().filter_map(|action| match action {
            Action::Create { node, .. } => Some(Arc::from(node.as_str())),
            _ => None,
        });
        let due: BTreeSet<Arc<str>> = creates.collect();
        for node in watched.due.difference(&due) {
            watched.handover.withdraw(node);
        }
        let handover = &mut watched.handover;
        let waiting: BTreeSet<&Arc<str>> = due
            .iter()
            .filter(|node| !handover.request(node, now))
            .collect();
        actions.retain(|action| match action {
            Action::Create { node, .. } => !waiting.contains(&Arc::from(node.as_str())),
            _ => true,
        });
        watched.due = due;
        self.begin_read(name);
        actions
    }

    /// Begins the read of a batch, once it has settled.
    pub(super) fn begin_read(&mut self, name: &str) {
        let now = self.started.elapsed();
        let Some(watched) = self.watched.get_mut(name) else {
            return;
        };
        let settles = can_close(watched.check.limit, watched.fleet.selected());
        match watched.handover.step(settles, now) {
            Step::Idle => {}
            Step::Wait(at) => {
                let settled = Timer::Settled(name.to_owned());
                self.timers
                    .insert((Instant::now() + at.saturating_sub(now), settled));
            }
            Step::Read => {
                self.reads += 1;
                watched.read = self.reads;
                let feeds = self.feeds(name);
                let (context, name, read) = (self.context.clone(), name.to_owned(), self.reads);
                self.spawn(UnderWay::Sync(name.clone(), read), async move {
                    let mut result = Ok(());
                    for feed in feeds {
                        if result.is_ok() {
                            result = feed.reach(&context).await;
                        }
                    }
                    Done::Synced(name, read, result)
                });
            }
        }
    }

    /// All that feeds a check.
    fn feeds(&self, name: &str) -> Vec<Feed> {
        let feed = |kind, held: &Arc<Versions>| Feed {
            kind,
            held: held.clone(),
        };
        let mut feeds = vec![
            feed(FeedKind::Checks, &self.check_versions),
            feed(FeedKind::Nodes, &self.node_versions),
        ];
        let of_check = self.watched.get(name).map(kinds_of).unwrap_or_default();
        for of in of_check {
            if let Some(watch) = self.kinds.get(&of) {
                feeds.push(feed(FeedKind::Requests(of), &watch.versions));
            }
        }
        feeds
    }

    /// A read is over.
    pub(super) fn synced(&mut self, name: &str, read: u64, result: Result<(), SyncError>) {
        let now: Duration = self.started.elapsed();
        // The answer to an earlier read of a check that was read anew proves nothing.
        let Some(watched) = self.watched.get_mut(name).filter(|w| w.read == read) else {
            return;
        };
        let result = result.map_err(|error| error.to_string());
        if let Err(error) = &result
            && watched.handover.failure() != Some(error.as_str())
        {
            tracing::warn!(
                check = name,
                error,
                "the Nodes of the check cannot be read live; nothing is begun; trying again"
            );
        }
        watched.handover.finish_read(result, now);
        self.dirty.insert(name.to_owned());
    }
}
