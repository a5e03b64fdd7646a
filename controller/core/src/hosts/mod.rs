//! Resolves a Machine and its Node to the host and the rack whose agent can switch it (F14).
//!
//! Owns the precedence of names. Must never choose between several hosts: switching the wrong one is an
//! outage. What names a host chooses it: the BareMetalHost whose consumer refers back, and the Node's name in an
//! inventory. A providerID and a system UUID only confirm, except for an entry that names no Node.

mod bindings;
mod bmc_address;
mod candidates;
mod networks;
mod node_key;
mod racks;

use crate::remediation::{HostRef, Reason};

pub(crate) use networks::RackNetworks;
pub use node_key::{KnownNodes, NodeKey, NodeOfCluster};
pub use racks::Racks;

use bindings::Binding;
use bmc_address::{address_ip, is_other_bmc};
use candidates::{Search, is_other_system};
use networks::contains;

/// Label of a Node that names its rack. Kubelets may not write it: the admission plugin NodeRestriction reserves
/// labels whose prefix ends with `node-restriction.kubernetes.io`.
pub const NODE_RACK_LABEL: &str = "rackhand.dev.node-restriction.kubernetes.io/rack";

/// A host in an agent's inventory.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct InventoryHost {
    /// Name of the host in the inventory.
    pub name: String,
    /// Name of the Node that runs on the host; empty if the inventory does not name it.
    pub node_name: String,
    /// Cluster of that Node, as in [`HostQuery::clusters`]; empty if the inventory does not name it.
    pub cluster: String,
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
    /// Names of the Nodes for which the inventories count, each exact or a prefix with `*` behind it; empty if
    /// unrestricted.
    pub nodes: Vec<String>,
}

/// What is known about the Machine whose host is resolved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostQuery {
    /// Name of the Node, from the Machine's nodeRef.
    pub node_name: Option<String>,
    /// UID of the Node, if it was read.
    pub node_uid: Option<String>,
    /// The cluster of the Node: `namespace/name` of its Cluster, and `local` for the management cluster. A
    /// management cluster that has a Cluster object has both names. The first one is used in messages.
    pub clusters: Vec<String>,
    /// The providerID of the Machine or the Node.
    pub provider_id: Option<String>,
    /// `status.nodeInfo.systemUUID` of the Node.
    pub system_uuid: Option<String>,
    /// The rack in the Node's label [`NODE_RACK_LABEL`].
    pub node_rack: Option<String>,
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

/// The host of a Node, and what agents reported of it without effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolution {
    /// The host.
    ///
    /// # Errors
    /// No host was found, or several match, or the sources contradict each other. The reason names them.
    pub host: Result<HostRef, Reason>,
    /// Entries of inventories that name the Node or its host and do not count, because their rack may not have
    /// the Node. A few of them, as sentences without an end.
    pub ignored: Vec<String>,
    /// Whether anything but an inventory says which rack has the Node.
    pub is_bound: bool,
}

/// Resolves the host. The inventory takes precedence over the BareMetalHost, because its credentials
/// never leave the rack.
///
/// What an agent cannot write decides which racks may have the Node: its label [`NODE_RACK_LABEL`], the
/// RackAgents' `spec.nodes`, the label of its BareMetalHost, and the `bmcNetworks` that contain its BMC. The
/// inventories of other racks do not count. Without any of these, two racks that name the Node are ambiguous. None
/// takes precedence over another: if they contradict each other, no host is chosen.
#[must_use]
pub fn resolve(wanted: &HostQuery, racks: &Racks, nodes: &impl KnownNodes) -> Resolution {
    let binding = Binding::of(wanted, racks);
    let search = Search {
        wanted,
        racks,
        nodes,
        binding: &binding,
    };
    let candidates = search.run();
    let chosen = |rack: &str, host: &InventoryHost| {
        contradictions(wanted, racks, rack, Some(host), &binding)?;
        Ok(HostRef {
            rack: rack.to_owned(),
            host: host.name.clone(),
            bmh: wanted.bmh.as_ref().map(|b| b.name.clone()),
            bmc: host.bmc.clone(),
        })
    };
    let host = match (candidates.found.as_slice(), candidates.ambiguous) {
        ([], _) => {
            let mut others = candidates.refused;
            others.extend(candidates.ignored.iter().cloned());
            by_bmh(wanted, racks, &binding, &others)
        }
        ([(rack, host)], None) => chosen(rack, host),
        (_, Some(why)) => Err(Reason::HostAmbiguous(why)),
        (several, None) => Err(Reason::HostAmbiguous(list(several))),
    };
    Resolution {
        host,
        ignored: candidates.ignored,
        is_bound: binding.is_bound(),
    }
}

