//! Several workload clusters, and several controllers in one management cluster.

mod shards;
pub(crate) mod workloads;
