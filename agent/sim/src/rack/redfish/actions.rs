//! Effects of POST: resets, sessions, accounts, the log.
//!
//! Owns: the responses of each profile to a command. The machine decides whether it accepts the
//! command.

use axum::http::{HeaderName, StatusCode, header};
use serde_json::{Value, json};

use super::{
    accounts::{Role, auth::User},
    documents, errors,
    http::response::Answer,
    path::ResourcePath,
    profile::{Accepted, ActionMatch, Already, Profile},
    service::Call,
};
use crate::rack::power::{self, ResetType, belief};

pub(super) fn post(call: &Call<'_>, place: ResourcePath<'_>, user: &User) -> Answer {
    let profile = call.profile();
    let is_action = matches!(
        place,
        ResourcePath::Reset | ResourcePath::ManagerReset | ResourcePath::ClearLog
    );
    let sent = call.headers.contains_key(header::IF_MATCH);
    match profile.if_match_on_actions {
        ActionMatch::Refused if is_action && sent => return errors::precondition_failed(profile),
        ActionMatch::Required if is_action && !sent => {
            return errors::precondition_missing(profile);
        }
        ActionMatch::Ignored | ActionMatch::Refused | ActionMatch::Required => {}
    }
    match place {
        ResourcePath::Reset => reset(call, user),
        ResourcePath::ManagerReset => restart(call, user),
        ResourcePath::ClearLog => {
            call.host
                .with_settings(|now, settings| settings.events.clear(now.wall));
            Answer::empty(StatusCode::NO_CONTENT)
        }
        ResourcePath::Accounts => account(call),
        _ => errors::not_allowed(profile, place.allow()),
    }
}

fn reset(call: &Call<'_>, user: &User) -> Answer {
    let profile = call.profile();
    if !call.body.is_object() {
        return errors::malformed(profile);
    }
    let Some(wanted) = call.text("ResetType") else {
        return errors::missing_parameter(profile, "ResetType");
    };
    let wanted = match wanted.parse::<ResetType>() {
        Ok(known) if profile.reset_types.contains(&known) => known,
        _ => return errors::bad_parameter(profile, "ResetType", wanted),
    };
    if call.effects.ignore_commands {
        call.host.record_ignored(wanted, &user.name);
        return done(profile);
    }
    if wanted == ResetType::On && is_settling(call) {
        call.host.record_ignored(wanted, &user.name);
        return busy(profile);
    }
    let (believed, real) = (
        call.host.believed_with(call.effects),
        call.host.real_power(),
    );
    let refusal = belief::refusal(believed, wanted).filter(|_| believed != real);
    let answer = match refusal {
        Some(refusal) => {
            call.host.record_ignored(wanted, &user.name);
            refusal
        }
        None => belief::answer(believed, real, call.host.carry_out(wanted, &user.name)),
    };
    let is_off = matches!(wanted, ResetType::ForceOff | ResetType::GracefulShutdown);
    if is_off && matches!(answer, power::Answer::Accepted | power::Answer::Already) {
        call.host.bmc().power_off_taken();
    }
    match answer {
        power::Answer::Accepted => done(profile),
        power::Answer::Already => already(call, wanted),
        power::Answer::WrongState => {
            let text = format!("{wanted} is not possible in the present state of the system.");
            wrong_state(profile, &text)
        }
        power::Answer::Busy => busy(profile),
    }
}

/// Whether the power went off too recently for a power-on.
fn is_settling(call: &Call<'_>) -> bool {
    !call.host.real_power().is_powered()
        && call
            .host
            .off_since()
            .is_some_and(|since| since < call.profile().settles_after_off)
}

fn busy(profile: &Profile) -> Answer {
    let text = "The power state is changing; try again when it has settled.";
    errors::error(
        profile,
        StatusCode::CONFLICT,
        "ActionParameterValueConflict",
        text,
    )
}

fn wrong_state(profile: &Profile, text: &str) -> Answer {
    let id = match &profile.error_code {
        Some(_) => "iLO.2.14.InvalidOperationForSystemState",
        None => "InvalidOperationForSystemState",
    };
    errors::error(profile, StatusCode::BAD_REQUEST, id, text)
}

