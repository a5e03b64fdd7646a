//! The connection of a command to the agent: what an error of it means, requests that are repeated, the lease of
//! this process, and the agent inside of this process (`--direct`).

pub(crate) mod connect_error;
pub(crate) mod direct;
pub(crate) mod lease;
pub(crate) mod until_answered;
