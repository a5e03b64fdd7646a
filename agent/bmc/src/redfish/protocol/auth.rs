//! Authenticated requests: sessions, HTTP Basic, and the reaction to a 401.
//!
//! Owns: the credentials in use, and the service root with the session collection. Must never: log
//! in a second time in one call, leave a session open that it replaces, or repeat a command.

use std::{
    sync::{Arc, MutexGuard, PoisonError},
    time::Duration,
};

use reqwest::StatusCode;
use tokio::{
    sync::{Mutex, oneshot},
    time::{Instant, timeout},
};
use url::Url;

use super::{
    basic_use::{BasicUse, Permission, Refusal},
    call_budget::Call,
    credentials::{Account, Credentials, Session},
    document::Root,
    errors,
    http::{Change, Http, Silence},
    refused_resources::RefusedResources,
    response::Answer,
    session::{self, Login, SessionAttempt},
};
use crate::{
    BmcError, ErrorKind,
    redfish::{AuthPolicy, RedfishConfig, vendor},
};

/// How long HTTP Basic is used after the session table was full.
const FULL_FOR: Duration = Duration::from_secs(300);

/// How long a read by HTTP Basic waits for the one that shows whether the password is accepted: read side by side, several
/// would be as many failed logins.
const PROVING: Duration = Duration::from_secs(3);

/// How long a session that is replaced may take to be deleted.
const DELETE_WITHIN: Duration = Duration::from_secs(2);

enum State {
    /// No login was tried yet.
    Fresh,
    /// A login goes on, perhaps since an earlier call.
    LoggingIn(oneshot::Receiver<Login>),
    Session(Arc<Session>),
    /// The BMC refused it. It is deleted before the next login, because it may be open nevertheless.
    Refused(Arc<Session>),
    /// HTTP Basic: permanently, or until this time because the session table was full.
    Basic(Option<Instant>),
}

/// How a BMC has accepted the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Accepted {
    Session,
    Basic,
}

/// Result of reading a resource again that was refused.
enum Retried {
    Answered(Answer),
    /// The session works, and this resource is refused.
    ResourceRefused(BmcError),
    /// The session has ended; the refusal.
    SessionEnded(Answer),
}

/// Authenticated access to one BMC.
pub(crate) struct Access {
    pub(crate) http: Arc<Http>,
    account: Arc<Account>,
    policy: AuthPolicy,
    /// Pause before a denied request is repeated.
    pub(in crate::redfish) denied: Duration,
    state: Mutex<State>,
    root: Mutex<Option<Root>>,
    refused: RefusedResources,
    basic_use: std::sync::Mutex<BasicUse>,
    /// Held by the request that shows whether the BMC accepts the password by HTTP Basic.
    proving: Mutex<()>,
    /// How long a call waits for a login.
    patience: Duration,
}

impl Access {
    pub(crate) fn new(config: RedfishConfig) -> Result<Self, BmcError> {
        let http = Arc::new(Http::new(&config)?);
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
            refused: RefusedResources::default(),
            basic_use: std::sync::Mutex::default(),
            proving: Mutex::default(),
            patience: timeouts.connect + timeouts.request,
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
            answer = self.read_by_basic(&url, false, Silence::GivesUp).await?;
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
        self.read(call, url, false).await
    }

    /// Reads what a task monitor answers, with authentication.
    pub(super) async fn get_monitor(&self, call: &Call, url: &Url) -> Result<Answer, BmcError> {
        self.read(call, url, true).await
    }

    async fn read(&self, call: &Call, url: &Url, is_monitor: bool) -> Result<Answer, BmcError> {
        let credentials = self.credentials().await?;
        let Credentials::Session(session) = &credentials else {
            return self.read_without_session(call, url, is_monitor).await;
        };
        let answer = self
            .read_as(url, &credentials, is_monitor, call.silence())
            .await?;
        if answer.status != StatusCode::UNAUTHORIZED {
            return Ok(answer);
        }
        let answer = if self.refused.is_recent(url.path()) {
            match self.again(url, session, answer, is_monitor).await? {
                Retried::Answered(answer) => return Ok(answer),
                Retried::ResourceRefused(error) => return Err(error),
                Retried::SessionEnded(answer) => answer,
            }
        } else {
            answer
        };
        self.refused.add(url.path());
        let credentials = self.refused(call, session, &answer).await?;
        let Credentials::Session(session) = &credentials else {
            return self.read_without_session(call, url, is_monitor).await;
        };
        let answer = self
            .read_as(url, &credentials, is_monitor, call.silence())
            .await?;
        if answer.status == StatusCode::UNAUTHORIZED {
            // The session has not expired, so a new one does not help, and this one serves other resources.
            return Err(match self.is_open(session).await {
                Some(false) => errors::of_status(&self.http.reporter, "reading", &answer),
                Some(true) | None => errors::kept_resource(&self.http.reporter, &answer),
            });
        }
        Ok(answer)
    }

