//! The paths of the service.
//!
//! Pure. Owns which paths there are for a make of BMC, and which methods each takes. What is there
//! is the business of `documents`.

use super::profile::{Allowable, Profile, Telemetry};

/// Where sessions are opened: the one place to POST to without a credential.
pub(super) const SESSIONS: &str = "/redfish/v1/SessionService/Sessions";

/// A path that the service knows. Members that come and go are named, not looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place<'a> {
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
    PowerSubsystem,
    PowerSupplies,
    PowerSupply,
    ThermalSubsystem,
    ThermalMetrics,
    Fans,
    Fan,
    EnvironmentMetrics,
    Sensors,
    Sensor(&'a str),
    Managers,
    Manager,
    ManagerReset,
    LogServices,
    Log,
    Entries,
    Entry(&'a str),
    ClearLog,
    SessionService,
    Sessions,
    SessionMembers,
    Session(&'a str),
    AccountService,
    Accounts,
    Account(&'a str),
    Roles,
    Role(&'a str),
    TaskService,
    Tasks,
    Task(&'a str),
    TaskMonitor(&'a str),
}

/// The place of a path without a slash at its end.
pub(super) fn find<'a>(profile: &Profile, path: &'a str) -> Option<Place<'a>> {
    if path == "/redfish" {
        return Some(Place::Versions);
    }
    let rest = path.strip_prefix("/redfish/v1")?;
    let segments: Vec<_> = rest.split('/').skip(1).collect();
    match segments.as_slice() {
        [] => rest.is_empty().then_some(Place::Root),
        ["odata"] => Some(Place::Odata),
        ["$metadata"] => Some(Place::Metadata),
        ["Systems"] => Some(Place::Systems),
        ["Systems", id, rest @ ..] => system(profile, id, rest),
        ["Chassis"] => Some(Place::AllChassis),
        ["Chassis", id, rest @ ..] if *id == profile.chassis_id => chassis(profile, rest),
        ["Managers"] => Some(Place::Managers),
        ["Managers", id, rest @ ..] if *id == profile.manager_id => manager(profile, rest),
        ["SessionService", rest @ ..] if profile.sessions => sessions(rest),
        ["AccountService", rest @ ..] => accounts(rest),
        ["TaskService", rest @ ..] => tasks(rest),
        _ => None,
    }
}

fn system<'a>(profile: &Profile, id: &str, rest: &[&'a str]) -> Option<Place<'a>> {
    if profile.board_member.as_deref() == Some(id) {
        return rest.is_empty().then_some(Place::Board);
    }
    if id != profile.system_id {
        return None;
    }
    let info = matches!(profile.allowable, Allowable::ActionInfo | Allowable::Both);
    match rest {
        [] => Some(Place::System),
        [settings] if profile.boot.settings.as_deref() == Some(*settings) => {
            Some(Place::BootSettings)
        }
        ["ResetActionInfo"] if info => Some(Place::ResetInfo),
        ["Actions", "ComputerSystem.Reset"] => Some(Place::Reset),
        ["LogServices", rest @ ..] if !profile.log.of_manager => log(profile, rest),
        _ => None,
    }
}

fn chassis<'a>(profile: &Profile, rest: &[&'a str]) -> Option<Place<'a>> {
    let old = profile.telemetry != Telemetry::New;
    let new = profile.telemetry != Telemetry::Old;
    match rest {
        [] => Some(Place::Chassis),
        ["Power"] if old => Some(Place::Power),
        ["Thermal"] if old => Some(Place::Thermal),
        ["PowerSubsystem"] if new => Some(Place::PowerSubsystem),
        ["PowerSubsystem", "PowerSupplies"] if new => Some(Place::PowerSupplies),
        ["PowerSubsystem", "PowerSupplies", "PSU1"] if new => Some(Place::PowerSupply),
        ["ThermalSubsystem"] if new => Some(Place::ThermalSubsystem),
        ["ThermalSubsystem", "ThermalMetrics"] if new => Some(Place::ThermalMetrics),
        ["ThermalSubsystem", "Fans"] if new => Some(Place::Fans),
        ["ThermalSubsystem", "Fans", "Fan1"] if new => Some(Place::Fan),
        ["EnvironmentMetrics"] if new => Some(Place::EnvironmentMetrics),
        ["Sensors"] if new => Some(Place::Sensors),
        ["Sensors", id] if new => Some(Place::Sensor(id)),
        _ => None,
    }
}

