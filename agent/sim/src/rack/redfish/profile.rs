//! Differences between BMC products that matter to power control.
//!
//! Owns: the vocabulary; the facts are in `vendor_profiles.rs`.

use std::time::Duration;

use serde_json::Value;

use crate::rack::power::ResetType;

/// Location of the list of reset types.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowable {
    /// In the action itself.
    Inline,
    /// In a resource that the action links to.
    ActionInfo,
    Both,
    Nowhere,
}

/// The response to a command for the current state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Already {
    /// Success, as if it had been executed (Lenovo XCC).
    NoContent,
    /// 400 `InvalidOperationForSystemState`.
    BadRequest,
    /// 409.
    Conflict,
    /// 500 (Dell PowerEdge R7525).
    ServerError,
}

/// The response to an accepted command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// 204 without a body.
    NoContent,
    /// 200 with an error object whose message is `Success`.
    OkMessage,
    /// 202 without a task.
    AcceptedBare,
}

/// The ETags that resources have. Accounts always have one: DSP0266 requires it there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagKind {
    None,
    /// `W/"..."`.
    Weak,
    /// `"..."`.
    Strong,
}

/// Meaning of `If-Match` on a change of a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfMatch {
    /// As in RFC 9110: optional; `*` matches.
    Optional,
    /// Optional; `*` does not match.
    NoStar,
    /// Required, and only `*` matches, not even the resource's own ETag (AMI).
    StarOnly,
}

/// Meaning of `If-Match` on an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActionMatch {
    /// Not looked at.
    Ignored,
    /// Rejected with 412 (iDRAC10).
    Refused,
    /// Required: without it the answer is 428.
    Required,
}

/// The property of the identify LED.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LedProperty {
    /// `IndicatorLED`, `Off` at rest.
    Indicator,
    /// `IndicatorLED`, `Lit` at rest and `Blinking` to identify.
    IndicatorLitAtRest,
    /// `LocationIndicatorActive`.
    Location,
}

/// Properties of the boot override.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootFacts {
    /// The settings resource below the System that must be written instead of the System itself.
    pub settings: Option<String>,
    /// Allowable values of `BootSourceOverrideTarget`.
    pub targets: Vec<String>,
    /// Whether it is rejected in POST (400 `UnableToModifyDuringSystemPOST`).
    pub refused_in_post: bool,
}

impl Default for BootFacts {
    fn default() -> Self {
        Self {
            settings: None,
            targets: ["None", "Pxe", "Hdd", "Cd", "Usb", "BiosSetup"]
                .map(str::to_owned)
                .to_vec(),
            refused_in_post: false,
        }
    }
}

/// How a System reports POST.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostReport {
    /// The product does not report it.
    Nowhere,
    /// `BootProgress.LastState`.
    BootProgress,
    /// `Oem.Hpe.PostState`.
    HpePostState,
}

/// Resources with power and temperature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Telemetry {
    /// `Power` and `Thermal`, deprecated since 2020.4.
    Old,
    /// `EnvironmentMetrics` and `Sensors`.
    New,
    Both,
}

/// Location of the event log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogPlace {
    /// Whether it is below the Manager instead of the System.
    pub of_manager: bool,
    /// `Id` of the LogService.
    pub id: String,
}

/// A temporary rejection of all requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// HTTP status.
    pub status: u16,
    /// Message id; one without a dot is of the base registry.
    pub message_id: String,
    /// Text of the message.
    pub text: String,
    /// Seconds of `Retry-After`.
    pub retry_after: Option<u32>,
}

/// Externally visible behaviour of a BMC reset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestartFacts {
    /// Time for which the port is closed.
    pub refuses: Duration,
    /// Time after that for which everything but the service root gets `refusal`.
    pub not_ready: Duration,
    pub refusal: Refusal,
    /// Whether sessions and their tokens outlive it (OpenBMC).
    pub keeps_sessions: bool,
    /// Time after the reset for which the BMC assumes off, whatever the real state; `None`: it reads the true
    /// state.
    pub forgets_power: Option<Duration>,
}

/// Where a BMC reports an update of firmware.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdatePlace {
    /// As a task of the `TaskService`, with the request and the messages of the standard.
    Task,
    /// In the queue of jobs of an iDRAC.
    Jobs,
    /// As the state of iLO's `UpdateService`.
    Service,
    /// As the state of an image in the inventory of firmware: an update of OpenBMC that was not begun over Redfish, and
    /// so is no task.
    Image,
}

