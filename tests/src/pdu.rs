//! Two simulated PDUs with Redfish services, whose outlets feed simulated hosts.
//!
//! Outlet N of both PDUs feeds host N. When both are off, the host really loses its power, and its BMC with
//! it; when one is on again, the host gets power and boots, as by its restore policy. A BMC that is broken
//! stays silent.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use anyhow::Result;
use axum::{
    Json, Router,
    extract::{Path, State},
    http::StatusCode,
    routing::{get, post},
};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::rack::{ResetType, SimHost};

/// Names of the PDUs in the agents' configuration.
pub const PDUS: [&str; 2] = ["a", "b"];
const ROOT: &str = "/redfish/v1/PowerEquipment/RackPDUs";
/// The cause of a change of power in the log of a host.
pub const CAUSE: &str = "its outlets";

/// A host that is fed.
struct Fed {
    host: SimHost,
    has_broken_bmc: bool,
}

#[derive(Default)]
struct Feeds {
    /// Outlets that are off, by PDU and outlet.
    off: Mutex<BTreeMap<(usize, usize), ()>>,
    hosts: Mutex<BTreeMap<usize, Fed>>,
}

impl Feeds {
    fn is_on(&self, pdu: usize, outlet: usize) -> bool {
        !self.off.lock().contains_key(&(pdu, outlet))
    }

    fn feeds(&self, outlet: usize) -> bool {
        (0..PDUS.len()).any(|pdu| self.is_on(pdu, outlet))
    }

