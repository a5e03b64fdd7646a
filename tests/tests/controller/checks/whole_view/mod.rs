//! Health checks act on the current fleet: new Nodes get no unhealthy verdict (F12), and no member is
//! remediated while the fleet exceeds the limit, in any order of observation (F13).
//!
//! `RACKHAND_FRESH_NODES` is the number of joining Machines of each mode, `RACKHAND_LIMIT_RUNS` the
//! number of rounds over a limit; a few by default, 500 and 200 for a soak.

mod fleet;
mod fresh;
mod limits;
mod mode;
mod restart;
mod unread;
