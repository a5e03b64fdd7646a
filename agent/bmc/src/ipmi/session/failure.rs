//! Failures of exchanges, and their messages.

use std::time::Duration;

use super::{
    Level, Settings,
    handshake::{Refusal, Stage},
};
use crate::{
    ErrorKind,
    ipmi::wire::{CompletionCode, RakpStatus},
};

/// The failure of an exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::ipmi) struct Failure {
    pub(in crate::ipmi) kind: ErrorKind,
    pub(in crate::ipmi) message: String,
    pub(in crate::ipmi) retry_after: Option<Duration>,
    /// Whether the request may have been executed nevertheless.
    pub(in crate::ipmi) maybe_sent: bool,
}

/// Pause for a BMC without a free session; BMCs end idle sessions after a minute.
const NO_SESSION_WAIT: Duration = Duration::from_secs(30);

impl Failure {
    pub(in crate::ipmi) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            retry_after: None,
            maybe_sent: false,
        }
    }

    pub(super) fn of_refusal(refusal: Refusal, settings: &Settings, level: Level) -> Self {
        let user = &settings.user;
        match refusal {
            Refusal::Password => Self::new(
                ErrorKind::Authentication,
                format!(
                    "wrong password for user {user:?} (RAKP message 2); correct it, or the BMC's"
                ),
            ),
            Refusal::Key => Self::new(
                ErrorKind::Authentication,
                if settings.kg.is_empty() {
                    "the password is right, but the BMC signs with another key (RAKP message 4); it \
                     may have a K_g: give it"
                } else {
                    "the password is right, but the BMC signs with another key (RAKP message 4); \
                     correct K_g"
                },
            ),
            Refusal::Disabled => Self::new(
                ErrorKind::Authentication,
                format!(
                    "user {user:?} refused (status 0x{:02x} without a tag), which OpenBMC sends for a disabled \
                     user: enable the user, and IPMI over LAN for it",
                    RakpStatus::INVALID_ROLE.number()
                ),
            ),
            Refusal::OtherSuite => Self::new(
                ErrorKind::Unsupported,
                "the BMC insists on another cipher suite than the ones allowed; allow suite 17 or 3 \
                 on its LAN channel",
            ),
            // ipmi_sim returns this status for an unknown user.
            Refusal::Status(Stage::Rakp1, RakpStatus::ILLEGAL_PARAMETER) => Self::new(
                ErrorKind::Authentication,
                format!(
                    "user {user:?} refused ({}); check the user name, and that IPMI over LAN at \
                     {} is allowed to it",
                    RakpStatus::ILLEGAL_PARAMETER,
                    level.word()
                ),
            ),
            Refusal::Status(stage, status) => {
                let kind = status.kind();
                let who = match kind {
                    ErrorKind::Authentication | ErrorKind::Privilege => {
                        format!(" of user {user:?} at {}", level.word())
                    }
                    _ => String::new(),
                };
                let retry_after = (kind == ErrorKind::Busy).then_some(NO_SESSION_WAIT);
                let message = format!("{}{who} refused: {status}", stage.word());
                Self {
                    retry_after,
                    ..Self::new(kind, message)
                }
            }
        }
    }

    /// The failure of Set Session Privilege Level (IPMI 2.0, table 22-24).
    pub(super) fn of_raise(code: CompletionCode, settings: &Settings, level: Level) -> Self {
        let why = match code.number() {
            0x80 => "not for this user".to_owned(),
            0x81 => "beyond the limit of the user or the channel".to_owned(),
            _ => code.to_string(),
        };
        let kind = match code.number() {
            0x80..=0x82 => ErrorKind::Privilege,
            _ => code.kind(),
        };
        let message = format!(
            "privilege {} refused to user {:?}: {why}; raise the user's limit on the BMC's LAN \
             channel",
            level.word(),
            settings.user
        );
        Self::new(kind, message)
    }
}

/// Name of a command, for messages.
pub(in crate::ipmi) fn name(net_fn: u8, command: u8) -> String {
    let name = match (net_fn, command) {
        (0x00, 0x01) => "Get Chassis Status",
        (0x00, 0x02) => "Chassis Control",
        (0x00, 0x04) => "Chassis Identify",
        (0x00, 0x08) => "Set System Boot Options",
        (0x00, 0x09) => "Get System Boot Options",
        (0x06, 0x01) => "Get Device ID",
        (0x06, 0x02) => "Cold Reset",
        (0x06, 0x3b) => "Set Session Privilege Level",
        (0x06, 0x3c) => "Close Session",
        (0x06, 0x44) => "Get User Access",
        (0x06, 0x46) => "Get User Name",
        (0x06, 0x47) => "Set User Password",
        (0x2c, 0x2e) => "Get Target Upgrade Capabilities",
        (0x2c, 0x34) => "Get Upgrade Status",
        _ => return format!("command 0x{command:02x} of function 0x{net_fn:02x}"),
    };
    name.to_owned()
}
