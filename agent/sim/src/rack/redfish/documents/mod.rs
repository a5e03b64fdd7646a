//! The resources of the service as JSON.
//!
//! Owns: their structure, which DMTF's schemas (2026.1) define and its service validator checks.
//! Must never: change anything.

mod chassis;
mod managers;
mod network;
mod services;
mod systems;
mod telemetry;
mod updates;

use std::time::Duration;

use axum::http::StatusCode;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::{errors, http::response::Answer, path::ResourcePath, service::Call};
use crate::rack::config::uuid_of;

pub(super) use services::{account, session};
pub(super) use updates::{IMAGES, JOB, TASK};

const ROOT: &str = "/redfish/v1";

/// Uptime of a BMC that was not reset since the start.
const UP_AT_START: Duration = Duration::from_secs(30 * 24 * 3600);

/// The resource at a path, or an error response.
pub(super) fn build(call: &Call<'_>, place: ResourcePath<'_>) -> Result<Answer, Answer> {
    let profile = call.profile();
    let host = call.host;
    let document = match place {
        ResourcePath::Versions => json!({"v1": "/redfish/v1/"}),
        ResourcePath::Root => {
            // The service has its own UUID, which must not be confused with the machine's.
            let mut root = services::root(profile, &uuid_of(&format!("{}-bmc", host.name())));
            updates::in_root(&mut root, profile);
            root
        }
        ResourcePath::Odata => services::odata(),
        ResourcePath::Metadata => {
            return Ok(Answer::text("application/xml", services::METADATA));
        }
        ResourcePath::Systems => {
            let board = profile.board_member.as_deref().into_iter();
            let members = board.chain([profile.system_id.as_str()]);
            collection("Systems", "ComputerSystem", members)
        }
        ResourcePath::System => systems::system(profile, &systems::SystemView::of(call)),
        ResourcePath::Board => match &profile.board_member {
            Some(id) if host.real_power().is_powered() => systems::board(id),
            _ => return Err(off(call)),
        },
        ResourcePath::BootSettings => {
            host.with_settings(|_, settings| systems::settings(profile, &settings.boot))
        }
        ResourcePath::ResetInfo => systems::reset_info(profile),
        ResourcePath::AllChassis => collection("Chassis", "Chassis", [profile.chassis_id.as_str()]),
        ResourcePath::Chassis => {
            let mut chassis = chassis::chassis(profile, &systems::SystemView::of(call));
            host.with_settings(|_, settings| {
                network::place(&mut chassis, profile, &settings.topology);
            });
            chassis
        }
        ResourcePath::NetworkAdapters
        | ResourcePath::NetworkAdapter(_)
        | ResourcePath::Ports(_)
        | ResourcePath::Port(..) => {
            let document = host
                .with_settings(|_, settings| network::build(profile, &settings.topology, place));
            found(call, document)?
        }
        ResourcePath::Managers => collection("Managers", "Manager", [profile.manager_id.as_str()]),
        ResourcePath::Manager => {
            let mut manager = managers::manager(profile, clock(call), last_reset(call));
            updates::in_manager(&mut manager, profile);
            manager
        }
        ResourcePath::LogServices => managers::log_services(profile),
        ResourcePath::Log => managers::log(profile),
        ResourcePath::Entries => {
            host.with_settings(|_, settings| managers::entries(profile, settings.events.events()))
        }
        ResourcePath::Entry(id) => {
            let entry = host.with_settings(|_, settings| {
                let events = settings.events.events();
                let event = events.iter().find(|event| event.id.to_string() == id)?;
                Some(managers::entry(profile, event))
            });
            found(call, entry)?
        }
        ResourcePath::UpdateService => updates::service(profile, host.flash_state()),
        ResourcePath::Images => updates::images(),
        ResourcePath::Image(id) => updates::image(id, host.flash_state()),
        ResourcePath::TaskService => updates::task_service(),
        ResourcePath::Tasks => updates::tasks(profile, host.flash_state()),
        ResourcePath::Task => found(call, updates::task(profile, host.flash_state()))?,
        ResourcePath::Jobs => updates::jobs(profile, host.flash_state()),
        ResourcePath::Job => found(call, updates::job(profile, host.flash_state()))?,
        ResourcePath::SessionService => services::session_service(profile),
        ResourcePath::Sessions => {
            let sessions = host.bmc().sessions.lock().open_at(host.now()).to_vec();
            let ids = sessions.iter().map(|session| session.id.as_str());
            collection("SessionService/Sessions", "Session", ids)
        }
        ResourcePath::Session(id) => {
            let sessions = host.bmc().sessions.lock().open_at(host.now()).to_vec();
            let session = sessions.iter().find(|session| session.id == id);
            found(call, session.map(services::session))?
        }
        ResourcePath::AccountService => services::account_service(),
        ResourcePath::Accounts => {
            let accounts = host.bmc().accounts.lock();
            let ids = accounts
                .accounts()
                .iter()
                .map(|account| account.id.as_str());
            collection("AccountService/Accounts", "ManagerAccount", ids)
        }
        ResourcePath::Account(id) => {
            let account = host.bmc().accounts.lock().get(id).map(services::account);
            found(call, account)?
        }
        ResourcePath::Roles => services::roles(),
        ResourcePath::Role(id) => found(call, services::role(id))?,
        ResourcePath::Reset
        | ResourcePath::ManagerReset
        | ResourcePath::ClearLog
        | ResourcePath::SessionMembers => {
            return Err(errors::not_allowed(profile, place.allow()));
        }
        ResourcePath::Recorded(path) => {
            let recording = host.config().bmc.recording.as_ref();
            let document = recording.and_then(|recording| {
                recording.with_power(path, &host.reported_power(call.effects), host.real_power())
            });
            found(call, document)?
        }
        in_chassis => found(call, telemetry::build(call, in_chassis))?,
    };
    Ok(Answer::json(StatusCode::OK, document))
}

