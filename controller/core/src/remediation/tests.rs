//! Tests of the remediation of one host, rule by rule and in a simulated world.

mod aborting;
mod bmc;
mod booting;
mod build;
mod came_back;
mod concurrency;
mod confirmation;
mod crash;
mod driver;
mod evidence;
mod exits;
mod failures;
mod faults;
mod fencing;
mod host_evidence;
mod identity;
mod interleavings;
mod invariants;
mod liveness;
mod messages;
mod node_identity;
mod observe;
mod orphan;
mod outdated;
mod outlets;
mod outlets_found;
mod pods;
mod policies;
mod power_authority;
mod random_runs;
mod strategies;
mod waiting;
mod withdrawn;
mod world;

mod agents;
