//! The IPMI simulator with third-party clients: ipmitool, FreeIPMI, pyghmi.
//!
//! They share no code with the simulator, so the simulator and this project's client cannot share
//! an undetected error. The counters of the simulator must agree with the commands of the client.

mod freeipmi;
mod ipmitool;
pub(crate) mod peer;
mod pyghmi;
mod rack;
