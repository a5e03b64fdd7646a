//! Real hosts in a test: QEMU machines with Debian's kernel, containerd and the kubelet.
//!
//! Each has a BMC of another project (OpenIPMI's `ipmi_sim` or sushy-emulator), which starts and ends its QEMU
//! process, and joins the control plane of a [`Stage`](crate::stage::Stage) over user-mode networking. `hack/setup real`
//! prepares their disk.

mod assertions;
mod bmc;
mod guest;
mod prepared;
mod reports;
mod site;
mod supply;

pub use bmc::BmcKind;
pub use guest::RealHost;
pub use prepared::Prepared;
pub use reports::{Report, Reports};
pub use site::{RealSite, RealSpec};
pub use supply::PowerChange;
