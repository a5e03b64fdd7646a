//! The resources of one BMC: reading them, and changing them.
//!
//! [`Reader`] and [`Writer`] are the only ways to the BMC; both belong to one call. Must never: let a part of the
//! driver that has only a reader change anything.

mod action_form;
mod change;
mod discovery;

use std::{
    collections::BTreeMap,
    sync::{MutexGuard, PoisonError},
    time::Duration,
};

use serde_json::Value;
use tokio::{
    sync::Mutex,
    time::{Instant, timeout},
};
use url::Url;

use self::{action_form::ActionForm, discovery::Locator};
use crate::{
    BmcError, ErrorKind,
    redfish::{
        RedfishConfig,
        protocol::{
            auth::{Accepted, Access},
            call_budget::Call,
            document::{self, Action, Root},
            errors,
            reporter::Reporter,
            response::{Answer, Body},
        },
    },
};
pub(super) use change::{ChangeOutcome, Writer};
pub(super) use discovery::SystemResource;

/// Access to the resources of one BMC, and what is known about them.
pub(super) struct Resources {
    access: Access,
    locator: Locator,
    /// Reset types of each ActionInfo, by its link; they do not change while a BMC runs. Two
    /// entries at most: the system's and the manager's.
    action_info: Mutex<BTreeMap<String, Vec<String>>>,
    /// Held while a change is in flight: from the reading that it depends on, if any, to its
    /// response.
    changing: Mutex<()>,
    action_form: std::sync::Mutex<ActionForm>,
    begun: Instant,
}

impl Resources {
    pub(super) fn new(config: RedfishConfig) -> Result<Self, BmcError> {
        let locator = Locator::new(config.address.system().map(str::to_owned));
        Ok(Self {
            access: Access::new(config)?,
            locator,
            action_info: Mutex::new(BTreeMap::new()),
            changing: Mutex::new(()),
            action_form: std::sync::Mutex::default(),
            begun: Instant::now(),
        })
    }

    pub(super) fn reporter(&self) -> &Reporter {
        &self.access.http.reporter
    }

    /// No code panics while it holds this lock, so its data are consistent.
    fn action_form(&self) -> MutexGuard<'_, ActionForm> {
        let form = self.action_form.lock();
        form.unwrap_or_else(PoisonError::into_inner)
    }

    /// Time since the client was made.
    fn clock(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Closes the session.
    pub(super) async fn close(&self) -> Result<(), BmcError> {
        self.access.close().await
    }
}

/// Reads the resources of one BMC, in one call.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    resources: &'a Resources,
    call: &'a Call,
}

impl<'a> Reader<'a> {
    pub(super) fn new(resources: &'a Resources, call: &'a Call) -> Self {
        Self { resources, call }
    }

    pub(super) fn reporter(self) -> &'a Reporter {
        self.resources.reporter()
    }

    pub(super) fn error(self, kind: ErrorKind, message: impl Into<String>) -> BmcError {
        self.reporter().error(kind, message)
    }

    /// User name of the requests.
    pub(super) fn username(self) -> &'a str {
        self.resources.access.username()
    }

    pub(super) fn resolve(self, link: &str) -> Result<Url, BmcError> {
        self.resources.access.http.resolve(link)
    }

    /// The URL of a reference that may be relative to its document.
    pub(super) fn resolve_from(self, from: &Url, link: &str) -> Result<Url, BmcError> {
        self.resources.access.http.resolve_from(from, link)
    }

    /// The parts of the service root that the client uses, read once.
    pub(super) async fn root(self) -> Result<Root, BmcError> {
        self.resources.access.root().await
    }

    /// Reads the system, after finding it if necessary.
    pub(super) async fn system(self) -> Result<SystemResource, BmcError> {
        let Resources {
            access, locator, ..
        } = self.resources;
        locator.read(access, self.call).await
    }

    /// Lists the links of all systems of the BMC.
    pub(super) async fn systems(self) -> Result<Vec<String>, BmcError> {
        discovery::members(&self.resources.access, self.call).await
    }

    /// Reads a resource, whatever the status of the response.
    pub(super) async fn get(self, url: &Url) -> Result<Answer, BmcError> {
        self.resources.access.get(self.call, url).await
    }

    /// Reads a document.
    pub(super) async fn fetch(self, url: &Url, doing: &str) -> Result<Value, BmcError> {
        let answer = self.get(url).await?;
        errors::document(self.reporter(), doing, answer)
    }

    /// Reads the document that a link leads to.
    pub(super) async fn follow(self, link: &str, doing: &str) -> Result<Value, BmcError> {
        self.fetch(&self.resolve(link)?, doing).await
    }

    /// Reads a document for a diagnosis; `None`: it cannot be read.
    pub(super) async fn optional(self, link: &str) -> Option<Value> {
        self.follow(link, "reading for a diagnosis").await.ok()
    }

    /// The reset types that the BMC allows; `None` if it does not report them, or not in half of the time that is left:
    /// no command waits for a list. Read after the system in the same call, so that the BMC has accepted the user.
    pub(super) async fn allowed(self, action: &Action) -> Result<Option<Vec<String>>, BmcError> {
        let (None, Some(link)) = (&action.allowed, &action.action_info) else {
            return Ok(action.allowed.clone());
        };
        let action_info = &self.resources.action_info;
        if let Some(words) = action_info.lock().await.get(link) {
            return Ok(Some(words.clone()));
        }
        let url = self.resolve(link)?;
        let access = &self.resources.access;
        let before = access.accepted().await;
        let words = match timeout(self.call.left() / 2, self.get(&url)).await {
            Ok(Ok(answer)) => match &answer.body {
                Body::Json(body) if answer.status.is_success() => document::action_info(body),
                _ => None,
            },
            // The login was refused: a command would count towards locking the account, too. While the session, or the
            // password that has just read the system, is good, only this resource is refused.
            Ok(Err(error)) if error.kind == ErrorKind::Authentication => {
                match (before, access.accepted().await) {
                    (_, Some(Accepted::Session))
                    | (Some(Accepted::Basic), Some(Accepted::Basic)) => None,
                    _ => return Err(error),
                }
            }
            // The ActionInfo is optional: without it the standard type is tried.
            Ok(Err(_)) | Err(_) => None,
        };
        if let Some(words) = &words {
            let mut known = action_info.lock().await;
            if known.len() > 1 {
                known.clear();
            }
            known.insert(link.clone(), words.clone());
        }
        Ok(words)
    }
}
