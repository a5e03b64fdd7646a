//! Authentication and authorization: HTTP Basic, session tokens, roles.
//!
//! Owns: the checks. Must never: log credentials.

use axum::http::{HeaderMap, Method, header};
use base64::Engine as _;

use super::Role;
use crate::rack::{host::SimHost, redfish::path::ResourcePath};

/// The user of a request.
#[derive(Clone, Debug)]
pub(in crate::rack::redfish) struct User {
    pub(in crate::rack::redfish) name: String,
    pub(in crate::rack::redfish) role: Role,
}

/// The user of a request; `None` without valid credentials.
pub(in crate::rack::redfish) fn user_of(host: &SimHost, headers: &HeaderMap) -> Option<User> {
    if let Some(token) = headers.get("x-auth-token") {
        let now = host.now();
        let name = host
            .bmc()
            .sessions
            .lock()
            .check(now, token.to_str().ok()?)?;
        let role = host.bmc().accounts.lock().role(&name)?;
        return Some(User { name, role });
    }
    let encoded = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, encoded) = encoded.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = base64::engine::general_purpose::STANDARD
        .decode(encoded.trim())
        .ok()?;
    let decoded = String::from_utf8(decoded).ok()?;
    let (name, password) = decoded.split_once(':')?;
    let role = host.bmc().accounts.lock().check(name, password)?;
    let name = name.to_owned();
    Some(User { name, role })
}

/// Whether a role may use this method there; access to the user's own account or session is checked
/// where that is looked up.
pub(in crate::rack::redfish) fn may(role: Role, method: &Method, place: ResourcePath<'_>) -> bool {
    if *method != Method::POST && *method != Method::PATCH && *method != Method::DELETE {
        return role.may("Login");
    }
    match place {
        ResourcePath::Account(_) if *method == Method::PATCH => role.may("ConfigureSelf"),
        ResourcePath::Account(_) | ResourcePath::Accounts => role.may("ConfigureUsers"),
        ResourcePath::Sessions | ResourcePath::SessionMembers | ResourcePath::Session(_) => {
            role.may("Login")
        }
        ResourcePath::ManagerReset | ResourcePath::ClearLog => role.may("ConfigureManager"),
        _ => role.may("ConfigureComponents"),
    }
}
