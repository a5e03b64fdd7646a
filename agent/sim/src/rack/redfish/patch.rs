//! Effects of PATCH and DELETE: boot source, LED, accounts, sessions.
//!
//! Owns: the set of writable properties. A change is applied completely or not at all; properties
//! that cannot be written are only reported if others can (DSP0266, 7.5).

use axum::http::{Method, StatusCode};
use serde_json::{Map, Value, json};

use super::{
    accounts::{Change, Role, auth::User},
    actions, documents, errors,
    http::response::{Answer, Content},
    path::ResourcePath,
    profile::{LedProperty, Profile},
    service::{self, Call},
};
use crate::rack::{
    power::OsState,
    settings::{BootOverride, LedState, OverrideLifetime},
};

pub(super) fn change(call: &Call<'_>, place: ResourcePath<'_>, user: &User) -> Answer {
    let profile = call.profile();
    if let ResourcePath::Session(id) = place {
        return end_session(call, id, user);
    }
    if let Some(refused) = service::check_precondition(call, place) {
        return refused;
    }
    if *call.method == Method::DELETE {
        return match place {
            ResourcePath::Account(id) if call.host.bmc().accounts.lock().remove(id) => {
                Answer::empty(StatusCode::NO_CONTENT)
            }
            _ => errors::not_found(profile, call.path),
        };
    }
    let Some(body) = call.body.as_object() else {
        return errors::malformed(profile);
    };
    if body.keys().all(|key| key.contains('@')) {
        return errors::no_operation(profile);
    }
    let writable = writable(profile, place);
    let (good, bad): (Vec<_>, Vec<_>) = body
        .keys()
        .filter(|key| !key.contains('@'))
        .partition(|key| writable.contains(&key.as_str()));
    if let (true, Some(first)) = (good.is_empty(), bad.first()) {
        return unknown(profile, place, first);
    }
    let made = match place {
        ResourcePath::System | ResourcePath::BootSettings => system(call, place, body),
        ResourcePath::Account(id) => account(call, id, body, user),
        _ => Err(errors::not_allowed(profile, place.allow())),
    };
    match made {
        Err(refused) => refused,
        Ok(()) if bad.is_empty() && !matches!(place, ResourcePath::Account(_)) => {
            actions::done(profile)
        }
        Ok(()) => shown(call, place, &bad),
    }
}

