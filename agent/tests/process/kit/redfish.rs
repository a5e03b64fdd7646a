//! A minimal Redfish service with power control.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use axum::{
    Json, Router,
    extract::State,
    http::{HeaderMap, StatusCode},
    routing::{get, post},
};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

pub(crate) const USER: &str = "ops";
const LOG: &str = "/redfish/v1/Systems/1/LogServices/SEL";
const CLEAR: &str = "/redfish/v1/Systems/1/LogServices/SEL/Actions/LogService.ClearLog";

#[derive(Debug)]
struct System {
    power: &'static str,
    stubborn: bool,
    /// Answers nothing.
    silent: bool,
    reads: u32,
    offs: u32,
    ons: u32,
    /// Carries no power-on out.
    slow_on: bool,
    /// How often its event log was cleared.
    clears: u32,
}

type Shared = Arc<Mutex<System>>;

pub(crate) struct Redfish {
    pub(crate) address: SocketAddr,
    system: Shared,
    _runtime: tokio::runtime::Runtime,
}

impl Redfish {
    pub(crate) fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let system = Shared::new(Mutex::new(System {
            power: "On",
            stubborn: false,
            silent: false,
            reads: 0,
            offs: 0,
            ons: 0,
            slow_on: false,
            clears: 0,
        }));
        let listener = runtime
            .block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))
            .unwrap();
        let address = listener.local_addr().unwrap();
        let app = Router::new()
            .route("/redfish/v1", get(root))
            .route("/redfish/v1/", get(root))
            .route("/redfish/v1/Systems", get(systems))
            .route("/redfish/v1/Systems/1", get(read))
            .route(
                "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset",
                post(reset),
            )
            .route("/redfish/v1/Systems/1/LogServices", get(logs))
            .route(LOG, get(log))
            .route(CLEAR, post(clear))
            .with_state(system.clone());
        runtime.spawn(async move { axum::serve(listener, app).await });
        Self {
            address,
            system,
            _runtime: runtime,
        }
    }

    pub(crate) fn power(&self) -> &'static str {
        self.system.lock().unwrap().power
    }

    /// The state that it reports.
    pub(crate) fn set_power(&self, power: &'static str) {
        self.system.lock().unwrap().power = power;
    }

    /// It answers nothing from now on, or answers again.
    pub(crate) fn set_silent(&self, silent: bool) {
        self.system.lock().unwrap().silent = silent;
    }

    /// Number of requests to read the system.
    pub(crate) fn reads(&self) -> u32 {
        self.system.lock().unwrap().reads
    }

    /// It carries no power-on out from now on, or does again.
    pub(crate) fn set_slow_on(&self, slow: bool) {
        self.system.lock().unwrap().slow_on = slow;
    }

    /// Number of power-ons that it was sent.
    pub(crate) fn ons(&self) -> u32 {
        self.system.lock().unwrap().ons
    }

    /// How often its event log was cleared.
    pub(crate) fn clears(&self) -> u32 {
        self.system.lock().unwrap().clears
    }

    /// Number of power-offs that it was sent.
    pub(crate) fn offs(&self) -> u32 {
        self.system.lock().unwrap().offs
    }

    pub(crate) fn set_stubborn(&self) {
        self.system.lock().unwrap().stubborn = true;
    }
}

fn allowed(headers: &HeaderMap) -> Result<(), StatusCode> {
    let expected = format!(
        "Basic {}",
        STANDARD.encode(format!("{USER}:{}", super::PASSWORD))
    );
    let given = headers
        .get("authorization")
        .and_then(|value| value.to_str().ok());
    if given == Some(expected.as_str()) {
        Ok(())
    } else {
        Err(StatusCode::UNAUTHORIZED)
    }
}

async fn root() -> Json<Value> {
    Json(json!({
        "@odata.id": "/redfish/v1/",
        "RedfishVersion": "1.15.0",
        "Systems": {"@odata.id": "/redfish/v1/Systems"},
    }))
}

async fn systems(headers: HeaderMap) -> Result<Json<Value>, StatusCode> {
    allowed(&headers)?;
    Ok(Json(
        json!({"Members": [{"@odata.id": "/redfish/v1/Systems/1"}]}),
    ))
}

async fn read(State(system): State<Shared>, headers: HeaderMap) -> Result<Json<Value>, StatusCode> {
    system.lock().unwrap().reads += 1;
    allowed(&headers)?;
    while system.lock().unwrap().silent {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let power = system.lock().unwrap().power;
    Ok(Json(json!({
        "@odata.id": "/redfish/v1/Systems/1",
        "Id": "1",
        "PowerState": power,
        "UUID": super::UUID,
        "SerialNumber": "ABC123",
        "Manufacturer": "Rackhand",
        "Model": "Test",
        "LogServices": {"@odata.id": "/redfish/v1/Systems/1/LogServices"},
        "Actions": {"#ComputerSystem.Reset": {
            "target": "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset",
            "ResetType@Redfish.AllowableValues": ["On", "ForceOff"],
        }},
    })))
}

async fn logs(headers: HeaderMap) -> Result<Json<Value>, StatusCode> {
    allowed(&headers)?;
    Ok(Json(json!({"Members": [{"@odata.id": LOG}]})))
}

async fn log(headers: HeaderMap) -> Result<Json<Value>, StatusCode> {
    allowed(&headers)?;
    Ok(Json(json!({
        "@odata.id": LOG,
        "Id": "SEL",
        "LogEntryType": "SEL",
        "Entries": {"@odata.id": format!("{LOG}/Entries")},
        "Actions": {"#LogService.ClearLog": {"target": CLEAR}},
    })))
}

async fn clear(State(system): State<Shared>, headers: HeaderMap) -> Result<StatusCode, StatusCode> {
    allowed(&headers)?;
    system.lock().unwrap().clears += 1;
    Ok(StatusCode::NO_CONTENT)
}

async fn reset(
    State(system): State<Shared>,
    headers: HeaderMap,
    Json(body): Json<Value>,
) -> Result<StatusCode, StatusCode> {
    allowed(&headers)?;
    let mut system = system.lock().unwrap();
    let to = match body["ResetType"].as_str() {
        Some("On") => {
            system.ons += 1;
            if system.slow_on { system.power } else { "On" }
        }
        Some("ForceOff") => {
            system.offs += 1;
            "Off"
        }
        _ => return Err(StatusCode::BAD_REQUEST),
    };
    if !system.stubborn {
        system.power = to;
    }
    Ok(StatusCode::NO_CONTENT)
}
