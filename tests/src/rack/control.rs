//! The control port: faults, hangs and logs over plain HTTP, for demonstrations and curious people.
//!
//! | request | does |
//! |---|---|
//! | `GET /hosts`, `GET /hosts/{name}` | how hosts really are |
//! | `GET /hosts/{name}/log` | what really happened |
//! | `GET /hosts/{name}/pods` | every process that ever ran |
//! | `GET`, `POST`, `DELETE /hosts/{name}/faults` | faults: list, add, clear |
//! | `DELETE /hosts/{name}/faults/{id}` | remove one rule |
//! | `POST /hosts/{name}/hang` | the operating system hangs |
//! | `POST /hosts/{name}/power/{reset}` | a command past the BMC |
//! | `GET /overlaps` | identities that ran twice at once |
//!
//! A fault is posted by name, `{"fault": "lie_off"}`, or as a [`Rule`]:
//! `{"method": "GET", "path": "**/Systems/*", "action": {"status": {"status": 503}}, "remaining": 2}`.
//!
//! Owns nothing. Must never listen beyond the loopback: it asks nobody who they are.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::faults::{FaultId, Rule};
use super::host::SimHost;
use super::power::ResetType;
use super::{HostView, Rack};

/// Faults that have a name.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Named {
    LieOff,
    Silent,
    RefuseAuth,
    SessionTableFull,
    ForeignUuid,
    Anonymous,
    IgnoreCommands,
    FreezeReport,
    Stale,
    LoseNextAnswer,
    StuckPoweringOff,
    NotStuck,
    NeverBoots,
    Boots,
    BmcDead,
    BmcAlive,
}

/// How old a reading is that the named fault `stale` reports.
const STALE: Duration = Duration::from_secs(60);

/// Binds the control port and gives its address and the task that serves it until cancelled.
pub async fn serve(
    rack: Arc<Rack>,
    listen: SocketAddr,
    stop: CancellationToken,
) -> Result<(SocketAddr, impl Future<Output = ()> + Send + 'static)> {
    ensure!(
        listen.ip().is_loopback(),
        "the control port must be on the loopback, not {listen}"
    );
    let listener = TcpListener::bind(listen)
        .await
        .with_context(|| format!("binding {listen} for control"))?;
    let address = listener.local_addr()?;
    let serve = async move {
        let stopped = async move { stop.cancelled().await };
        let served = axum::serve(listener, router(rack))
            .with_graceful_shutdown(stopped)
            .await;
        if let Err(error) = served {
            tracing::error!(%error, "control port ended");
        }
    };
    Ok((address, serve))
}

fn router(rack: Arc<Rack>) -> Router {
    Router::new()
        .route("/hosts", get(hosts))
        .route("/hosts/{name}", get(host))
        .route("/hosts/{name}/log", get(log))
        .route("/hosts/{name}/pods", get(pods))
        .route(
            "/hosts/{name}/faults",
            get(faults).post(inject).delete(clear),
        )
        .route("/hosts/{name}/faults/{id}", delete(remove))
        .route("/hosts/{name}/hang", post(hang))
        .route("/hosts/{name}/power/{reset}", post(power))
        .route(
            "/overlaps",
            get(async |State(rack): State<Arc<Rack>>| Json(rack.overlaps())),
        )
        .with_state(rack)
}

/// An answer that says what was wrong.
struct Failed(StatusCode, String);

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        (self.0, Json(json!({"error": self.1}))).into_response()
    }
}

impl From<anyhow::Error> for Failed {
    fn from(error: anyhow::Error) -> Self {
        Self(StatusCode::INTERNAL_SERVER_ERROR, format!("{error:#}"))
    }
}

type Answer<T> = std::result::Result<T, Failed>;

fn find(rack: &Rack, name: &str) -> Answer<SimHost> {
    let found = rack.host(name).cloned();
    found.map_err(|error| Failed(StatusCode::NOT_FOUND, format!("{error:#}")))
}

async fn hosts(State(rack): State<Arc<Rack>>) -> Json<Vec<Value>> {
    Json(rack.hosts().values().map(shown).collect())
}

