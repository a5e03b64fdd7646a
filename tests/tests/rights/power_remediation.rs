//! Scenarios of the test `power_remediation`.

#[path = "../power_remediation/exhausted.rs"]
pub mod exhausted;
#[path = "../power_remediation/requesters.rs"]
pub mod requesters;
#[path = "../power_remediation/strategies.rs"]
pub mod strategies;
#[path = "../power_remediation/world.rs"]
pub mod world;
