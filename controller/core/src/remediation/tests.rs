//! The remediation of one host, tested rule by rule and in a simulated world.

mod aborting;
mod bmc;
mod booting;
mod build;
mod came_back;
mod chaos;
mod conflict;
mod crash;
mod driver;
mod evidence;
mod eyes;
mod failures;
mod faults;
mod fencing;
mod identity;
mod judge;
mod orphan;
mod persons_word;
mod policies;
mod same_node;
mod silence;
mod strategies;
mod table;
mod turns;
mod waiting;
mod ways_out;
mod withdrawn;
mod words;
mod world;

mod agents;
