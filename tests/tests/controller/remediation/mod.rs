//! Remediations on a real control plane, from a failed host to its end.

mod crash;
pub(crate) mod eviction;
mod evidence;
mod failure_table;
mod fencing;
mod flashing;
mod ipmi_remediation;
mod machine_requests;
mod outlets;
mod path;
pub(crate) mod power_remediation;
mod restored;
mod shared_lists;
mod thousand;
