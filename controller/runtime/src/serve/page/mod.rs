//! The status page of the leader, for people: read-only, and useful without JavaScript.
//!
//! Serves the routes below [`PAGE_PATH`], for which a caller needs the verb `get`. It changes nothing, and
//! shows nothing that a view does not contain.

mod facts;
mod html;
mod remediations;

use std::sync::{Arc, OnceLock, Weak};

use axum::{
    Json,
    http::header,
    response::{IntoResponse, Response},
};
use jiff::Timestamp;
use rackhand_core::overview::{LeaderView, Overview, overview};

use super::explain::{Explainer, NoView, Subject};
use crate::{
    agents::AgentConnections,
    leader::Leader,
    store::{clock, index::Index},
};
use facts::DisplayTime;

/// Path of the page, for which a caller needs the verb `get`.
pub(crate) const PAGE_PATH: &str = "/page";

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Content security policy: the page loads and connects only to its own origin.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

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
        use std::{collections::BTreeMap, time::Duration};
        let seconds = Duration::from_secs;
        let lease = rackhand_core::lease::LeaseConfig::new(seconds(15), seconds(10), seconds(2));
        Self {
            replica: "me".to_owned(),
            leader: Leader::new("me".into(), lease.unwrap(), &BTreeMap::new(), None),
            index: Arc::new(Index::new(Vec::new())),
            state: Arc::default(),
        }
    }

    /// The overview; `None` if this replica does not lead.
    fn overview(&self, explainer: &Explainer) -> Option<Overview> {
        let term = self.leader.term()?;
        let (agents, since) = self.state.0.get()?;
        let agents = agents.upgrade()?;
        let leader = LeaderView {
            name: self.replica.clone(),
            term,
            since: *since,
        };
        let now = DisplayTime {
            engine: clock::monotonic_now(),
            ahead: clock::wall_ahead(),
        };
        let facts = facts::collect(leader, &self.index, &agents, explainer.live(), now);
        Some(overview(&facts, now.wall()))
    }

    /// The response with the page as HTML.
    pub(crate) fn page(&self, explainer: &Explainer) -> Option<Response> {
        let overview = self.overview(explainer)?;
        Some(secured(html::page(&overview).into_string()))
    }

    /// The response with the overview as JSON.
    pub(crate) fn json(&self, explainer: &Explainer) -> Option<Response> {
        Some(Json(self.overview(explainer)?).into_response())
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

fn secured(body: String) -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, body).into_response()
}
