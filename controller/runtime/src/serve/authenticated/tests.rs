//! Authorisation of metrics, with an API server that has two accounts.

use std::sync::atomic::{AtomicUsize, Ordering};

use http::{HeaderMap, HeaderValue};
use serde_json::{Value, json};

use super::*;
use crate::store::fake_api::{client, failure};

/// An API server with the tokens `scraper` and `stranger`; only `scraper` may read metrics.
fn api(asked: Arc<AtomicUsize>) -> Client {
    client(move |request| {
        let asked = asked.clone();
        async move {
            asked.fetch_add(1, Ordering::Relaxed);
            let spec = &request.body["spec"];
            let status = match request.path.as_str() {
                "/apis/authentication.k8s.io/v1/tokenreviews" => match spec["token"].as_str() {
                    Some("broken") => return failure(StatusCode::INTERNAL_SERVER_ERROR),
                    Some(name @ ("scraper" | "stranger")) => json!({
                        "authenticated": true,
                        "user": { "username": name, "groups": ["g"], "extra": { "k": ["v"] } },
                    }),
                    _ => json!({ "authenticated": false, "error": "unknown" }),
                },
                "/apis/authorization.k8s.io/v1/subjectaccessreviews" => {
                    let path = spec["nonResourceAttributes"]["path"].as_str();
                    let wanted = json!({ "path": path, "verb": "get" });
                    let whole = spec["nonResourceAttributes"] == wanted
                        && spec["groups"] == json!(["g"])
                        && spec["extra"] == json!({ "k": ["v"] });
                    json!({ "allowed": whole && spec["user"] == "scraper" && path == Some("/metrics") })
                }
                _ => return failure(StatusCode::NOT_FOUND),
            };
            let mut answer: Value = request.body.clone();
            answer["status"] = status;
            (StatusCode::CREATED, answer)
        }
    })
}

fn service(client: Client) -> Arc<Service> {
    Arc::new(Service {
        reviewer: Reviewer::new(client.clone()),
        served: Served {
            metrics: Arc::default(),
            explainer: Explainer::standby(client),
            page: Page::standby(),
        },
    })
}

fn caller(headers: &HeaderMap) -> MaybeCaller {
    MaybeCaller(caller::Caller::of(headers, None))
}

async fn get_with(service: &Arc<Service>, authorization: Option<&str>) -> u16 {
    let mut headers = HeaderMap::new();
    if let Some(value) = authorization {
        let value = HeaderValue::from_str(value).unwrap();
        headers.insert(header::AUTHORIZATION, value);
    }
    let answer = metrics(State(service.clone()), caller(&headers)).await;
    answer.status().as_u16()
}

#[tokio::test]
async fn metrics_require_token_with_access_to_metrics_path() {
    let asked = Arc::new(AtomicUsize::new(0));
    let service = service(api(asked.clone()));
    for (authorization, status, calls) in [
        (None, 401, 0),
        (Some("Basic c2NyYXBlcg=="), 401, 0),
        (Some("Bearer "), 401, 0),
        (Some("Bearer nobody"), 401, 1),
        (Some("Bearer stranger"), 403, 2),
        (Some("Bearer broken"), 503, 1),
        (Some("Bearer scraper"), 200, 2),
        // These reviews are cached.
        (Some("bearer scraper"), 200, 0),
        (Some("Bearer stranger"), 403, 0),
    ] {
        let before = asked.load(Ordering::Relaxed);
        assert_eq!(
            get_with(&service, authorization).await,
            status,
            "{authorization:?}"
        );
        let after = asked.load(Ordering::Relaxed);
        assert_eq!(after - before, calls, "{authorization:?}");
    }
}

#[tokio::test]
async fn metrics_token_is_forbidden_on_status_page() {
    let service = service(api(Arc::default()));
    for (token, status) in [(None, 401), (Some("Bearer scraper"), 403)] {
        let mut headers = HeaderMap::new();
        if let Some(token) = token {
            headers.insert(header::AUTHORIZATION, HeaderValue::from_static(token));
        }
        let page = show_page(State(service.clone()), caller(&headers)).await;
        let json = show_overview(State(service.clone()), caller(&headers)).await;
        assert_eq!(
            (page.status().as_u16(), json.status().as_u16()),
            (status, status)
        );
    }
}

#[tokio::test]
async fn metrics_token_is_forbidden_on_explain_endpoint() {
    let service = service(api(Arc::default()));
    let mut headers = HeaderMap::new();
    let question = |text: &str| {
        let uri: http::Uri = format!("/explain?{text}").parse().unwrap();
        Query::try_from_uri(&uri)
    };
    let asked = question("kind=NodeHealthCheck&name=workers");
    let answer = explain(State(service.clone()), caller(&headers), asked).await;
    assert_eq!(answer.status(), StatusCode::UNAUTHORIZED);
    headers.insert(
        header::AUTHORIZATION,
        HeaderValue::from_static("Bearer scraper"),
    );
    let asked = question("kind=NodeHealthCheck&name=workers");
    let answer = explain(State(service), caller(&headers), asked).await;
    assert_eq!(answer.status(), StatusCode::FORBIDDEN);
}
