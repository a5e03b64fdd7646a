//! In what makes of BMC differ, as far as power control is concerned.
//!
//! Owns the vocabulary; the facts are in `vendor_profiles.rs`.

use std::time::Duration;

use serde_json::Value;

use crate::rack::power::ResetType;

/// Where the list of reset types is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allowable {
    /// In the action itself.
    Inline,
    /// In a resource that the action points to.
    ActionInfo,
    Both,
    Nowhere,
}

/// The answer to a command that asks for what is so already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Already {
    /// As if it had been done.
    NoContent,
    /// 400 `InvalidOperationForSystemState`.
    BadRequest,
    /// 409.
    Conflict,
}

/// The answer to a command that is taken.
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

/// What `If-Match` means when a resource is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfMatch {
    /// What RFC 9110 says: it need not be there; `*` matches.
    Optional,
    /// It need not be there; `*` does not match.
    NoStar,
    /// It must be there, and only `*` matches, not even the resource's own ETag (AMI).
    StarOnly,
}

/// The property of the identify LED.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LightProperty {
    /// `IndicatorLED`, `Off` at rest.
    Indicator,
    /// `IndicatorLED`, `Lit` at rest and `Blinking` to identify.
    IndicatorLitAtRest,
    /// `LocationIndicatorActive`.
    Location,
}

/// How the boot source is overridden.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BootFacts {
    /// The settings resource below the System that must be changed instead of the System itself.
    pub settings: Option<String>,
    /// What `BootSourceOverrideTarget` takes.
    pub targets: Vec<String>,
    /// Whether it is refused in POST (400 `UnableToModifyDuringSystemPOST`).
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
    /// It does not.
    Nowhere,
    /// `BootProgress.LastState`.
    BootProgress,
    /// `Oem.Hpe.PostState`.
    HpePostState,
}

/// Which resources tell of power and temperature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Telemetry {
    /// `Power` and `Thermal`, deprecated since 2020.4.
    Old,
    /// `EnvironmentMetrics` and `Sensors`.
    New,
    Both,
}

/// Where the event log is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogPlace {
    /// Below the Manager, not the System.
    pub of_manager: bool,
    /// `Id` of the LogService.
    pub id: String,
}

/// A temporary refusal of all requests.
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

/// What a restart of the BMC looks like from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestartFacts {
    /// How long it refuses connections.
    pub refuses: Duration,
    /// How long after that it answers `refusal` to everything but the service root.
    pub not_ready: Duration,
    pub refusal: Refusal,
}

/// One make of BMC.
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
    /// Whether the Chassis reports the power, which is that of the System.
    pub chassis_power: bool,
    /// What `ComputerSystem.Reset` takes.
    pub reset_types: Vec<ResetType>,
    /// Where they are listed.
    pub allowable: Allowable,
    /// The answer when it is so already.
    pub already: Already,
    /// The answer when it is taken.
    pub accepted: Accepted,
    /// How long after the power went off `On` is refused (409 `ActionParameterValueConflict`).
    pub settles_after_off: Duration,
    /// What `Manager.Reset` takes.
    pub manager_reset_types: Vec<ResetType>,
    /// What a restart of the BMC looks like.
    pub restart: RestartFacts,
    /// The ETags it gives.
    pub tags: TagKind,
    /// What `If-Match` means to it when a resource is changed.
    pub if_match: IfMatch,
    /// Whether `If-Match` on an action is refused with 412.
    pub refuses_if_match_on_actions: bool,
    /// The light that identifies the system.
    pub light: LightProperty,
    /// How the boot source is overridden.
    pub boot: BootFacts,
    /// How POST is reported.
    pub post: PostReport,
    /// Which resources tell of power and temperature.
    pub telemetry: Telemetry,
    /// Where the event log is.
    pub log: LogPlace,
    /// How many sessions there is room for.
    pub session_limit: usize,
    /// How long an idle session lives.
    pub session_idle: Duration,
    /// The refusal of another session.
    pub session_full: Refusal,
    /// Another member of Systems before the real one, which cannot be reset (a GPU board) and
    /// answers 503 while the host is off.
    pub board_member: Option<String>,
    /// `error.code` of every error; none repeats the id of the message.
    pub error_code: Option<String>,
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
            },
            tags: TagKind::Strong,
            if_match: IfMatch::Optional,
            refuses_if_match_on_actions: false,
            light: LightProperty::Location,
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
            root: Value::Null,
        }
    }
}
