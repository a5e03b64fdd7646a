//! Classification of errors, with advice.
//!
//! Owns: the error kind of transport failures and HTTP statuses. Must never: classify an error that
//! needs a user action as transient, or the other way round.

use std::{error::Error, io};

use reqwest::StatusCode;

use super::{
    reporter::Reporter,
    response::{Answer, Body},
};
use crate::{
    BmcError, ErrorKind,
    redfish::vendor::{self, Meaning},
};

/// An exchange without a usable response.
#[derive(Debug)]
pub(super) struct Failure {
    kind: ErrorKind,
    message: String,
    /// Whether the connection broke; a read may then be tried again.
    pub(crate) reset: bool,
    /// Whether the request may have arrived.
    reached: bool,
}

impl Failure {
    fn new(kind: ErrorKind, message: impl Into<String>, reached: bool) -> Self {
        Self {
            kind,
            message: message.into(),
            reset: false,
            reached,
        }
    }

    /// Whether the answer did not come in time.
    pub(super) fn is_timeout(&self) -> bool {
        self.kind == ErrorKind::Timeout
    }

    /// Whether the request may have arrived.
    pub(super) fn has_reached(&self) -> bool {
        self.reached
    }

    /// A header value that HTTP does not allow.
    pub(super) fn unsendable() -> Self {
        Self::new(
            ErrorKind::Protocol,
            "the BMC's session token cannot be sent back",
            false,
        )
    }

    pub(crate) fn of(error: &reqwest::Error) -> Self {
        let connecting = error.is_connect();
        if error.is_builder() {
            return Self::new(
                ErrorKind::Configuration,
                "the request cannot be built",
                false,
            );
        }
        if connecting && let Some(tls) = find::<rustls::Error>(error) {
            return Self::new(ErrorKind::Tls, tls_message(tls), false);
        }
        if error.is_timeout() {
            let message = if connecting {
                "connection timed out; check address, port, VLAN and firewall"
            } else {
                "no complete response in time"
            };
            return Self::new(ErrorKind::Timeout, message, !connecting);
        }
        if !connecting && find::<hyper::Error>(error).is_some_and(hyper::Error::is_parse) {
            let is_long = find::<hyper::Error>(error).is_some_and(hyper::Error::is_parse_too_large);
            let message = if is_long {
                "the head of the response is too long"
            } else {
                "the response is not HTTP; check port and scheme of the address"
            };
            return Self::new(ErrorKind::Protocol, message, true);
        }
        let io = find::<io::Error>(error).map(io::Error::kind);
        let why = innermost(error);
        if connecting {
            return Self {
                reset: matches!(io, Some(io::ErrorKind::ConnectionReset)),
                ..Self::new(
                    ErrorKind::Unreachable,
                    format!("no connection ({why}); check address, port, VLAN and firewall"),
                    false,
                )
            };
        }
        Self {
            reset: true,
            ..Self::new(
                ErrorKind::Unreachable,
                format!("the connection broke before the response was complete ({why})"),
                true,
            )
        }
    }

    pub(super) fn into_error(self, reporter: &Reporter, is_command: bool) -> BmcError {
        BmcError {
            maybe_sent: is_command && self.reached,
            not_sent: !self.reached,
            ..reporter.error(self.kind, self.message)
        }
    }
}

/// A body above the size limit.
pub(super) fn too_big(limit: usize) -> Failure {
    let message = format!("the response is longer than {limit} bytes");
    Failure::new(ErrorKind::Protocol, message, true)
}

/// Iterates over the sources of an error; `io::Error` hides the first one.
fn sources<'a>(
    error: &'a (dyn Error + 'static),
) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(
        Some(error),
        |&error: &&'a (dyn Error + 'static)| match error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref)
        {
            Some(inner) => Some(inner as &(dyn Error + 'static)),
            None => error.source(),
        },
    )
}

fn find<'a, T: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a T> {
    sources(error).find_map(|error| error.downcast_ref::<T>())
}

fn innermost(error: &reqwest::Error) -> String {
    sources(error)
        .last()
        .map(ToString::to_string)
        .unwrap_or_default()
}

