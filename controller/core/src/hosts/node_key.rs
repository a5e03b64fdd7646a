//! What Nodes and hosts are found by.

use std::hash::{DefaultHasher, Hash, Hasher};

use rackhand_identity::SystemUuid;

use super::HostQuery;

/// What a Node or a host is found by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NodeKey<'a> {
    /// Name of the Node.
    NodeName(&'a str),
    /// providerID of the Node.
    ProviderId(&'a str),
    /// SMBIOS system UUID of the host, which the Node reports.
    SystemUuid(SystemUuid),
}

impl NodeKey<'_> {
    /// A system UUID as a kubelet or an inventory reports it; `None` if it identifies no host: empty, malformed,
    /// or a placeholder of the firmware.
    #[must_use]
    pub fn system_uuid(text: &str) -> Option<Self> {
        SystemUuid::parse(text).map(Self::SystemUuid)
    }

    /// Key of an index. Different identities may have the same key.
    #[must_use]
    pub fn key(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }

    /// The noun for messages.
    pub(super) fn noun(&self) -> &'static str {
        match self {
            Self::NodeName(_) => "name",
            Self::ProviderId(_) => "providerID",
            Self::SystemUuid(_) => "system UUID",
        }
    }
}

/// The Nodes of all clusters that are connected.
pub trait KnownNodes {
    /// A Node with this identity other than the one whose host is resolved, by its cluster and name. With
    /// `cluster`, only Nodes of that cluster count. The same Node seen through two names of its cluster is one.
    fn find_other(
        &self,
        wanted: &HostQuery,
        identity: NodeKey<'_>,
        cluster: Option<&str>,
    ) -> Option<NodeOfCluster>;
}

/// A Node of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeOfCluster {
    /// The cluster: see [`HostQuery::clusters`].
    pub cluster: String,
    /// Name of the Node.
    pub name: String,
}
