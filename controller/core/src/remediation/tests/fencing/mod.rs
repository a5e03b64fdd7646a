//! From the hold to the drained Node: evidence, identities, outlets and firmware.

mod confirmation;
mod evidence;
mod firmware;
mod identity;
mod node_identity;
mod other_node;
mod outlets;
mod outlets_found;
mod power_authority;
mod soft_off;
mod taint;

use super::{beginning::waiting, ending::failures, *};