fn manager<'a>(profile: &Profile, rest: &[&'a str]) -> Option<Place<'a>> {
    match rest {
        [] => Some(Place::Manager),
        ["Actions", "Manager.Reset"] => Some(Place::ManagerReset),
        ["LogServices", rest @ ..] if profile.log.of_manager => log(profile, rest),
        _ => None,
    }
}

fn log<'a>(profile: &Profile, rest: &[&'a str]) -> Option<Place<'a>> {
    let (id, rest) = match rest {
        [] => return Some(Place::LogServices),
        [id, rest @ ..] => (id, rest),
    };
    if *id != profile.log.id {
        return None;
    }
    match rest {
        [] => Some(Place::Log),
        ["Entries"] => Some(Place::Entries),
        ["Entries", id] => Some(Place::Entry(id)),
        ["Actions", "LogService.ClearLog"] => Some(Place::ClearLog),
        _ => None,
    }
}

fn sessions<'a>(rest: &[&'a str]) -> Option<Place<'a>> {
    match rest {
        [] => Some(Place::SessionService),
        ["Sessions"] => Some(Place::Sessions),
        ["Sessions", "Members"] => Some(Place::SessionMembers),
        ["Sessions", id] => Some(Place::Session(id)),
        _ => None,
    }
}

fn accounts<'a>(rest: &[&'a str]) -> Option<Place<'a>> {
    match rest {
        [] => Some(Place::AccountService),
        ["Accounts"] => Some(Place::Accounts),
        ["Accounts", id] => Some(Place::Account(id)),
        ["Roles"] => Some(Place::Roles),
        ["Roles", id] => Some(Place::Role(id)),
        _ => None,
    }
}

fn tasks<'a>(rest: &[&'a str]) -> Option<Place<'a>> {
    match rest {
        [] => Some(Place::TaskService),
        ["Tasks"] => Some(Place::Tasks),
        ["Tasks", id] => Some(Place::Task(id)),
        ["TaskMonitors", id] => Some(Place::TaskMonitor(id)),
        _ => None,
    }
}

impl Place<'_> {
    /// What `Allow` says.
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

    /// Whether anybody may read it.
    pub(super) fn is_open(self) -> bool {
        matches!(
            self,
            Self::Versions | Self::Root | Self::Odata | Self::Metadata
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
    fn a_make_has_its_own_paths_and_no_others() {
        let generic = Profile::default();
        let dgx = Profile::of(Vendor::DgxH100);
        let cases = [
            (&generic, "/redfish", Some(Place::Versions)),
            (&generic, "/redfish/v1", Some(Place::Root)),
            (&generic, "/redfish/v12", None),
            (&generic, "/redfish/v1/Systems/1", Some(Place::System)),
            (&generic, "/redfish/v1/Systems/2", None),
            (&generic, "/redfish/v1/Systems/1/ResetActionInfo", None),
            (
                &dgx,
                "/redfish/v1/Systems/HGX_Baseboard_0",
                Some(Place::Board),
            ),
            (
                &dgx,
                "/redfish/v1/Systems/DGX/SD",
                Some(Place::BootSettings),
            ),
            (&dgx, "/redfish/v1/Systems/DGX/LogServices", None),
            (
                &dgx,
                "/redfish/v1/Managers/BMC/LogServices/SEL/Entries/7",
                Some(Place::Entry("7")),
            ),
            (&dgx, "/", None),
            (&dgx, "", None),
        ];
        for (profile, path, expected) in cases {
            assert_eq!(find(profile, path), expected, "{path}");
        }
    }
}
