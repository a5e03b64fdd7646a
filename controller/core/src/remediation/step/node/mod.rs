//! The Node of the host: whether it is the one that the evidence of off covers, and whether another Node runs there.

mod cordon;
mod eviction;
pub(super) mod identity;
mod other_node;
