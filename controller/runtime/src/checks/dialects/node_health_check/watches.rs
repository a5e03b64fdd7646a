//! Watches of Leases, templates, and OpenShift's kinds with facts about the whole cluster.
//!
//! Invariant: the absence of objects is reported only after the first list is complete.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures::{Stream, StreamExt, pin_mut};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api, Resource,
    api::DynamicObject,
    core::ApiResource,
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
        remediations::external_remediations::{self, ExternalKind},
    },
    store::{
        api::words,
        index::Index,
        object::{Key, api},
        watch::{DiscoveryLog, WatchMonitor, events, pause},
    },
};

/// Interval of discovery, and pause before a lost watch is restarted.
const RETRY: Duration = Duration::from_secs(10);
/// Interval of discovery for kinds of OpenShift that were never served: OpenShift is not installed later.
const RETRY_OPENSHIFT: Duration = Duration::from_secs(60);

/// An event of a watch.
pub(in crate::checks) enum WatchEvent {
    /// Remediations of the kinds that checks name.
    Remediations(external_remediations::WatchEvent),
    /// A template of this kind was added, changed or deleted.
    Template(ExternalKind),
    /// The Lease of a Node, by its name.
    Lease(String, HeldLease),
    LeaseGone(String),
    Leases(BTreeSet<Key>),
    Fact(Fact, Box<DynamicObject>),
    FactGone(Fact, Key),
    Facts(Fact, BTreeSet<Key>),
    /// The kind cannot be watched now, with the cause.
    FactLost(Fact, String),
    /// No version of the kind is served.
    FactNotServed(Fact),
}

pub(super) type Sender = mpsc::UnboundedSender<WatchEvent>;

/// One kind that is followed.
struct Followed<'a> {
    /// The kind and namespace as metrics name them.
    label: &'a str,
    namespace: &'a str,
    /// Shows whether the watch is lost.
    index: &'a Index,
    monitor: &'a mut WatchMonitor,
    sender: &'a Sender,
    cancel: &'a CancellationToken,
}

