//! A PDU with a Redfish service (`PowerDistribution`, DSP2046), as a [`Pdu`].
//!
//! Owns: finding the PDU and its outlets, reading them, and the action that switches one. Must never: choose
//! between several PDUs, build the link of an outlet from its name, or send an action twice.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{
    outlet::{self, Outlet},
    outlet_service::OutletService,
};
use crate::{
    Accepted, BmcError, BmcFuture, ErrorKind,
    pdu::{OutletCommand, OutletId, OutletReading, Pdu},
    redfish::{
        RedfishConfig,
        protocol::{
            call_budget::Call,
            document::{last_part, link},
        },
    },
};

/// A client of one PDU by Redfish (`PowerDistribution`).
#[derive(Debug)]
pub(super) struct RackPdu {
    service: OutletService,
    /// Path of the PDU in the address.
    explicit: Option<String>,
}

impl RackPdu {
    pub(super) fn new(config: RedfishConfig) -> Result<Self, BmcError> {
        let explicit = config.address.system().map(str::to_owned);
        let service = OutletService::new(config)?;
        Ok(Self { service, explicit })
    }

    fn error(&self, kind: ErrorKind, message: impl Into<String>) -> BmcError {
        self.service.error(kind, message)
    }

    /// The PDU resource: the one of the address, otherwise the only one of the service.
    async fn pdu(&self, call: &Call) -> Result<Value, BmcError> {
        let path = if let Some(path) = &self.explicit {
            path.clone()
        } else {
            let root = self.service.access.root().await?;
            let missing =
                "the service has no PowerEquipment; check that the address is one of a PDU";
            let equipment = root
                .power_equipment
                .ok_or_else(|| self.error(ErrorKind::System, missing))?;
            let equipment = self
                .service
                .fetch(call, &equipment, "reading PowerEquipment")
                .await?;
            let missing = "the service has no RackPDUs";
            let pdus = link(&equipment, &["RackPDUs"])
                .ok_or_else(|| self.error(ErrorKind::System, missing))?;
            let mut members = self.service.members(call, &pdus, "rack PDUs").await?;
            match (members.pop(), members.is_empty()) {
                (Some(only), true) => only,
                (None, _) => return Err(self.error(ErrorKind::System, "the service has no PDU")),
                (Some(last), false) => {
                    members.push(last);
                    let all = &self.service.access.http.reporter;
                    let all = all.quote(&members.join(", "));
                    let message = format!("several PDUs; put one of them into the address: {all}");
                    return Err(self.error(ErrorKind::System, message));
                }
            }
        };
        self.service.fetch(call, &path, "reading the PDU").await
    }

    /// Links of all outlets, as the PDU reports them now.
    async fn discover(&self, call: &Call) -> Result<BTreeMap<OutletId, String>, BmcError> {
        let pdu = self.pdu(call).await?;
        let missing = "the PDU has no Outlets; check the path in its address";
        let outlets =
            link(&pdu, &["Outlets"]).ok_or_else(|| self.error(ErrorKind::System, missing))?;
        let members = self.service.members(call, &outlets, "outlets").await?;
        let named = members
            .into_iter()
            .map(|link| (OutletId(last_part(&link).to_owned()), link));
        Ok(named.collect())
    }

    async fn known(
        &self,
        call: &Call,
        ids: &[OutletId],
    ) -> Result<BTreeMap<OutletId, String>, BmcError> {
        self.service.known(ids, || self.discover(call)).await
    }

    async fn read_one(
        &self,
        call: &Call,
        links: &BTreeMap<OutletId, String>,
        id: &OutletId,
    ) -> Result<Outlet, BmcError> {
        let body = self.service.fetch_outlet(call, links, id, "outlet").await?;
        Outlet::of(id.clone(), &body).ok_or_else(|| {
            self.error(
                ErrorKind::Protocol,
                format!("reading outlet {id}: no Outlet"),
            )
        })
    }

    async fn read_all(
        &self,
        call: &Call,
        ids: &[OutletId],
    ) -> Result<Vec<OutletReading>, BmcError> {
        let links = self.known(call, ids).await?;
        let mut readings = Vec::with_capacity(ids.len());
        for id in ids {
            readings.push(self.read_one(call, &links, id).await?.reading);
        }
        Ok(readings)
    }

    async fn switch_one(
        &self,
        call: &Call,
        id: &OutletId,
        command: OutletCommand,
    ) -> Result<Accepted, BmcError> {
        let turn = self.service.changing.lock().await;
        let links = self.known(call, std::slice::from_ref(id)).await?;
        let outlet = self.read_one(call, &links, id).await?;
        let word = outlet::word(command);
        let unsupported = |why: &str| {
            let message = format!("outlet {id}: {why}");
            self.error(ErrorKind::Unsupported, message)
        };
        if outlet.is_locked {
            let message = format!("outlet {id} is locked at the PDU; unlock its power control");
            return Err(self.error(ErrorKind::Refused, message));
        }
        let control = outlet
            .control
            .ok_or_else(|| unsupported("the PDU cannot switch it"))?;
        if !control.allows(word) {
            return Err(unsupported(&format!("the PDU does not offer {word}")));
        }
        let body = json!({ "PowerState": word });
        let of = (&links, id, "outlet");
        let answer = self.service.act(call, of, &control.target, &body).await?;
        drop(turn);
        let doing = format!("outlet {id}: {word}");
        let short = self.service.judge(call, &doing, &answer).await?;
        Ok(Accepted::taken(word, short))
    }
}

impl Pdu for RackPdu {
    fn address(&self) -> &str {
        self.service.address()
    }

    fn outlets(&self) -> BmcFuture<'_, Vec<OutletReading>> {
        self.service.bounded(move |call| async move {
            *self.service.links.lock().await = None;
            let ids: Vec<_> = self.known(&call, &[]).await?.into_keys().collect();
            self.read_all(&call, &ids).await
        })
    }

    fn read<'a>(&'a self, outlets: &'a [OutletId]) -> BmcFuture<'a, Vec<OutletReading>> {
        self.service
            .bounded(move |call| async move { self.read_all(&call, outlets).await })
    }

    fn switch<'a>(
        &'a self,
        outlet: &'a OutletId,
        command: OutletCommand,
    ) -> BmcFuture<'a, Accepted> {
        self.service
            .bounded(move |call| async move { self.switch_one(&call, outlet, command).await })
    }

    fn close(&self) -> BmcFuture<'_, ()> {
        self.service
            .bounded(move |_| async move { self.service.access.close().await })
    }
}
