//! Watches of Leases, templates, and OpenShift's kinds with facts about the whole cluster.
//!
//! Invariant: the absence of objects is reported only after the first list is complete.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures::{Stream, StreamExt, pin_mut};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api, Resource,
    api::DynamicObject,
    runtime::watcher::{self, Event},
};
use rackhand_api::names::MEDIK8S_LEASE_NAMESPACE;
use rackhand_core::checks::nodes::HeldLease;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{leases::held, mhc_conflict::Fact};
use crate::{
    checks::{
        Context,
        remediations::external_requests::{self, ExternalKind},
    },
    store::{
        api::words,
        index::Index,
        object::{Key, api},
        watch::{WatchMonitor, events, pause},
    },
};

/// Interval of discovery for a kind that is not served.
const RETRY: Duration = Duration::from_secs(10);
/// Interval of discovery for kinds of OpenShift, which is not installed later.
const RETRY_OPENSHIFT: Duration = Duration::from_secs(60);

/// An event of a watch.
pub(in crate::checks) enum WatchEvent {
    /// Remediations of the kinds that checks name.
    Requests(external_requests::WatchEvent),
    /// A template of this kind was added, changed or deleted.
    Template(ExternalKind),
    /// The Lease of a Node, by its name.
    Lease(String, HeldLease),
    LeaseGone(String),
    Leases(BTreeSet<Key>),
    Fact(Fact, Box<DynamicObject>),
    FactGone(Fact, Key),
    Facts(Fact, BTreeSet<Key>),
}

pub(super) type Sender = mpsc::UnboundedSender<WatchEvent>;

/// One kind that is followed.
struct Followed<'a> {
    kind: &'a str,
    /// Shows whether the watch is lost.
    index: &'a Index,
    sender: &'a Sender,
    cancel: &'a CancellationToken,
}

/// Follows one kind until its watch ends or is cancelled.
async fn follow<K>(
    followed: Followed<'_>,
    stream: impl Stream<Item = watcher::Result<Event<K>>>,
    put: impl Fn(K) -> WatchEvent,
    gone: impl Fn(Key) -> WatchEvent,
    all: impl Fn(BTreeSet<Key>) -> WatchEvent,
) where
    K: Resource,
{
    let Followed {
        kind,
        index,
        sender,
        cancel,
    } = followed;
    pin_mut!(stream);
    let key = |object: &K| {
        let meta = object.meta();
        Key::new(
            meta.namespace.clone().unwrap_or_default(),
            meta.name.clone().unwrap_or_default(),
        )
    };
    let mut listed = BTreeSet::new();
    let mut monitor = WatchMonitor::default();
    loop {
        let event = tokio::select! {
            () = cancel.cancelled() => return,
            event = stream.next() => event,
        };
        if matches!(event, Some(Ok(_))) {
            monitor.progressed();
        }
        let change = match event {
            Some(Ok(Event::Init)) => {
                listed.clear();
                continue;
            }
            Some(Ok(Event::InitApply(object))) => {
                listed.insert(key(&object));
                put(object)
            }
            Some(Ok(Event::InitDone)) => {
                index.set_lost_other(kind, None);
                all(std::mem::take(&mut listed))
            }
            Some(Ok(Event::Apply(object))) => put(object),
            Some(Ok(Event::Delete(object))) => gone(key(&object)),
            Some(Err(error)) => {
                tracing::warn!(kind, %error, "watch interrupted; resuming");
                if monitor.failed(&error) {
                    index.set_lost_other(kind, Some(error.to_string()));
                    return;
                }
                continue;
            }
            None => return,
        };
        if sender.send(change).is_err() {
            return;
        }
    }
}

/// A watch of one kind.
pub(super) struct Watch {
    pub(super) context: Arc<Context>,
    /// How the kind is discovered.
    pub(super) find: Find,
    pub(super) sender: Sender,
    pub(super) cancel: CancellationToken,
}

/// How a kind is discovered.
pub(super) enum Find {
    /// A kind of OpenShift, in any version.
    Fact(Fact),
    /// A kind in the version that a template names.
    Version(ExternalKind),
}

// === impl Watch ===

impl Watch {
    fn followed<'a>(&'a self, kind: &'a str) -> Followed<'a> {
        Followed {
            kind,
            index: &self.context.index,
            sender: &self.sender,
            cancel: &self.cancel,
        }
    }

    /// Reports changes until it is cancelled.
    pub(super) async fn run(self) {
        let (context, cancel) = (&self.context, &self.cancel);
        loop {
            let (client, served) = (&context.client, &context.served);
            let pause_for = match &self.find {
                Find::Fact(fact) => {
                    let (fact, kind) = (*fact, fact.kind());
                    let put = |object| WatchEvent::Fact(fact, Box::new(object));
                    let gone = |key| WatchEvent::FactGone(fact, key);
                    let all = |keys| WatchEvent::Facts(fact, keys);
                    match served.find(client, fact.group(), kind).await {
                        Ok(Some(resource)) => {
                            let objects = api(client, &resource, "");
                            follow(self.followed(kind), events(objects), put, gone, all).await;
                            served.forget(fact.group(), kind);
                        }
                        Ok(None) => drop(self.sender.send(all(BTreeSet::new()))),
                        Err(error) => {
                            let error = words(&error);
                            tracing::warn!(kind, error, "cannot discover the kind");
                        }
                    }
                    RETRY_OPENSHIFT
                }
                Find::Version(of) => {
                    let changed = || WatchEvent::Template(of.clone());
                    match served.resource_of(client, &of.api_version, &of.kind).await {
                        Ok(Some(resource)) => {
                            let objects = api(client, &resource, &of.namespace);
                            let (put, gone) = (|_| changed(), |_| changed());
                            let (followed, stream) = (self.followed(&of.kind), events(objects));
                            follow(followed, stream, put, gone, |_| changed()).await;
                        }
                        Ok(None) => {}
                        Err(error) => {
                            tracing::warn!(kind = of.kind, %error, "cannot discover the kind");
                        }
                    }
                    RETRY
                }
            };
            if pause(cancel, pause_for).await {
                return;
            }
        }
    }
}

/// Watches every Lease of a Node until `cancel`, because other operators change them too.
pub(super) async fn leases(context: Arc<Context>, sender: Sender, cancel: CancellationToken) {
    while !cancel.is_cancelled() {
        let objects: Api<Lease> = Api::namespaced(context.client.clone(), MEDIK8S_LEASE_NAMESPACE);
        let put = |lease: Lease| {
            let name = lease.metadata.name.clone().unwrap_or_default();
            WatchEvent::Lease(name, held(&lease))
        };
        let gone = |key: Key| WatchEvent::LeaseGone(key.name);
        let followed = Followed {
            kind: "Lease",
            index: &context.index,
            sender: &sender,
            cancel: &cancel,
        };
        let all = WatchEvent::Leases;
        follow(followed, events(objects), put, gone, all).await;
        if pause(&cancel, RETRY).await {
            return;
        }
    }
}