fn writable(profile: &Profile, place: ResourcePath<'_>) -> Vec<&'static str> {
    let led = match profile.led {
        LedProperty::Location => "LocationIndicatorActive",
        LedProperty::Indicator | LedProperty::IndicatorLitAtRest => "IndicatorLED",
    };
    match place {
        ResourcePath::System if profile.boot.settings.is_none() => vec!["Boot", led],
        ResourcePath::System => vec![led],
        ResourcePath::BootSettings => vec!["Boot"],
        ResourcePath::Account(_) => vec!["UserName", "Password", "RoleId", "Enabled"],
        _ => Vec::new(),
    }
}

fn unknown(profile: &Profile, place: ResourcePath<'_>, name: &str) -> Answer {
    let read_only = place == ResourcePath::System && name == "Boot";
    let (id, text) = if read_only {
        let text = "The property Boot is read-only; change the settings resource instead.";
        ("PropertyNotWritable", text.to_owned())
    } else {
        let text = format!("The property {name} is not in the list of valid properties.");
        ("PropertyUnknown", text)
    };
    errors::error(profile, StatusCode::BAD_REQUEST, id, &text)
}

/// The changed resource, with messages about properties that could not be changed.
fn shown(call: &Call<'_>, place: ResourcePath<'_>, bad: &[&String]) -> Answer {
    let mut answer = match documents::build(call, place) {
        Ok(answer) | Err(answer) => answer,
    };
    if let (false, Content::Json(value)) = (bad.is_empty(), &mut answer.content) {
        let messages: Vec<_> = bad
            .iter()
            .map(|name| {
                let text = format!("The property {name} is not in the list of valid properties.");
                errors::message("PropertyUnknown", &text, "Warning")
            })
            .collect();
        value["@Message.ExtendedInfo"] = json!(messages);
    }
    answer
}

fn system(
    call: &Call<'_>,
    place: ResourcePath<'_>,
    body: &Map<String, Value>,
) -> Result<(), Answer> {
    let profile = call.profile();
    let led = match (
        body.get("IndicatorLED"),
        body.get("LocationIndicatorActive"),
    ) {
        (Some(value), _) => match value.as_str() {
            Some("Lit") => Some(LedState::Lit),
            Some("Blinking") => Some(LedState::Blinking),
            Some("Off") => Some(LedState::Off),
            _ => return Err(errors::bad_value(profile, "IndicatorLED", value)),
        },
        (None, Some(value)) => match value.as_bool() {
            Some(true) => Some(LedState::Blinking),
            Some(false) => Some(LedState::Off),
            None => return Err(errors::bad_value(profile, "LocationIndicatorActive", value)),
        },
        (None, None) => None,
    };
    let boot = body.get("Boot").map(|boot| boot_override(call, boot));
    let boot = boot.transpose()?;
    call.host.with_settings(|_, settings| {
        settings.led = led.unwrap_or(settings.led);
        match boot {
            Some(boot) if place == ResourcePath::BootSettings => settings.boot.pending = Some(boot),
            Some(boot) => settings.boot.current = boot,
            None => {}
        }
    });
    Ok(())
}

fn boot_override(call: &Call<'_>, wanted: &Value) -> Result<BootOverride, Answer> {
    let profile = call.profile();
    if profile.boot.refused_in_post && call.host.view().os == OsState::Booting {
        let text = "The property cannot be modified while the system is in POST.";
        let id = "iLO.2.14.UnableToModifyDuringSystemPOST";
        return Err(errors::error(profile, StatusCode::BAD_REQUEST, id, text));
    }
    let Some(wanted) = wanted.as_object() else {
        return Err(errors::bad_value(profile, "Boot", wanted));
    };
    let mut boot = call.host.with_settings(|_, settings| {
        let pending = settings.boot.pending.clone();
        match profile.boot.settings {
            Some(_) => pending.unwrap_or_else(|| settings.boot.current.clone()),
            None => settings.boot.current.clone(),
        }
    });
    for (name, value) in wanted {
        let bad = || errors::bad_value(profile, name, value);
        let text = value.as_str().unwrap_or_default();
        match name.as_str() {
            "BootSourceOverrideEnabled" => {
                boot.lifetime =
                    serde_json::from_value::<OverrideLifetime>(value.clone()).map_err(|_| bad())?;
            }
            "BootSourceOverrideTarget" if profile.boot.targets.iter().any(|one| one == text) => {
                text.clone_into(&mut boot.target);
            }
            "BootSourceOverrideMode" if ["UEFI", "Legacy"].contains(&text) => {
                text.clone_into(&mut boot.mode);
            }
            "BootSourceOverrideTarget" | "BootSourceOverrideMode" => return Err(bad()),
            unknown => return Err(self::unknown(profile, ResourcePath::BootSettings, unknown)),
        }
    }
    Ok(boot)
}

fn account(
    call: &Call<'_>,
    id: &str,
    body: &Map<String, Value>,
    user: &User,
) -> Result<(), Answer> {
    let profile = call.profile();
    let mut accounts = call.host.bmc().accounts.lock();
    let Some(account) = accounts.get(id) else {
        return Err(errors::not_found(profile, id));
    };
    let own_password = account.user == user.name && body.keys().all(|key| key == "Password");
    if !own_password && !user.role.may("ConfigureUsers") {
        return Err(errors::forbidden(profile));
    }
    let bad = |name: &str| errors::bad_value(profile, name, &Value::Null);
    let text = |name: &str| match body.get(name) {
        None => Ok(None),
        Some(value) => match value.as_str().filter(|text| !text.is_empty()) {
            Some(text) => Ok(Some(text)),
            None => Err(bad(name)),
        },
    };
    let role = text("RoleId")?.map(|id| Role::of(id).ok_or_else(|| bad("RoleId")));
    let enabled = body.get("Enabled");
    let enabled = enabled.map(|value| value.as_bool().ok_or_else(|| bad("Enabled")));
    let change = Change {
        user: text("UserName")?.map(str::to_owned),
        password: text("Password")?.map(Into::into),
        role: role.transpose()?,
        enabled: enabled.transpose()?,
    };
    accounts.change(id, change);
    Ok(())
}

fn end_session(call: &Call<'_>, id: &str, user: &User) -> Answer {
    let profile = call.profile();
    let mut sessions = call.host.bmc().sessions.lock();
    let owner = sessions.sessions().iter().find(|session| session.id == id);
    let Some(owner) = owner.map(|session| session.user.clone()) else {
        return errors::not_found(profile, id);
    };
    if owner != user.name && !user.role.may("ConfigureManager") {
        return errors::forbidden(profile);
    }
    sessions.end(id);
    Answer::empty(StatusCode::NO_CONTENT)
}
