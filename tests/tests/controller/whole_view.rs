//! Health checks act on the fleet as it is: Nodes that have just joined get no verdict (F12), and a
//! limit that the fleet exceeds is never exceeded by what is handed over, however the fleet comes to be
//! read (F13).
//!
//! `RACKHAND_FRESH_NODES` is the number of joining Machines of each mode, `RACKHAND_LIMIT_RUNS` the
//! number of rounds over a limit; a few by default, 500 and 200 for a soak.

mod fleet;
mod fresh;
mod limits;
mod mode;
