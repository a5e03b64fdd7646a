//! Holds whose remediation is gone: at the agent, and as hold keys on the BareMetalHost.

pub(super) mod left_cordon;
pub(super) mod left_hold;
pub(super) mod left_keys;
