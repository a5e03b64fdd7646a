//! Outlets of hosts.

mod shared;
mod switching;
