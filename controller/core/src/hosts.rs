//! Resolves a Machine and its Node to the host and the rack whose agent can switch it.
//!
//! Owns the precedence of names. Must never choose between several hosts: switching the wrong one is an
//! outage.

mod networks;
mod racks;

use std::net::IpAddr;

use rackhand_identity::{IdentityMatch, compare_system_uuids};

use crate::remediation::{HostRef, Reason};

pub(crate) use networks::RackNetworks;
pub use racks::Racks;

use networks::contains;

/// A host in an agent's inventory.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct InventoryHost {
    /// Name of the host in the inventory.
    pub name: String,
    /// Name of the Node that runs on the host; empty if the inventory does not name it.
    pub node_name: String,
    /// The providerID of that Node; empty if the inventory does not name it.
    pub provider_id: String,
    /// SMBIOS UUID of the host; empty if the inventory does not name it.
    pub system_uuid: String,
    /// Addresses of the BMC, separated by a comma and a space.
    pub bmc: String,
}

/// What the agents of a rack serve.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rack {
    /// The inventories of the agents.
    pub hosts: Vec<InventoryHost>,
    /// Networks (CIDR) whose BMCs the rack serves for BareMetalHosts; empty if unrestricted.
    pub bmc_networks: Vec<String>,
}

/// What is known about the Machine whose host is resolved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostQuery {
    /// Name of the Node, from the Machine's nodeRef.
    pub node_name: Option<String>,
    /// The providerID of the Machine or the Node.
    pub provider_id: Option<String>,
    /// `status.nodeInfo.systemUUID` of the Node.
    pub system_uuid: Option<String>,
    /// The BareMetalHost that is linked to the Machine.
    pub bmh: Option<BareMetalHostRef>,
}

/// The BareMetalHost of a Machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BareMetalHostRef {
    /// `namespace/name`.
    pub name: String,
    /// `spec.bmc.address`.
    pub address: String,
    /// Label or annotation `rackhand.dev/rack`.
    pub rack: Option<String>,
}

/// Resolves the host. The inventory takes precedence over the BareMetalHost, because its credentials
/// never leave the rack.
///
/// Three sources name the rack of a host: the inventory that lists it, the label of its BareMetalHost,
/// and the `bmcNetworks` that contain its BMC. None takes precedence over another: if they contradict
/// each other, no host is chosen.
///
/// # Errors
/// No host was found, or several match, or the sources contradict each other. The reason names them.
pub fn resolve(wanted: &HostQuery, racks: &Racks) -> Result<HostRef, Reason> {
    let mut found = racks.candidates(wanted);
    found.retain(|(_, host)| fits(host, wanted));
    match found.as_slice() {
        [] => by_bmh(wanted, racks),
        [(rack, host)] => {
            contradictions(wanted, racks, rack, Some(host))?;
            Ok(HostRef {
                rack: (*rack).clone(),
                host: host.name.clone(),
                bmh: wanted.bmh.as_ref().map(|b| b.name.clone()),
                bmc: host.bmc.clone(),
            })
        }
        several => {
            let named = several.iter().map(|(rack, host)| {
                let twice = several
                    .iter()
                    .filter(|(r, h)| r == rack && h.name == host.name);
                if twice.count() > 1 {
                    format!("{rack}/{} at {}", host.name, host.bmc)
                } else {
                    format!("{rack}/{}", host.name)
                }
            });
            let named = named.collect::<Vec<_>>().join(", ");
            Err(Reason::HostAmbiguous(named))
        }
    }
}

/// Checks the three sources for contradictions to this host in this rack.
fn contradictions(
    wanted: &HostQuery,
    racks: &Racks,
    rack: &str,
    host: Option<&InventoryHost>,
) -> Result<(), Reason> {
    let mut against = Vec::new();
    let choice = host.map_or_else(
        || format!("the only candidate is rack {rack}"),
        |host| format!("the inventory of rack {rack} names host {}", host.name),
    );
    let mut place = |what: String, address: &str, of_rack: bool| {
        let serving = racks.serving(address);
        if !serving.is_empty() && !serving.contains(&rack) {
            let others = names(&serving);
            against.push(format!(
                "{what} {address} lies in spec.bmcNetworks of rack {others}"
            ));
        } else if of_rack && serving.is_empty() && outside(address, racks.get(rack)) {
            against.push(format!(
                "{what} {address} lies in no spec.bmcNetworks of rack {rack}"
            ));
        }
    };
    if let Some(host) = host {
        for address in host.bmc.split(", ") {
            place("its BMC".into(), address, false);
        }
    }
    if let Some(bmh) = &wanted.bmh {
        // A BMC that an inventory lists need not lie in the networks of its own rack.
        place(
            format!("the BMC of BareMetalHost {}", bmh.name),
            &bmh.address,
            host.is_none(),
        );
        if let Some(label) = bmh.rack.as_ref().filter(|label| *label != rack) {
            against.push(format!(
                "BareMetalHost {} has rackhand.dev/rack={label}",
                bmh.name
            ));
        }
    }
    if let (Some(host), Some(uuid)) = (host, &wanted.system_uuid)
        && !host.system_uuid.is_empty()
        && compare_system_uuids(uuid, &host.system_uuid) == IdentityMatch::Different
    {
        against.push(format!(
            "its system UUID is {} there, and the node reports {uuid}",
            host.system_uuid
        ));
    }
    if against.is_empty() {
        return Ok(());
    }
    Err(Reason::HostAmbiguous(format!(
        "{choice}, but {}",
        against.join(", and ")
    )))
}

