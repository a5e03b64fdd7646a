//! A session against a BMC of the tests' own: table tests, and many runs over a bad network.

mod bmc;
mod handshake;
mod lossy;
mod requests;
mod world;
