//! A simulated PDU with a Redfish service (`PowerDistribution` and `Outlet`, DSP2046) over plain HTTP, or a simulated
//! chassis manager (`Chassis`).
//!
//! Owns: the real state of each outlet, and the record of switching. Tests query it, not its Redfish service, for
//! the real events: [`SimPdu::is_on`], [`SimPdu::switched`]. Must never share code with the client.

mod chassis;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::pending;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::{Method, Response, StatusCode, header};
use base64::Engine as _;
use parking_lot::Mutex;
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::AbortHandle;

const PDU: &str = "/redfish/v1/PowerEquipment/RackPDUs/1";
const BODY_LIMIT: usize = 1 << 16;
/// Current of an outlet that is on, in amperes, and its power in watts.
const LOAD: (f64, f64) = (0.9, 201.0);

/// Settings of a simulated PDU.
#[derive(Clone, Debug)]
pub struct PduConfig {
    /// Address to listen on; port 0 selects a free port.
    pub listen: SocketAddr,
    /// Number of outlets, named `1` and so on; all are on at first.
    pub outlets: u32,
    pub username: String,
    pub password: SecretString,
    /// Whether it measures the current of each outlet.
    pub measures_current: bool,
    /// Whether it is the manager of an enclosure: each outlet N is the sled `SledN`, and [`ENCLOSURE`] feeds all
    /// of them.
    pub is_enclosure: bool,
}

/// The outlet that is the chassis `Enclosure` of a chassis manager.
pub const ENCLOSURE: u32 = 0;

/// Faults of a simulated PDU.
#[derive(Clone, Debug, Default)]
pub struct PduFaults {
    /// It accepts connections and never answers.
    pub silent: bool,
    /// It refuses every command.
    pub refuses: bool,
    /// Outlets that take a command and keep their state.
    pub stuck: BTreeSet<u32>,
    /// Outlets that report off while a current still flows: the contacts are welded.
    pub welded: BTreeSet<u32>,
    /// Outlets with a delayed command pending.
    pub in_transition: BTreeSet<u32>,
    /// Outlets that are not in the collection.
    pub missing: BTreeSet<u32>,
    /// Outlets whose power control is locked.
    pub locked: BTreeSet<u32>,
    /// Sleds whose systems are reported as on, although they have no power.
    pub stale_systems: BTreeSet<u32>,
}

/// A command that the PDU took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutletSwitch {
    /// Number of the outlet that was switched.
    pub outlet: u32,
    /// Whether the command switched it on.
    pub on: bool,
}

type Load = Box<dyn Fn(bool) + Send + Sync>;

struct Inner {
    config: PduConfig,
    address: SocketAddr,
    on: Mutex<BTreeMap<u32, bool>>,
    faults: Mutex<PduFaults>,
    switched: Mutex<Vec<OutletSwitch>>,
    loads: Mutex<BTreeMap<u32, Load>>,
    server: Mutex<Option<AbortHandle>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(server) = self.server.get_mut().take() {
            server.abort();
        }
    }
}

/// A running PDU.
#[derive(Clone)]
pub struct SimPdu(Arc<Inner>);

impl fmt::Debug for SimPdu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SimPdu").field(&self.0.address).finish()
    }
}

