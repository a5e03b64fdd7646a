//! The gRPC interface between controller, rack agent and command line.
//!
//! Owns: the generated gRPC code, conversions, and the limits of requests. Must never: decide about power, or
//! include a password in a Debug output.

mod codec;
pub mod convert;
pub mod limits;

/// `rackhand.power.v1`, generated from `proto/rackhand/power/v1/power.proto`.
#[allow(missing_docs, clippy::all, clippy::pedantic, unreachable_pub)]
pub mod v1 {
    tonic::include_proto!("rackhand.power.v1");

    impl std::fmt::Debug for BmcEndpoint {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.debug_struct("BmcEndpoint")
                .field("address", &self.address)
                .field("username", &self.username)
                .field("password", &"[redacted]")
                .field("insecure_skip_verify", &self.insecure_skip_verify)
                .finish()
        }
    }
}

/// The compiled descriptors, for gRPC reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/power.bin"));