/// Hosts by rack and name, and by their BMC where that is not enough.
fn list(several: &[(&str, &InventoryHost)]) -> String {
    const NAMED: usize = 8;
    let of_name = |rack: &str, name: &str| {
        let same = several.iter().filter(|(r, h)| *r == rack && h.name == name);
        same.count()
    };
    let named = several.iter().take(NAMED).map(|(rack, host)| {
        if of_name(rack, &host.name) > 1 {
            format!("{rack}/{} at {}", host.name, host.bmc)
        } else {
            format!("{rack}/{}", host.name)
        }
    });
    let named = named.collect::<Vec<_>>().join(", ");
    match several.len().saturating_sub(NAMED) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

/// Checks the sources for contradictions to this host in this rack.
fn contradictions(
    wanted: &HostQuery,
    racks: &Racks,
    rack: &str,
    host: Option<&InventoryHost>,
    binding: &Binding<'_>,
) -> Result<(), Reason> {
    let mut against = Vec::new();
    let choice = host.map_or_else(
        || format!("the only candidate is rack {rack}"),
        |host| format!("the inventory of rack {rack} names host {}", host.name),
    );
    match host {
        Some(host) => {
            for address in host.bmc.split(", ") {
                let serving = racks.serving(address);
                if !serving.is_empty() && !serving.contains(&rack) {
                    let others = names(&serving);
                    against.push(format!(
                        "its BMC {address} lies in spec.bmcNetworks of rack {others}"
                    ));
                }
            }
            let bmh = wanted.bmh.as_ref();
            if let Some(bmh) = bmh.filter(|bmh| is_other_bmc(&host.bmc, &bmh.address)) {
                against.push(format!(
                    "its BMC is {} there, and that of BareMetalHost {} is {}: correct the wrong one",
                    host.bmc, bmh.name, bmh.address
                ));
            }
            if let Some(uuid) = wanted
                .system_uuid
                .as_ref()
                .filter(|_| is_other_system(host, wanted))
            {
                against.push(format!(
                    "its system UUID is {} there, and the node reports {uuid}",
                    host.system_uuid
                ));
            }
        }
        None => {
            against.extend(binding.contradicts(rack));
            let bmh = wanted.bmh.as_ref();
            if let Some(bmh) = bmh.filter(|bmh| {
                racks.serving(&bmh.address).is_empty() && outside(&bmh.address, racks.get(rack))
            }) {
                against.push(format!(
                    "the BMC of BareMetalHost {} {} lies in no spec.bmcNetworks of rack {rack}",
                    bmh.name, bmh.address
                ));
            }
        }
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

/// `others`: why hosts of inventories that have something of the Node are not its host.
fn by_bmh(
    wanted: &HostQuery,
    racks: &Racks,
    binding: &Binding<'_>,
    others: &[String],
) -> Result<HostRef, Reason> {
    let Some(bmh) = &wanted.bmh else {
        let node = wanted.node_name.as_deref().unwrap_or("(none)");
        let mut why = format!(
            "no agent's inventory knows node {node} by its name, providerID or system UUID, and no \
             BareMetalHost is linked to it"
        );
        for other in others {
            why.push_str("; ");
            why.push_str(other);
        }
        return Err(Reason::HostNotFound(why));
    };
    if bmh.address.is_empty() {
        return Err(Reason::HostNotFound(format!(
            "BareMetalHost {} has no spec.bmc.address",
            bmh.name
        )));
    }
    let here = |rack: &str| -> Result<HostRef, Reason> {
        contradictions(wanted, racks, rack, None, binding)?;
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

#[cfg(test)]
mod tests;
