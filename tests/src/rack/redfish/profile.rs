//! How makes of BMC differ, as far as power control sees it.
//!
//! Owns facts, not code: what a profile says, the routes do.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::rack::power::ResetType;

/// Where the list of reset types is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Allowable {
    /// In the action itself.
    Inline,
    /// In a resource that the action points to.
    ActionInfo,
    /// In both.
    Both,
    /// Nowhere.
    Nowhere,
}

/// The answer to a command that asks for what is so already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Already {
    /// 204, as if it had been done.
    NoContent,
    /// 400 `InvalidOperationForSystemState`.
    BadRequest,
    /// 409.
    Conflict,
}

/// The answer to a command that is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Accepted {
    /// 204 without a body.
    NoContent,
    /// 200 with a message that says success in the shape of an error.
    OkMessage,
    /// 202 without a task to look at.
    AcceptedBare,
}

/// One make of BMC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Profile {
    /// `Manufacturer` of the System.
    pub manufacturer: String,
    /// `Model` of the System.
    pub model: String,
    /// `Id` of the System.
    pub system_id: String,
    /// `Id` of the Manager.
    pub manager_id: String,
    /// `Id` of the Chassis.
    pub chassis_id: String,
    /// What Reset takes.
    pub reset_types: Vec<ResetType>,
    /// Where that is said.
    pub allowable: Allowable,
    /// The answer when it is so already.
    pub already: Already,
    /// The answer when it is taken.
    pub accepted: Accepted,
    /// Whether basic authentication works.
    pub basic_auth: bool,
    /// Whether there are sessions.
    pub sessions: bool,
    /// How many sessions there is room for.
    pub session_limit: usize,
    /// How long an idle session lives.
    #[serde(with = "crate::rack::config::duration")]
    pub session_idle: Duration,
    /// Another member of Systems before the real one, which cannot be reset (a GPU board).
    pub board_member: Option<String>,
    /// Whether a connection serves more than one request.
    pub keep_alive: bool,
}

impl Default for Profile {
    fn default() -> Self {
        Self {
            manufacturer: "Rackhand".to_owned(),
            model: "Simulated Server".to_owned(),
            system_id: "1".to_owned(),
            manager_id: "1".to_owned(),
            chassis_id: "1".to_owned(),
            reset_types: ResetType::ALL.to_vec(),
            allowable: Allowable::Inline,
            already: Already::NoContent,
            accepted: Accepted::NoContent,
            basic_auth: true,
            sessions: true,
            session_limit: 8,
            session_idle: Duration::from_secs(300),
            board_member: None,
            keep_alive: true,
        }
    }
}

/// Makes that have a profile of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Vendor {
    /// The default.
    Generic,
    /// iDRAC.
    Dell,
    /// iLO.
    Hpe,
    /// XCC.
    Lenovo,
    /// Supermicro.
    Supermicro,
    /// An AMI BMC with a GPU board beside the host.
    Dgx,
}

impl Profile {
    /// The profile of a make.
    pub fn of(vendor: Vendor) -> Self {
        use ResetType as R;
        let base = Self::default();
        match vendor {
            Vendor::Generic => base,
            Vendor::Dell => Self {
                manufacturer: "Dell Inc.".to_owned(),
                model: "PowerEdge R750".to_owned(),
                system_id: "System.Embedded.1".to_owned(),
                manager_id: "iDRAC.Embedded.1".to_owned(),
                chassis_id: "System.Embedded.1".to_owned(),
                reset_types: vec![
                    R::On,
                    R::ForceOff,
                    R::ForceRestart,
                    R::GracefulRestart,
                    R::GracefulShutdown,
                    R::PushPowerButton,
                    R::Nmi,
                    R::PowerCycle,
                ],
                already: Already::Conflict,
                ..base
            },
            Vendor::Hpe => Self {
                manufacturer: "HPE".to_owned(),
                model: "ProLiant DL385 Gen10 Plus v2".to_owned(),
                reset_types: vec![
                    R::On,
                    R::ForceOff,
                    R::GracefulShutdown,
                    R::ForceRestart,
                    R::Nmi,
                    R::PushPowerButton,
                    R::GracefulRestart,
                ],
                already: Already::BadRequest,
                accepted: Accepted::OkMessage,
                ..base
            },
            Vendor::Lenovo => Self {
                manufacturer: "Lenovo".to_owned(),
                model: "ThinkSystem SR670 V2".to_owned(),
                reset_types: vec![
                    R::On,
                    R::Nmi,
                    R::GracefulShutdown,
                    R::GracefulRestart,
                    R::ForceOn,
                    R::ForceOff,
                    R::ForceRestart,
                ],
                allowable: Allowable::Both,
                already: Already::NoContent,
                ..base
            },
            Vendor::Supermicro => Self {
                manufacturer: "Supermicro".to_owned(),
                model: "SYS-821GE-TNHR".to_owned(),
                reset_types: vec![
                    R::On,
                    R::ForceOff,
                    R::GracefulShutdown,
                    R::GracefulRestart,
                    R::ForceRestart,
                    R::Nmi,
                    R::ForceOn,
                ],
                allowable: Allowable::ActionInfo,
                accepted: Accepted::AcceptedBare,
                ..base
            },
            Vendor::Dgx => Self {
                manufacturer: "NVIDIA".to_owned(),
                model: "DGXH100".to_owned(),
                system_id: "DGX".to_owned(),
                board_member: Some("HGX_Baseboard_0".to_owned()),
                allowable: Allowable::ActionInfo,
                ..base
            },
        }
    }
}
