//! A fleet in virtual time: the controllers and agents that run in production, unchanged, between
//! simulated hosts, BMCs, kubelets, baremetal-operator and an API server in memory. Faults of all kinds
//! come from a seed, and an oracle that knows what really happens judges.
//!
//! Everything runs on one thread, and what a process sees of its machine (clocks, random numbers) is
//! simulated (`rackhand-interpose`), so that a seed always gives the same run.

pub mod api;
mod breakage;
mod causes;
pub mod faults;
pub mod fleet;
mod habits;
pub mod kernel;
pub mod oracle;
mod programs;
mod region;
mod report;
mod run;

pub use breakage::Breakage;
pub use causes::{Causes, CausesReport};
pub use habits::Habit;
pub use rackhand_interpose::CountingAllocator;
pub use region::{Region, RegionReport};
pub use report::Report;
pub use run::{ALONE, Options, Outcome, run, run_alone};