impl SimPdu {
    /// Starts a PDU. It ends with the last clone.
    ///
    /// # Errors
    ///
    /// The address is taken.
    pub async fn start(config: PduConfig) -> Result<Self> {
        let listener = TcpListener::bind(config.listen)
            .await
            .with_context(|| format!("binding {} for a PDU", config.listen))?;
        let pdu = Self(Arc::new(Inner {
            address: listener.local_addr()?,
            on: Mutex::new(outlets(&config).map(|outlet| (outlet, true)).collect()),
            faults: Mutex::default(),
            switched: Mutex::default(),
            loads: Mutex::default(),
            server: Mutex::default(),
            config,
        }));
        // Only a weak reference, so that the PDU ends with the last clone that a test holds.
        let router = Router::new()
            .fallback(serve)
            .with_state(Arc::downgrade(&pdu.0));
        let server = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, router).await {
                tracing::warn!(%error, "simulated PDU has ended");
            }
        });
        *pdu.0.server.lock() = Some(server.abort_handle());
        Ok(pdu)
    }

    /// The address that clients are given, without the path of the PDU.
    pub fn url(&self) -> String {
        format!("redfish+http://{}", self.0.address)
    }

    /// Whether the outlet really carries voltage.
    pub fn is_on(&self, outlet: u32) -> bool {
        self.0.has_power(outlet)
    }

    /// The commands that it took, in order.
    pub fn switched(&self) -> Vec<OutletSwitch> {
        self.0.switched.lock().clone()
    }

    /// Switches an outlet on by hand, at the PDU.
    pub fn switch_on(&self, outlet: u32) {
        self.0.on.lock().insert(outlet, true);
        self.0.tell_loads();
    }

    /// Changes its faults.
    pub fn with_faults(&self, change: impl FnOnce(&mut PduFaults)) {
        change(&mut self.0.faults.lock());
    }

    /// Connects a load to an outlet. The load is called with whether it has voltage, now and after each switch.
    pub fn connect(&self, outlet: u32, load: impl Fn(bool) + Send + Sync + 'static) {
        load(self.is_on(outlet));
        self.0.loads.lock().insert(outlet, Box::new(load));
    }
}

/// The numbers of all outlets.
fn outlets(config: &PduConfig) -> std::ops::RangeInclusive<u32> {
    match config.is_enclosure {
        true => ENCLOSURE..=config.outlets,
        false => 1..=config.outlets,
    }
}

impl Inner {
    /// Whether an outlet is switched on.
    fn is_switched_on(&self, outlet: u32) -> bool {
        self.on.lock().get(&outlet).copied().unwrap_or_default()
    }

    /// Whether an outlet really carries voltage; a sled does only with its enclosure.
    fn has_power(&self, outlet: u32) -> bool {
        let welded = |outlet| self.faults.lock().welded.contains(&outlet);
        let carries = |outlet| welded(outlet) || self.is_switched_on(outlet);
        carries(outlet) && (!self.config.is_enclosure || carries(ENCLOSURE))
    }

    /// Calls the load of each outlet with whether it has voltage.
    fn tell_loads(&self) {
        for (outlet, load) in self.loads.lock().iter() {
            load(self.has_power(*outlet));
        }
    }

    fn is_authorized(&self, request: &Request) -> bool {
        let value = request.headers().get(header::AUTHORIZATION);
        let Some(encoded) = value
            .and_then(|value| value.to_str().ok())
            .and_then(|value| value.strip_prefix("Basic "))
        else {
            return false;
        };
        let wanted = format!(
            "{}:{}",
            self.config.username,
            self.config.password.expose_secret()
        );
        let decoded = base64::engine::general_purpose::STANDARD.decode(encoded);
        decoded.is_ok_and(|decoded| decoded == wanted.as_bytes())
    }

    fn outlet(&self, outlet: u32) -> Option<Value> {
        let on = *self.on.lock().get(&outlet)?;
        let faults = self.faults.lock();
        if faults.missing.contains(&outlet) {
            return None;
        }
        let flows = on || faults.welded.contains(&outlet);
        let path = format!("{PDU}/Outlets/{outlet}");
        let mut body = json!({
            "@odata.id": path,
            "@odata.type": "#Outlet.v1_4_3.Outlet",
            "Id": outlet.to_string(),
            "Name": format!("Outlet {outlet}"),
            "PowerState": if on { "On" } else { "Off" },
            "PowerStateInTransition": faults.in_transition.contains(&outlet),
            "PowerControlLocked": faults.locked.contains(&outlet),
            "Actions": {"#Outlet.PowerControl": {
                "target": format!("{path}/Actions/Outlet.PowerControl"),
                "PowerState@Redfish.AllowableValues": ["On", "Off", "PowerCycle"],
            }},
        });
        if self.config.measures_current {
            let (amperes, watts) = if flows { LOAD } else { (0.0, 0.0) };
            body["CurrentAmps"] = json!({ "Reading": amperes });
            body["PolyPhaseCurrentAmps"] = json!({ "Line1": { "Reading": amperes } });
            body["PowerWatts"] = json!({ "Reading": watts });
        }
        Some(body)
    }

