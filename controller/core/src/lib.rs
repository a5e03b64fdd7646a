//! Every decision of the controller, as pure functions of plain data and an explicit `now`.
//!
//! Owns: health checks of Machines ([`health`]) and of Nodes ([`nodes`]), the next step of a remediation
//! ([`remediation`]), the explanation of both ([`explanation`]), the overview of all ([`overview`]), the
//! host of a Machine ([`hosts`]), the members of etcd ([`roles`]), leader election ([`lease`]),
//! whether a watch is behind ([`freshness`]), when unhealthy members are handed over ([`handover`]), which
//! remediation may begin ([`concurrency`]), whether a power policy holds a remediation ([`power_policy`]),
//! whether hosts failed for one cause ([`shared_cause`]), the queue of the health-check engine ([`dispatch`]),
//! what an installation lacks ([`preflight`]), how often a host was remediated ([`recurrence`]), whether a BMC
//! could fence its host ([`bmc_health`]), and what all this would have done with a recorded history
//! ([`rehearsal`]). Must never read a clock, do I/O, or use a client; no function here is `async`.
//!
//! docs/decisions/core-layers.md has the table of its layers.

pub mod bmc_health;
pub mod bmc_identity;
pub mod columns;
pub mod concurrency;
pub mod dispatch;
pub mod duration;
pub mod explanation;
pub mod freshness;
pub mod handover;
pub mod health;
pub mod hosts;
pub mod int_or_percent;
pub mod lease;
pub mod nodes;
pub mod overview;
pub mod placement;
pub mod power_owner;
pub mod power_policy;
pub mod preflight;
pub mod recurrence;
pub mod rehearsal;
pub mod remediation;
pub mod roles;
pub mod shared_cause;
pub mod watch_health;
