//! The rack of a host and the switches at its ports.
//!
//! Owns: the resources that contain them: `Location` of the chassis, and `Ethernet.LLDPReceive` of the ports of
//! its network adapters (Port schema 1.4 and later). Must never: fail because one of them is missing, or read more
//! than a bounded number of them.

use serde_json::Value;

use crate::{
    BmcError, MAX_NEIGHBORS, Neighbor, Topology,
    redfish::{
        host::resources::Reader,
        protocol::document::{Collection, last_part, link, links, text},
    },
};

/// Characters of a name. LLDP allows 255 bytes; no person gives a longer name than this.
const MAX_NAME: usize = 128;

/// Chassis of a system that are read.
const MAX_CHASSIS: usize = 4;
/// Network adapters of a chassis that are read.
const MAX_ADAPTERS: usize = 8;
/// Ports of an adapter that are read.
const MAX_PORTS: usize = 16;

/// Reads the topology. The system must be readable; other resources are optional.
pub(in crate::redfish::host) async fn read(reader: Reader<'_>) -> Result<Topology, BmcError> {
    let mut topology = Topology::default();
    let system = reader.system().await?;
    let chassis = links(&system.body, &["Links", "Chassis"]);
    for link in chassis.iter().take(MAX_CHASSIS) {
        let Some(body) = reader.optional(link).await else {
            continue;
        };
        if topology.rack.is_none() {
            topology.rack = rack(&body);
        }
        for adapter in linked_members(reader, &body, "NetworkAdapters", MAX_ADAPTERS).await {
            let Some(adapter) = reader.optional(&adapter).await else {
                continue;
            };
            for port in linked_members(reader, &adapter, "Ports", MAX_PORTS).await {
                let port = reader.optional(&port).await;
                topology.neighbors.extend(port.as_ref().and_then(neighbor));
                if topology.neighbors.len() >= MAX_NEIGHBORS {
                    return Ok(topology);
                }
            }
        }
    }
    Ok(topology)
}

/// Links of the members of the collection that a resource links, at most `limit`.
async fn linked_members(reader: Reader<'_>, body: &Value, name: &str, limit: usize) -> Vec<String> {
    let Some(collection) = link(body, &[name]) else {
        return Vec::new();
    };
    let collection = reader.optional(&collection).await;
    let members = collection.as_ref().and_then(Collection::of);
    let mut members = members.unwrap_or_default().members;
    members.truncate(limit);
    members
}

/// The rack of a chassis, with its row where both are known.
fn rack(chassis: &Value) -> Option<String> {
    let placement = chassis.get("Location")?.get("Placement")?;
    let name = |property: &str| clean_name(&text(placement, property)?);
    let rack = name("Rack")?;
    Some(match name("Row") {
        Some(row) => format!("{row}/{rack}"),
        None => rack,
    })
}

/// The neighbour of a port; `None` if nothing identifies it.
fn neighbor(port: &Value) -> Option<Neighbor> {
    let received = port.get("Ethernet")?.get("LLDPReceive")?;
    let name = |property: &str| clean_name(&text(received, property)?);
    let (chassis_id, system_name) = (name("ChassisId"), name("SystemName"));
    if chassis_id.is_none() && system_name.is_none() {
        return None;
    }
    let id = text(port, "Id").or_else(|| Some(last_part(&text(port, "@odata.id")?).to_owned()));
    Some(Neighbor {
        port: clean_name(&id.unwrap_or_default()).unwrap_or_default(),
        chassis_id,
        port_id: name("PortId"),
        system_name,
    })
}

/// A text as a name: without blanks around it; `None` if it is empty, longer than a name, or contains control
/// characters.
fn clean_name(text: &str) -> Option<String> {
    let text = text.trim();
    let is_name =
        !text.is_empty() && text.chars().count() <= MAX_NAME && !text.chars().any(char::is_control);
    is_name.then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rack_is_named_with_its_row() {
        let of = |placement: &Value| rack(&json!({"Location": {"Placement": placement}}));
        assert_eq!(of(&json!({"Rack": "12"})).as_deref(), Some("12"));
        let both = json!({"Row": "row-3", "Rack": " 12 ", "RackOffset": 4});
        assert_eq!(of(&both).as_deref(), Some("row-3/12"));
        assert_eq!(of(&json!({"Row": "row-3"})), None);
        assert_eq!(of(&json!({"Rack": "a\u{7}"})), None);
        assert_eq!(rack(&json!({"Location": null})), None);
    }

    #[test]
    fn port_without_an_identified_neighbor_has_none() {
        let of =
            |received: &Value| neighbor(&json!({"Id": "1", "Ethernet": {"LLDPReceive": received}}));
        let found =
            of(&json!({"ChassisId": "00:11", "PortId": "Eth1/3", "SystemName": "tor-1"})).unwrap();
        assert_eq!(
            (found.port.as_str(), found.system_name.as_deref()),
            ("1", Some("tor-1"))
        );
        assert_eq!(found.chassis_id.as_deref(), Some("00:11"));
        for received in [
            json!({}),
            json!(null),
            json!({"PortId": "1"}),
            json!({"SystemName": "\n"}),
        ] {
            assert_eq!(of(&received), None, "{received}");
        }
        assert_eq!(neighbor(&json!({"Id": "1"})), None);
    }

    #[test]
    fn name_is_short_and_printable() {
        assert_eq!(clean_name(" tor-1 ").as_deref(), Some("tor-1"));
        assert_eq!(
            clean_name("00:11:22:aa:bb:cc").as_deref(),
            Some("00:11:22:aa:bb:cc")
        );
        let long = "x".repeat(MAX_NAME + 1);
        for text in ["", "  ", "a\nb", "a\u{1b}[31m", long.as_str()] {
            assert_eq!(clean_name(text), None, "{text:?}");
        }
    }
}