/// Cause of a failed handshake, and advice.
fn tls_message(error: &rustls::Error) -> String {
    use rustls::{AlertDescription as Alert, Error, PeerIncompatible as Peer};
    const OLD: &str = "the BMC offers no TLS 1.2 or later, and nothing older is used; update its \
                       firmware, enable TLS 1.2 in it, or use its IPMI driver (ipmi://)";
    const SUITES: &str = "the BMC shares no cipher suite with this client: old firmware offers only \
                          RSA key exchange, which is not used; update its firmware, enable ECDHE \
                          suites in it, or use its IPMI driver (ipmi://)";
    match error {
        Error::AlertReceived(Alert::ProtocolVersion)
        | Error::PeerIncompatible(
            Peer::ServerDoesNotSupportTls12Or13
            | Peer::ServerTlsVersionIsDisabledByOurConfig
            | Peer::Tls12NotOffered,
        ) => format!("TLS: {error}: {OLD}"),
        Error::AlertReceived(Alert::HandshakeFailure | Alert::InsufficientSecurity)
        | Error::PeerIncompatible(
            Peer::NoCipherSuitesInCommon
            | Peer::NoKxGroupsInCommon
            | Peer::NoSignatureSchemesInCommon
            | Peer::ExtendedMasterSecretExtensionRequired,
        ) => format!("TLS: {error}: {SUITES}"),
        Error::InvalidCertificate(why) => {
            format!("TLS: {error}; {}", certificate_advice(why))
        }
        Error::General(_) => format!(
            "TLS: {error}; if the certificate was renewed on purpose, pin the new one (trust: sha256)"
        ),
        Error::InvalidMessage(_) => {
            format!("TLS: {error}; is this port plain HTTP (redfish+http://)?")
        }
        _ => format!("TLS: {error}; update the BMC's firmware, or use its IPMI driver (ipmi://)"),
    }
}

/// Advice for an untrusted certificate. A pin ignores dates, names and signatures.
fn certificate_advice(why: &rustls::CertificateError) -> &'static str {
    use rustls::CertificateError as Why;
    match why {
        Why::Expired | Why::ExpiredContext { .. } => {
            "renew it, check the clock of this machine, or pin it (trust: sha256)"
        }
        Why::NotValidYet | Why::NotValidYetContext { .. } => {
            "check the clocks of this machine and of the BMC, or pin it (trust: sha256)"
        }
        Why::NotValidForName | Why::NotValidForNameContext { .. } => {
            "write the name that it is for into the address, give the BMC one for this name, or pin \
             it (trust: sha256)"
        }
        Why::BadEncoding | Why::UnhandledCriticalExtension => {
            "pin it (trust: sha256), or give the BMC a newer one"
        }
        _ => {
            "give the CA that signed the BMC's certificate (trust: ca_file), or pin the certificate \
             (trust: sha256)"
        }
    }
}

const CREDENTIALS: &str = "user or password refused; check the Secret or inventory entry that they \
                           come from, and that the BMC has the user enabled and not locked out";

const PRIVILEGE: &str = "the user may not do this; it needs the ConfigureComponents privilege \
                         (role Operator; for the BMC itself and its log Administrator)";

/// Advice for a host in POST.
pub(super) const IN_POST: &str = "the host is in POST and nothing can be set meanwhile; try again \
                                  when it has booted, or power it off first";

/// Whether a proxy in the BMC lost the response; the service behind it may have received the
/// request.
pub(crate) fn is_lost(status: StatusCode) -> bool {
    [StatusCode::BAD_GATEWAY, StatusCode::GATEWAY_TIMEOUT].contains(&status)
}

/// Whether the BMC denies access without naming a privilege that is missing, which some do to a correct
/// account for a moment.
pub(in crate::redfish) fn is_denial(answer: &Answer) -> bool {
    answer.status == StatusCode::FORBIDDEN && answer.messages().0.iter().all(vendor::is_bare_denial)
}

/// The error for one resource that a BMC refuses with 401 while it accepts the session: this says nothing against the
/// password, which must not count as rejected.
pub(super) fn kept_resource(reporter: &Reporter, answer: &Answer) -> BmcError {
    let says = reporter.says(&answer.messages());
    let message = format!(
        "reading: the BMC refuses this resource (401) although it accepts the user; the user lacks a right, or the \
         BMC a licence{says}"
    );
    reporter.error(ErrorKind::Privilege, message)
}

