//! The status page of the leader, for people: read-only, and useful without JavaScript.
//!
//! Serves the routes below [`PAGE_PATH`], for which a caller needs the verb `get`. It changes nothing, and
//! shows nothing that a view does not contain.

mod html;
mod overview;
mod remediations;

use std::{
    sync::{Arc, OnceLock, Weak},
    time::{Duration, Instant},
};

use axum::{
    body::Bytes,
    http::header,
    response::{IntoResponse, Response},
};
use jiff::Timestamp;
use rackhand_core::overview::{LeaderView, overview};
use tokio::sync::Mutex;

use super::explain::{ExplainError, Explainer, NoView, Subject};
use crate::{
    agents::AgentConnections,
    leader::Leader,
    store::{clock, index::Index},
};
use overview::DisplayTime;

/// Path of the page, for which a caller needs the verb `get`.
pub(crate) const PAGE_PATH: &str = "/page";

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Content security policy: the page loads and connects only to its own origin.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// How long a rendered page is shown again. An open page asks for a fresh one every two seconds.
const SHOWN_FOR: Duration = Duration::from_secs(1);

/// The agents of the leader, and since when it leads. The reference is weak, because agents hold handles of
/// the writing tasks, which end when the last handle is dropped.
#[derive(Default)]
pub(crate) struct LeaderState(OnceLock<(Weak<AgentConnections>, Timestamp)>);

/// Serves the page of the leader.
pub(crate) struct Page {
    pub(crate) replica: String,
    pub(crate) leader: Leader,
    pub(crate) index: Arc<Index>,
    pub(crate) state: Arc<LeaderState>,
    pub(crate) shown: ShownPage,
}

/// The page as rendered last, for the requests that come soon after.
pub(crate) type ShownPage = Arc<Mutex<Option<Arc<Shown>>>>;

/// A rendered page.
pub(crate) struct Shown {
    /// The term of the leader that it shows.
    term: u64,
    /// When it was begun.
    at: Instant,
    html: Bytes,
    json: Bytes,
}

impl LeaderState {
    /// Records that this replica leads from now on.
    pub(crate) fn leads(&self, agents: &Arc<AgentConnections>) {
        let agents = Arc::downgrade(agents);
        self.0.set((agents, clock::monotonic_now())).ok();
    }
}

impl Page {
    /// The page of a replica on standby.
    #[cfg(test)]
    pub(crate) fn standby() -> Self {
        use std::collections::BTreeMap;
        let seconds = Duration::from_secs;
        let lease = rackhand_core::lease::LeaseConfig::new(seconds(15), seconds(10), seconds(2));
        Self {
            replica: "me".to_owned(),
            leader: Leader::new("me".into(), lease.unwrap(), &BTreeMap::new(), None),
            index: Arc::new(Index::new(Vec::new())),
            state: Arc::default(),
            shown: ShownPage::default(),
        }
    }

    /// The page as rendered last, or rendered again if that is too old. Of several requests that come together,
    /// one renders for all.
    ///
    /// # Errors
    /// This replica does not lead, or the page cannot be rendered.
    async fn shown(&self, explainer: &Explainer) -> Result<Arc<Shown>, NoView> {
        let term = self.leader.term().ok_or(NoView::Standby)?;
        let mut shown = self.shown.lock().await;
        let is_fresh = |s: &&Arc<Shown>| s.term == term && s.at.elapsed() < SHOWN_FOR;
        if let Some(shown) = shown.as_ref().filter(is_fresh) {
            return Ok(shown.clone());
        }
        // Two of them would be in memory together.
        *shown = None;
        let (agents, since) = self.state.0.get().ok_or(NoView::Standby)?;
        let agents = agents.upgrade().ok_or(NoView::Standby)?;
        let leader = LeaderView {
            name: self.replica.clone(),
            term,
            since: *since,
        };
        let now = DisplayTime {
            engine: clock::monotonic_now(),
            ahead: clock::wall_ahead(),
        };
        let (index, live) = (self.index.clone(), explainer.live());
        // On a thread of its own: in a large fleet it takes far longer than other tasks may wait.
        let render = move || {
            let at = Instant::now();
            let facts = overview::collect(leader, &index, &agents, &live, now);
            let overview = overview(&facts, now.wall());
            drop(facts);
            let html = html::page(&overview).into_string().into();
            let json = serde_json::to_vec(&overview)?.into();
            Ok::<_, serde_json::Error>(Shown {
                term,
                at,
                html,
                json,
            })
        };
        let rendered = tokio::task::spawn_blocking(render).await;
        let failed = |error: &dyn std::fmt::Display| {
            tracing::error!(%error, "the status page cannot be rendered");
            NoView::Failed(ExplainError::Request(format!(
                "the page cannot be rendered: {error}"
            )))
        };
        let rendered = rendered.map_err(|error| failed(&error))?;
        let rendered = Arc::new(rendered.map_err(|error| failed(&error))?);
        *shown = Some(rendered.clone());
        self.forget_later();
        Ok(rendered)
    }

    /// Frees the memory of a page once nobody asks for it.
    fn forget_later(&self) {
        let shown = self.shown.clone();
        tokio::spawn(async move {
            tokio::time::sleep(SHOWN_FOR).await;
            let mut shown = shown.lock().await;
            shown.take_if(|shown| shown.at.elapsed() >= SHOWN_FOR);
        });
    }

    /// The response with the page as HTML.
    ///
    /// # Errors
    /// This replica does not lead, or the page cannot be rendered.
    pub(crate) async fn page(&self, explainer: &Explainer) -> Result<Response, NoView> {
        Ok(secured(self.shown(explainer).await?.html.clone()))
    }

    /// The response with the overview as JSON.
    ///
    /// # Errors
    /// This replica does not lead, or the page cannot be rendered.
    pub(crate) async fn json(&self, explainer: &Explainer) -> Result<Response, NoView> {
        let json = self.shown(explainer).await?.json.clone();
        Ok(([(header::CONTENT_TYPE, "application/json")], json).into_response())
    }

    /// The response with an explanation as a page.
    pub(crate) async fn explanation(
        &self,
        explainer: &Explainer,
        subject: &Subject,
    ) -> Result<Response, NoView> {
        let view = explainer.explain(subject).await?;
        Ok(secured(html::explanation(&view.to_string()).into_string()))
    }
}

pub(crate) fn style() -> Response {
    ([(header::CONTENT_TYPE, "text/css; charset=utf-8")], STYLE).into_response()
}

pub(crate) fn script() -> Response {
    let kind = "text/javascript; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], SCRIPT).into_response()
}

fn secured(body: impl IntoResponse) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, body).into_response()
}
