//! What each request does.
//!
//! Owns the paths. Must never look at faults that concern the connection: those were seen to
//! before.

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{HeaderName, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router, middleware};
use serde_json::{Value, json};

use super::auth::{self, SESSIONS, User};
use super::documents::{self, Shown};
use super::errors;
use super::profile::{Accepted, Already, Profile};
use crate::rack::config::uuid_of;
use crate::rack::faults::Effects;
use crate::rack::host::SimHost;
use crate::rack::power::{Answer, ResetType};

/// The routes of one host's BMC. Paths have no slash at their end.
pub(super) fn router(host: SimHost) -> Router {
    Router::new()
        .route("/redfish", get(async || Json(documents::versions())))
        .route("/redfish/v1", get(root))
        .route("/redfish/v1/odata", get(async || Json(documents::odata())))
        .route("/redfish/v1/$metadata", get(metadata))
        .route("/redfish/v1/Systems", get(systems))
        .route("/redfish/v1/Systems/{id}", get(system))
        .route("/redfish/v1/Systems/{id}/ResetActionInfo", get(action_info))
        .route(
            "/redfish/v1/Systems/{id}/Actions/ComputerSystem.Reset",
            post(reset),
        )
        .route("/redfish/v1/Chassis", get(chassis_collection))
        .route("/redfish/v1/Chassis/{id}", get(chassis))
        .route("/redfish/v1/Managers", get(managers))
        .route("/redfish/v1/Managers/{id}", get(manager))
        .route("/redfish/v1/SessionService", get(session_service))
        .route(SESSIONS, get(sessions).post(login))
        .route(
            "/redfish/v1/SessionService/Sessions/{id}",
            get(session).delete(logout),
        )
        .fallback(async || errors::not_found("of this path"))
        .method_not_allowed_fallback(async || errors::not_allowed())
        .layer(middleware::from_fn_with_state(host.clone(), auth::check))
        .with_state(host)
}

fn profile(host: &SimHost) -> &Profile {
    &host.config().bmc.profile
}

fn shown(host: &SimHost, effects: &Effects) -> Shown {
    let config = host.config();
    let (uuid, serial) = match &effects.identity {
        Some(identity) => identity.clone(),
        None => (Some(config.uuid.clone()), Some(config.serial.clone())),
    };
    Shown {
        name: config.name.clone(),
        uuid,
        serial,
        power: host.reported_power(effects),
    }
}

fn one(id: &str, wanted: &str, document: impl FnOnce() -> Value) -> Response {
    if id == wanted {
        Json(document()).into_response()
    } else {
        errors::not_found(id)
    }
}

async fn root(State(host): State<SimHost>) -> Json<Value> {
    // The service has a UUID of its own, which must not be taken for the machine's.
    let uuid = uuid_of(&format!("{}-bmc", host.name()));
    Json(documents::root(profile(&host), &uuid))
}

async fn metadata() -> Response {
    (
        [(header::CONTENT_TYPE, "application/xml")],
        documents::METADATA,
    )
        .into_response()
}

async fn systems(State(host): State<SimHost>) -> Json<Value> {
    let profile = profile(&host);
    let members = profile
        .board_member
        .as_deref()
        .into_iter()
        .chain([profile.system_id.as_str()]);
    Json(documents::collection("Systems", "ComputerSystem", members))
}

async fn system(
    State(host): State<SimHost>,
    Extension(effects): Extension<Effects>,
    Path(id): Path<String>,
) -> Response {
    let profile = profile(&host);
    if profile.board_member.as_deref() == Some(id.as_str()) {
        return Json(documents::board(&id)).into_response();
    }
    one(&id, &profile.system_id, || {
        documents::system(profile, &shown(&host, &effects))
    })
}

async fn action_info(State(host): State<SimHost>, Path(id): Path<String>) -> Response {
    let profile = profile(&host);
    one(&id, &profile.system_id, || {
        documents::reset_action_info(profile)
    })
}

async fn chassis_collection(State(host): State<SimHost>) -> Json<Value> {
    let members = [profile(&host).chassis_id.as_str()];
    Json(documents::collection("Chassis", "Chassis", members))
}

async fn chassis(
    State(host): State<SimHost>,
    Extension(effects): Extension<Effects>,
    Path(id): Path<String>,
) -> Response {
    let profile = profile(&host);
    one(&id, &profile.chassis_id, || {
        documents::chassis(profile, &shown(&host, &effects))
    })
}

async fn managers(State(host): State<SimHost>) -> Json<Value> {
    let members = [profile(&host).manager_id.as_str()];
    Json(documents::collection("Managers", "Manager", members))
}

async fn manager(State(host): State<SimHost>, Path(id): Path<String>) -> Response {
    let profile = profile(&host);
    one(&id, &profile.manager_id, || documents::manager(profile))
}

