//! Credentials of requests.

use std::sync::Arc;

use secrecy::SecretString;
use url::Url;

/// User name and password.
pub(super) struct Account {
    pub(in crate::redfish) username: String,
    pub(super) password: SecretString,
}

/// Authentication of a request.
#[derive(Clone)]
pub(super) enum Credentials {
    None,
    Basic(Arc<Account>),
    Session(Arc<Session>),
}

/// An open session.
pub(super) struct Session {
    pub(super) token: SecretString,
    /// URL of the session resource.
    pub(super) location: Option<Url>,
}