fn already(call: &Call<'_>, wanted: ResetType) -> Answer {
    let profile = call.profile();
    match profile.already {
        Already::NoContent => done(profile),
        Already::BadRequest => {
            let text = format!("{wanted} is not possible: the power is so already.");
            wrong_state(profile, &text)
        }
        Already::Conflict => {
            let text = "The server is already in the requested state.";
            errors::error(profile, StatusCode::CONFLICT, "NoOperation", text)
        }
        Already::ServerError => {
            let text = "An internal error has occurred.";
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            errors::error(profile, status, "InternalError", text)
        }
    }
}

/// The response to a completed change.
pub(super) fn done(profile: &Profile) -> Answer {
    match profile.accepted {
        Accepted::NoContent => Answer::empty(StatusCode::NO_CONTENT),
        Accepted::AcceptedBare => Answer::empty(StatusCode::ACCEPTED),
        Accepted::OkMessage => Answer::json(StatusCode::OK, errors::success(profile)),
    }
}

fn restart(call: &Call<'_>, user: &User) -> Answer {
    let profile = call.profile();
    let wanted = call.text("ResetType");
    if let Some(wanted) = wanted {
        let known = wanted.parse::<ResetType>();
        if !known.is_ok_and(|known| profile.manager_reset_types.contains(&known)) {
            return errors::bad_parameter(profile, "ResetType", wanted);
        }
    }
    call.host.restart_bmc(&user.name);
    done(profile)
}

fn account(call: &Call<'_>) -> Answer {
    let profile = call.profile();
    for name in ["UserName", "Password", "RoleId"] {
        if call.text(name).is_none_or(str::is_empty) {
            return errors::missing_property(profile, name);
        }
    }
    let text = |key| call.text(key).unwrap_or_default();
    let Some(role) = Role::of(text("RoleId")) else {
        return errors::bad_value(profile, "RoleId", &call.body["RoleId"]);
    };
    let mut accounts = call.host.bmc().accounts.lock();
    match accounts.add(text("UserName"), text("Password").into(), role) {
        Some(account) => created(documents::account(&account)),
        None => {
            let text = "The account exists, or there is no room for another.";
            let status = StatusCode::BAD_REQUEST;
            errors::error(profile, status, "ResourceAlreadyExists", text)
        }
    }
}

fn created(document: Value) -> Answer {
    let path = document.get("@odata.id").and_then(Value::as_str);
    let path = path.unwrap_or_default().to_owned();
    Answer::json(StatusCode::CREATED, document).with(header::LOCATION, path)
}

/// Opens a session.
pub(super) fn login(call: &Call<'_>, place: ResourcePath<'_>) -> Answer {
    let profile = call.profile();
    if !call.body.is_object() {
        return errors::malformed(profile);
    }
    let (Some(user), Some(password)) = (call.text("UserName"), call.text("Password")) else {
        return errors::missing_property(profile, "UserName, Password");
    };
    let bmc = call.host.bmc();
    let right = bmc.accounts.lock().check(user, password).is_some();
    if call.effects.refuse_auth || !right {
        return errors::unauthorized(profile);
    }
    let token = uuid::Uuid::new_v4().simple().to_string();
    let Some(session) = bmc.sessions.lock().begin(call.host.now(), user, token) else {
        return errors::refused(profile, &profile.session_full);
    };
    let mut answer = created(documents::session(&session));
    if let Some(origin) = &profile.session_origin {
        for (name, value) in &mut answer.headers {
            if *name == header::LOCATION {
                *value = format!("{origin}{value}");
            }
        }
    }
    if place == ResourcePath::SessionMembers {
        answer
            .headers
            .push((header::CONTENT_LOCATION, super::path::SESSIONS.to_owned()));
    }
    answer.with(HeaderName::from_static("x-auth-token"), session.token)
}

/// The body of a response that a fault injects.
pub(super) fn injected(profile: &Profile, status: u16, body: Option<Value>) -> Answer {
    let code = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    match body {
        Some(body) => Answer::json(code, body),
        None if code.is_client_error() || code.is_server_error() => {
            Answer::json(code, errors::injected(profile, status))
        }
        None if code == StatusCode::OK => Answer::json(code, json!({})),
        None => Answer::empty(code),
    }
}
