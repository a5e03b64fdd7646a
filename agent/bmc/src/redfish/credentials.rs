//! What a request authenticates with.

use std::sync::Arc;

use secrecy::SecretString;
use url::Url;

/// User and password.
pub(super) struct Account {
    pub(super) username: String,
    pub(super) password: SecretString,
}

/// How a request authenticates.
#[derive(Clone)]
pub(super) enum Credentials {
    None,
    Basic(Arc<Account>),
    Session(Arc<Session>),
}

/// An open session.
pub(super) struct Session {
    pub(super) token: SecretString,
    /// Where to end it.
    pub(super) location: Option<Url>,
}
