//! The paths of the service.
//!
//! Pure. Owns: the paths of a profile, and the methods of each. The content is in `documents`.

use super::{
    documents::{IMAGES, JOB, TASK},
    profile::{Allowable, Profile, Telemetry, UpdatePlace},
    recording::{self, Recording},
};

/// Path of the session collection, the only one that accepts a POST without credentials.
pub(super) const SESSIONS: &str = "/redfish/v1/SessionService/Sessions";

/// A path of the service. Dynamic members are named, but not looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResourcePath<'a> {
    Versions,
    Root,
    Odata,
    Metadata,
    Systems,
    System,
    Board,
    BootSettings,
    ResetInfo,
    Reset,
    AllChassis,
    Chassis,
    Power,
    Thermal,
    EnvironmentMetrics,
    Sensors,
    Sensor(&'a str),
    NetworkAdapters,
    NetworkAdapter(&'a str),
    Ports(&'a str),
    /// A port of an adapter.
    Port(&'a str, &'a str),
    Managers,
    Manager,
    ManagerReset,
    LogServices,
    Log,
    Entries,
    Entry(&'a str),
    ClearLog,
    UpdateService,
    Images,
    Image(&'static str),
    TaskService,
    Tasks,
    /// The only task: the update of firmware.
    Task,
    Jobs,
    /// The only job: the update of firmware.
    Job,
    SessionService,
    Sessions,
    SessionMembers,
    Session(&'a str),
    AccountService,
    Accounts,
    Account(&'a str),
    Roles,
    Role(&'a str),
    /// A document of a recorded service.
    Recorded(&'a str),
}

/// Parses a path without a trailing slash, of a recorded service. Sessions and accounts are the simulator's.
pub(super) fn find_recorded<'a>(
    recording: &Recording,
    profile: &Profile,
    path: &'a str,
) -> Option<ResourcePath<'a>> {
    if recording.is_reset(path) {
        return Some(ResourcePath::Reset);
    }
    let found = find(profile, path).filter(|found| found.is_of_the_simulator());
    found.or_else(|| recording.has(path).then_some(ResourcePath::Recorded(path)))
}

/// Parses a path without a trailing slash.
pub(super) fn find<'a>(profile: &Profile, path: &'a str) -> Option<ResourcePath<'a>> {
    if path == "/redfish" {
        return Some(ResourcePath::Versions);
    }
    let rest = path.strip_prefix("/redfish/v1")?;
    let segments: Vec<_> = rest.split('/').skip(1).collect();
    match segments.as_slice() {
        [] => rest.is_empty().then_some(ResourcePath::Root),
        ["odata"] => Some(ResourcePath::Odata),
        ["$metadata"] => Some(ResourcePath::Metadata),
        ["Systems"] => Some(ResourcePath::Systems),
        ["Systems", id, rest @ ..] => system(profile, id, rest),
        ["Chassis"] => Some(ResourcePath::AllChassis),
        ["Chassis", id, rest @ ..] if *id == profile.chassis_id => chassis(profile, rest),
        ["Managers"] => Some(ResourcePath::Managers),
        ["Managers", id, rest @ ..] if *id == profile.manager_id => manager(profile, rest),
        ["UpdateService"] if profile.updates.is_some() => Some(ResourcePath::UpdateService),
        ["UpdateService", "FirmwareInventory", rest @ ..]
            if profile.updates == Some(UpdatePlace::Image) =>
        {
            images(rest)
        }
        ["TaskService", rest @ ..] if profile.updates.is_some() => tasks(rest),
        ["SessionService", rest @ ..] => sessions(rest),
        ["AccountService", rest @ ..] => accounts(rest),
        _ => None,
    }
}

fn system<'a>(profile: &Profile, id: &str, rest: &[&'a str]) -> Option<ResourcePath<'a>> {
    if profile.board_member.as_deref() == Some(id) {
        return rest.is_empty().then_some(ResourcePath::Board);
    }
    if id != profile.system_id {
        return None;
    }
    let info = matches!(profile.allowable, Allowable::ActionInfo | Allowable::Both);
    match rest {
        [] => Some(ResourcePath::System),
        [settings] if profile.boot.settings.as_deref() == Some(*settings) => {
            Some(ResourcePath::BootSettings)
        }
        ["ResetActionInfo"] if info => Some(ResourcePath::ResetInfo),
        ["Actions", "ComputerSystem.Reset"] => Some(ResourcePath::Reset),
        ["LogServices", rest @ ..] if !profile.log.of_manager => log(profile, rest),
        _ => None,
    }
}

fn chassis<'a>(profile: &Profile, rest: &[&'a str]) -> Option<ResourcePath<'a>> {
    let old = profile.telemetry != Telemetry::New;
    let new = profile.telemetry != Telemetry::Old;
    match rest {
        [] => Some(ResourcePath::Chassis),
        ["Power"] if old => Some(ResourcePath::Power),
        ["Thermal"] if old => Some(ResourcePath::Thermal),
        ["EnvironmentMetrics"] if new => Some(ResourcePath::EnvironmentMetrics),
        ["Sensors"] if new => Some(ResourcePath::Sensors),
        ["Sensors", id] if new => Some(ResourcePath::Sensor(id)),
        ["NetworkAdapters"] => Some(ResourcePath::NetworkAdapters),
        ["NetworkAdapters", id] => Some(ResourcePath::NetworkAdapter(id)),
        ["NetworkAdapters", id, "Ports"] => Some(ResourcePath::Ports(id)),
        ["NetworkAdapters", id, "Ports", port] => Some(ResourcePath::Port(id, port)),
        _ => None,
    }
}

