//! Watches: checks, Nodes, and remediations of whatever kind a check names.
//!
//! Owns telling what has changed. Must never say that there is nothing before the first list has
//! told.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures::{Stream, StreamExt, pin_mut};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api, Resource,
    api::DynamicObject,
    runtime::watcher::{self, Event},
};
use rackhand_api::names::{MEDIK8S_LEASE_NAMESPACE, groups, kinds};
use rackhand_core::nodes::HeldLease;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{
    Context,
    leases::held,
    openshift::Fact,
    seen::{KnownNode, WireNode},
};
use crate::{
    api::words,
    object::{Key, api},
    watch::{events, pause},
};

/// How long to wait before a kind that is not served is looked for again.
const RETRY: Duration = Duration::from_secs(10);
/// The same for kinds of OpenShift, which does not come later.
const RETRY_OPENSHIFT: Duration = Duration::from_secs(60);

/// Remediations of one kind, in the namespace of their template.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Requests {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) namespace: String,
}

/// What has changed.
pub(super) enum News {
    Check(Box<DynamicObject>),
    CheckGone(String),
    /// All of them are known: these.
    Checks(BTreeSet<Key>),
    Node(KnownNode),
    NodeGone(String),
    Nodes(BTreeSet<Key>),
    Request(Box<DynamicObject>),
    RequestGone(Requests, Key),
    RequestList(Requests, BTreeSet<Key>),
    /// A template of this kind has come, changed or gone.
    Template(Requests),
    /// The Lease of a Node, by its name.
    Lease(String, HeldLease),
    LeaseGone(String),
    Leases(BTreeSet<Key>),
    Fact(Fact, Box<DynamicObject>),
    FactGone(Fact, Key),
    Facts(Fact, BTreeSet<Key>),
}

pub(super) type Sender = mpsc::UnboundedSender<News>;

/// Follows one kind until its watch ends or `cancel`.
async fn follow<K>(
    stream: impl Stream<Item = watcher::Result<Event<K>>>,
    kind: &str,
    cancel: &CancellationToken,
    news: &Sender,
    put: impl Fn(K) -> News,
    gone: impl Fn(Key) -> News,
    all: impl Fn(BTreeSet<Key>) -> News,
) where
    K: Resource,
{
    pin_mut!(stream);
    let key = |object: &K| {
        let meta = object.meta();
        Key::new(
            meta.namespace.clone().unwrap_or_default(),
            meta.name.clone().unwrap_or_default(),
        )
    };
    let mut listed = BTreeSet::new();
    loop {
        let event = tokio::select! {
            () = cancel.cancelled() => return,
            event = stream.next() => event,
        };
        let told = match event {
            Some(Ok(Event::Init)) => {
                listed.clear();
                continue;
            }
            Some(Ok(Event::InitApply(object))) => {
                listed.insert(key(&object));
                put(object)
            }
            Some(Ok(Event::InitDone)) => all(std::mem::take(&mut listed)),
            Some(Ok(Event::Apply(object))) => put(object),
            Some(Ok(Event::Delete(object))) => gone(key(&object)),
            Some(Err(error)) => {
                tracing::warn!(kind, %error, "watch interrupted; it is taken up again");
                continue;
            }
            None => return,
        };
        if news.send(told).is_err() {
            return;
        }
    }
}

/// Every NodeHealthCheck, until `cancel`.
pub(super) async fn checks(context: Arc<Context>, news: Sender, cancel: CancellationToken) {
    let kind = kinds::NODE_HEALTH_CHECK;
    loop {
        let asked = context.served.find(&context.client, groups::MEDIK8S, kind);
        match asked.await {
            Ok(Some(resource)) => {
                let objects: Api<DynamicObject> = Api::all_with(context.client.clone(), &resource);
                let put = |object| News::Check(Box::new(object));
                let gone = |key: Key| News::CheckGone(key.name);
                follow(
                    events(objects),
                    kind,
                    &cancel,
                    &news,
                    put,
                    gone,
                    News::Checks,
                )
                .await;
            }
            Ok(None) => tracing::debug!(kind, "kind is not installed; looking again later"),
            Err(error) => tracing::warn!(kind, error = words(&error), "cannot ask for the kind"),
        }
        if pause(&cancel, RETRY).await {
            return;
        }
    }
}

