//! Metrics and explanations over HTTPS, for callers that the Kubernetes API server authorises.
//!
//! The caller sends a bearer token, which a TokenReview identifies, or shows the client certificate of its
//! kubeconfig. A SubjectAccessReview tells whether the user may `get` the path, as in controllers that are built
//! with controller-runtime.

mod caller;
mod client_ca;
mod review;

use std::sync::Arc;

use anyhow::Context as _;
use axum::{
    Json, Router,
    extract::{Query, State, rejection::QueryRejection},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use kube::Client;
use prometheus_client::registry::Registry;
use rackhand_transport::{WebTls, admin::metrics_response};
use tokio::{net::TcpListener, time::Instant};
use tokio_util::sync::CancellationToken;

use crate::{
    config::{METRICS_PATH, MetricsConfig},
    serve::{
        explain::{EXPLAIN_PATH, Explainer, NoView, Question},
        https::Https,
        page::{self, PAGE_PATH, Page},
    },
    store::metrics::render,
};
use caller::MaybeCaller;
use review::{Access, Reviewer};

/// Reads or creates the certificate and binds the address at the start, so that an invalid one ends the
/// process.
///
/// # Errors
/// The certificate cannot be used, or the address cannot be bound.
pub(crate) async fn bind(config: &MetricsConfig) -> anyhow::Result<Https> {
    let MetricsConfig { address, tls_dir } = config;
    let tls = match tls_dir {
        Some(dir) => WebTls::in_dir(dir)
            .with_context(|| format!("metrics TLS directory {}", dir.display()))?,
        None => WebTls::self_signed("rackhand-controller-metrics")?,
    };
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("metrics address {address}"))?;
    Ok(Https {
        name: "metrics",
        listener,
        tls: Arc::new(tls),
    })
}

/// The sources of all responses.
pub(crate) struct Served {
    pub(crate) metrics: Arc<Registry>,
    pub(crate) explainer: Explainer,
    pub(crate) page: Page,
}

struct Service {
    reviewer: Reviewer,
    served: Served,
}

/// Serves until `cancel`.
pub(crate) async fn run(https: Https, client: Client, served: Served, cancel: CancellationToken) {
    let service = Arc::new(Service {
        reviewer: Reviewer::new(client.clone()),
        served,
    });
    let app = Router::new()
        .route(METRICS_PATH, get(metrics))
        .route(EXPLAIN_PATH, get(explain))
        .merge(page_routes())
        .with_state(service);
    let following = client_ca::follow(client, https.tls.clone(), cancel.clone());
    tokio::join!(https.run(app, cancel), following);
}

async fn metrics(State(service): State<Arc<Service>>, caller: MaybeCaller) -> Response {
    match service.refuse(caller, METRICS_PATH).await {
        Some(refusal) => refusal,
        None => metrics_response(render(&service.served.metrics)).into_response(),
    }
}

async fn explain(
    State(service): State<Arc<Service>>,
    caller: MaybeCaller,
    question: Result<Query<Question>, QueryRejection>,
) -> Response {
    if let Some(refusal) = service.refuse(caller, EXPLAIN_PATH).await {
        return refusal;
    }
    let subject = match question {
        Ok(Query(question)) => question.subject(),
        Err(rejection) => return failed(StatusCode::BAD_REQUEST, rejection),
    };
    match service.served.explainer.explain(&subject).await {
        Ok(view) => Json(view).into_response(),
        Err(why) => no_view(why),
    }
}

fn page_routes() -> Router<Arc<Service>> {
    let below = |name: &str| format!("{PAGE_PATH}/{name}");
    Router::new()
        .route(&below(""), get(show_page))
        .route(&below("overview.json"), get(show_overview))
        .route(&below("explain"), get(show_explanation))
        .route(&below("page.css"), get(async || page::style()))
        .route(&below("page.js"), get(async || page::script()))
}

async fn show_page(State(service): State<Arc<Service>>, caller: MaybeCaller) -> Response {
    match service.refuse(caller, PAGE_PATH).await {
        Some(refusal) => refusal,
        None => {
            let shown = service.served.page.page(&service.served.explainer);
            shown.await.unwrap_or_else(no_view)
        }
    }
}

async fn show_overview(State(service): State<Arc<Service>>, caller: MaybeCaller) -> Response {
    match service.refuse(caller, PAGE_PATH).await {
        Some(refusal) => refusal,
        None => {
            let shown = service.served.page.json(&service.served.explainer);
            shown.await.unwrap_or_else(no_view)
        }
    }
}

async fn show_explanation(
    State(service): State<Arc<Service>>,
    caller: MaybeCaller,
    question: Result<Query<Question>, QueryRejection>,
) -> Response {
    if let Some(refusal) = service.refuse(caller, PAGE_PATH).await {
        return refusal;
    }
    let subject = match question {
        Ok(Query(question)) => question.subject(),
        Err(rejection) => return failed(StatusCode::BAD_REQUEST, rejection),
    };
    let served = &service.served;
    match served.page.explanation(&served.explainer, &subject).await {
        Ok(page) => page,
        Err(why) => no_view(why),
    }
}

fn no_view(why: NoView) -> Response {
    match why {
        NoView::Standby => standby(),
        NoView::Failed(error) => failed(StatusCode::UNPROCESSABLE_ENTITY, error),
    }
}

fn standby() -> Response {
    failed(
        StatusCode::SERVICE_UNAVAILABLE,
        "this replica is on standby; query the leader",
    )
}

fn failed(status: StatusCode, why: impl std::fmt::Display) -> Response {
    (status, format!("{why}\n")).into_response()
}

impl Service {
    /// The response to a caller who may not `get` this path; `None` if the caller may.
    async fn refuse(&self, caller: MaybeCaller, path: &str) -> Option<Response> {
        let Some(caller) = caller.0 else {
            return Some(unauthenticated(
                "send the token of an account as a bearer token, or show the client certificate of a kubeconfig\n",
            ));
        };
        match self.reviewer.access(&caller, path, Instant::now()).await {
            Ok(Access::Granted) => None,
            Ok(Access::Unauthenticated) => Some(unauthenticated("the token is not valid\n")),
            Ok(Access::Forbidden(user)) => {
                let role = match path {
                    METRICS_PATH => "rackhand-metrics-reader",
                    _ => "rackhand-explain-reader",
                };
                let why = format!("{user} may not get {path}: bind the ClusterRole {role} to it");
                Some(failed(StatusCode::FORBIDDEN, why))
            }
            Err(error) => {
                tracing::warn!(%error, path, "cannot check whether a caller may read");
                Some(failed(StatusCode::SERVICE_UNAVAILABLE, error))
            }
        }
    }
}

fn unauthenticated(why: &'static str) -> Response {
    let challenge = [(header::WWW_AUTHENTICATE, "Bearer")];
    (StatusCode::UNAUTHORIZED, challenge, why).into_response()
}

#[cfg(test)]
mod tests;