/// Whether a rack restricts its networks, and none of them contains the address.
fn outside(address: &str, rack: Option<&Rack>) -> bool {
    let said = rack.filter(|rack| !rack.bmc_networks.is_empty());
    match (address_ip(address), said) {
        (Some(ip), Some(rack)) => !rack.bmc_networks.iter().any(|n| contains(n, ip)),
        _ => false,
    }
}

fn names(racks: &[&str]) -> String {
    racks.join(", ")
}

/// The Node that runs on a host.
fn node_of(host: &InventoryHost) -> &str {
    if host.node_name.is_empty() {
        &host.name
    } else {
        &host.node_name
    }
}

fn fits(host: &InventoryHost, wanted: &HostQuery) -> bool {
    let said =
        |there: &str, here: &Option<String>| !there.is_empty() && here.as_deref() == Some(there);
    said(node_of(host), &wanted.node_name)
        || said(&host.provider_id, &wanted.provider_id)
        || wanted
            .system_uuid
            .as_deref()
            .is_some_and(|u| compare_system_uuids(u, &host.system_uuid) == IdentityMatch::Same)
}

fn by_bmh(wanted: &HostQuery, racks: &Racks) -> Result<HostRef, Reason> {
    let Some(bmh) = &wanted.bmh else {
        let node = wanted.node_name.as_deref().unwrap_or("(none)");
        return Err(Reason::HostNotFound(format!(
            "no agent's inventory knows node {node} by its name, providerID or system UUID, and no \
             BareMetalHost is linked to it"
        )));
    };
    if bmh.address.is_empty() {
        return Err(Reason::HostNotFound(format!(
            "BareMetalHost {} has no spec.bmc.address",
            bmh.name
        )));
    }
    let here = |rack: &str| -> Result<HostRef, Reason> {
        contradictions(wanted, racks, rack, None)?;
        Ok(HostRef {
            rack: rack.to_owned(),
            host: bmh.name.clone(),
            bmh: Some(bmh.name.clone()),
            bmc: bmh.address.clone(),
        })
    };
    if let Some(rack) = &bmh.rack {
        return if racks.contains_key(rack) {
            here(rack)
        } else {
            Err(Reason::HostNotFound(format!(
                "BareMetalHost {} names rack {rack}, and no RackAgent serves it",
                bmh.name
            )))
        };
    }
    let only = || racks.keys().next().filter(|_| racks.len() == 1);
    match (racks.serving(&bmh.address).as_slice(), only()) {
        ([rack], _) => here(rack),
        ([], Some(only)) if !outside(&bmh.address, racks.get(only)) => here(only),
        ([], _) => Err(Reason::HostNotFound(format!(
            "no RackAgent's spec.bmcNetworks holds the BMC {} of BareMetalHost {}; or label the \
             BareMetalHost rackhand.dev/rack=<rack>",
            bmh.address, bmh.name
        ))),
        (several, _) => Err(Reason::HostAmbiguous(format!(
            "the BMC {} of BareMetalHost {} lies in spec.bmcNetworks of racks {}",
            bmh.address,
            bmh.name,
            names(several)
        ))),
    }
}

/// The IP address in a BMC address of baremetal-operator's grammar; `None` for a host name.
fn address_ip(address: &str) -> Option<IpAddr> {
    let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
    let authority = rest.split(['/', '?']).next()?;
    if let Some(v6) = authority.strip_prefix('[') {
        return v6.split(']').next()?.parse().ok();
    }
    let host = authority
        .rsplit_once(':')
        .map_or(authority, |(host, _)| host);
    host.parse().or_else(|_| authority.parse()).ok()
}

#[cfg(test)]
mod tests;
