//! PDUs and their outlets, for operators.

use std::collections::BTreeSet;

use rackhand_bmc::pdu::{HostOutlet, OutletReading, OutletState};
use rackhand_proto::v1::{self, read_pdu_response::Result as Read};
use tonic::{Request, Response, Status};

use super::{
    Answer,
    caller::{Caller, by_hand},
    targets::Targets,
};
use crate::{
    config::{Inventory, PduEntry},
    convert::pdu_failure_to_proto,
    engine::Reads,
};

/// Several exchanges: a PDU has up to a few hundred outlets.
const CALLS: u32 = 1;

/// The calls about PDUs.
#[derive(Clone)]
pub(super) struct PduCalls {
    pub(super) targets: Targets,
    pub(super) reads: Reads,
}

impl PduCalls {
    pub(super) fn list(
        &self,
        request: &Request<v1::ListPdusRequest>,
    ) -> Answer<v1::ListPdusResponse> {
        by_hand(&Caller::of(request)?, "list PDUs")?;
        let config = self.targets.config();
        let inventory = &config.inventory;
        let pdus = inventory.pdus.values();
        let pdus = pdus.map(|pdu| pdu_to_proto(inventory, pdu)).collect();
        Ok(Response::new(v1::ListPdusResponse { pdus }))
    }

    pub(super) async fn read(
        &self,
        request: Request<v1::ReadPduRequest>,
    ) -> Answer<v1::ReadPduResponse> {
        by_hand(&Caller::of(&request)?, "read PDUs")?;
        let request = request.into_inner();
        let limit = self.targets.limit(request.timeout.as_ref(), CALLS)?;
        let config = self.targets.config();
        let Some(pdu) = config.inventory.pdus.get(&request.pdu) else {
            return Err(Status::not_found(format!(
                "PDU {} is not in the configuration of rack {}, or has no address there; `pdu list` \
                 shows the hosts that have one",
                request.pdu, config.rack
            )));
        };
        let result = match self.reads.outlets(&config, pdu, limit).await {
            Ok(readings) => Read::Outlets(v1::OutletReadings {
                outlets: readings
                    .into_iter()
                    .map(|reading| reading_to_proto(&config.inventory, &pdu.name, reading))
                    .collect(),
            }),
            Err(error) => Read::Failure(pdu_failure_to_proto(&pdu.name, &error)),
        };
        Ok(Response::new(v1::ReadPduResponse {
            result: Some(result),
        }))
    }
}

pub(super) fn outlet_to_proto(inventory: &Inventory, outlet: &HostOutlet) -> v1::Outlet {
    v1::Outlet {
        pdu: outlet.pdu.clone(),
        outlet: outlet.outlet.0.clone(),
        shared: inventory.fed_by(outlet) > 1,
    }
}

fn pdu_to_proto(inventory: &Inventory, pdu: &PduEntry) -> v1::Pdu {
    let mut outlets = BTreeSet::new();
    let mut hosts = BTreeSet::new();
    for host in &inventory.hosts {
        for outlet in host.outlets.iter().filter(|outlet| outlet.pdu == pdu.name) {
            outlets.insert(outlet);
            hosts.insert(host.name.clone());
        }
    }
    v1::Pdu {
        name: pdu.name.clone(),
        address: pdu.address.to_string(),
        outlets: u32::try_from(outlets.len()).unwrap_or(u32::MAX),
        hosts: hosts.into_iter().collect(),
    }
}

fn reading_to_proto(inventory: &Inventory, pdu: &str, reading: OutletReading) -> v1::OutletReading {
    let outlet = HostOutlet {
        pdu: pdu.to_owned(),
        outlet: reading.id.clone(),
    };
    let hosts = inventory.hosts.iter();
    let hosts = hosts.filter(|host| host.outlets.contains(&outlet));
    let hosts: Vec<&str> = hosts.map(|host| host.name.as_str()).collect();
    let state = match reading.state {
        OutletState::On => v1::OutletState::On,
        OutletState::Off => v1::OutletState::Off,
        OutletState::Switching => v1::OutletState::Switching,
        OutletState::Unknown => v1::OutletState::Unspecified,
    };
    v1::OutletReading {
        outlet: reading.id.0,
        label: reading.label.unwrap_or_default(),
        state: state.into(),
        raw: reading.raw,
        amperes: reading.amperes,
        watts: reading.watts,
        host: hosts.join(", "),
    }
}