/// The same for a command, which was sent after something had been read with the same credentials.
pub(super) fn kept_command(reporter: &Reporter, answer: &Answer) -> BmcError {
    let says = reporter.says(&answer.messages());
    let message = format!(
        "the BMC refuses this command (401) although it accepts the user for reading; the user lacks a right, or the BMC \
         a licence{says}"
    );
    reporter.error(ErrorKind::Privilege, message)
}

/// The error of a response with an error status.
pub(crate) fn of_status(reporter: &Reporter, doing: &str, answer: &Answer) -> BmcError {
    let messages = answer.messages();
    let says = reporter.says(&messages);
    let status = answer.status;
    let code = status.as_u16();
    let busy = |why: &str| {
        let default = messages
            .has(Meaning::NotReady)
            .then_some(vendor::NOT_READY_WAIT);
        BmcError {
            retry_after: answer.retry_after().or(default),
            ..reporter.error(ErrorKind::Busy, format!("{doing}: {why} ({code}){says}"))
        }
    };
    let error = |kind, why: &str| reporter.error(kind, format!("{doing}: {why} ({code}){says}"));
    if messages.has(Meaning::SessionLimit) {
        return busy("all sessions of the BMC are taken; close some or allow Basic authentication");
    }
    if messages.has(Meaning::PasswordChange) {
        let why = "the BMC requires a new password for this user first";
        return error(ErrorKind::Authentication, why);
    }
    if messages.has(Meaning::NotReady) {
        return busy("the BMC is not ready");
    }
    if messages.has(Meaning::Post) {
        return busy(IN_POST);
    }
    // With a 401, Dell's AccessDenied means a wrong password.
    if messages.has(Meaning::Privilege) && status != StatusCode::UNAUTHORIZED {
        return error(ErrorKind::Privilege, PRIVILEGE);
    }
    if messages.has(Meaning::Credentials) {
        return error(ErrorKind::Authentication, CREDENTIALS);
    }
    if messages.has(Meaning::Unsupported) {
        return error(ErrorKind::Unsupported, "the BMC cannot do this");
    }
    match status {
        StatusCode::UNAUTHORIZED => error(ErrorKind::Authentication, CREDENTIALS),
        StatusCode::FORBIDDEN => error(ErrorKind::Privilege, PRIVILEGE),
        StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_IMPLEMENTED => {
            error(ErrorKind::Unsupported, "the BMC cannot do this")
        }
        StatusCode::REQUEST_TIMEOUT
        | StatusCode::TOO_MANY_REQUESTS
        | StatusCode::BAD_GATEWAY
        | StatusCode::SERVICE_UNAVAILABLE
        | StatusCode::GATEWAY_TIMEOUT => busy("not now"),
        StatusCode::NOT_FOUND | StatusCode::GONE => error(
            ErrorKind::Protocol,
            "the BMC has no resource at a link that it returned",
        ),
        StatusCode::PRECONDITION_FAILED | StatusCode::PRECONDITION_REQUIRED => error(
            ErrorKind::Refused,
            "the BMC rejects every precondition (If-Match); update its firmware",
        ),
        _ if status.is_client_error() => error(ErrorKind::Refused, "refused"),
        _ => error(ErrorKind::Protocol, "unexpected response"),
    }
}

/// The document of a successful read, or the error.
pub(crate) fn document(
    reporter: &Reporter,
    doing: &str,
    answer: Answer,
) -> Result<serde_json::Value, BmcError> {
    if !answer.status.is_success() {
        return Err(of_status(reporter, doing, &answer));
    }
    let what = match answer.body {
        Body::Json(body) => return Ok(body),
        Body::Empty => "nothing",
        Body::Html => "a page of HTML or XML, not JSON; check the port and path of the address",
        Body::Other(what) => what,
    };
    let code = answer.status.as_u16();
    let message = format!("{doing}: the BMC answered {code} with {what}");
    Err(reporter.error(ErrorKind::Protocol, message))
}
