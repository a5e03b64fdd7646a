//! Errors of SNMP exchanges, with advice.
//!
//! Owns: the kind of each error. Must never: include a community or a password, or classify silence as
//! anything but silence.

use async_snmp::{Error, ErrorStatus, v3::ReportStatus};

use crate::{BmcError, ErrorKind};

const SILENT: &str = "no response that can be trusted; check address, port, firewall, the hosts that the PDU admits, \
                      and the community or the user with its protocols and passwords, because an SNMP agent \
                      does not answer wrong ones, or not in an authenticated way";
const CREDENTIALS: &str =
    "the PDU refuses user, password or protocol of the SNMPv3 user; check all of them";
const PRIVILEGE: &str =
    "the PDU does not let this community or user write; check its access rights";

/// The error of an exchange. `is_command`: a request without a response may have been carried out.
pub(super) fn of(address: &str, doing: &str, error: &Error, is_command: bool) -> BmcError {
    let error = error.exchange_source();
    let (kind, why, is_lost) = match error {
        Error::Timeout { .. } => (ErrorKind::Timeout, SILENT.to_owned(), true),
        Error::ConstructionTimeout { .. } => (
            ErrorKind::Timeout,
            "name resolution took too long".to_owned(),
            false,
        ),
        Error::Network { source, .. } => {
            let why = format!("no connection ({source}); check address, port and firewall");
            (ErrorKind::Unreachable, why, true)
        }
        Error::Closed { .. } => (
            ErrorKind::Unreachable,
            "the socket was closed".to_owned(),
            true,
        ),
        Error::Auth { .. } => (ErrorKind::Authentication, CREDENTIALS.to_owned(), true),
        Error::Report { status, .. } => {
            let (kind, why) = of_report(status);
            (kind, format!("{why} ({status})"), false)
        }
        Error::Snmp { status, .. } => {
            let (kind, why) = of_status(*status);
            (kind, format!("{why} ({status})"), false)
        }
        Error::Config(why) => (ErrorKind::Configuration, why.to_string(), false),
        Error::Decode(_) | Error::MalformedResponse { .. } | Error::ResponseShape { .. } => {
            (ErrorKind::Protocol, "malformed response".to_owned(), true)
        }
        other => (ErrorKind::Protocol, other.kind().to_string(), true),
    };
    BmcError {
        kind,
        bmc: address.to_owned(),
        message: format!("{doing}: {why}"),
        retry_after: None,
        maybe_sent: is_command && is_lost,
        not_sent: false,
    }
}

fn of_report(status: &ReportStatus) -> (ErrorKind, &'static str) {
    match status {
        ReportStatus::UnknownUserName { .. }
        | ReportStatus::WrongDigest { .. }
        | ReportStatus::DecryptionError { .. }
        | ReportStatus::UnsupportedSecurityLevel { .. } => (ErrorKind::Authentication, CREDENTIALS),
        _ => (
            ErrorKind::Busy,
            "the PDU has restarted, or its clock was set",
        ),
    }
}

fn of_status(status: ErrorStatus) -> (ErrorKind, &'static str) {
    match status {
        ErrorStatus::NoAccess
        | ErrorStatus::NotWritable
        | ErrorStatus::ReadOnly
        | ErrorStatus::AuthorizationError => (ErrorKind::Privilege, PRIVILEGE),
        ErrorStatus::NoSuchName | ErrorStatus::NoCreation | ErrorStatus::InconsistentName => {
            (ErrorKind::System, "the PDU has no such outlet")
        }
        _ => (ErrorKind::Refused, "the PDU refuses"),
    }
}
