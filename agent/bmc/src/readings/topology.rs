//! Location of a host, as its BMC reports it: its rack, and the switches that its ports see by LLDP.
//!
//! Devices on the network choose these texts, so they must not affect any decision about power.

/// Maximum number of neighbours kept per host.
pub const MAX_NEIGHBORS: usize = 16;

/// Facts about the place of a host; empty where the BMC reports none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Topology {
    /// The rack that contains the chassis, with its row if that is known: `row-3/12`.
    pub rack: Option<String>,
    /// Neighbours at the ports of the host, at most [`MAX_NEIGHBORS`], in the order of the ports.
    pub neighbors: Vec<Neighbor>,
}

/// The device at the other end of a port, by LLDP (IEEE 802.1AB).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Neighbor {
    /// Name of the port of the host.
    pub port: String,
    /// Chassis ID of the device.
    pub chassis_id: Option<String>,
    /// Port ID of the device.
    pub port_id: Option<String>,
    /// Name of the device.
    pub system_name: Option<String>,
}

impl Topology {
    /// Whether the BMC reports nothing.
    pub fn is_empty(&self) -> bool {
        self.rack.is_none() && self.neighbors.is_empty()
    }
}
