//! The test kit of Rackhand, for its tests and its demonstration.
//!
//! - [`admission`]: an API server with our CRDs, and our admission policies.
//! - [`bmo`]: a stand-in for baremetal-operator and Ironic.
//! - [`browser`]: a real browser without a window.
//! - [`campaign`]: a storm of faults over all of it.
//! - [`cluster`]: a real Kubernetes control plane on loopback.
//! - [`enclosure`]: a simulated enclosure whose sleds are hosts.
//! - [`pdu`]: two simulated PDUs that feed hosts.
//! - [`process`]: processes that never outlive their test.
//! - [`real_host`]: real hosts in QEMU, with the kubelet, behind BMCs of other projects.
//! - [`repository`]: the files of this repository, and programs in it.
//! - [`pki`]: a certificate authority in a directory.
//! - [`stage`]: all of it, with our own binaries as processes.
//! - [`rack`]: simulated hosts, each with a Redfish BMC and a kubelet, and IPMI BMCs.
//! - [`udp_proxy`]: a network between client and BMC that fails by a seed.

pub use rackhand_sim::{pki, rack};

pub mod admission;
pub mod bmo;
pub mod browser;
pub mod campaign;
pub mod cluster;
pub mod enclosure;
pub mod pdu;
pub mod process;
pub mod real_host;
pub mod repository;
pub mod stage;
pub mod udp_proxy;