fn found(call: &Call<'_>, document: Option<Value>) -> Result<Value, Answer> {
    document.ok_or_else(|| errors::not_found(call.profile(), call.path))
}

/// Current time of the BMC's clock.
fn clock(call: &Call<'_>) -> jiff::Timestamp {
    let now = call.host.stamp().wall;
    let ahead = SignedDuration::from_secs(call.effects.clock.unwrap_or_default());
    now.checked_add(ahead).unwrap_or(now)
}

/// Time of the last reset of the BMC, by its clock; long before the start if there was none.
fn last_reset(call: &Call<'_>) -> jiff::Timestamp {
    let host = call.host;
    let ago = match host.bmc().last_reset(host.now()) {
        Some(at) => host.now().saturating_duration_since(at),
        None => UP_AT_START,
    };
    let now = clock(call);
    now.checked_sub(ago).unwrap_or(now)
}

fn off(call: &Call<'_>) -> Answer {
    let text = "The resource cannot be reached while the host is off.";
    let status = StatusCode::SERVICE_UNAVAILABLE;
    errors::error(
        call.profile(),
        status,
        "ServiceTemporarilyUnavailable",
        text,
    )
}

fn collection<'a>(path: &str, kind: &str, members: impl IntoIterator<Item = &'a str>) -> Value {
    let members: Vec<_> = members
        .into_iter()
        .map(|id| link(&format!("{path}/{id}")))
        .collect();
    json!({
        "@odata.id": at(path),
        "@odata.type": format!("#{kind}Collection.{kind}Collection"),
        "Name": format!("{kind} Collection"),
        "Members@odata.count": members.len(),
        "Members": members,
    })
}

fn at(path: &str) -> String {
    format!("{ROOT}/{path}")
}

fn link(path: &str) -> Value {
    json!({"@odata.id": at(path)})
}
