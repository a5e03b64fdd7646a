//! Authenticated requests: sessions, HTTP Basic, and the reaction to a 401.
//!
//! Owns: the credentials in use, and the service root with the session collection. Must never: log
//! in a second time in one call, or repeat a command.

use std::{sync::Arc, time::Duration};

use reqwest::StatusCode;
use tokio::{sync::Mutex, time::Instant};
use url::Url;

use super::{
    call_budget::Call,
    credentials::{Account, Credentials, Session},
    document::Root,
    errors,
    http::{Change, Http, Silence},
    response::Answer,
    session::{self, SessionAttempt},
};
use crate::{
    BmcError, ErrorKind,
    redfish::{AuthPolicy, RedfishConfig, vendor},
};

/// How long HTTP Basic is used after the session table was full.
const FULL_FOR: Duration = Duration::from_secs(300);

enum State {
    /// No login was tried yet.
    Fresh,
    Session(Arc<Session>),
    /// HTTP Basic: permanently, or until this time because the session table was full.
    Basic(Option<Instant>),
}

/// Authenticated access to one BMC.
pub(crate) struct Access {
    pub(crate) http: Http,
    account: Arc<Account>,
    policy: AuthPolicy,
    /// Pause before a denied request is repeated.
    pub(in crate::redfish) denied: Duration,
    state: Mutex<State>,
    root: Mutex<Option<Root>>,
}

impl Access {
    pub(crate) fn new(config: RedfishConfig) -> Result<Self, BmcError> {
        let http = Http::new(&config)?;
        if config.username.is_empty() {
            let message = "the user name is empty; check the Secret or inventory entry";
            return Err(http.reporter.error(ErrorKind::Configuration, message));
        }
        let RedfishConfig {
            username,
            password,
            auth,
            timeouts,
            ..
        } = config;
        Ok(Self {
            http,
            account: Arc::new(Account { username, password }),
            policy: auth,
            denied: timeouts.denied,
            state: Mutex::new(State::Fresh),
            root: Mutex::new(None),
        })
    }

    fn basic(&self) -> Credentials {
        Credentials::Basic(Arc::clone(&self.account))
    }

    /// User name of the requests.
    pub(in crate::redfish) fn username(&self) -> &str {
        &self.account.username
    }

    /// The service root, read once. It should need no login (DSP0266, clause 13.2), but does on
    /// some BMCs.
    pub(crate) async fn root(&self) -> Result<Root, BmcError> {
        const DOING: &str = "reading the service root";
        let mut slot = self.root.lock().await;
        if let Some(root) = &*slot {
            return Ok(root.clone());
        }
        let url = self.http.resolve("/redfish/v1/")?;
        let mut answer = self
            .http
            .get(&url, &Credentials::None, Silence::GivesUp)
            .await?;
        if answer.status == StatusCode::UNAUTHORIZED && self.policy != AuthPolicy::Session {
            answer = self.http.get(&url, &self.basic(), Silence::GivesUp).await?;
        }
        if answer.status == StatusCode::NOT_FOUND {
            let message = "no Redfish service here; check the address, or the BMC's firmware";
            return Err(self.http.reporter.error(ErrorKind::Unsupported, message));
        }
        let root = Root::of(&errors::document(&self.http.reporter, DOING, answer)?);
        if root.systems.is_some() || root.power_equipment.is_some() {
            *slot = Some(root.clone());
        }
        Ok(root)
    }

    /// Reads a document with authentication.
    pub(crate) async fn get(&self, call: &Call, url: &Url) -> Result<Answer, BmcError> {
        let credentials = self.credentials().await?;
        let answer = self.http.get(url, &credentials, call.silence()).await?;
        if answer.status != StatusCode::UNAUTHORIZED {
            return Ok(answer);
        }
        let credentials = self.refused(call, &credentials, &answer).await?;
        let answer = self.http.get(url, &credentials, call.silence()).await?;
        if answer.status == StatusCode::UNAUTHORIZED {
            // The session has not expired, so a new one does not help; it is not reused in the next
            // call either.
            return Err(match self.refused(call, &credentials, &answer).await {
                Err(error) => error,
                Ok(_) => errors::of_status(&self.http.reporter, "reading", &answer),
            });
        }
        Ok(answer)
    }

