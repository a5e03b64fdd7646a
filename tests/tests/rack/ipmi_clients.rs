//! The IPMI simulator, as foreign clients find it: ipmitool, FreeIPMI, pyghmi.
//!
//! They and the simulator share no line of code, so that simulator and our own client cannot share
//! a mistake unseen. What the simulator counted must agree with what the client was asked for.

mod freeipmi;
mod ipmitool;
pub(crate) mod peer;
mod pyghmi;
mod rack;