    fn document(&self, path: &str) -> Option<Value> {
        let collection = |members: Vec<Value>| json!({ "@odata.id": path, "Members": members });
        Some(match path {
            "/redfish/v1" => json!({
                "@odata.id": "/redfish/v1/", "RedfishVersion": "1.17.0",
                "PowerEquipment": {"@odata.id": "/redfish/v1/PowerEquipment"},
                "Chassis": {"@odata.id": "/redfish/v1/Chassis"},
                "Systems": {"@odata.id": "/redfish/v1/Systems"},
            }),
            "/redfish/v1/PowerEquipment" => json!({
                "RackPDUs": {"@odata.id": "/redfish/v1/PowerEquipment/RackPDUs"},
            }),
            "/redfish/v1/PowerEquipment/RackPDUs" => collection(vec![json!({"@odata.id": PDU})]),
            _ if self.config.is_enclosure => self.chassis_document(path)?,
            PDU => json!({
                "@odata.type": "#PowerDistribution.v1_3_2.PowerDistribution", "EquipmentType": "RackPDU",
                "Outlets": {"@odata.id": format!("{PDU}/Outlets")},
            }),
            _ if path == format!("{PDU}/Outlets") => {
                let missing = &self.faults.lock().missing;
                let outlets = (1..=self.config.outlets).filter(|outlet| !missing.contains(outlet));
                let link = |outlet| json!({"@odata.id": format!("{PDU}/Outlets/{outlet}")});
                collection(outlets.map(link).collect())
            }
            _ => {
                let outlet = path.strip_prefix(PDU)?.strip_prefix("/Outlets/")?;
                self.outlet(outlet.parse().ok()?)?
            }
        })
    }

    /// Switches an outlet; the status and the body of the response.
    fn control(&self, path: &str, body: &Value) -> (StatusCode, Option<Value>) {
        if self.config.is_enclosure {
            return self.reset_chassis(path, body);
        }
        let outlet = path
            .strip_prefix(PDU)
            .and_then(|rest| rest.strip_prefix("/Outlets/"))
            .and_then(|rest| rest.strip_suffix("/Actions/Outlet.PowerControl"))
            .and_then(|outlet| outlet.parse().ok());
        let Some(outlet) = outlet.filter(|outlet| self.on.lock().contains_key(outlet)) else {
            return (StatusCode::NOT_FOUND, None);
        };
        let on = match body.get("PowerState").and_then(Value::as_str) {
            Some("On") => true,
            Some("Off") => false,
            _ => return (StatusCode::BAD_REQUEST, None),
        };
        (self.switch(outlet, on), None)
    }

    fn switch(&self, outlet: u32, on: bool) -> StatusCode {
        let faults = self.faults.lock().clone();
        if faults.refuses || faults.locked.contains(&outlet) {
            return StatusCode::CONFLICT;
        }
        self.switched.lock().push(OutletSwitch { outlet, on });
        if !faults.stuck.contains(&outlet) {
            self.on.lock().insert(outlet, on);
            self.tell_loads();
        }
        StatusCode::NO_CONTENT
    }
}

async fn serve(State(pdu): State<std::sync::Weak<Inner>>, request: Request) -> Response<Body> {
    let Some(pdu) = pdu.upgrade() else {
        return answer(StatusCode::SERVICE_UNAVAILABLE, None);
    };
    if pdu.faults.lock().silent {
        drop(pdu);
        return pending().await;
    }
    let path = request.uri().path().trim_end_matches('/').to_owned();
    if path != "/redfish/v1" && !pdu.is_authorized(&request) {
        return answer(StatusCode::UNAUTHORIZED, None);
    }
    match *request.method() {
        Method::GET => match pdu.document(&path) {
            Some(body) => answer(StatusCode::OK, Some(&body)),
            None => answer(StatusCode::NOT_FOUND, None),
        },
        Method::POST => {
            let body = to_bytes(request.into_body(), BODY_LIMIT).await;
            let body: Value = body
                .ok()
                .and_then(|body| serde_json::from_slice(&body).ok())
                .unwrap_or_default();
            let (status, body) = pdu.control(&path, &body);
            answer(status, body.as_ref())
        }
        _ => answer(StatusCode::METHOD_NOT_ALLOWED, None),
    }
}

fn answer(status: StatusCode, body: Option<&Value>) -> Response<Body> {
    let mut response =
        Response::new(body.map_or_else(Body::empty, |body| Body::from(body.to_string())));
    *response.status_mut() = status;
    let json = axum::http::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}
