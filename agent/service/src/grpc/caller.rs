//! The caller of a request, and its authority.

use rackhand_agent_core::ledger::Authority;
use rackhand_proto::v1;
use rackhand_transport::{Identity, tls::PeerInfo};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Status, transport::server::UdsConnectInfo};

use crate::engine::Callers;

/// A caller that may use the service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Caller {
    Controller,
    Operator(String),
}

impl Caller {
    /// Identifies the caller by certificate or by the user of the local socket, never by the
    /// message.
    pub(super) fn of<T>(request: &Request<T>) -> Result<Self, Status> {
        if let Some(peer) = request.extensions().get::<PeerInfo>() {
            return match &peer.identity {
                Identity::Controller => Ok(Self::Controller),
                Identity::Operator(name) => Ok(Self::Operator(name.clone())),
                // The TLS handshake has refused it already.
                rack @ Identity::Rack(_) => Err(Status::permission_denied(format!(
                    "{rack} may not use this service: it is for controllers and operators"
                ))),
            };
        }
        if let Some(peer) = request.extensions().get::<UdsConnectInfo>() {
            let user = peer.peer_cred.as_ref();
            let user = user.map_or_else(|| "unknown".to_owned(), |cred| cred.uid().to_string());
            return Ok(Self::Operator(format!("local:{user}")));
        }
        Err(Status::unauthenticated(
            "the connection has no information about its peer",
        ))
    }

    /// The caller on the local socket.
    pub(super) fn local<T>(request: &Request<T>) -> Result<String, Status> {
        match Self::of(request)? {
            Self::Operator(name) if request.extensions().get::<PeerInfo>().is_none() => Ok(name),
            _ => Err(Status::permission_denied(
                "only for operators on the agent's own machine: use its local socket",
            )),
        }
    }

    pub(super) fn is_controller(&self) -> bool {
        *self == Self::Controller
    }

    /// The authority to command: term and sequence of a controller; an operator has neither.
    pub(super) fn authority(
        self,
        term: Option<v1::Term>,
        sequence: Option<u64>,
    ) -> Result<Authority, Status> {
        match self {
            Self::Operator(name) => {
                if term.is_some() || sequence.is_some_and(|sequence| sequence != 0) {
                    return Err(Status::invalid_argument(
                        "an operator has no leader term: send neither term nor sequence",
                    ));
                }
                Ok(Authority::Operator { name })
            }
            Self::Controller => {
                let term = check_term(term)?;
                if sequence == Some(0) {
                    return Err(Status::invalid_argument(
                        "a controller's command needs a sequence above 0",
                    ));
                }
                Ok(Authority::Controller {
                    election: term.election,
                    term: term.number,
                    holder: term.holder,
                    sequence: sequence.unwrap_or_default(),
                })
            }
        }
    }
}

/// Checks that a term names its election, its holder and its number.
pub(super) fn check_term(term: Option<v1::Term>) -> Result<v1::Term, Status> {
    let Some(term) = term else {
        return Err(Status::invalid_argument(
            "a controller must send its leader term",
        ));
    };
    for (name, value) in [("election", &term.election), ("holder", &term.holder)] {
        if value.trim().is_empty() || value.len() > 512 || value.contains('\n') {
            return Err(Status::invalid_argument(format!(
                "term.{name} must be 1 to 512 characters in one line"
            )));
        }
    }
    Ok(term)
}

/// The owner of a request: a controller names it, an operator acts in its own name.
pub(super) fn owner(authority: &Authority, owner: String) -> Result<String, Status> {
    match authority {
        Authority::Operator { .. } if !owner.is_empty() => Err(Status::invalid_argument(
            "an operator acts in its own name: leave the owner empty",
        )),
        Authority::Operator { name } => Ok(format!("operator {name}")),
        Authority::Controller { .. } if owner.len() > 512 => Err(Status::invalid_argument(
            "the owner is longer than 512 characters",
        )),
        Authority::Controller { .. } => Ok(owner),
    }
}

/// The operator who calls. A controller may switch power and nothing else.
pub(super) fn by_hand(caller: &Caller, what: &str) -> Result<String, Status> {
    match caller {
        Caller::Operator(name) => Ok(format!("operator {name}")),
        Caller::Controller => Err(Status::permission_denied(format!(
            "only an operator may {what}"
        ))),
    }
}

/// The lease that a request depends on (F17); `None`: the request names none.
pub(super) fn living(
    callers: &Callers,
    caller: &Caller,
    name: &str,
) -> Result<Option<CancellationToken>, Status> {
    match caller {
        _ if name.is_empty() => Ok(None),
        Caller::Operator(operator) => callers.living(name, operator).map(Some),
        Caller::Controller => Err(Status::invalid_argument(
            "a controller names no caller: its operations live until their deadlines",
        )),
    }
}