/// Every Node of this cluster, until `cancel`.
pub(super) async fn nodes(context: Arc<Context>, news: Sender, cancel: CancellationToken) {
    while !cancel.is_cancelled() {
        let objects: Api<WireNode> = Api::all(context.client.clone());
        let put = |node: WireNode| News::Node(node.into());
        let gone = |key: Key| News::NodeGone(key.name);
        follow(
            events(objects),
            "Node",
            &cancel,
            &news,
            put,
            gone,
            News::Nodes,
        )
        .await;
        if pause(&cancel, RETRY).await {
            return;
        }
    }
}

/// Every Lease of a Node, until `cancel`: a Lease may be changed by whoever shares it.
pub(super) async fn leases(context: Arc<Context>, news: Sender, cancel: CancellationToken) {
    while !cancel.is_cancelled() {
        let objects: Api<Lease> = Api::namespaced(context.client.clone(), MEDIK8S_LEASE_NAMESPACE);
        let put = |lease: Lease| {
            let name = lease.metadata.name.clone().unwrap_or_default();
            News::Lease(name, held(&lease))
        };
        let gone = |key: Key| News::LeaseGone(key.name);
        follow(
            events(objects),
            "Lease",
            &cancel,
            &news,
            put,
            gone,
            News::Leases,
        )
        .await;
        if pause(&cancel, RETRY).await {
            return;
        }
    }
}

/// That templates of a kind change, until `cancel`.
pub(super) async fn templates(
    context: Arc<Context>,
    of: Requests,
    news: Sender,
    cancel: CancellationToken,
) {
    loop {
        match context
            .served
            .resource_of(&context.client, &of.api_version, &of.kind)
            .await
        {
            Ok(Some(resource)) => {
                let objects: Api<DynamicObject> = match of.namespace.as_str() {
                    "" => Api::all_with(context.client.clone(), &resource),
                    namespace => Api::namespaced_with(context.client.clone(), namespace, &resource),
                };
                let changed = || News::Template(of.clone());
                follow(
                    events(objects),
                    &of.kind,
                    &cancel,
                    &news,
                    |_| changed(),
                    |_| changed(),
                    |_| changed(),
                )
                .await;
            }
            Ok(None) => {}
            Err(error) => tracing::warn!(%error, "cannot ask for the kind"),
        }
        if pause(&cancel, RETRY).await {
            return;
        }
    }
}

/// Every remediation of a kind, until `cancel`.
pub(super) async fn requests(
    context: Arc<Context>,
    of: Requests,
    news: Sender,
    cancel: CancellationToken,
) {
    loop {
        match context
            .served
            .resource_of(&context.client, &of.api_version, &of.kind)
            .await
        {
            Ok(Some(resource)) => {
                let objects: Api<DynamicObject> = match of.namespace.as_str() {
                    "" => Api::all_with(context.client.clone(), &resource),
                    namespace => Api::namespaced_with(context.client.clone(), namespace, &resource),
                };
                let put = |object| News::Request(Box::new(object));
                let gone = |key| News::RequestGone(of.clone(), key);
                let all = |keys| News::RequestList(of.clone(), keys);
                follow(events(objects), &of.kind, &cancel, &news, put, gone, all).await;
            }
            // What is not served has no objects.
            Ok(None) => {
                news.send(News::RequestList(of.clone(), BTreeSet::new()))
                    .ok();
            }
            Err(error) => tracing::warn!(%error, "cannot ask for the kind"),
        }
        if pause(&cancel, RETRY).await {
            return;
        }
    }
}

/// Every object of OpenShift of a kind, until `cancel`.
pub(super) async fn facts(
    context: Arc<Context>,
    fact: Fact,
    news: Sender,
    cancel: CancellationToken,
) {
    loop {
        let asked = context
            .served
            .find(&context.client, fact.group(), fact.kind());
        match asked.await {
            Ok(Some(resource)) => {
                let objects: Api<DynamicObject> = Api::all_with(context.client.clone(), &resource);
                let put = |object| News::Fact(fact, Box::new(object));
                let gone = |key| News::FactGone(fact, key);
                let all = |keys| News::Facts(fact, keys);
                follow(events(objects), fact.kind(), &cancel, &news, put, gone, all).await;
            }
            Ok(None) => {
                news.send(News::Facts(fact, BTreeSet::new())).ok();
            }
            Err(error) => {
                tracing::warn!(
                    kind = fact.kind(),
                    error = words(&error),
                    "cannot ask for the kind"
                );
            }
        }
        if pause(&cancel, RETRY_OPENSHIFT).await {
            return;
        }
    }
}

/// A handle to objects of a kind.
pub(super) fn objects(
    context: &Context,
    resource: &kube::core::ApiResource,
    namespace: &str,
) -> Api<DynamicObject> {
    api(&context.client, resource, namespace)
}
