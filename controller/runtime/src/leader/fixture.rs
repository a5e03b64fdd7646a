//! A leader for tests, elected by the Lease of a fake API server.

use std::{collections::BTreeMap, time::Duration};

use kube::Client;
use prometheus_client::registry::Registry;
use rackhand_core::lease::LeaseConfig;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{
    Leader, LeaderMetrics,
    events::Events,
    writer::{Lane, Writer},
};

/// A leader with its writer and Events.
pub(crate) struct Leading {
    pub(crate) writer: Writer,
    pub(crate) events: Events,
    pub(crate) registry: Registry,
    /// Stops the election and all tasks.
    pub(crate) cancel: CancellationToken,
}

/// A leader by the Lease `ns/l` of this API server, and the token that ends its election.
pub(crate) async fn leader(client: &Client) -> (Leader, CancellationToken) {
    let (long, short) = (Duration::from_secs(60), Duration::from_secs(1));
    let lease = LeaseConfig::new(long, long / 2, short).unwrap();
    let leader = Leader::new("me".into(), lease, &BTreeMap::new(), None);
    let (leads, mut leading) = watch::channel(false);
    let cancel = CancellationToken::new();
    let (campaign, of_leader, stop) = (leader.clone(), client.clone(), cancel.clone());
    tokio::spawn(async move { campaign.run(&of_leader, "ns", "l", leads, stop).await });
    leading.wait_for(|leads| *leads).await.unwrap();
    (leader, cancel)
}

impl Leading {
    /// Starts a leader by the Lease `ns/l` of this API server.
    pub(crate) async fn start(client: &Client) -> Self {
        let (leader, cancel) = leader(client).await;
        let mut registry = Registry::default();
        let metrics = LeaderMetrics::register(&mut registry);
        let (writer, writing) = Writer::new(&leader, metrics, Lane::Checks);
        tokio::spawn(writing);
        let (events, sending) = Events::new(client.clone(), &leader, writer.clone());
        tokio::spawn(sending);
        Self {
            writer,
            events,
            registry,
            cancel,
        }
    }
}
