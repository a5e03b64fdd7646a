//! The connections to agents: one task each, the agent that serves a rack, and what an agent must support.

pub(super) mod clock;
mod connection;
pub(super) mod known;
pub(super) mod required;
pub(super) mod serving;