/// Behaviour of one BMC product.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// `Vendor` of the service and `Manufacturer` of the System.
    pub manufacturer: String,
    /// `Product` of the service, and `Model` of the Manager.
    pub product: String,
    /// `Model` of the System.
    pub model: String,
    /// `Id` of the System.
    pub system_id: String,
    /// `Id` of the Manager.
    pub manager_id: String,
    /// `Id` of the Chassis.
    pub chassis_id: String,
    /// Whether the Chassis reports a power state, which is that of the System.
    pub chassis_power: bool,
    /// Reset types of `ComputerSystem.Reset`.
    pub reset_types: Vec<ResetType>,
    /// Location of their list.
    pub allowable: Allowable,
    /// The response to a command for the state that the BMC already assumes.
    pub already: Already,
    /// Delay of the reported power state.
    pub state_lag: Duration,
    /// The response to an accepted command.
    pub accepted: Accepted,
    /// Time after power-off for which `On` is rejected (409 `ActionParameterValueConflict`).
    pub settles_after_off: Duration,
    /// Reset types of `Manager.Reset`.
    pub manager_reset_types: Vec<ResetType>,
    /// Behaviour of a BMC reset.
    pub restart: RestartFacts,
    /// Whether the Manager reports `LastResetTime`.
    pub last_reset_time: bool,
    /// Scheme, host and port in `Location` of a new session, which are not those of the BMC; `None`: only
    /// the path.
    pub session_origin: Option<String>,
    /// Status of a redirection of logins to the same path with a slash; `None`: they are answered.
    pub redirects_logins: Option<u16>,
    /// Kind of its ETags.
    pub tags: TagKind,
    /// Interpretation of `If-Match` on changes.
    pub if_match: IfMatch,
    /// Interpretation of `If-Match` on actions.
    pub if_match_on_actions: ActionMatch,
    /// Property of the identify LED.
    pub led: LedProperty,
    /// Properties of the boot override.
    pub boot: BootFacts,
    /// How POST is reported.
    pub post: PostReport,
    /// Resources with power and temperature.
    pub telemetry: Telemetry,
    /// Location of the event log.
    pub log: LogPlace,
    /// Maximum number of sessions.
    pub session_limit: usize,
    /// Idle timeout of a session.
    pub session_idle: Duration,
    /// The rejection of a session when the table is full.
    pub session_full: Refusal,
    /// Another member of Systems before the real one, which cannot be reset (a GPU board) and
    /// responds with 503 while the host is off.
    pub board_member: Option<String>,
    /// `error.code` of every error; `None` repeats the id of the message.
    pub error_code: Option<String>,
    /// Where an update of firmware is reported; `None`: nowhere, and there is no service for it.
    pub updates: Option<UpdatePlace>,
    /// Merged into the service root (RFC 7386).
    pub root: Value,
}

impl Default for Profile {
    fn default() -> Self {
        Self {
            manufacturer: "Rackhand".to_owned(),
            product: "Simulated BMC".to_owned(),
            model: "Simulated Server".to_owned(),
            system_id: "1".to_owned(),
            manager_id: "1".to_owned(),
            chassis_id: "1".to_owned(),
            chassis_power: true,
            reset_types: ResetType::ALL.to_vec(),
            allowable: Allowable::Inline,
            already: Already::NoContent,
            state_lag: Duration::ZERO,
            accepted: Accepted::NoContent,
            settles_after_off: Duration::ZERO,
            manager_reset_types: vec![ResetType::GracefulRestart, ResetType::ForceRestart],
            restart: RestartFacts {
                refuses: Duration::from_secs(2),
                not_ready: Duration::from_secs(1),
                refusal: Refusal {
                    status: 503,
                    message_id: "ServiceTemporarilyUnavailable".to_owned(),
                    text: "The service is temporarily unavailable. Retry in 1 seconds.".to_owned(),
                    retry_after: Some(1),
                },
                keeps_sessions: false,
                forgets_power: None,
            },
            last_reset_time: true,
            session_origin: None,
            redirects_logins: None,
            tags: TagKind::Strong,
            if_match: IfMatch::Optional,
            if_match_on_actions: ActionMatch::Ignored,
            led: LedProperty::Location,
            boot: BootFacts::default(),
            post: PostReport::BootProgress,
            telemetry: Telemetry::Both,
            log: LogPlace {
                of_manager: false,
                id: "Log".to_owned(),
            },
            session_limit: 8,
            session_idle: Duration::from_secs(300),
            session_full: Refusal {
                status: 503,
                message_id: "SessionLimitExceeded".to_owned(),
                text: "The session establishment failed due to the number of simultaneous \
                       sessions exceeding the limit of the implementation."
                    .to_owned(),
                retry_after: None,
            },
            board_member: None,
            error_code: None,
            updates: None,
            root: Value::Null,
        }
    }
}
