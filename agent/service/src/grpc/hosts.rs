//! The hosts of the inventory.

use rackhand_proto::v1;
use tonic::Status;

use super::pdu;
use crate::{
    config::{HostEntry, Inventory, host_keys},
    engine::{Holds, JournalStatus, Settings},
};

/// The list of the hosts, for the calls that return it.
#[derive(Clone)]
pub(super) struct HostList {
    pub(super) settings: Settings,
    pub(super) holds: Holds,
    pub(super) journal: JournalStatus,
}

impl HostList {
    /// The hosts of the inventory, and the holds in the journal.
    pub(super) async fn list(&self) -> Result<v1::ListHostsResponse, Status> {
        let holds = self.holds.by_host_key().await?;
        let held: Vec<_> = holds
            .iter()
            .map(|(key, hold)| (hold.keys(key), hold))
            .collect();
        let held_by = |host: &HostEntry| {
            if held.is_empty() {
                return String::new();
            }
            let of_host = host_keys(host);
            let mut held = held.iter();
            let held = held.find(|(keys, _)| keys.matches(&of_host));
            held.map(|(_, hold)| hold.owner.clone()).unwrap_or_default()
        };
        let config = self.settings.load();
        let hosts = config
            .inventory
            .hosts
            .iter()
            .map(|host| host_to_proto(&config.inventory, host, held_by(host)));
        Ok(v1::ListHostsResponse {
            rack: config.rack.clone(),
            hosts: hosts.collect(),
            journal: Some(self.journal.identity()),
            holds: holds
                .values()
                .map(|hold| v1::Hold {
                    host: hold.host.clone(),
                    owner: hold.owner.clone(),
                    election: hold.election.clone(),
                })
                .collect(),
        })
    }
}

/// The protocols of all drivers, in order.
fn addresses(host: &HostEntry) -> String {
    let addresses: Vec<String> = host.bmcs().map(|bmc| bmc.address.to_string()).collect();
    addresses.join(", ")
}

fn host_to_proto(inventory: &Inventory, host: &HostEntry, held_by: String) -> v1::Host {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    v1::Host {
        name: host.name.clone(),
        node_name: text(&host.node_name),
        cluster: text(&host.cluster),
        provider_id: text(&host.provider_id),
        system_uuid: text(&host.system_uuid),
        no_system_uuid: host.no_system_uuid,
        serial: text(&host.serial),
        bmc: addresses(host),
        held_by,
        insecure: host
            .bmcs()
            .any(|bmc| bmc.trust == rackhand_bmc::Trust::Insecure),
        labels: host.labels.clone().into_iter().collect(),
        position: text(&host.position),
        pdu: text(&host.pdu),
        outlets: (host.outlets.iter())
            .map(|outlet| pdu::outlet_to_proto(inventory, outlet))
            .collect(),
    }
}
