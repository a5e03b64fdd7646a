//! Hosts, their BMCs and the agents of their racks: which is which, what is wrong with them, what happened to them.

mod bmc_identity;
pub(crate) mod bmc_watch;
mod hardware_signals;
mod history;
mod host_names;
mod kubelet;
mod moved_agent;
mod rack_agents;
