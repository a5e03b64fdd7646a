//! The chassis of a chassis manager (Redfish `Chassis`, DSP2046), as the outlets of a [`Pdu`].
//!
//! The name of an outlet is the id of the chassis: of a sled, or of the enclosure of several. Owns: finding the
//! chassis, reading them with the power that they draw, and the action that switches one. Must never: build the
//! link of a chassis from its name, send an action twice, or count a system that it could not read.

use std::collections::{BTreeMap, BTreeSet};

use reqwest::StatusCode;
use serde_json::{Value, json};

use super::{
    chassis_outlet::{Chassis, environment_watts, power_watts, reset_type},
    outlet_service::OutletService,
};
use crate::{
    Accepted, BmcError, BmcFuture, ErrorKind,
    pdu::{OutletCommand, OutletId, OutletReading, OutletState, Pdu},
    redfish::{
        RedfishConfig,
        protocol::{
            call_budget::Call,
            document::{self, last_part, text},
            errors,
            response::Body,
        },
    },
};

/// Maximum number of chassis and of systems in one enclosure; the densest have 64 servers.
const MAX_CONTAINED: usize = 160;

/// A client of the chassis of one service.
#[derive(Debug)]
pub(super) struct ChassisManager {
    service: OutletService,
    /// Power of a chassis that counts as none, in watts: that of fans and management.
    standby_watts: f64,
}

impl ChassisManager {
    pub(super) fn new(config: RedfishConfig, standby_watts: f64) -> Result<Self, BmcError> {
        if config.address.system().is_some() {
            let service = OutletService::new(config)?;
            let message = "the address of a chassis manager has no path: its chassis are outlets";
            return Err(service.error(ErrorKind::Configuration, message));
        }
        Ok(Self {
            service: OutletService::new(config)?,
            standby_watts,
        })
    }

    fn error(&self, kind: ErrorKind, message: impl Into<String>) -> BmcError {
        self.service.error(kind, message)
    }

