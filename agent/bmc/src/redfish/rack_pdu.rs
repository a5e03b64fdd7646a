//! A PDU with a Redfish service (`PowerDistribution`, DSP2046), as a [`Pdu`].
//!
//! Owns: finding the PDU and its outlets, reading them, and the action that switches one. Must never: choose
//! between several PDUs, build the link of an outlet from its name, or send an action twice.

use std::{collections::BTreeMap, fmt, future::Future, sync::Arc};

use reqwest::StatusCode;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::{
    RedfishConfig, Timeouts,
    auth::Access,
    call_budget::{Call, bounded},
    document::{Collection, last_part, link},
    errors,
    http::Change,
    outlet::{self, Outlet},
    task::{self, TaskOutcome},
};
use crate::{
    Accepted, BmcError, BmcFuture, ErrorKind,
    pdu::{OutletCommand, OutletId, OutletReading, Pdu},
};

/// Maximum number of outlets of a PDU; large PDUs have 48, and a chain of four has fewer than this.
const MAX_OUTLETS: usize = 256;
const MAX_PAGES: usize = 16;

/// A client of one PDU by Redfish (`PowerDistribution`).
pub(super) struct RackPdu {
    access: Access,
    /// Path of the PDU in the address.
    explicit: Option<String>,
    timeouts: Timeouts,
    /// Links of the outlets by name, as far as they are known. States are never kept.
    links: Mutex<Option<BTreeMap<OutletId, String>>>,
    /// Held while a change is in flight.
    changing: Mutex<()>,
}

impl RackPdu {
    pub(super) fn new(config: RedfishConfig) -> Result<Self, BmcError> {
        let explicit = config.address.system().map(str::to_owned);
        let timeouts = config.timeouts;
        Ok(Self {
            access: Access::new(config)?,
            explicit,
            timeouts,
            links: Mutex::new(None),
            changing: Mutex::new(()),
        })
    }

    fn error(&self, kind: ErrorKind, message: impl Into<String>) -> BmcError {
        self.access.http.reporter.error(kind, message)
    }

