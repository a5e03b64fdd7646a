//! A minimal PDU with a Redfish service.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use axum::{
    Json, Router,
    extract::{Path, State},
    http::{HeaderMap, StatusCode},
    routing::{get, post},
};
use serde_json::{Value, json};

use super::redfish::{USER, allowed};

#[derive(Debug, Clone, Default)]
struct Outlet {
    is_off: bool,
    /// Accepts commands, but does not switch.
    stuck: bool,
}

type Shared = Arc<Mutex<BTreeMap<String, Outlet>>>;

/// A PDU with the outlets 1 and 2, both on.
pub(crate) struct Pdu {
    pub(crate) address: SocketAddr,
    outlets: Shared,
    _runtime: tokio::runtime::Runtime,
}

impl Pdu {
    pub(crate) fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let outlets = ["1", "2"].map(|id| (id.to_owned(), Outlet::default()));
        let outlets = Shared::new(Mutex::new(outlets.into()));
        let listener = runtime
            .block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))
            .unwrap();
        let address = listener.local_addr().unwrap();
        let root = "/redfish/v1/PowerEquipment/RackPDUs";
        let app = Router::new()
            .route("/redfish/v1", get(service))
            .route("/redfish/v1/", get(service))
            .route(
                "/redfish/v1/PowerEquipment",
                get(move || async move { Json(json!({"RackPDUs": {"@odata.id": root}})) }),
            )
            .route(root, get(move || async move { members(root, &["1"]) }))
            .route(
                &format!("{root}/1"),
                get(move || async move {
                    Json(json!({"Outlets": {"@odata.id": format!("{root}/1/Outlets")}}))
                }),
            )
            .route(
                &format!("{root}/1/Outlets"),
                get(move || async move { members(&format!("{root}/1/Outlets"), &["1", "2"]) }),
            )
            .route(&format!("{root}/1/Outlets/{{id}}"), get(read))
            .route(
                &format!("{root}/1/Outlets/{{id}}/Actions/Outlet.PowerControl"),
                post(switch),
            )
            .with_state(outlets.clone());
        runtime.spawn(async move { axum::serve(listener, app).await });
        Self {
            address,
            outlets,
            _runtime: runtime,
        }
    }

    pub(crate) fn is_on(&self, outlet: &str) -> bool {
        !self.outlets.lock().unwrap()[outlet].is_off
    }

    pub(crate) fn set_stuck(&self, outlet: &str) {
        self.outlets.lock().unwrap().get_mut(outlet).unwrap().stuck = true;
    }

    /// The table of this PDU in the configuration.
    pub(crate) fn config(&self, name: &str) -> String {
        format!(
            "[pdus.{name}]\naddress = 'redfish+http://{}'\nusername = '{USER}'\n\
             password_file = 'password'\n",
            self.address
        )
    }
}

async fn service() -> Json<Value> {
    Json(json!({
        "@odata.id": "/redfish/v1/",
        "RedfishVersion": "1.15.0",
        "PowerEquipment": {"@odata.id": "/redfish/v1/PowerEquipment"},
    }))
}

fn members(collection: &str, names: &[&str]) -> Json<Value> {
    let links: Vec<Value> = names
        .iter()
        .map(|name| json!({"@odata.id": format!("{collection}/{name}")}))
        .collect();
    Json(json!({"Members": links}))
}

async fn read(
    State(outlets): State<Shared>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Json<Value>, StatusCode> {
    allowed(&headers)?;
    let outlet = outlets.lock().unwrap().get(&id).cloned();
    let outlet = outlet.ok_or(StatusCode::NOT_FOUND)?;
    let link = format!("/redfish/v1/PowerEquipment/RackPDUs/1/Outlets/{id}");
    let amperes = if outlet.is_off { 0.0 } else { 0.9 };
    Ok(Json(json!({
        "@odata.id": link,
        "@odata.type": "#Outlet.v1_4_0.Outlet",
        "Id": id,
        "Name": format!("Outlet {id}"),
        "PowerState": if outlet.is_off { "Off" } else { "On" },
        "CurrentAmps": {"Reading": amperes},
        "Actions": {"#Outlet.PowerControl": {
            "target": format!("{link}/Actions/Outlet.PowerControl"),
        }},
    })))
}

async fn switch(
    State(outlets): State<Shared>,
    Path(id): Path<String>,
    headers: HeaderMap,
    Json(body): Json<Value>,
) -> Result<StatusCode, StatusCode> {
    allowed(&headers)?;
    let mut outlets = outlets.lock().unwrap();
    let outlet = outlets.get_mut(&id).ok_or(StatusCode::NOT_FOUND)?;
    let is_off = match body["PowerState"].as_str() {
        Some("On") => false,
        Some("Off") => true,
        _ => return Err(StatusCode::BAD_REQUEST),
    };
    if !outlet.stuck {
        outlet.is_off = is_off;
    }
    Ok(StatusCode::NO_CONTENT)
}
