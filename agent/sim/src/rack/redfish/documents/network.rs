//! Location of the host: `Location` of its Chassis, and its network adapter with the switches at the ports.

use serde_json::{Value, json};

use super::{at, collection, link};
use crate::rack::redfish::{path::ResourcePath, profile::Profile};
use crate::rack::settings::Topology;

/// The only adapter.
const ADAPTER: &str = "1";

/// Adds the location and the link to the adapters to a Chassis.
pub(super) fn place(chassis: &mut Value, profile: &Profile, topology: &Topology) {
    if let Some(rack) = &topology.rack {
        chassis["Location"] = json!({ "Placement": { "Rack": rack } });
    }
    if !topology.switches.is_empty() {
        let id = &profile.chassis_id;
        chassis["NetworkAdapters"] = link(&format!("Chassis/{id}/NetworkAdapters"));
    }
}

/// A resource of the adapters; `None`: it does not exist.
pub(super) fn build(
    profile: &Profile,
    topology: &Topology,
    path: ResourcePath<'_>,
) -> Option<Value> {
    let adapters = format!("Chassis/{}/NetworkAdapters", profile.chassis_id);
    let ports = format!("{adapters}/{ADAPTER}/Ports");
    if topology.switches.is_empty() {
        return None;
    }
    match path {
        ResourcePath::NetworkAdapters => Some(collection(&adapters, "NetworkAdapter", [ADAPTER])),
        ResourcePath::NetworkAdapter(ADAPTER) => Some(json!({
            "@odata.id": at(&format!("{adapters}/{ADAPTER}")),
            "@odata.type": "#NetworkAdapter.v1_11_0.NetworkAdapter",
            "Id": ADAPTER,
            "Name": "Network adapter",
            "Status": {"State": "Enabled", "Health": "OK"},
            "Ports": link(&ports),
        })),
        ResourcePath::Ports(ADAPTER) => {
            let ids: Vec<String> = (1..=topology.switches.len())
                .map(|n| n.to_string())
                .collect();
            Some(collection(&ports, "Port", ids.iter().map(String::as_str)))
        }
        ResourcePath::Port(ADAPTER, id) => {
            let number: usize = id.parse().ok()?;
            let switch = topology.switches.get(number.checked_sub(1)?)?;
            Some(json!({
                "@odata.id": at(&format!("{ports}/{id}")),
                "@odata.type": "#Port.v1_13_0.Port",
                "Id": id,
                "Name": format!("Port {id}"),
                "PortId": id,
                "PortProtocol": "Ethernet",
                "LinkStatus": "LinkUp",
                "Ethernet": {
                    "LLDPEnabled": true,
                    "LLDPReceive": {
                        "ChassisId": "02:00:5e:00:53:01",
                        "ChassisIdSubtype": "MacAddr",
                        "PortId": format!("Ethernet1/{id}"),
                        "PortIdSubtype": "IfName",
                        "SystemName": switch,
                    },
                },
            }))
        }
        _ => None,
    }
}