/// Follows one kind until its watch ends or is cancelled. Returns why the watch is lost, if it is.
async fn follow<K>(
    followed: Followed<'_>,
    stream: impl Stream<Item = watcher::Result<Event<K>>>,
    put: impl Fn(K) -> WatchEvent,
    gone: impl Fn(Key) -> WatchEvent,
    all: impl Fn(BTreeSet<Key>) -> WatchEvent,
) -> Option<String>
where
    K: Resource,
{
    let Followed {
        label,
        namespace,
        index,
        monitor,
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
    let report = |listed: &mut BTreeSet<Key>| {
        index.set_lost_other(label, namespace, None);
        all(std::mem::take(listed))
    };
    // Until a list is reported as complete, it follows the changes.
    let mut listed = BTreeSet::new();
    let mut is_reported = false;
    loop {
        let event = tokio::select! {
            () = cancel.cancelled() => return None,
            () = monitor.settled() => {
                is_reported = monitor.settle();
                if is_reported && sender.send(report(&mut listed)).is_err() {
                    return None;
                }
                continue;
            }
            event = stream.next() => event?,
        };
        if event.is_ok() {
            monitor.progressed();
        }
        let change = match event {
            Ok(Event::Init) => {
                listed.clear();
                is_reported = false;
                continue;
            }
            Ok(Event::InitApply(object)) => {
                listed.insert(key(&object));
                put(object)
            }
            Ok(Event::InitDone) => {
                monitor.listed();
                is_reported = monitor.settle();
                if !is_reported {
                    continue;
                }
                report(&mut listed)
            }
            Ok(Event::Apply(object)) => {
                if !is_reported {
                    listed.insert(key(&object));
                }
                put(object)
            }
            Ok(Event::Delete(object)) => {
                listed.remove(&key(&object));
                gone(key(&object))
            }
            Err(error) => {
                tracing::warn!(kind = label, %error, "watch interrupted; resuming");
                if monitor.failed(&error) {
                    return Some(error.to_string());
                }
                continue;
            }
        };
        if sender.send(change).is_err() {
            return None;
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
    /// Reports changes until it is cancelled.
    pub(super) async fn run(self) {
        self.watch().await;
        self.set_lost(None);
    }

    async fn watch(&self) {
        let mut monitor = WatchMonitor::default();
        let mut log = DiscoveryLog::default();
        let mut was_served = false;
        loop {
            let (group, kind) = match &self.find {
                Find::Fact(fact) => (fact.group(), fact.kind()),
                Find::Version(of) => (of.api_version.as_str(), of.kind.as_str()),
            };
            let mut pause_for = RETRY;
            match self.discover().await {
                Ok(Some(resource)) => {
                    log.found();
                    was_served = true;
                    let lost = self.follow(&resource, &mut monitor).await;
                    self.forget();
                    if let Some(why) = lost {
                        self.lost(why);
                    }
                }
                Ok(None) => {
                    log.not_served(group, kind);
                    self.not_served();
                    if !was_served && matches!(self.find, Find::Fact(_)) {
                        pause_for = RETRY_OPENSHIFT;
                    }
                }
                Err(why) => {
                    log.failed(group, kind, &why);
                    if monitor.interrupted() {
                        self.lost(why);
                    }
                }
            }
            if pause(&self.cancel, pause_for).await {
                return;
            }
        }
    }

    async fn discover(&self) -> Result<Option<ApiResource>, String> {
        let (client, served) = (&self.context.client, &self.context.served);
        match &self.find {
            Find::Fact(fact) => {
                let found = served.find(client, fact.group(), fact.kind()).await;
                found.map_err(|error| words(&error))
            }
            Find::Version(of) => {
                let found = served.resource_of(client, &of.api_version, &of.kind).await;
                found.map_err(|error| error.to_string())
            }
        }
    }

    async fn follow(&self, resource: &ApiResource, monitor: &mut WatchMonitor) -> Option<String> {
        let (label, namespace) = self.name();
        let followed = Followed {
            label,
            namespace,
            index: &self.context.index,
            monitor,
            sender: &self.sender,
            cancel: &self.cancel,
        };
        let stream = events(api(&self.context.client, resource, namespace));
        match &self.find {
            Find::Fact(fact) => {
                let fact = *fact;
                let put = |object| WatchEvent::Fact(fact, Box::new(object));
                let gone = |key| WatchEvent::FactGone(fact, key);
                let all = |keys| WatchEvent::Facts(fact, keys);
                follow(followed, stream, put, gone, all).await
            }
            Find::Version(of) => {
                let changed = || WatchEvent::Template(of.clone());
                let put = |_: DynamicObject| changed();
                follow(followed, stream, put, |_| changed(), |_| changed()).await
            }
        }
    }

    /// Drops the discovered resource, because its version may not be served any more.
    fn forget(&self) {
        let served = &self.context.served;
        match &self.find {
            Find::Fact(fact) => served.forget(fact.group(), fact.kind()),
            Find::Version(of) => served.forget_pinned(&of.api_version, &of.kind),
        }
    }

    /// The kind and namespace as metrics name them.
    fn name(&self) -> (&str, &str) {
        match &self.find {
            Find::Fact(fact) => (fact.label(), ""),
            Find::Version(of) => (&of.kind, &of.namespace),
        }
    }

    fn set_lost(&self, why: Option<String>) {
        let (label, namespace) = self.name();
        self.context.index.set_lost_other(label, namespace, why);
    }

    fn lost(&self, why: String) {
        self.set_lost(Some(why.clone()));
        if let Find::Fact(fact) = &self.find {
            self.sender.send(WatchEvent::FactLost(*fact, why)).ok();
        }
    }

    fn not_served(&self) {
        match &self.find {
            // Whether such objects were known before decides whether the watch is lost.
            Find::Fact(fact) => drop(self.sender.send(WatchEvent::FactNotServed(*fact))),
            // The checks that name the template read it live, and report that it is not served.
            Find::Version(_) => self.set_lost(None),
        }
    }
}

/// Watches every Lease of a Node until `cancel`, because other operators change them too.
pub(super) async fn leases(context: Arc<Context>, sender: Sender, cancel: CancellationToken) {
    let (label, namespace) = ("Lease", MEDIK8S_LEASE_NAMESPACE);
    let index = &context.index;
    let mut monitor = WatchMonitor::default();
    loop {
        let objects: Api<Lease> = Api::namespaced(context.client.clone(), namespace);
        let put = |lease: Lease| {
            let name = lease.metadata.name.clone().unwrap_or_default();
            WatchEvent::Lease(name, held(&lease))
        };
        let gone = |key: Key| WatchEvent::LeaseGone(key.name);
        let followed = Followed {
            label,
            namespace,
            index,
            monitor: &mut monitor,
            sender: &sender,
            cancel: &cancel,
        };
        let lost = follow(followed, events(objects), put, gone, WatchEvent::Leases).await;
        if lost.is_some() {
            index.set_lost_other(label, namespace, lost);
        }
        if pause(&cancel, RETRY).await {
            break;
        }
    }
    index.set_lost_other(label, namespace, None);
}