    /// Links of all chassis, as the service reports them now.
    async fn discover(&self, call: &Call) -> Result<BTreeMap<OutletId, String>, BmcError> {
        let root = self.service.access.root().await?;
        let missing =
            "the service has no Chassis; check that the address is one of a chassis manager";
        let chassis = root
            .chassis
            .ok_or_else(|| self.error(ErrorKind::System, missing))?;
        let members = self.service.members(call, &chassis, "chassis").await?;
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

    fn parse(&self, name: &str, body: &Value) -> Result<Chassis, BmcError> {
        Chassis::of(body).ok_or_else(|| {
            let name = self.service.access.http.reporter.quote(name);
            let message = format!("reading chassis {name}: no Chassis");
            self.error(ErrorKind::Protocol, message)
        })
    }

    async fn chassis(
        &self,
        call: &Call,
        links: &BTreeMap<OutletId, String>,
        id: &OutletId,
    ) -> Result<Chassis, BmcError> {
        let body = self
            .service
            .fetch_outlet(call, links, id, "chassis")
            .await?;
        self.parse(&id.0, &body)
    }

    /// Reads an optional document; `None`: the service does not have it.
    async fn optional(
        &self,
        call: &Call,
        link: &str,
        doing: &str,
    ) -> Result<Option<Value>, BmcError> {
        let url = self.service.access.http.resolve(link)?;
        let answer = self.service.access.get(call, &url).await?;
        let absent = [
            StatusCode::NOT_FOUND,
            StatusCode::GONE,
            StatusCode::METHOD_NOT_ALLOWED,
            StatusCode::NOT_IMPLEMENTED,
        ];
        if absent.contains(&answer.status) {
            return Ok(None);
        }
        errors::document(&self.service.access.http.reporter, doing, answer).map(Some)
    }

    /// The power that the chassis draws beyond its standby power.
    async fn watts(&self, call: &Call, chassis: &Chassis) -> Result<Option<f64>, BmcError> {
        const DOING: &str = "reading the power that the chassis draws";
        if let Some(link) = &chassis.environment
            && let Some(body) = self.optional(call, link, DOING).await?
            && let Some(watts) = environment_watts(&body)
        {
            return Ok(Some(watts));
        }
        let Some(link) = &chassis.power else {
            return Ok(None);
        };
        let body = self.optional(call, link, DOING).await?;
        Ok(body.as_ref().and_then(power_watts))
    }

    async fn read_one(
        &self,
        call: &Call,
        links: &BTreeMap<OutletId, String>,
        id: &OutletId,
    ) -> Result<OutletReading, BmcError> {
        let mut chassis = self.chassis(call, links, id).await?;
        if chassis.state == OutletState::Off {
            for link in self.contained_systems(call, &chassis).await? {
                // The system of a sled without power cannot be read, which contradicts nothing.
                let url = self.service.access.http.resolve(&link)?;
                let answer = self.service.access.get(call, &url).await?;
                let body = match &answer.body {
                    Body::Json(body) if answer.status.is_success() => body,
                    _ => continue,
                };
                let name = self.service.access.http.reporter.quote(last_part(&link));
                chassis.apply_system(&name, text(body, "PowerState").as_deref());
            }
        }
        let watts = self.watts(call, &chassis).await?;
        Ok(OutletReading {
            id: id.clone(),
            label: chassis.label,
            state: chassis.state,
            raw: chassis.raw,
            amperes: None,
            watts,
            none_watts: self.standby_watts,
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
            readings.push(self.read_one(call, &links, id).await?);
        }
        Ok(readings)
    }

    /// Links of the systems in a chassis and in the chassis that it contains, each once.
    async fn contained_systems(
        &self,
        call: &Call,
        chassis: &Chassis,
    ) -> Result<BTreeSet<String>, BmcError> {
        let mut systems: BTreeSet<String> = chassis.systems.iter().cloned().collect();
        let mut seen: BTreeSet<String> = BTreeSet::new();
        let mut waiting: BTreeSet<String> = chassis.contains.iter().cloned().collect();
        loop {
            if (seen.len() + waiting.len()).max(systems.len()) > MAX_CONTAINED {
                let message = format!("a chassis contains more than {MAX_CONTAINED} others");
                return Err(self.error(ErrorKind::Protocol, message));
            }
            let Some(link) = waiting.pop_first() else {
                return Ok(systems);
            };
            let body = self
                .service
                .fetch(call, &link, "reading a contained chassis")
                .await?;
            let inner = self.parse(last_part(&link), &body)?;
            seen.insert(link);
            systems.extend(inner.systems);
            let contains = inner.contains.into_iter();
            waiting.extend(contains.filter(|link| !seen.contains(link)));
        }
    }

    async fn count_systems(&self, call: &Call, id: &OutletId) -> Result<usize, BmcError> {
        let links = self.known(call, std::slice::from_ref(id)).await?;
        let chassis = self.chassis(call, &links, id).await?;
        Ok(self.contained_systems(call, &chassis).await?.len())
    }

    async fn switch_one(
        &self,
        call: &Call,
        id: &OutletId,
        command: OutletCommand,
    ) -> Result<Accepted, BmcError> {
        let turn = self.service.changing.lock().await;
        let links = self.known(call, std::slice::from_ref(id)).await?;
        let chassis = self.chassis(call, &links, id).await?;
        if command == OutletCommand::On && chassis.state == OutletState::On {
            return Ok(Accepted::not_needed("already on"));
        }
        let reset = chassis.reset.ok_or_else(|| {
            let message = format!("chassis {id} cannot be switched: it has no Reset action");
            self.error(ErrorKind::Unsupported, message)
        })?;
        let allowed = match (&reset.allowed, &reset.action_info) {
            (None, Some(link)) => self
                .optional(call, link, "reading the ActionInfo of the chassis")
                .await?
                .as_ref()
                .and_then(document::action_info),
            (allowed, _) => allowed.clone(),
        };
        let word = reset_type(command, allowed.as_deref()).ok_or_else(|| {
            let offer = allowed.unwrap_or_default().join(", ");
            let offer = self.service.access.http.reporter.quote(&offer);
            let message = format!("chassis {id} offers no reset type for this, only {offer}");
            self.error(ErrorKind::Unsupported, message)
        })?;
        let body = json!({ "ResetType": word });
        let of = (&links, id, "chassis");
        let answer = self.service.act(call, of, &reset.target, &body).await?;
        drop(turn);
        let doing = format!("chassis {id}: {word}");
        match self.service.judge(call, &doing, &answer).await {
            Ok(short) => Ok(Accepted::taken(word, short)),
            Err(_)
                if answer.status.is_client_error()
                    && answer.messages().mean_already(command.leads_to()) =>
            {
                let short = format!("{}: already {}", answer.status.as_u16(), command.word());
                Ok(Accepted::already_there(word, short))
            }
            Err(refused) => Err(refused),
        }
    }
}

impl Pdu for ChassisManager {
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

    fn systems<'a>(&'a self, outlet: &'a OutletId) -> BmcFuture<'a, Option<usize>> {
        self.service
            .bounded(move |call| async move { self.count_systems(&call, outlet).await.map(Some) })
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
