//! A session against a minimal BMC: table tests, and many runs over a faulty network.

mod bmc;
mod handshake;
mod lossy;
mod requests;
mod world;

// The BMC is shared with the tests over UDP, where this path is the crate's.
use crate::ipmi::wire;
