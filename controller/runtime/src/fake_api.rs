//! What tests of a driver begin with: a client of an API server of a few lines, and a leader.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use http::{Method, Request, Response, StatusCode};
use kube::{Client, client::Body};
use rackhand_core::lease::LeaseConfig;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    events::Events,
    leader::Leader,
    metrics::Metrics,
    writer::{Lane, Writer},
};

/// What is asked of an API server.
pub(crate) struct Asked {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) watches: bool,
    pub(crate) body: Value,
}

/// A client of an API server that answers so.
pub(crate) fn client<A, F>(answer: A) -> Client
where
    A: Fn(Asked) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = (StatusCode, Value)> + Send + 'static,
{
    let service = tower::service_fn(move |request: Request<Body>| {
        let answer = answer.clone();
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect_bytes().await?;
            let asked = Asked {
                path: parts.uri.path().to_owned(),
                watches: parts.uri.query().is_some_and(|q| q.contains("watch=")),
                method: parts.method,
                body: serde_json::from_slice(&body).unwrap_or_default(),
            };
            let (status, answer) = answer(asked).await;
            let body = Body::from(answer.to_string().into_bytes());
            let response = Response::builder().status(status).body(body)?;
            Ok::<_, tower::BoxError>(response)
        }
    });
    Client::new(service, "ns")
}

/// A refusal.
pub(crate) fn failure(code: StatusCode) -> (StatusCode, Value) {
    let reason = match code {
        StatusCode::CONFLICT => "AlreadyExists",
        _ => "",
    };
    let status = json!({
        "kind": "Status", "status": "Failure", "code": code.as_u16(), "reason": reason, "message": "no",
    });
    (code, status)
}

/// A process that leads, and writes.
pub(crate) struct Leading {
    pub(crate) writer: Writer,
    pub(crate) events: Events,
    pub(crate) metrics: Arc<Metrics>,
    /// Ends all of it.
    pub(crate) cancel: CancellationToken,
}

impl Leading {
    /// By the Lease `ns/l` of that API server.
    pub(crate) async fn start(client: &Client) -> Self {
        let (long, short) = (Duration::from_secs(60), Duration::from_secs(1));
        let lease = LeaseConfig::new(long, long / 2, short).unwrap();
        let leader = Leader::new("me".into(), lease, &BTreeMap::new());
        let (leads, mut leading) = watch::channel(false);
        let cancel = CancellationToken::new();
        let (campaign, of_leader, stop) = (leader.clone(), client.clone(), cancel.clone());
        tokio::spawn(async move { campaign.run(&of_leader, "ns", "l", leads, stop).await });
        leading.wait_for(|leads| *leads).await.unwrap();
        let metrics = Metrics::new();
        let (writer, writing) = Writer::new(&leader, metrics.clone(), Lane::Requests);
        tokio::spawn(writing);
        let (events, sending) = Events::new(client.clone(), &leader, writer.clone());
        tokio::spawn(sending);
        Self {
            writer,
            events,
            metrics,
            cancel,
        }
    }
}