    async fn switch(&self, pdu: usize, outlet: usize, on: bool) -> Result<()> {
        let fed = self.feeds(outlet);
        if on {
            self.off.lock().remove(&(pdu, outlet));
        } else {
            self.off.lock().insert((pdu, outlet), ());
        }
        let host = self.hosts.lock().get(&outlet).map(|fed| {
            let bmc = !fed.has_broken_bmc;
            (fed.host.clone(), bmc)
        });
        match (fed, self.feeds(outlet), host) {
            (true, false, Some((host, _))) => {
                host.switch(ResetType::ForceOff, CAUSE);
                host.bmc_dead().await
            }
            (false, true, Some((host, bmc))) => {
                host.switch(ResetType::On, CAUSE);
                if bmc {
                    host.bmc_alive().await?;
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

#[derive(Clone)]
struct Pdu {
    number: usize,
    outlets: usize,
    is_dead: Arc<AtomicBool>,
    feeds: Arc<Feeds>,
}

impl Pdu {
    /// A PDU that has failed answers nothing of use.
    fn answers(&self) -> Result<(), StatusCode> {
        match self.is_dead.load(Ordering::SeqCst) {
            true => Err(StatusCode::SERVICE_UNAVAILABLE),
            false => Ok(()),
        }
    }
}

/// The two PDUs of a stage.
#[derive(Clone)]
pub struct PduPair {
    addresses: [SocketAddr; 2],
    dead: [Arc<AtomicBool>; 2],
    feeds: Arc<Feeds>,
}

impl std::fmt::Debug for PduPair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PduPair")
            .field("addresses", &self.addresses)
            .finish_non_exhaustive()
    }
}

impl PduPair {
    /// Starts both, with this many outlets each, all on.
    ///
    /// # Errors
    /// No port is free.
    pub async fn start(outlets: usize) -> Result<Self> {
        let feeds = Arc::new(Feeds::default());
        let dead = [Arc::new(AtomicBool::new(false)), Arc::default()];
        let mut addresses = Vec::new();
        for (number, is_dead) in dead.iter().enumerate() {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
            addresses.push(listener.local_addr()?);
            let app = service(Pdu {
                number,
                outlets,
                is_dead: is_dead.clone(),
                feeds: feeds.clone(),
            });
            tokio::spawn(async move { axum::serve(listener, app).await });
        }
        Ok(Self {
            addresses: [addresses[0], addresses[1]],
            dead,
            feeds,
        })
    }

    /// Connects a host with outlet `outlet` of both. `has_broken_bmc`: its BMC does not come back with the
    /// power.
    pub fn connect(&self, outlet: usize, host: &SimHost, has_broken_bmc: bool) {
        let fed = Fed {
            host: host.clone(),
            has_broken_bmc,
        };
        self.feeds.hosts.lock().insert(outlet, fed);
    }

    /// Lets a PDU fail, or repairs it. Its outlets stay as they are.
    pub fn set_dead(&self, pdu: usize, is_dead: bool) {
        self.dead[pdu].store(is_dead, Ordering::SeqCst);
    }

    /// Whether outlet `outlet` of each PDU is on.
    #[must_use]
    pub fn are_on(&self, outlet: usize) -> [bool; 2] {
        [0, 1].map(|pdu| self.feeds.is_on(pdu, outlet))
    }

    /// The tables of the PDUs in the configuration of an agent.
    #[must_use]
    pub fn config(&self, username: &str, password_file: &std::path::Path) -> Value {
        let tables = PDUS.iter().zip(&self.addresses).map(|(name, address)| {
            let table = json!({
                "address": format!("redfish+http://{address}"),
                "username": username,
                "password_file": password_file,
            });
            ((*name).to_owned(), table)
        });
        Value::Object(tables.collect())
    }

    /// The outlets of a host in the configuration of an agent.
    #[must_use]
    pub fn outlets(outlet: usize) -> Value {
        let named = PDUS.map(|pdu| json!({ "pdu": pdu, "outlet": outlet.to_string() }));
        Value::from(named.to_vec())
    }
}

fn members(collection: &str, names: impl Iterator<Item = usize>) -> Value {
    let links: Vec<Value> = names
        .map(|name| json!({ "@odata.id": format!("{collection}/{name}") }))
        .collect();
    json!({ "Members": links })
}

fn service(pdu: Pdu) -> Router {
    let root = || async {
        Json(json!({
            "@odata.id": "/redfish/v1/",
            "RedfishVersion": "1.15.0",
            "PowerEquipment": { "@odata.id": "/redfish/v1/PowerEquipment" },
        }))
    };
    let outlets = pdu.outlets;
    Router::new()
        .route("/redfish/v1", get(root))
        .route("/redfish/v1/", get(root))
        .route(
            "/redfish/v1/PowerEquipment",
            get(|| async { Json(json!({ "RackPDUs": { "@odata.id": ROOT } })) }),
        )
        .route(ROOT, get(|| async { Json(members(ROOT, 1..=1)) }))
        .route(
            &format!("{ROOT}/1"),
            get(|| async {
                Json(json!({ "Outlets": { "@odata.id": format!("{ROOT}/1/Outlets") } }))
            }),
        )
        .route(
            &format!("{ROOT}/1/Outlets"),
            get(move || async move { Json(members(&format!("{ROOT}/1/Outlets"), 1..=outlets)) }),
        )
        .route(&format!("{ROOT}/1/Outlets/{{id}}"), get(read))
        .route(
            &format!("{ROOT}/1/Outlets/{{id}}/Actions/Outlet.PowerControl"),
            post(control),
        )
        .with_state(pdu)
}

async fn read(State(pdu): State<Pdu>, Path(id): Path<usize>) -> Result<Json<Value>, StatusCode> {
    pdu.answers()?;
    let on = pdu.feeds.is_on(pdu.number, id);
    let link = format!("{ROOT}/1/Outlets/{id}");
    Ok(Json(json!({
        "@odata.id": link,
        "@odata.type": "#Outlet.v1_4_0.Outlet",
        "Id": id.to_string(),
        "Name": format!("Outlet {id}"),
        "PowerState": if on { "On" } else { "Off" },
        "CurrentAmps": { "Reading": if on { 0.9 } else { 0.0 } },
        "Actions": { "#Outlet.PowerControl": {
            "target": format!("{link}/Actions/Outlet.PowerControl"),
        } },
    })))
}

async fn control(
    State(pdu): State<Pdu>,
    Path(id): Path<usize>,
    Json(body): Json<Value>,
) -> Result<StatusCode, StatusCode> {
    pdu.answers()?;
    let on = match body["PowerState"].as_str() {
        Some("On") => true,
        Some("Off") => false,
        _ => return Err(StatusCode::BAD_REQUEST),
    };
    let switched = pdu.feeds.switch(pdu.number, id, on).await;
    switched.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    Ok(StatusCode::NO_CONTENT)
}