async fn reset(
    State(host): State<SimHost>,
    Extension(effects): Extension<Effects>,
    Extension(User(user)): Extension<User>,
    Path(id): Path<String>,
    body: Bytes,
) -> Response {
    let profile = profile(&host);
    if id != profile.system_id {
        return errors::not_found(&id);
    }
    let Ok(body) = serde_json::from_slice::<Value>(&body) else {
        return errors::malformed();
    };
    let Some(wanted) = body.get("ResetType").and_then(Value::as_str) else {
        return errors::missing_parameter("ResetType");
    };
    let wanted = match wanted.parse::<ResetType>() {
        Ok(known) if profile.reset_types.contains(&known) => known,
        _ => return errors::bad_parameter("ResetType", wanted),
    };
    if effects.ignore_commands {
        host.swallow(wanted, &user);
        return accepted(profile);
    }
    match host.switch(wanted, &user) {
        Answer::Accepted => accepted(profile),
        Answer::Already => already(profile, wanted),
        Answer::WrongState => {
            let text = format!("{wanted} is not possible in the present state of the system.");
            errors::error(
                StatusCode::BAD_REQUEST,
                "InvalidOperationForSystemState",
                &text,
            )
        }
        Answer::Busy => {
            let text = "The power state is changing; try again when it has settled.";
            errors::error(StatusCode::CONFLICT, "ActionParameterValueConflict", text)
        }
    }
}

fn accepted(profile: &Profile) -> Response {
    match profile.accepted {
        Accepted::NoContent => StatusCode::NO_CONTENT.into_response(),
        Accepted::AcceptedBare => StatusCode::ACCEPTED.into_response(),
        Accepted::OkMessage => Json(errors::body(
            "Success",
            "The request completed successfully.",
            "OK",
        ))
        .into_response(),
    }
}

fn already(profile: &Profile, wanted: ResetType) -> Response {
    match profile.already {
        Already::NoContent => accepted(profile),
        Already::BadRequest => {
            let text = format!("{wanted} is not possible: the power is so already.");
            errors::error(
                StatusCode::BAD_REQUEST,
                "InvalidOperationForSystemState",
                &text,
            )
        }
        Already::Conflict => {
            let text = "The server is already in the requested state.";
            errors::error(StatusCode::CONFLICT, "NoOperation", text)
        }
    }
}

async fn session_service(State(host): State<SimHost>) -> Response {
    let profile = profile(&host);
    if !profile.sessions {
        return errors::not_found("SessionService");
    }
    Json(documents::session_service(profile)).into_response()
}

async fn sessions(State(host): State<SimHost>) -> Json<Value> {
    let sessions = host.bmc().sessions.lock().sessions().to_vec();
    let members = sessions.iter().map(|session| session.id.as_str());
    Json(documents::collection(
        "SessionService/Sessions",
        "Session",
        members,
    ))
}

async fn session(State(host): State<SimHost>, Path(id): Path<String>) -> Response {
    let sessions = host.bmc().sessions.lock().sessions().to_vec();
    match sessions.iter().find(|session| session.id == id) {
        Some(session) => Json(documents::session(session)).into_response(),
        None => errors::not_found(&id),
    }
}

async fn logout(State(host): State<SimHost>, Path(id): Path<String>) -> Response {
    if host.bmc().sessions.lock().end(&id) {
        StatusCode::NO_CONTENT.into_response()
    } else {
        errors::not_found(&id)
    }
}

async fn login(
    State(host): State<SimHost>,
    Extension(effects): Extension<Effects>,
    body: Bytes,
) -> Response {
    if !profile(&host).sessions {
        return errors::not_found("SessionService");
    }
    let Ok(body) = serde_json::from_slice::<Value>(&body) else {
        return errors::malformed();
    };
    let text = |key: &str| body.get(key).and_then(Value::as_str);
    let (Some(user), Some(password)) = (text("UserName"), text("Password")) else {
        return errors::missing_parameter("UserName, Password");
    };
    if effects.refuse_auth || !auth::is_right(&host, user, password) {
        return errors::unauthorized();
    }
    let token = uuid::Uuid::new_v4().simple().to_string();
    let now = tokio::time::Instant::now().into_std();
    let Some(session) = host.bmc().sessions.lock().begin(now, user, token) else {
        let text = "The maximum number of user sessions is reached.";
        return errors::error(
            StatusCode::SERVICE_UNAVAILABLE,
            "SessionLimitExceeded",
            text,
        );
    };
    let document = documents::session(&session);
    let location = document
        .get("@odata.id")
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned();
    let headers = [
        (header::LOCATION, location),
        (HeaderName::from_static("x-auth-token"), session.token),
    ];
    (StatusCode::CREATED, headers, Json(document)).into_response()
}

/// Headers that every answer carries.
pub(super) fn finish(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert("odata-version", header::HeaderValue::from_static("4.0"));
    headers.insert(
        header::CACHE_CONTROL,
        header::HeaderValue::from_static("no-cache"),
    );
    response
}

/// The answer that a fault puts in place of the real one.
pub(super) fn injected(status: u16, body: Option<Value>) -> Response {
    let code = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    match body {
        Some(body) => (code, Json(body)).into_response(),
        None if code.is_client_error() || code.is_server_error() => {
            (code, Json(errors::injected(status))).into_response()
        }
        None if code == StatusCode::OK => (code, Json(json!({}))).into_response(),
        None => code.into_response(),
    }
}
