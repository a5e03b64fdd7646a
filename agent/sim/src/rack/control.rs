//! The control port: faults, hangs and logs over plain HTTP, for demonstrations and curious people.
//!
//! [`HELP`] says what can be asked, and how a [`Rule`] is written.
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

/// What the control port takes, for `rack-sim --help`.
pub const HELP: &str = r#"Control port (plain HTTP on the loopback):
  GET  /hosts, /hosts/NAME          how hosts really are
  GET  /hosts/NAME/log              what really happened
  GET  /hosts/NAME/switched         every real change of power, with its cause
  GET  /hosts/NAME/boots            every boot, and from where
  GET  /hosts/NAME/pods             every process that ever ran
  GET, POST, DELETE /hosts/NAME/faults   rules: list, add, clear all
  DELETE /hosts/NAME/faults/ID      remove one rule
  POST /hosts/NAME/hang             the operating system hangs
  POST /hosts/NAME/power/TYPE       a reset past the BMC
  POST /hosts/NAME/restart-bmc      the BMC restarts
  POST /hosts/NAME/clock/stop|run   time stands still for the host, or runs on
  POST /hosts/NAME/clock/step       the next thing that is due happens
  POST /hosts/NAME/clock/TIME       the clock moves by TIME (90s, 2m)
  GET  /overlaps                    identities that ran twice at once

A rule is {"fault": NAME}, with NAME one of
  lie_off off_until_commanded silent refuse_auth session_table_full foreign_uuid anonymous
  ignore_commands freeze_report stale lose_next_answer stuck_powering_off
  not_stuck never_boots boots bmc_dead bmc_alive
or, in full (only action is needed; rules apply in order, the first one counts):
  {"method": "POST", "path": "**/Actions/*", "body": {"ResetType": "ForceOff"},
   "skip": 1, "remaining": 2, "after": true, "action": ACTION}
A path's * stands for part of a segment, ** for anything. skip lets so many
requests pass, remaining counts down, after carries the request out first.
ACTION is one of
  {"status": {"status": 503, "body": {}, "headers": {"Retry-After": "1"}}}
  {"html": {"status": 500}}     {"redirect": {"status": 307, "to": "/or/http://"}}
  {"latency": {"takes": "2s"}}  {"slow_handshake": {"takes": "2s"}}
  "drop"  "hang"  "reset"  "reset_reused"  "reset_on_accept"
  "cut_body"  "truncate"  {"huge": {"bytes": 1000000}}  {"merge": {"body": {}}}
  {"state": {"state": "Paused"}}       report this power state
  "off_until_commanded"                report Off until a power-off was taken
  {"stale": {"age": "60s"}}            report what was so then
  {"cached": {"refresh": "60s"}}       read the state anew only so often
  {"powering_off": {"takes": "9s"}}    report PoweringOff so long after off
  {"identity": {"uuid": null, "serial": "X"}}
  "refuse_auth"  "ignore_commands"  {"as_task": {"takes": "5s"}}
  {"tag_suffix": {"suffix": "-gzip"}}  "strong_match""#;

/// Faults that have a name.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Named {
    LieOff,
    OffUntilCommanded,
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
        .route("/hosts/{name}/switched", get(switched))
        .route("/hosts/{name}/boots", get(boots))
        .route("/hosts/{name}/pods", get(pods))
        .route(
            "/hosts/{name}/faults",
            get(faults).post(inject).delete(clear),
        )
        .route("/hosts/{name}/faults/{id}", delete(remove))
        .route("/hosts/{name}/hang", post(hang))
        .route("/hosts/{name}/power/{reset}", post(power))
        .route("/hosts/{name}/restart-bmc", post(restart_bmc))
        .route("/hosts/{name}/clock/{what}", post(clock))
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

async fn switched(State(rack): State<Arc<Rack>>, Path(name): Path<String>) -> Answer<Response> {
    Ok(Json(find(&rack, &name)?.switched()).into_response())
}

async fn boots(State(rack): State<Arc<Rack>>, Path(name): Path<String>) -> Answer<Response> {
    Ok(Json(find(&rack, &name)?.boots()).into_response())
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
        Named::OffUntilCommanded => host.off_until_commanded(),
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

async fn restart_bmc(
    State(rack): State<Arc<Rack>>,
    Path(name): Path<String>,
) -> Answer<StatusCode> {
    find(&rack, &name)?.restart_bmc("control port");
    Ok(StatusCode::NO_CONTENT)
}

/// Stops or moves a host's clock; tells what was really switched by that.
async fn clock(
    State(rack): State<Arc<Rack>>,
    Path((name, what)): Path<(String, String)>,
) -> Answer<Response> {
    let host = find(&rack, &name)?;
    let switched = match what.as_str() {
        "stop" | "run" => {
            host.single_step(what == "stop");
            Vec::new()
        }
        "step" => host.step(),
        time => {
            let by: jiff::SignedDuration = time
                .parse()
                .map_err(|error: jiff::Error| Failed(StatusCode::BAD_REQUEST, error.to_string()))?;
            let by = Duration::try_from(by)
                .map_err(|error| Failed(StatusCode::BAD_REQUEST, error.to_string()))?;
            host.advance(by)
        }
    };
    Ok(Json(switched).into_response())
}
