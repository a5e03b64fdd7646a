//! The controller on real control planes, with agents and simulated racks around it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_in_result,
    missing_docs,
    unreachable_pub
)]

mod admission;
mod alerts;
mod bmc_identity;
mod bmc_watch;
mod campaign;
mod capi_manager;
mod chart;
mod clusters;
mod cooperative;
mod crash;
mod demo;
mod docs;
mod eviction;
mod evidence;
mod failure_table;
mod fencing;
mod flashing;
mod hardware_signals;
mod history;
mod host_names;
mod image;
mod input;
mod ipmi_remediation;
mod ironic;
mod kubelet;
mod machine_requests;
mod maintenance;
mod manifests;
mod medik8s;
mod moved;
mod moved_agent;
mod node_health_check;
mod observability;
mod openshift;
mod outlets;
mod overlap;
mod page;
mod path;
mod plugin;
mod power_remediation;
mod preflight;
mod rack_agents;
mod rehearse;
mod restored;
mod rights;
mod rival;
mod shards;
mod shared_lists;
mod thousand;
mod triggers;
mod uninstall;
mod whole_view;
