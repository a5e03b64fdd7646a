//! Work that people plan on a real control plane: maintenances, and labels on Nodes.

mod maintenance;
pub(crate) mod triggers;
