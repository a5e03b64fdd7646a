//! A BMC over plain HTTP with reqwest: fast, and with access to every header.

use std::time::Duration;

use rackhand_tests::rack::redfish::{Profile, Vendor};
use rackhand_tests::rack::{HostConfig, Rack, RackConfig, SimHost};
use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};

use super::SOON;

/// A response.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) text: String,
}

impl Response {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// The last part of the first message's id.
    pub(crate) fn message(&self) -> String {
        let json = self.json();
        let id = json["error"]["@Message.ExtendedInfo"][0]["MessageId"].as_str();
        let id = id.unwrap_or_else(|| panic!("no message in {json}"));
        id.rsplit('.').next().unwrap().to_owned()
    }
}

/// A BMC and its client.
pub(crate) struct Sim {
    pub(crate) host: SimHost,
    pub(crate) client: reqwest::Client,
    pub(crate) base: String,
    _rack: Rack,
}

impl Sim {
    /// A BMC with this profile.
    pub(crate) async fn of(vendor: Vendor) -> Self {
        Self::start(|host| host.bmc.profile = Profile::of(vendor)).await
    }

    /// A BMC with a modified host configuration.
    pub(crate) async fn start(change: impl Fn(&mut HostConfig)) -> Self {
        rustls::crypto::ring::default_provider()
            .install_default()
            .ok();
        let config = RackConfig::new("rack-a", ["n1"]).each(|host| {
            host.bmc.tls = false;
            change(host);
        });
        let rack = Rack::start(config, None, None).await.unwrap();
        let host = rack.host("n1").unwrap().clone();
        let client = reqwest::Client::builder()
            .no_proxy()
            .timeout(SOON)
            .redirect(reqwest::redirect::Policy::none())
            .build()
            .unwrap();
        Self {
            base: host.bmc_url().unwrap(),
            host,
            client,
            _rack: rack,
        }
    }

    /// The path of the System.
    pub(crate) fn system(&self) -> String {
        let id = &self.host.config().bmc.profile.system_id;
        format!("/redfish/v1/Systems/{id}")
    }

    /// A request with valid credentials.
    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let url = format!("{}{path}", self.base);
        let request = self.client.request(method, url);
        request.basic_auth("admin", Some("secret"))
    }

    pub(crate) async fn send(&self, request: RequestBuilder) -> Response {
        self.try_send(request).await.unwrap()
    }

    pub(crate) async fn try_send(&self, request: RequestBuilder) -> reqwest::Result<Response> {
        let answer = request.send().await?;
        Ok(Response {
            status: answer.status().as_u16(),
            headers: answer.headers().clone(),
            text: answer.text().await?,
        })
    }

    pub(crate) async fn get(&self, path: &str) -> Response {
        self.send(self.request(Method::GET, path)).await
    }

    /// The document of a GET, which must succeed.
    pub(crate) async fn shown(&self, path: &str) -> Value {
        let said = self.get(path).await;
        assert_eq!(said.status, StatusCode::OK, "{path}: {said:?}");
        said.json()
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Response {
        self.send(self.request(Method::POST, path).json(body)).await
    }

    pub(crate) async fn patch(&self, path: &str, if_match: Option<&str>, body: &Value) -> Response {
        let mut request = self.request(Method::PATCH, path).json(body);
        if let Some(tag) = if_match {
            request = request.header("If-Match", tag);
        }
        self.send(request).await
    }

    pub(crate) async fn reset(&self, kind: &str) -> Response {
        let path = format!("{}/Actions/ComputerSystem.Reset", self.system());
        self.post(&path, &json!({"ResetType": kind})).await
    }

    /// Opens a session.
    pub(crate) async fn login(&self) -> Response {
        let url = format!("{}/redfish/v1/SessionService/Sessions", self.base);
        let who = json!({"UserName": "admin", "Password": "secret"});
        self.send(self.client.post(url).json(&who)).await
    }

    /// Advances the stopped clock by this many seconds.
    pub(crate) fn forward(&self, seconds: u64) {
        self.host.advance(Duration::from_secs(seconds));
    }
}
