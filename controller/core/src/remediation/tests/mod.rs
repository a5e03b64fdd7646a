//! Tests of the remediation of one host, rule by rule and in a simulated world.

mod beginning;
pub(super) mod build;
mod ending;
mod explanation;
mod fencing;
mod joined;
mod liveness;
mod machine;
mod messages;
mod simulated;

use super::*;
use beginning::waiting;
use simulated::faults;
