//! The Leases of all Nodes of a cluster.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, ObjectList},
};
use rackhand_api::names::NODE_LEASE_NAMESPACE;
use rackhand_core::signals::{ClusterLeases, ListPace};
use tokio::time::Instant;

use crate::{
    clusters::lease_renewal,
    store::{object::list_pages, time_slice::beside_polls},
};

/// Time between two lists of a small cluster, and of any in which a host seems to have lost its power. A silence is
/// seen so much later than it begins.
const SHORTEST: Duration = Duration::from_secs(2);
/// The same of a large cluster.
const LONGEST: Duration = Duration::from_secs(5);
/// What each Node adds between the two.
const PER_NODE: Duration = Duration::from_millis(10);
/// A list of a large cluster takes at most this part of the time of its API server.
const SHARE: u32 = 10;

/// A Lease that was listed: its Node, renewTime and duration.
pub(super) type ListedLease = (String, String, Duration);

/// What is known of the Leases of one cluster.
#[derive(Default)]
pub(super) struct KnownLeases {
    pub(super) leases: ClusterLeases,
    is_listing: bool,
    listed: Option<Instant>,
    took: Duration,
    count: u32,
    /// The message of the last failure, which is logged once.
    failure: Option<String>,
}

/// The lists, from a live read of every page.
pub(super) struct ListedLeases {
    pub(super) asked: Timestamp,
    pub(super) took: Duration,
    pub(super) leases: Result<Vec<ListedLease>, String>,
}

impl KnownLeases {
    /// Whether a list is due, which counts as begun then.
    pub(super) fn begin_list(&mut self, pace: ListPace) -> bool {
        let of_size = (PER_NODE * self.count).clamp(SHORTEST, LONGEST);
        let interval = match pace {
            ListPace::Quick => SHORTEST,
            ListPace::Regular => of_size,
        };
        let interval = interval.max(self.took * SHARE);
        let is_due = self.listed.is_none_or(|at| at.elapsed() >= interval);
        let begins = is_due && !self.is_listing;
        self.is_listing |= begins;
        begins
    }

    /// Records that a list has ended.
    pub(super) fn end_list(&mut self, took: Duration, listed: Result<usize, &String>) {
        self.is_listing = false;
        self.listed = Some(Instant::now());
        self.took = took;
        let failure = listed.err();
        self.count = listed.map_or(self.count, |count| u32::try_from(count).unwrap_or(u32::MAX));
        if let Some(why) = failure
            && self.failure.as_ref() != Some(why)
        {
            tracing::warn!(
                why,
                "Leases cannot be listed; there are no signals of this cluster"
            );
        }
        self.failure = failure.cloned();
    }
}

/// Lists the Leases of a cluster. `asked` is taken before, because a Lease may be renewed meanwhile.
pub(super) async fn list(client: Client, asked: Timestamp) -> ListedLeases {
    let begun = Instant::now();
    let leases: Api<Lease> = Api::namespaced(client, NODE_LEASE_NAMESPACE);
    let read = |params: ListParams| {
        let leases = leases.clone();
        let page = async move {
            let page = leases.list(&params).await?;
            let renewals = page.items.iter().filter_map(|lease| {
                let (renewed, duration) = lease_renewal(lease)?;
                Some((lease.name_any(), renewed, duration))
            });
            Ok::<_, kube::Error>(ObjectList::<ListedLease> {
                items: renewals.collect(),
                types: page.types,
                metadata: page.metadata,
            })
        };
        beside_polls(page)
    };
    let listed = list_pages("Leases of Nodes", &ListParams::default(), read).await;
    ListedLeases {
        asked,
        took: begun.elapsed(),
        leases: listed.map_err(|error| error.to_string()),
    }
}
