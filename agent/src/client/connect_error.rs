//! Errors of the connection to the agent: what was tried, why it failed, and what to do next. Pure.

use std::{error::Error, fmt::Display, io::ErrorKind, path::Path};

use rackhand_transport::{CallErrorKind, ConnectError, TlsError, classify};
use tonic::{Code, Status};

use crate::output::exit_code::{NoAgent, Refused, Usage};

/// The error of the local socket.
pub(crate) fn local(socket: &Path, error: &ConnectError) -> anyhow::Error {
    let at = socket.display();
    let kind = match error {
        ConnectError::Unreachable { source, .. } => Some(source.kind()),
        _ => None,
    };
    let message = match kind {
        Some(ErrorKind::NotFound) => format!(
            "no agent on this machine: there is no socket {at}. Start it (systemctl start \
             rackhand-agent), or name it: --socket PATH, or --agent HOST:PORT for a remote one; \
             --direct connects to the BMCs without an agent"
        ),
        Some(ErrorKind::ConnectionRefused) => format!(
            "nothing listens on the socket {at}: the agent has stopped. Find out why (systemctl status \
             rackhand-agent) and start it; --direct connects to the BMCs without an agent"
        ),
        Some(ErrorKind::PermissionDenied) => format!(
            "no permission for the socket {at} of the agent: run this as root or as a member of its group, \
             or with --agent HOST:PORT and a certificate of your own"
        ),
        _ => format!("{error}; is that the agent's socket (--socket)?"),
    };
    NoAgent(message).into()
}

/// The error of a remote agent.
pub(crate) fn remote(error: &ConnectError) -> anyhow::Error {
    let next = match error {
        ConnectError::Endpoint { .. } => return Usage(format!("--agent: {error}")).into(),
        ConnectError::Unreachable { .. } | ConnectError::Timeout { .. } => {
            "check that the address is right, that the agent runs there and has `listen`, and that \
             no firewall blocks the port"
        }
        ConnectError::Untrusted { .. } => {
            "see that --agent and --rack belong together, and that ca.crt in --tls-dir is that of \
             the agents; do not go on until you know who answers there"
        }
        ConnectError::Tls { .. } => "see that an agent, and nothing else, listens there",
    };
    NoAgent(format!("{error}. Next: {next}")).into()
}

/// The error of the client certificate.
pub(crate) fn certificate(error: &TlsError) -> anyhow::Error {
    NoAgent(format!(
        "{error}. Next: --tls-dir names a directory with your own tls.crt and tls.key, of an \
         operator, and the ca.crt of the agents"
    ))
    .into()
}

/// The error of a call that the agent answered.
pub(crate) fn call(status: &Status) -> anyhow::Error {
    let error = classify(status);
    let ours = status.source().is_some() && error.kind == CallErrorKind::Permanent;
    if ours {
        return Refused(format!(
            "{error}. Next: --tls-dir needs a certificate of an operator that is signed by the CA \
             in the agent's ca.crt, and is still valid"
        ))
        .into();
    }
    if status.code() == Code::PermissionDenied {
        return Refused(error.message).into();
    }
    if error.kind == CallErrorKind::Retryable {
        return NoAgent(error.message).into();
    }
    error.into()
}

/// Formats an error with its causes, without repetitions.
pub(crate) fn told(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(<dyn Error>::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// Advice for a host that could not be reached.
pub(crate) fn unreachable(host: impl Display) -> String {
    format!("`rackhand-agent host check {host}` diagnoses the connection")
}

#[cfg(test)]
mod tests {
    use std::{io, sync::Arc};

    use anyhow::Context;

    use super::*;

    fn unreachable_by(kind: ErrorKind) -> ConnectError {
        ConnectError::Unreachable {
            endpoint: "/run/a.sock".to_owned(),
            source: Arc::new(io::Error::from(kind)),
        }
    }

    #[test]
    fn socket_error_includes_path_and_advice() {
        let socket = Path::new("/run/a.sock");
        for (kind, says) in [
            (ErrorKind::NotFound, "systemctl start"),
            (ErrorKind::ConnectionRefused, "systemctl status"),
            (ErrorKind::PermissionDenied, "root"),
            (ErrorKind::NotADirectory, "--socket"),
        ] {
            let error = local(socket, &unreachable_by(kind));
            let text = told(&error);
            assert!(
                text.contains(says) && text.contains("/run/a.sock"),
                "{text}"
            );
            assert!(error.is::<NoAgent>(), "{text}");
        }
    }

    #[test]
    fn address_without_port_is_a_usage_error() {
        let wrong = ConnectError::Endpoint {
            endpoint: "a".to_owned(),
            reason: "no port".to_owned(),
        };
        assert!(remote(&wrong).is::<Usage>());
        let dead = remote(&unreachable_by(ErrorKind::ConnectionRefused));
        assert!(dead.is::<NoAgent>());
        assert!(told(&dead).contains("firewall"), "{dead}");
    }

    #[test]
    fn permission_denied_is_a_refusal() {
        assert!(call(&Status::permission_denied("not for you")).is::<Refused>());
        assert!(call(&Status::unavailable("stopping")).is::<NoAgent>());
        let wrong = call(&Status::invalid_argument("no"));
        assert!(!wrong.is::<Refused>() && !wrong.is::<NoAgent>());
    }

    #[test]
    fn error_chain_repeats_no_cause() {
        let error = Err::<(), _>(io::Error::other("no room"));
        let error = error.context("cannot write /a: no room").context("check");
        assert_eq!(told(&error.unwrap_err()), "check: cannot write /a: no room");
    }
}
