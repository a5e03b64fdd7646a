//! The kinds that feed health checks from the index, and where they are read live.

use std::{fmt, sync::Arc};

use k8s_openapi::api::core::v1::Node;
use kube::{Client, core::ApiResource};
use tokio::sync::Notify;

use super::{SyncError, View, live_listing, object_name, reach};
use crate::{
    clusters::Workloads,
    store::{
        index::Index,
        object::{Key, Kind, Served},
        watch::no_longer_served,
    },
};

/// A source of objects that a health check depends on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Feed {
    /// A kind of the management cluster, in a namespace.
    Objects(Kind, String),
    /// The Nodes of a workload cluster.
    Nodes(Key),
}

impl fmt::Display for Feed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Objects(kind, namespace) if namespace.is_empty() => {
                write!(f, "{}s", kind.kind())
            }
            Self::Objects(kind, namespace) => write!(f, "{}s in {namespace}", kind.kind()),
            Self::Nodes(cluster) => write!(f, "Nodes of cluster {cluster}"),
        }
    }
}

/// The clients that read feeds live, and the index that is compared with them.
pub(super) struct Feeds {
    pub(super) client: Client,
    pub(super) served: Arc<Served>,
    pub(super) workloads: Arc<Workloads>,
    pub(super) index: Arc<Index>,
}

struct FeedView<'a> {
    index: &'a Index,
    feed: &'a Feed,
}

// === impl Feeds ===

impl Feeds {
    pub(super) async fn round(&self, feed: &Feed) -> Result<(), SyncError> {
        let not_read = |error: &dyn fmt::Display| SyncError::Read(error.to_string());
        let listing = match feed {
            Feed::Objects(kind, namespace) => {
                let found = self.served.find(&self.client, kind.group(), kind.kind());
                let found = found.await;
                let Some(resource) = found.map_err(|error| not_read(&error))? else {
                    // A kind that was never served has no objects. Objects of a removed kind are unknown (F12), also
                    // before its watch notices that it is removed.
                    let known = self.index.keys(*kind).len();
                    let lost = self.index.lost_watch(&[*kind]);
                    return match lost.or_else(|| no_longer_served(kind.group(), kind.kind(), known))
                    {
                        Some(why) => Err(SyncError::Read(why)),
                        None => Ok(()),
                    };
                };
                live_listing(&self.client, &resource, namespace).await
            }
            Feed::Nodes(cluster) => {
                let Some(client) = self.workloads.client(cluster) else {
                    // A cluster has no API, and so no Node, before its control plane is initialized.
                    if self.is_uninitialized(cluster) {
                        return Ok(());
                    }
                    return Err(not_read(&format!("cluster {cluster} is not connected")));
                };
                live_listing(&client, &ApiResource::erase::<Node>(&()), "").await
            }
        };
        let listing = listing.map_err(|error| not_read(&error))?;
        let index = &*self.index;
        reach(&feed.to_string(), listing, &FeedView { index, feed }).await
    }

    fn is_uninitialized(&self, cluster: &Key) -> bool {
        let view = self.index.cluster(cluster).and_then(|e| e.view.ok());
        view.is_some_and(|cluster| !cluster.is_control_plane_initialized())
    }
}

// === impl FeedView ===

impl View for FeedView<'_> {
    fn names(&self) -> Vec<String> {
        match self.feed {
            Feed::Objects(kind, namespace) => {
                let keys = self.index.keys_in_pages(*kind);
                let in_namespace = keys.filter(|key| key.namespace == *namespace);
                in_namespace
                    .map(|key| object_name(&key.namespace, &key.name))
                    .collect()
            }
            Feed::Nodes(cluster) => self.index.node_names(cluster),
        }
    }

    fn version(&self, name: &str) -> Option<u64> {
        let version = match self.feed {
            Feed::Objects(kind, _) => self.index.version_of(*kind, &Key::parse(name)),
            Feed::Nodes(cluster) => self.index.node_version(cluster, name),
        };
        version?.parse().ok()
    }

    fn is_deleted(&self, uid: &str) -> bool {
        self.index.is_deleted(uid)
    }

    fn moved(&self) -> &Notify {
        self.index.moved()
    }
}
