//! Status and completion codes, with advice for the common ones.

use std::fmt;

use crate::ErrorKind;

/// RMCP+ and RAKP status codes other than success (IPMI 2.0, table 13-15).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RakpStatus(u8);

impl RakpStatus {
    /// Insufficient resources to create a session.
    pub const NO_RESOURCES: Self = Self(0x01);
    /// Invalid session id.
    pub const INVALID_SESSION: Self = Self(0x02);
    /// Invalid payload type.
    pub const INVALID_PAYLOAD: Self = Self(0x03);
    /// Invalid authentication algorithm.
    pub const INVALID_AUTHENTICATION: Self = Self(0x04);
    /// Invalid integrity algorithm.
    pub const INVALID_INTEGRITY: Self = Self(0x05);
    /// No matching authentication payload.
    pub const NO_AUTHENTICATION: Self = Self(0x06);
    /// No matching integrity payload.
    pub const NO_INTEGRITY: Self = Self(0x07);
    /// Inactive session id.
    pub const INACTIVE_SESSION: Self = Self(0x08);
    /// Invalid role.
    pub const INVALID_ROLE: Self = Self(0x09);
    /// Unauthorized role or privilege level requested.
    pub const UNAUTHORIZED_ROLE: Self = Self(0x0a);
    /// Insufficient resources to create a session at the requested role.
    pub const NO_RESOURCES_FOR_ROLE: Self = Self(0x0b);
    /// Invalid name length.
    pub const INVALID_NAME_LENGTH: Self = Self(0x0c);
    /// Unauthorized name.
    pub const UNAUTHORIZED_NAME: Self = Self(0x0d);
    /// Unauthorized GUID.
    pub const UNAUTHORIZED_GUID: Self = Self(0x0e);
    /// Invalid integrity check value.
    pub const INVALID_CHECK_VALUE: Self = Self(0x0f);
    /// Invalid confidentiality algorithm.
    pub const INVALID_CONFIDENTIALITY: Self = Self(0x10);
    /// No cipher suite match with proposed security algorithms.
    pub const NO_CIPHER_SUITE: Self = Self(0x11);
    /// Illegal or unrecognized parameter.
    pub const ILLEGAL_PARAMETER: Self = Self(0x12);

    /// The status with this number; `None` for success.
    pub fn of(number: u8) -> Option<Self> {
        (number != 0).then_some(Self(number))
    }

    /// The number on the wire.
    pub fn number(self) -> u8 {
        self.0
    }

    /// Whether another cipher suite may be accepted.
    pub fn is_about_suite(self) -> bool {
        [
            Self::INVALID_AUTHENTICATION,
            Self::INVALID_INTEGRITY,
            Self::INVALID_CONFIDENTIALITY,
            Self::NO_CIPHER_SUITE,
        ]
        .contains(&self)
    }

    /// The error kind of the status.
    pub fn kind(self) -> ErrorKind {
        match self {
            Self::NO_RESOURCES | Self::NO_RESOURCES_FOR_ROLE => ErrorKind::Busy,
            Self::INVALID_ROLE | Self::UNAUTHORIZED_ROLE => ErrorKind::Privilege,
            Self::INVALID_NAME_LENGTH
            | Self::UNAUTHORIZED_NAME
            | Self::UNAUTHORIZED_GUID
            | Self::INVALID_CHECK_VALUE => ErrorKind::Authentication,
            status if status.is_about_suite() => ErrorKind::Unsupported,
            _ => ErrorKind::Protocol,
        }
    }

    fn text(self) -> (&'static str, &'static str) {
        match self.0 {
            0x01 => (
                "no room for another session",
                "close other clients' sessions or wait a minute for them to time out",
            ),
            0x02 => ("invalid session id", ""),
            0x03 => ("invalid payload type", ""),
            0x04 => (
                "invalid authentication algorithm",
                "allow another cipher suite",
            ),
            0x05 => ("invalid integrity algorithm", "allow another cipher suite"),
            0x06 => ("no matching authentication payload", ""),
            0x07 => ("no matching integrity payload", ""),
            0x08 => ("inactive session id", ""),
            0x09 => (
                "invalid role",
                "request a lower one with ?privilegelevel=OPERATOR in the BMC's address",
            ),
            0x0a => (
                "the user may not have this privilege",
                "raise the user's limit on the BMC's LAN channel, or ask for less with \
                 ?privilegelevel=OPERATOR in the BMC's address",
            ),
            0x0b => (
                "no room for another session at this privilege",
                "close other clients' sessions or wait a minute for them to time out",
            ),
            0x0c => (
                "invalid length of the user name",
                "at most 16 bytes are allowed",
            ),
            0x0d => (
                "no such user",
                "check the user name, and that IPMI over LAN is allowed to it",
            ),
            0x0e => ("unauthorized GUID", ""),
            0x0f => (
                "the integrity check value is wrong",
                "check password and K_g of the BMC",
            ),
            0x10 => (
                "invalid confidentiality algorithm",
                "allow another cipher suite",
            ),
            0x11 => (
                "no cipher suite in common",
                "allow suite 17 or 3 on the BMC's LAN channel; nothing weaker is used",
            ),
            0x12 => ("illegal or unrecognized parameter", ""),
            _ => ("a status that IPMI 2.0 does not define", ""),
        }
    }
}

