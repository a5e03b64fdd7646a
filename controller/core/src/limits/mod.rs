//! What holds a remediation back: concurrency, a slow API server, PowerPolicies, an owner of the power, and how often its host was remediated.

pub mod beginnings;
pub mod concurrency;
pub mod power_owner;
pub mod power_policy;
pub mod recurrence;