fn manager<'a>(profile: &Profile, rest: &[&'a str]) -> Option<ResourcePath<'a>> {
    match rest {
        [] => Some(ResourcePath::Manager),
        ["Actions", "Manager.Reset"] => Some(ResourcePath::ManagerReset),
        ["Oem", "Dell", "Jobs", rest @ ..] if profile.updates == Some(UpdatePlace::Jobs) => {
            match rest {
                [] => Some(ResourcePath::Jobs),
                [JOB] => Some(ResourcePath::Job),
                _ => None,
            }
        }
        ["LogServices", rest @ ..] if profile.log.of_manager => log(profile, rest),
        _ => None,
    }
}

fn log<'a>(profile: &Profile, rest: &[&'a str]) -> Option<ResourcePath<'a>> {
    let (id, rest) = match rest {
        [] => return Some(ResourcePath::LogServices),
        [id, rest @ ..] => (id, rest),
    };
    if *id != profile.log.id {
        return None;
    }
    match rest {
        [] => Some(ResourcePath::Log),
        ["Entries"] => Some(ResourcePath::Entries),
        ["Entries", id] => Some(ResourcePath::Entry(id)),
        ["Actions", "LogService.ClearLog"] => Some(ResourcePath::ClearLog),
        _ => None,
    }
}

fn images<'a>(rest: &[&'a str]) -> Option<ResourcePath<'a>> {
    match rest {
        [] => Some(ResourcePath::Images),
        [id] => {
            let known = IMAGES.iter().find(|known| *known == id)?;
            Some(ResourcePath::Image(known))
        }
        _ => None,
    }
}

fn tasks<'a>(rest: &[&'a str]) -> Option<ResourcePath<'a>> {
    match rest {
        [] => Some(ResourcePath::TaskService),
        ["Tasks"] => Some(ResourcePath::Tasks),
        ["Tasks", TASK] => Some(ResourcePath::Task),
        _ => None,
    }
}

fn sessions<'a>(rest: &[&'a str]) -> Option<ResourcePath<'a>> {
    match rest {
        [] => Some(ResourcePath::SessionService),
        ["Sessions"] => Some(ResourcePath::Sessions),
        ["Sessions", "Members"] => Some(ResourcePath::SessionMembers),
        ["Sessions", id] => Some(ResourcePath::Session(id)),
        _ => None,
    }
}

fn accounts<'a>(rest: &[&'a str]) -> Option<ResourcePath<'a>> {
    match rest {
        [] => Some(ResourcePath::AccountService),
        ["Accounts"] => Some(ResourcePath::Accounts),
        ["Accounts", id] => Some(ResourcePath::Account(id)),
        ["Roles"] => Some(ResourcePath::Roles),
        ["Roles", id] => Some(ResourcePath::Role(id)),
        _ => None,
    }
}

impl ResourcePath<'_> {
    /// The value of `Allow`.
    pub(super) fn allow(self) -> &'static str {
        match self {
            Self::Reset | Self::ManagerReset | Self::ClearLog | Self::SessionMembers => "POST",
            Self::Sessions | Self::Accounts => "GET, HEAD, POST",
            Self::System | Self::BootSettings => "GET, HEAD, PATCH",
            Self::Account(_) => "GET, HEAD, PATCH, DELETE",
            Self::Session(_) => "GET, HEAD, DELETE",
            _ => "GET, HEAD",
        }
    }

    /// Whether it is readable without authentication.
    pub(super) fn is_open(self) -> bool {
        match self {
            Self::Versions | Self::Root | Self::Odata | Self::Metadata => true,
            Self::Recorded(path) => path == recording::ROOT,
            _ => false,
        }
    }

    /// Whether the simulator answers it instead of a recording.
    fn is_of_the_simulator(self) -> bool {
        matches!(
            self,
            Self::Versions
                | Self::Odata
                | Self::Metadata
                | Self::SessionService
                | Self::Sessions
                | Self::SessionMembers
                | Self::Session(_)
                | Self::AccountService
                | Self::Accounts
                | Self::Account(_)
                | Self::Roles
                | Self::Role(_)
        )
    }

    /// Whether POST there opens a session.
    pub(super) fn opens_sessions(self) -> bool {
        matches!(self, Self::Sessions | Self::SessionMembers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rack::redfish::Vendor;

    #[test]
    fn profile_resolves_only_its_own_paths() {
        let generic = Profile::default();
        let dgx = Profile::of(Vendor::DgxH100);
        let cases = [
            (&generic, "/redfish", Some(ResourcePath::Versions)),
            (&generic, "/redfish/v1", Some(ResourcePath::Root)),
            (&generic, "/redfish/v12", None),
            (
                &generic,
                "/redfish/v1/Systems/1",
                Some(ResourcePath::System),
            ),
            (&generic, "/redfish/v1/Systems/2", None),
            (&generic, "/redfish/v1/Systems/1/ResetActionInfo", None),
            (
                &dgx,
                "/redfish/v1/Systems/HGX_Baseboard_0",
                Some(ResourcePath::Board),
            ),
            (
                &dgx,
                "/redfish/v1/Systems/DGX/SD",
                Some(ResourcePath::BootSettings),
            ),
            (&dgx, "/redfish/v1/Systems/DGX/LogServices", None),
            (
                &dgx,
                "/redfish/v1/Managers/BMC/LogServices/SEL/Entries/7",
                Some(ResourcePath::Entry("7")),
            ),
            (&dgx, "/", None),
            (&dgx, "", None),
        ];
        for (profile, path, expected) in cases {
            assert_eq!(find(profile, path), expected, "{path}");
        }
    }
}
