//! Health checks: the verdicts and plans of Machines and of Nodes, and the bookkeeping of the engine that runs them.

pub mod dispatch;
pub mod handover;
pub mod machines;
pub mod nodes;
