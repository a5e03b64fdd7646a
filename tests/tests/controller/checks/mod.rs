//! Health checks on a real control plane: which are admitted, what they find, and when they act.

mod admission;
pub(crate) mod node_health_check;
pub(crate) mod openshift;
mod overlap;
mod whole_view;
