//! Whether the BMC of a host is that of its Node, compared between remediations (F5, F14).
//!
//! Swapped inventory entries, and BMCs whose UUID is not that of the host, are found before they are needed.
//! A remediation compares by itself. Must never take an identity that several Nodes have for one of them.

use std::collections::BTreeMap;

use rackhand_identity::{IdentityMatch, SystemUuid, compare_serials, compare_system_uuids};

/// What to do about a BMC that reports another system than its Node.
pub const IDENTITY_REMEDY: &str = "mend the BMC address of the host; if this BMC never reports the UUID of its host, \
     write system_uuid = \"none\" into the inventory entry, or the annotation rackhand.dev/bmc-system-uuid: none \
     on the BareMetalHost";

/// The system UUIDs of the Nodes of all clusters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeUuids(BTreeMap<SystemUuid, BTreeMap<String, usize>>);

impl NodeUuids {
    /// Adds a Node; one without a usable UUID adds nothing. `name` is unique among all clusters. A Node that is
    /// added twice is there until it is removed twice.
    pub fn add(&mut self, name: &str, system_uuid: &str) {
        if let Some(uuid) = SystemUuid::parse(system_uuid) {
            let nodes = self.0.entry(uuid).or_default();
            *nodes.entry(name.to_owned()).or_default() += 1;
        }
    }

    /// Removes a Node that was added with this UUID.
    pub fn remove(&mut self, name: &str, system_uuid: &str) {
        let Some(uuid) = SystemUuid::parse(system_uuid) else {
            return;
        };
        let Some(nodes) = self.0.get_mut(&uuid) else {
            return;
        };
        if let Some(count) = nodes.get_mut(name) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                nodes.remove(name);
            }
        }
        if nodes.is_empty() {
            self.0.remove(&uuid);
        }
    }

    fn nodes(&self, system_uuid: &str) -> impl Iterator<Item = &str> {
        let nodes = SystemUuid::parse(system_uuid).and_then(|uuid| self.0.get(&uuid));
        nodes.into_iter().flatten().map(|(name, _)| name.as_str())
    }
}

/// The host that a BMC should manage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExpectedHost<'a> {
    /// Name of its Node, as in [`NodeUuids::add`].
    pub node: &'a str,
    /// `status.nodeInfo.systemUUID` of the Node.
    pub system_uuid: &'a str,
    /// Serial number of its BareMetalHost; empty if unknown.
    pub serial: &'a str,
}

/// Result of comparing the identity that a BMC reports with that of the Node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BmcIdentity {
    /// Both are one host.
    Same,
    /// The BMC manages another host; the message says which.
    Different(String),
    /// Nothing can be compared, and why.
    Unknown(&'static str),
}

/// Compares what the BMC `bmc` reports, a system UUID or a serial number, with the host of the Node.
pub fn compare_with_node(
    bmc: &str,
    reported: &str,
    host: &ExpectedHost<'_>,
    nodes: &NodeUuids,
) -> BmcIdentity {
    let node = host.node;
    match compare_system_uuids(reported, host.system_uuid) {
        IdentityMatch::Same if nodes.nodes(reported).nth(1).is_some() => {
            BmcIdentity::Unknown("several Nodes have the system UUID that the BMC reports")
        }
        IdentityMatch::Same => BmcIdentity::Same,
        IdentityMatch::Different => {
            let others: Vec<&str> = nodes.nodes(reported).collect();
            BmcIdentity::Different(match others.as_slice() {
                [other] => format!(
                    "the BMC of {node} is that of {other}: the entries are swapped, or one address is wrong (the \
                     BMC {bmc} reports system UUID {reported}, {node} has {})",
                    host.system_uuid
                ),
                _ => format!(
                    "the BMC {bmc} reports system UUID {reported}, and {node} has {}",
                    host.system_uuid
                ),
            })
        }
        IdentityMatch::Unknown => match compare_serials(reported, host.serial) {
            IdentityMatch::Same => BmcIdentity::Same,
            IdentityMatch::Different => BmcIdentity::Different(format!(
                "the BMC {bmc} reports serial number {reported}, and the BareMetalHost of {node} has {}",
                host.serial
            )),
            IdentityMatch::Unknown if SystemUuid::parse(host.system_uuid).is_none() => {
                BmcIdentity::Unknown("the Node has no system UUID that identifies it")
            }
            IdentityMatch::Unknown => {
                BmcIdentity::Unknown("the BMC reports no identity that the Node has too")
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "4c4c4544-0042-3510-8054-c2c04f4e4e32";
    const A_OTHER_ORDER: &str = "44454C4C-4200-1035-8054-C2C04F4E4E32";
    const B: &str = "4c4c4544-0042-3510-8054-c2c04f4e4e33";
    const C: &str = "4c4c4544-0042-3510-8054-c2c04f4e4e34";
    const SHARED: &str = "4c4c4544-0042-3510-8054-c2c04f4e4e35";
    const CANNED: &str = "01020304-0506-0708-090a-0b0c0d0e0f10";

    #[test]
    fn f14_bmc_is_compared_with_its_node_before_a_failure() {
        let mut nodes = NodeUuids::default();
        for (name, uuid) in [
            ("node-1", A),
            ("node-2", B),
            ("node-3", SHARED),
            ("node-4", SHARED),
            ("node-5", CANNED),
        ] {
            nodes.add(name, uuid);
        }
        // Reported, node, its UUID, its serial number, the result.
        for (reported, node, uuid, serial, expected) in [
            (A, "node-1", A, "", "same"),
            (A_OTHER_ORDER, "node-1", A, "", "same"),
            (B, "node-1", A, "", "the BMC of node-1 is that of node-2"),
            (
                A_OTHER_ORDER,
                "node-2",
                B,
                "",
                "the BMC of node-2 is that of node-1",
            ),
            (C, "node-1", A, "", "reports system UUID"),
            // Several Nodes have it: it says whose it is not.
            (SHARED, "node-1", A, "", "reports system UUID"),
            (SHARED, "node-3", SHARED, "", "unknown: several Nodes"),
            (
                CANNED,
                "node-1",
                A,
                "",
                "unknown: the BMC reports no identity",
            ),
            (
                "",
                "node-1",
                A,
                "SN7",
                "unknown: the BMC reports no identity",
            ),
            (
                A,
                "node-5",
                CANNED,
                "",
                "unknown: the Node has no system UUID",
            ),
            (
                A,
                "node-9",
                "",
                "SN7",
                "unknown: the Node has no system UUID",
            ),
            ("SN7", "node-1", A, "sn7", "same"),
            ("SN8", "node-1", A, "SN7", "reports serial number SN8"),
            (
                "SN8",
                "node-1",
                A,
                "Default string",
                "unknown: the BMC reports no identity",
            ),
        ] {
            let host = ExpectedHost {
                node,
                system_uuid: uuid,
                serial,
            };
            let found = match compare_with_node("ipmi://10.0.0.1", reported, &host, &nodes) {
                BmcIdentity::Same => "same".to_owned(),
                BmcIdentity::Different(why) => why,
                BmcIdentity::Unknown(why) => format!("unknown: {why}"),
            };
            assert!(found.contains(expected), "{reported} {node}: {found}");
        }
    }
}