impl fmt::Display for RakpStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, advice) = self.text();
        write!(f, "{what} (RMCP+ status 0x{:02x})", self.0)?;
        if advice.is_empty() {
            return Ok(());
        }
        write!(f, "; {advice}")
    }
}

/// A completion code other than success (IPMI 2.0, table 5-2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CompletionCode(u8);

impl CompletionCode {
    /// Node busy.
    pub const NODE_BUSY: Self = Self(0xc0);
    /// Invalid command.
    pub const INVALID_COMMAND: Self = Self(0xc1);
    /// Timeout while processing the command.
    pub const TIMEOUT: Self = Self(0xc3);
    /// Out of space.
    pub const OUT_OF_SPACE: Self = Self(0xc4);
    /// Reservation canceled or invalid.
    pub const RESERVATION: Self = Self(0xc5);
    /// Request data truncated.
    pub const TRUNCATED: Self = Self(0xc6);
    /// Request data length invalid.
    pub const LENGTH: Self = Self(0xc7);
    /// Parameter out of range.
    pub const OUT_OF_RANGE: Self = Self(0xc9);
    /// Cannot return that many bytes.
    pub const TOO_MANY_BYTES: Self = Self(0xca);
    /// Requested sensor, data or record not present.
    pub const NOT_PRESENT: Self = Self(0xcb);
    /// Invalid data field.
    pub const INVALID_FIELD: Self = Self(0xcc);
    /// Command response could not be provided: BMC in initialization.
    pub const INITIALIZING: Self = Self(0xd2);
    /// Insufficient privilege.
    pub const PRIVILEGE: Self = Self(0xd4);
    /// Not supported in present state.
    pub const STATE: Self = Self(0xd5);
    /// Sub-function disabled or unavailable.
    pub const DISABLED: Self = Self(0xd6);
    /// Unspecified.
    pub const UNSPECIFIED: Self = Self(0xff);

    /// The code with this number; `None` for success.
    pub fn of(number: u8) -> Option<Self> {
        (number != 0).then_some(Self(number))
    }

    /// The number on the wire.
    pub fn number(self) -> u8 {
        self.0
    }

    /// Whether the same request may succeed a little later.
    pub fn is_not_now(self) -> bool {
        [
            Self::NODE_BUSY,
            Self::TIMEOUT,
            Self::OUT_OF_SPACE,
            Self::INITIALIZING,
        ]
        .contains(&self)
            || matches!(self.0, 0xce | 0xd0 | 0xd1)
    }

    /// Whether the command may have been executed nevertheless: a BMC that times out internally, or
    /// reports an unspecified error.
    pub fn may_have_acted(self) -> bool {
        matches!(self.0, 0xc3 | 0xce | 0xff)
    }

    /// The error kind of the code.
    pub fn kind(self) -> ErrorKind {
        match self.0 {
            _ if self.is_not_now() => ErrorKind::Busy,
            0xc1 | 0xc2 | 0xd6 => ErrorKind::Unsupported,
            0xd4 => ErrorKind::Privilege,
            0xc6..=0xc8 | 0xca => ErrorKind::Protocol,
            _ => ErrorKind::Refused,
        }
    }

    fn text(self) -> (&'static str, &'static str) {
        match self.0 {
            0xc0 => ("node busy", ""),
            0xc1 => ("the BMC does not support this command", ""),
            0xc2 => ("the BMC does not support this command for this unit", ""),
            0xc3 => ("timeout in the BMC while processing the command", ""),
            0xc4 => ("out of space", ""),
            0xc5 => ("reservation canceled", ""),
            0xc6 => ("request data truncated", ""),
            0xc7 => ("wrong length of the request", ""),
            0xc8 => ("the request is too long", ""),
            0xc9 => ("a parameter is out of range", ""),
            0xca => ("cannot return that many bytes", ""),
            0xcb => ("not present", ""),
            0xcc => ("an invalid field in the request", ""),
            0xcd => ("illegal for this sensor or record", ""),
            0xce => ("the response cannot be provided now", ""),
            0xcf => ("a duplicate request", ""),
            0xd0 => ("the SDR repository is being updated", ""),
            0xd1 => ("the BMC's firmware is being updated", ""),
            0xd2 => ("the BMC is starting", ""),
            0xd3 => ("the destination is unavailable", ""),
            0xd4 => (
                "the user may not do this",
                "power needs the privilege OPERATOR on the BMC's LAN channel",
            ),
            0xd5 => ("not in the present state", ""),
            0xd6 => ("disabled", "the BMC is configured not to allow it"),
            0xff => ("unspecified error", ""),
            0x01..=0x7e => ("vendor-specific code", ""),
            0x80..=0xbe => ("command-specific code", ""),
            _ => ("a reserved code", ""),
        }
    }
}

impl fmt::Display for CompletionCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, advice) = self.text();
        write!(f, "{what} (completion code 0x{:02x})", self.0)?;
        if advice.is_empty() {
            return Ok(());
        }
        write!(f, "; {advice}")
    }
}