    /// Sends a change, exactly once.
    pub(crate) async fn change(&self, change: Change<'_>) -> Result<Answer, BmcError> {
        let credentials = self.credentials().await?;
        let answer = self.http.change(change, &credentials).await?;
        if answer.status == StatusCode::UNAUTHORIZED
            && let Credentials::Session(session) = &credentials
        {
            self.forget(session).await;
            let message = "the session ended just before the command; try again";
            return Err(self.http.reporter.error(ErrorKind::Busy, message));
        }
        Ok(answer)
    }

    /// Closes the session, if there is one. The next request opens another.
    pub(crate) async fn close(&self) -> Result<(), BmcError> {
        self.http.close_kept();
        let state = std::mem::replace(&mut *self.state.lock().await, State::Fresh);
        match state {
            State::Session(session) => {
                session::close(&self.http, &Credentials::Session(session)).await
            }
            _ => Ok(()),
        }
    }

    async fn forget(&self, session: &Arc<Session>) {
        let mut state = self.state.lock().await;
        if matches!(&*state, State::Session(current) if Arc::ptr_eq(current, session)) {
            *state = State::Fresh;
        }
    }

    async fn credentials(&self) -> Result<Credentials, BmcError> {
        if self.policy == AuthPolicy::Basic {
            return Ok(self.basic());
        }
        let mut state = self.state.lock().await;
        match &*state {
            State::Session(session) => Ok(Credentials::Session(Arc::clone(session))),
            State::Basic(None) => Ok(self.basic()),
            State::Basic(Some(until)) if Instant::now() < *until => Ok(self.basic()),
            State::Basic(Some(_)) | State::Fresh => self.log_in(&mut state).await,
        }
    }

    /// The credentials to try after a 401, or the error.
    async fn refused(
        &self,
        call: &Call,
        used: &Credentials,
        answer: &Answer,
    ) -> Result<Credentials, BmcError> {
        let error = errors::of_status(&self.http.reporter, "reading", answer);
        let mut state = self.state.lock().await;
        let Credentials::Session(used) = used else {
            if matches!(&*state, State::Basic(Some(_))) {
                *state = State::Fresh;
                let message = "all sessions of the BMC are taken, and it refuses Basic \
                               authentication; close some";
                return Err(self.http.reporter.error(ErrorKind::Busy, message));
            }
            return Err(error);
        };
        if let State::Session(current) = &*state {
            if Arc::ptr_eq(current, used) {
                *state = State::Fresh;
            } else if call.may_log_in_again() {
                return Ok(Credentials::Session(Arc::clone(current)));
            }
        }
        if !call.may_log_in_again() {
            return Err(error);
        }
        self.log_in(&mut state).await
    }

    async fn log_in(&self, state: &mut State) -> Result<Credentials, BmcError> {
        let root = self.root().await?;
        let opened = match &root.sessions {
            Some(link) => {
                let refuses_all = vendor::refuses_sessions(&root);
                let url = self.http.resolve(link)?;
                session::open(&self.http, &url, &self.account, refuses_all).await?
            }
            None => SessionAttempt::Never(
                self.http
                    .reporter
                    .error(ErrorKind::Unsupported, "the BMC has no sessions"),
            ),
        };
        let (error, until) = match opened {
            SessionAttempt::Session(session) => {
                let session = Arc::new(session);
                *state = State::Session(Arc::clone(&session));
                return Ok(Credentials::Session(session));
            }
            SessionAttempt::Never(error) => (error, None),
            SessionAttempt::Full(error) => (error, Some(Instant::now() + FULL_FOR)),
        };
        if self.policy == AuthPolicy::Session {
            return Err(error);
        }
        *state = State::Basic(until);
        Ok(self.basic())
    }
}