    async fn read_as(
        &self,
        url: &Url,
        credentials: &Credentials,
        is_monitor: bool,
        silence: Silence,
    ) -> Result<Answer, BmcError> {
        match is_monitor {
            true => self.http.get_monitor(url, credentials).await,
            false => self.http.get(url, credentials, silence).await,
        }
    }

    /// Reads a resource again that was refused shortly after the last login for it, over a connection of its own. Another
    /// login only helps if the session has ended, which its own resource shows.
    async fn again(
        &self,
        url: &Url,
        session: &Arc<Session>,
        refusal: Answer,
        is_monitor: bool,
    ) -> Result<Retried, BmcError> {
        let credentials = Credentials::Session(Arc::clone(session));
        self.http.close_kept();
        let answer = self
            .read_as(url, &credentials, is_monitor, Silence::GivesUp)
            .await?;
        if answer.status != StatusCode::UNAUTHORIZED {
            return Ok(Retried::Answered(answer));
        }
        if self.is_open(session).await == Some(false) {
            return Ok(Retried::SessionEnded(refusal));
        }
        let error = errors::kept_resource(&self.http.reporter, &answer);
        Ok(Retried::ResourceRefused(error))
    }

    /// No code panics while it holds this lock, so its data are consistent.
    fn basic_use(&self) -> MutexGuard<'_, BasicUse> {
        self.basic_use
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads by HTTP Basic. A 401 is an error: the password is not sent again at once.
    async fn read_by_basic(
        &self,
        url: &Url,
        is_monitor: bool,
        silence: Silence,
    ) -> Result<Answer, BmcError> {
        let credentials = self.basic();
        let is_proven = self.basic_use().is_proven(Instant::now());
        let _turn = match is_proven {
            true => None,
            false => timeout(PROVING, self.proving.lock()).await.ok(),
        };
        let permission = self.basic_use().may_read(Instant::now(), url);
        match permission {
            Permission::Granted => {}
            Permission::Held(error) => return Err(error),
            Permission::After(proven) => {
                let proof = self.http.get(&proven, &credentials, silence).await?;
                self.accepts_basic(&proven, &proof)?;
            }
        }
        let answer = self.read_as(url, &credentials, is_monitor, silence).await?;
        self.accepts_basic(url, &answer)?;
        Ok(answer)
    }

    /// Records the answer to a read by HTTP Basic; a 401 is an error.
    fn accepts_basic(&self, url: &Url, answer: &Answer) -> Result<(), BmcError> {
        if answer.status.is_success() {
            self.basic_use().accepted(Instant::now(), url);
        }
        if answer.status != StatusCode::UNAUTHORIZED {
            return Ok(());
        }
        let reporter = &self.http.reporter;
        let error = |refusal| match refusal {
            Refusal::Resource => errors::kept_resource(reporter, answer),
            Refusal::Password => errors::of_status(reporter, "reading", answer),
        };
        Err(self.basic_use().refused(Instant::now(), url.path(), error))
    }

    /// Reads by HTTP Basic where no session is had. Where that is because the session table was full, and the password is
    /// refused, a session is tried next.
    async fn read_without_session(
        &self,
        call: &Call,
        url: &Url,
        is_monitor: bool,
    ) -> Result<Answer, BmcError> {
        let error = match self.read_by_basic(url, is_monitor, call.silence()).await {
            Err(error) if error.kind == ErrorKind::Authentication => error,
            read => return read,
        };
        let mut state = self.state.lock().await;
        if !matches!(&*state, State::Basic(Some(_))) {
            return Err(error);
        }
        *state = State::Fresh;
        let message =
            "all sessions of the BMC are taken, and it refuses Basic authentication; close some";
        Err(self.http.reporter.error(ErrorKind::Busy, message))
    }

    /// Whether a session works, which its own resource shows; `None`: it has none.
    async fn is_open(&self, session: &Arc<Session>) -> Option<bool> {
        let location = session.location.as_ref()?;
        let credentials = Credentials::Session(Arc::clone(session));
        let own = self.http.get(location, &credentials, Silence::GivesUp);
        let own = own.await;
        Some(own.is_ok_and(|own| own.status.is_success() || own.status == StatusCode::FORBIDDEN))
    }

    /// How the BMC has last accepted the user; `None`: it has not.
    pub(crate) async fn accepted(&self) -> Option<Accepted> {
        if self.policy == AuthPolicy::Basic {
            return Some(Accepted::Basic);
        }
        match &*self.state.lock().await {
            State::Session(_) => Some(Accepted::Session),
            State::Basic(_) => Some(Accepted::Basic),
            State::Fresh | State::LoggingIn(_) | State::Refused(_) => None,
        }
    }

