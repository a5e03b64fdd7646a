//! A session against a BMC of the tests' own: table tests, and many runs over a bad network.

mod bmc;
mod handshake;
mod lossy;
mod requests;
mod world;

// The BMC is also that of the tests over UDP, where this is the crate's.
use crate::ipmi::wire;