fn shown(host: &SimHost) -> Value {
    let view: HostView = host.view();
    let mut shown = json!(view);
    shown["bmc"] = json!(host.bmc_url().ok());
    shown["system"] = json!(host.system_url().ok());
    shown["sessions"] = json!(host.sessions_open());
    shown
}

async fn host(State(rack): State<Arc<Rack>>, Path(name): Path<String>) -> Answer<Json<Value>> {
    Ok(Json(shown(&find(&rack, &name)?)))
}

async fn log(State(rack): State<Arc<Rack>>, Path(name): Path<String>) -> Answer<Response> {
    Ok(Json(find(&rack, &name)?.log()).into_response())
}

async fn pods(State(rack): State<Arc<Rack>>, Path(name): Path<String>) -> Answer<Response> {
    Ok(Json(find(&rack, &name)?.processes()).into_response())
}

async fn faults(State(rack): State<Arc<Rack>>, Path(name): Path<String>) -> Answer<Response> {
    Ok(Json(find(&rack, &name)?.faults()).into_response())
}

async fn inject(
    State(rack): State<Arc<Rack>>,
    Path(name): Path<String>,
    // Not `Json`: whoever tries with curl need not name the content's type.
    body: String,
) -> Answer<Json<Value>> {
    let host = find(&rack, &name)?;
    let wrong =
        |error: serde_json::Error| Failed(StatusCode::UNPROCESSABLE_ENTITY, error.to_string());
    let posted: Value = serde_json::from_str(&body).map_err(wrong)?;
    let id = match posted.get("fault") {
        Some(name) => {
            let named = serde_json::from_value(name.clone()).map_err(wrong)?;
            inject_named(&host, named).await?
        }
        None => Some(host.inject(serde_json::from_value::<Rule>(posted).map_err(wrong)?)),
    };
    Ok(Json(json!({"id": id})))
}

async fn inject_named(host: &SimHost, fault: Named) -> Result<Option<FaultId>> {
    let rule = match fault {
        Named::LieOff => host.lie_off(),
        Named::Silent => host.silent(),
        Named::RefuseAuth => host.refuse_auth(),
        Named::SessionTableFull => host.session_table_full(),
        Named::ForeignUuid => host.foreign_uuid(),
        Named::Anonymous => host.anonymous(),
        Named::IgnoreCommands => host.ignore_commands(),
        Named::FreezeReport => host.freeze_report(),
        Named::Stale => host.stale(STALE),
        Named::LoseNextAnswer => host.lose_next_answer(),
        switch => {
            match switch {
                Named::StuckPoweringOff => host.stuck_powering_off(true),
                Named::NotStuck => host.stuck_powering_off(false),
                Named::NeverBoots => host.never_boots(true),
                Named::Boots => host.never_boots(false),
                Named::BmcDead => host.bmc_dead().await?,
                _ => host.bmc_alive().await?,
            }
            return Ok(None);
        }
    };
    Ok(Some(rule))
}

async fn clear(State(rack): State<Arc<Rack>>, Path(name): Path<String>) -> Answer<StatusCode> {
    let host = find(&rack, &name)?;
    host.clear_faults();
    host.stuck_powering_off(false);
    host.never_boots(false);
    host.bmc_alive().await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn remove(
    State(rack): State<Arc<Rack>>,
    Path((name, id)): Path<(String, u64)>,
) -> Answer<StatusCode> {
    let removed = find(&rack, &name)?.clear_fault(FaultId(id));
    if removed {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(Failed(
            StatusCode::NOT_FOUND,
            format!("{name} has no fault {id}"),
        ))
    }
}

async fn hang(State(rack): State<Arc<Rack>>, Path(name): Path<String>) -> Answer<StatusCode> {
    if find(&rack, &name)?.hang() {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(Failed(StatusCode::CONFLICT, format!("{name} is not up")))
    }
}

async fn power(
    State(rack): State<Arc<Rack>>,
    Path((name, reset)): Path<(String, String)>,
) -> Answer<Json<Value>> {
    let host = find(&rack, &name)?;
    let reset: ResetType = reset
        .parse()
        .map_err(|error: anyhow::Error| Failed(StatusCode::BAD_REQUEST, error.to_string()))?;
    Ok(Json(json!({"answer": host.switch(reset, "control port")})))
}