    /// Runs a call within its time limit.
    fn bounded<'a, T, F>(&'a self, work: impl FnOnce(&'a Self, Arc<Call>) -> F) -> BmcFuture<'a, T>
    where
        F: Future<Output = Result<T, BmcError>> + Send + 'a,
        T: Send + 'a,
    {
        let reporter = &self.access.http.reporter;
        bounded(self.timeouts.call, reporter, |call| work(self, call))
    }

    async fn fetch(&self, call: &Call, link: &str, doing: &str) -> Result<Value, BmcError> {
        let url = self.access.http.resolve(link)?;
        let answer = self.access.get(call, &url).await?;
        errors::document(&self.access.http.reporter, doing, answer)
    }

    /// The links of all members of a collection.
    async fn members(&self, call: &Call, link: &str, what: &str) -> Result<Vec<String>, BmcError> {
        let doing = format!("reading the {what}");
        let mut members = Vec::new();
        let mut next = Some(link.to_owned());
        for _ in 0..MAX_PAGES {
            let Some(page) = next.take() else {
                return Ok(members);
            };
            let body = self.fetch(call, &page, &doing).await?;
            let page = Collection::of(&body).ok_or_else(|| {
                self.error(ErrorKind::Protocol, format!("{doing}: no collection"))
            })?;
            members.extend(page.members);
            next = page.next;
            if members.len() > MAX_OUTLETS {
                break;
            }
        }
        if next.is_none() && members.len() <= MAX_OUTLETS {
            return Ok(members);
        }
        let message = format!("{doing}: more than {MAX_OUTLETS} members");
        Err(self.error(ErrorKind::Protocol, message))
    }

    /// The PDU resource: the one of the address, otherwise the only one of the service.
    async fn pdu(&self, call: &Call) -> Result<Value, BmcError> {
        let path = if let Some(path) = &self.explicit {
            path.clone()
        } else {
            let root = self.access.root().await?;
            let missing =
                "the service has no PowerEquipment; check that the address is one of a PDU";
            let equipment = root
                .power_equipment
                .ok_or_else(|| self.error(ErrorKind::System, missing))?;
            let equipment = self
                .fetch(call, &equipment, "reading PowerEquipment")
                .await?;
            let missing = "the service has no RackPDUs";
            let pdus = link(&equipment, &["RackPDUs"])
                .ok_or_else(|| self.error(ErrorKind::System, missing))?;
            let mut members = self.members(call, &pdus, "rack PDUs").await?;
            match (members.pop(), members.is_empty()) {
                (Some(only), true) => only,
                (None, _) => return Err(self.error(ErrorKind::System, "the service has no PDU")),
                (Some(last), false) => {
                    members.push(last);
                    let all = self.access.http.reporter.quote(&members.join(", "));
                    let message = format!("several PDUs; put one of them into the address: {all}");
                    return Err(self.error(ErrorKind::System, message));
                }
            }
        };
        self.fetch(call, &path, "reading the PDU").await
    }

    /// Links of all outlets, as the PDU reports them now.
    async fn discover(&self, call: &Call) -> Result<BTreeMap<OutletId, String>, BmcError> {
        let pdu = self.pdu(call).await?;
        let missing = "the PDU has no Outlets; check the path in its address";
        let outlets =
            link(&pdu, &["Outlets"]).ok_or_else(|| self.error(ErrorKind::System, missing))?;
        let members = self.members(call, &outlets, "outlets").await?;
        let named = members
            .into_iter()
            .map(|link| (OutletId(last_part(&link).to_owned()), link));
        Ok(named.collect())
    }

    /// Links that include those of `ids`, where the PDU has them.
    async fn known(
        &self,
        call: &Call,
        ids: &[OutletId],
    ) -> Result<BTreeMap<OutletId, String>, BmcError> {
        // Held during discovery, so that concurrent calls discover the outlets once.
        let mut slot = self.links.lock().await;
        if let Some(links) = &*slot
            && ids.iter().all(|id| links.contains_key(id))
        {
            return Ok(links.clone());
        }
        let links = self.discover(call).await?;
        *slot = Some(links.clone());
        Ok(links)
    }

    async fn read_one(
        &self,
        call: &Call,
        links: &BTreeMap<OutletId, String>,
        id: &OutletId,
    ) -> Result<Outlet, BmcError> {
        let absent = || {
            let name = self.access.http.reporter.quote(&id.0);
            self.error(ErrorKind::System, format!("the PDU has no outlet {name:?}"))
        };
        let doing = format!("reading outlet {id}");
        let link = links.get(id).ok_or_else(absent)?;
        let url = self.access.http.resolve(link)?;
        let answer = self.access.get(call, &url).await?;
        if [StatusCode::NOT_FOUND, StatusCode::GONE].contains(&answer.status) {
            *self.links.lock().await = None;
            return Err(absent());
        }
        let body = errors::document(&self.access.http.reporter, &doing, answer)?;
        Outlet::of(id.clone(), &body)
            .ok_or_else(|| self.error(ErrorKind::Protocol, format!("{doing}: no Outlet")))
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
        let turn = self.changing.lock().await;
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
        let target = self.access.http.resolve(&control.target)?;
        let body = json!({ "PowerState": word });
        call.command_is_sent();
        let answer = self.access.change(Change::action(&target, &body)).await?;
        if !answer.status.is_success() {
            call.command_is_refused();
        }
        drop(turn);
        let doing = format!("outlet {id}: {word}");
        let reporter = &self.access.http.reporter;
        let code = answer.status.as_u16();
        let refused = |says: String| {
            self.error(
                ErrorKind::Refused,
                format!("{doing}: refused ({code}){says}"),
            )
        };
        let short = if answer.status == StatusCode::ACCEPTED {
            match task::follow(&self.access, call, &answer, self.timeouts.task).await {
                TaskOutcome::Done => format!("{code}: task completed"),
                TaskOutcome::Unknown(why) => format!("{code}: {why}"),
                TaskOutcome::Failed(why) => return Err(refused(format!(": {why}"))),
            }
        } else if answer.status.is_success() {
            let messages = answer.messages();
            if messages.contradict_success() {
                return Err(refused(reporter.says(&messages)));
            }
            code.to_string()
        } else {
            return Err(BmcError {
                maybe_sent: errors::is_lost(answer.status),
                ..errors::of_status(reporter, &doing, &answer)
            });
        };
        Ok(Accepted {
            command: word.to_owned(),
            answer: short,
        })
    }
}

impl Pdu for RackPdu {
    fn address(&self) -> &str {
        self.access.http.reporter.bmc()
    }

    fn outlets(&self) -> BmcFuture<'_, Vec<OutletReading>> {
        self.bounded(|this, call| async move {
            *this.links.lock().await = None;
            let ids: Vec<_> = this.known(&call, &[]).await?.into_keys().collect();
            this.read_all(&call, &ids).await
        })
    }

    fn read<'a>(&'a self, outlets: &'a [OutletId]) -> BmcFuture<'a, Vec<OutletReading>> {
        self.bounded(move |this, call| async move { this.read_all(&call, outlets).await })
    }

    fn switch<'a>(
        &'a self,
        outlet: &'a OutletId,
        command: OutletCommand,
    ) -> BmcFuture<'a, Accepted> {
        self.bounded(move |this, call| async move { this.switch_one(&call, outlet, command).await })
    }

    fn close(&self) -> BmcFuture<'_, ()> {
        self.bounded(|this, _| async move { this.access.close().await })
    }
}

impl fmt::Debug for RackPdu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RackPdu")
            .field("address", &self.address())
            .finish_non_exhaustive()
    }
}