    /// Logs in if that is needed for a change.
    pub(crate) async fn ready(&self) -> Result<(), BmcError> {
        self.credentials().await.map(drop)
    }

    /// Sends a change, exactly once. After a 401 the caller may ask again for it once, in a new session; a second one, and one
    /// to HTTP Basic, is a refusal of the command: something was read for it with the same credentials.
    ///
    /// # Errors
    ///
    /// `Busy`: the session was refused.
    pub(crate) async fn change(&self, change: Change<'_>) -> Result<Answer, BmcError> {
        let credentials = self.credentials().await?;
        let request = change.name();
        if matches!(credentials, Credentials::Basic(_)) {
            self.basic_use().may_change(Instant::now(), &request)?;
        }
        let answer = self.http.change(change, &credentials).await?;
        if answer.status != StatusCode::UNAUTHORIZED {
            return Ok(answer);
        }
        let reporter = &self.http.reporter;
        match &credentials {
            Credentials::Session(session) => {
                if self.refused.is_recent(&request) {
                    return Err(errors::kept_command(reporter, &answer));
                }
                self.refused.add(&request);
                self.forget(session).await;
                let message = "the BMC refuses the session of the command (401), which has perhaps ended; not taken yet, ask again";
                Err(reporter.error(ErrorKind::Busy, message))
            }
            _ => {
                let error = |refusal| match refusal {
                    Refusal::Resource => errors::kept_command(reporter, &answer),
                    Refusal::Password => errors::of_status(reporter, "changing", &answer),
                };
                Err(self.basic_use().refused(Instant::now(), &request, error))
            }
        }
    }

    /// Closes the session, if there is one. The next request opens another.
    pub(crate) async fn close(&self) -> Result<(), BmcError> {
        self.http.close_kept();
        let state = std::mem::replace(&mut *self.state.lock().await, State::Fresh);
        match state {
            State::Session(session) | State::Refused(session) => {
                session::close(&self.http, &Credentials::Session(session)).await
            }
            _ => Ok(()),
        }
    }

    async fn forget(&self, session: &Arc<Session>) {
        let mut state = self.state.lock().await;
        if matches!(&*state, State::Session(current) if Arc::ptr_eq(current, session)) {
            *state = State::Refused(Arc::clone(session));
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
            State::Basic(Some(until))
                if Instant::now() < *until && !self.basic_use().is_held(Instant::now()) =>
            {
                Ok(self.basic())
            }
            State::Basic(Some(_)) | State::Refused(_) | State::LoggingIn(_) | State::Fresh => {
                self.log_in(&mut state).await
            }
        }
    }

    /// The credentials to try after a 401, or the error.
    async fn refused(
        &self,
        call: &Call,
        used: &Arc<Session>,
        answer: &Answer,
    ) -> Result<Credentials, BmcError> {
        let error = errors::of_status(&self.http.reporter, "reading", answer);
        let mut state = self.state.lock().await;
        if let State::Session(current) = &*state {
            if Arc::ptr_eq(current, used) {
                *state = State::Refused(Arc::clone(used));
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
        if let State::Refused(session) = &*state {
            let refused = Credentials::Session(Arc::clone(session));
            *state = State::Fresh;
            // Most have expired, and a BMC that does not answer is not waited for.
            let _ = timeout(DELETE_WITHIN, session::close(&self.http, &refused)).await;
        }
        let opened = match &root.sessions {
            Some(link) => self.open(state, &root, link).await?,
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

    /// The session of the login that an earlier call began and did not wait for, or else of a new one.
    async fn open(
        &self,
        state: &mut State,
        root: &Root,
        link: &str,
    ) -> Result<SessionAttempt, BmcError> {
        if let State::LoggingIn(_) = state
            && let Ok(attempt) = self.logged_in(state).await?
        {
            return Ok(attempt);
        }
        let refuses_all = vendor::refuses_sessions(root);
        let url = self.http.resolve(link)?;
        *state = State::LoggingIn(Login::begin(&self.http, url, &self.account, refuses_all));
        self.logged_in(state).await?
    }

    /// Waits for the login that goes on. The outer error: it still does.
    async fn logged_in(
        &self,
        state: &mut State,
    ) -> Result<Result<SessionAttempt, BmcError>, BmcError> {
        let stopped = || {
            let message = "logging in: the login was stopped";
            Err(self.http.reporter.error(ErrorKind::Protocol, message))
        };
        let State::LoggingIn(login) = state else {
            return Ok(stopped());
        };
        let Ok(login) = timeout(self.patience, login).await else {
            let message =
                "logging in: no complete response in time; it is waited for in the next call";
            return Err(self.http.reporter.error(ErrorKind::Timeout, message));
        };
        *state = State::Fresh;
        Ok(login.ok().and_then(Login::take).unwrap_or_else(stopped))
    }
}
