//! The hosts and networks of each rack.

use std::collections::{BTreeMap, BTreeSet};

use rackhand_api::kinds::rack_agent::RackAgentSpec;
use rackhand_core::hosts::{InventoryHost, Rack};
use rackhand_proto::v1;

/// The hosts and networks of each rack as reported by its agents. If two agents report the same
/// host differently, both entries stay, so that the resolution detects the ambiguity.
pub(crate) fn of<'a>(
    said: impl Iterator<Item = (&'a RackAgentSpec, &'a [v1::Host])>,
) -> BTreeMap<String, Rack> {
    let mut racks: BTreeMap<String, Rack> = BTreeMap::new();
    let mut known: BTreeSet<(&str, InventoryHost)> = BTreeSet::new();
    for (spec, hosts) in said {
        let rack = racks.entry(spec.rack.clone()).or_default();
        rack.bmc_networks.extend(spec.bmc_networks.iter().cloned());
        rack.nodes.extend(spec.nodes.iter().cloned());
        for host in hosts {
            let host = InventoryHost {
                name: host.name.clone(),
                node_name: host.node_name.clone(),
                cluster: host.cluster.clone(),
                provider_id: host.provider_id.clone(),
                system_uuid: host.system_uuid.clone(),
                bmc: host.bmc.clone(),
            };
            if known.insert((&spec.rack, host.clone())) {
                rack.hosts.push(host);
            }
        }
    }
    racks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f5_two_agents_of_one_rack_merge_equal_hosts_and_keep_conflicting_ones() {
        let spec = |rack: &str, network: &str| RackAgentSpec {
            rack: rack.into(),
            bmc_networks: vec![network.into()],
            nodes: vec![format!("{rack}-*")],
            endpoint: String::new(),
        };
        let host = |name: &str, bmc: &str| v1::Host {
            name: name.into(),
            bmc: bmc.into(),
            ..v1::Host::default()
        };
        let (a, b, c) = (
            spec("r", "10.0.0.0/8"),
            spec("r", "10.1.0.0/16"),
            spec("s", ""),
        );
        let one = [host("h", "x"), host("i", "y")];
        let two = [host("i", "y"), host("h", "z")];
        let said = [(&a, &one[..]), (&b, &two[..]), (&c, &two[..])];
        let racks = of(said.into_iter());
        let hosts = |rack: &str| -> Vec<(String, String)> {
            let hosts = racks[rack].hosts.iter();
            hosts.map(|h| (h.name.clone(), h.bmc.clone())).collect()
        };
        assert_eq!(
            hosts("r"),
            [
                ("h".into(), "x".into()),
                ("i".into(), "y".into()),
                ("h".into(), "z".into())
            ]
        );
        assert_eq!(
            hosts("s"),
            [("i".into(), "y".into()), ("h".into(), "z".into())]
        );
        assert_eq!(racks["r"].bmc_networks, ["10.0.0.0/8", "10.1.0.0/16"]);
        assert_eq!(racks["s"].nodes, ["s-*"]);
    }
}
