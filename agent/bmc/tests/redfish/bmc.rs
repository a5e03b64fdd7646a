//! A scripted BMC: standard responses, and overrides by the test.

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Router,
    body::{Body, Bytes},
    extract::Request,
    response::Response,
};
use http::{HeaderMap, StatusCode};
use rackhand_bmc::{
    Bmc,
    redfish::{RedfishConfig, Timeouts, connect},
};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinHandle};

pub(crate) const USER: &str = "admin";
pub(crate) const PASSWORD: &str = "s3cret-pw";
/// `admin:s3cret-pw`.
pub(crate) const BASIC: &str = "Basic YWRtaW46czNjcmV0LXB3";
pub(crate) const SYSTEM: &str = "/redfish/v1/Systems/1";
pub(crate) const RESET: &str = "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset";
pub(crate) const SESSIONS: &str = "/redfish/v1/SessionService/Sessions";

/// A received request.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Value,
}

impl Seen {
    pub(crate) fn is(&self, method: &str, path: &str) -> bool {
        self.method == method && self.path == path
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

/// A response to send.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reply {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
    late: Duration,
}

impl Reply {
    pub(crate) fn status(status: u16) -> Self {
        Self {
            status,
            ..Self::default()
        }
    }

    pub(crate) fn json(status: u16, body: &Value) -> Self {
        Self::status(status).body(body.to_string())
    }

    /// An error document with one message.
    pub(crate) fn message(status: u16, id: &str, text: &str) -> Self {
        let message = json!({"MessageId": id, "Message": text, "Severity": "Critical"});
        let error = json!({"code": "Base.1.8.GeneralError", "@Message.ExtendedInfo": [message]});
        Self::json(status, &json!({"error": error}))
    }

    pub(crate) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Sends it only after this time.
    pub(crate) fn late(mut self, late: Duration) -> Self {
        self.late = late;
        self
    }

    pub(crate) fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }
}

/// State of the BMC with standard responses.
pub(crate) struct World {
    pub(crate) power: Value,
    pub(crate) takes_basic: bool,
    pub(crate) tokens: Vec<String>,
    pub(crate) systems: Vec<(String, Value)>,
    /// Documents besides the systems.
    pub(crate) documents: BTreeMap<String, Value>,
    /// Additional properties of the service root.
    pub(crate) root: Value,
    logins: usize,
}

pub(crate) fn system(path: &str, reset: &Value) -> Value {
    json!({
        "@odata.type": "#ComputerSystem.v1_13_0.ComputerSystem",
        "@odata.id": path,
        "@odata.etag": "W/\"1234\"",
        "UUID": "4c4c4544-0042-3510-8054-c2c04f4e4e32",
        "SerialNumber": "ABC123",
        "Manufacturer": "Example",
        "Model": "E1",
        "Actions": {"#ComputerSystem.Reset": reset},
    })
}

/// A Reset action with this list of reset types in the document itself.
pub(crate) fn inline(types: &[&str]) -> Value {
    json!({"target": RESET, "ResetType@Redfish.AllowableValues": types})
}

/// Merges the properties of a PATCH into a document.
fn merge(document: &mut Value, change: &Value) {
    match (document, change) {
        (Value::Object(document), Value::Object(change)) => {
            for (name, value) in change {
                merge(document.entry(name.clone()).or_insert(Value::Null), value);
            }
        }
        (document, change) => *document = change.clone(),
    }
}

impl World {
    fn new() -> Self {
        let reset = inline(&["On", "ForceOff", "GracefulShutdown", "ForceRestart"]);
        Self {
            power: json!("On"),
            takes_basic: true,
            tokens: Vec::new(),
            systems: vec![(SYSTEM.to_owned(), system(SYSTEM, &reset))],
            documents: BTreeMap::new(),
            root: json!({}),
            logins: 0,
        }
    }

    fn answer(&mut self, seen: &Seen) -> Reply {
        match (seen.method.as_str(), seen.path.as_str()) {
            ("GET", "/redfish/v1/") => {
                let mut root = json!({
                    "Systems": {"@odata.id": "/redfish/v1/Systems"},
                    "SessionService": {"@odata.id": "/redfish/v1/SessionService"},
                    "Links": {"Sessions": {"@odata.id": SESSIONS}},
                });
                merge(&mut root, &self.root);
                return Reply::json(200, &root);
            }
            ("POST", SESSIONS) => return self.log_in(seen),
            _ if !self.knows(seen) => return Reply::status(401),
            _ => {}
        }
        match seen.method.as_str() {
            "DELETE" => {
                let token = seen.path.rsplit('/').next().unwrap_or_default();
                self.tokens.retain(|known| known != token);
                Reply::status(204)
            }
            "POST" if seen.path == RESET => {
                let off = seen.body["ResetType"] == "ForceOff";
                self.power = json!(if off { "Off" } else { "On" });
                Reply::status(204)
            }
            "PATCH" => match self.document(&seen.path) {
                Some(document) => {
                    merge(document, &seen.body);
                    Reply::status(204)
                }
                None => Reply::status(404),
            },
            "POST" => Reply::status(404),
            _ if seen.path == "/redfish/v1/Systems" => {
                let members: Vec<_> = self
                    .systems
                    .iter()
                    .map(|(path, _)| json!({"@odata.id": path}))
                    .collect();
                Reply::json(200, &json!({"Members": members}))
            }
            _ if self.documents.contains_key(&seen.path) => {
                Reply::json(200, &self.documents[&seen.path])
            }
            _ => match self.systems.iter().find(|(path, _)| *path == seen.path) {
                Some((_, system)) => {
                    let mut system = system.clone();
                    system["PowerState"] = self.power.clone();
                    Reply::json(200, &system).header("ETag", "W/\"1234\"")
                }
                None => Reply::status(404),
            },
        }
    }

    /// A document that accepts PATCH.
    fn document(&mut self, path: &str) -> Option<&mut Value> {
        let systems = self.systems.iter_mut();
        let documents = self.documents.iter_mut();
        systems
            .map(|(path, document)| (&*path, document))
            .chain(documents)
            .find(|(known, _)| *known == path)
            .map(|(_, document)| document)
    }

    fn log_in(&mut self, seen: &Seen) -> Reply {
        let anonymous = seen.header("authorization").is_none();
        if !anonymous || seen.body["UserName"] != USER || seen.body["Password"] != PASSWORD {
            return Reply::status(401);
        }
        self.logins += 1;
        let token = format!("token-{}", self.logins);
        self.tokens.push(token.clone());
        Reply::json(201, &json!({"Id": token}))
            .header("X-Auth-Token", token.clone())
            .header("Location", format!("{SESSIONS}/{token}"))
    }

    fn knows(&self, seen: &Seen) -> bool {
        match (seen.header("x-auth-token"), seen.header("authorization")) {
            (Some(token), _) => self.tokens.iter().any(|known| known == token),
            (None, Some(basic)) => self.takes_basic && basic == BASIC,
            (None, None) => false,
        }
    }
}

/// A running BMC, stopped when the test ends.
pub(crate) struct TestBmc {
    pub(crate) port: u16,
    pub(crate) world: Arc<Mutex<World>>,
    seen: Arc<Mutex<Vec<Seen>>>,
    server: JoinHandle<io::Result<()>>,
}

impl TestBmc {
    /// Starts a BMC with standard responses.
    pub(crate) async fn start() -> Self {
        Self::with(|_, _| None).await
    }

    /// Starts a BMC with custom responses; `None` falls back to the standard response.
    pub(crate) async fn with(
        script: impl FnMut(&Seen, &mut World) -> Option<Reply> + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        Self::on(port, listener, script)
    }

    pub(crate) fn on<L>(
        port: u16,
        listener: L,
        mut script: impl FnMut(&Seen, &mut World) -> Option<Reply> + Send + 'static,
    ) -> Self
    where
        L: axum::serve::Listener,
        L::Addr: std::fmt::Debug,
    {
        let world = Arc::new(Mutex::new(World::new()));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (the_world, the_seen) = (Arc::clone(&world), Arc::clone(&seen));
        let script = Arc::new(Mutex::new(move |request: Seen| {
            let mut world = the_world.lock().unwrap();
            the_seen.lock().unwrap().push(request.clone());
            script(&request, &mut world).unwrap_or_else(|| world.answer(&request))
        }));
        let handle = move |request: Request| {
            let script = Arc::clone(&script);
            async move {
                let (parts, body) = request.into_parts();
                let body: Bytes = axum::body::to_bytes(body, 1 << 20).await.unwrap();
                let seen = Seen {
                    method: parts.method.to_string(),
                    path: parts.uri.path().to_owned(),
                    query: parts.uri.query().unwrap_or_default().to_owned(),
                    headers: parts.headers,
                    body: serde_json::from_slice(&body).unwrap_or_default(),
                };
                let reply = (script.lock().unwrap())(seen);
                tokio::time::sleep(reply.late).await;
                let mut response = Response::new(Body::from(reply.body));
                *response.status_mut() = StatusCode::from_u16(reply.status).unwrap();
                for (name, value) in reply.headers {
                    response.headers_mut().insert(name, value.parse().unwrap());
                }
                response
            }
        };
        let app = Router::new().fallback(handle);
        let server = tokio::spawn(async move { axum::serve(listener, app).await });
        Self {
            port,
            world,
            seen,
            server,
        }
    }

    /// Settings that reach the BMC by HTTP, without a system path.
    pub(crate) fn config(&self) -> RedfishConfig {
        config(&format!("redfish+http://127.0.0.1:{}", self.port))
    }

    /// A client with these settings.
    pub(crate) fn client(&self) -> Box<dyn Bmc> {
        connect(self.config()).unwrap()
    }

    /// A client of the system with this path.
    pub(crate) fn client_of(&self, path: &str) -> Box<dyn Bmc> {
        let mut config = self.config();
        config.address = format!("{}{path}", config.address).parse().unwrap();
        connect(config).unwrap()
    }

    /// Every request so far, oldest first.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    pub(crate) fn count(&self, method: &str, path: &str) -> usize {
        self.seen()
            .iter()
            .filter(|seen| seen.is(method, path))
            .count()
    }

    /// Adds properties to the first system.
    pub(crate) fn add_to_system(&self, properties: &Value) {
        self.world(|world| merge(&mut world.systems[0].1, properties));
    }

    /// Stores a document at a path.
    pub(crate) fn put(&self, path: &str, document: Value) {
        self.world(|world| world.documents.insert(path.to_owned(), document));
    }

    /// Every request with this method, oldest first.
    pub(crate) fn sent(&self, method: &str) -> Vec<Seen> {
        let mut seen = self.seen();
        seen.retain(|seen| seen.method == method);
        seen
    }

    pub(crate) fn world<T>(&self, look: impl FnOnce(&mut World) -> T) -> T {
        look(&mut self.world.lock().unwrap())
    }
}

impl Drop for TestBmc {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// Settings for an address. The time limits are far above what a loaded machine needs; tests of
/// limits set their own.
pub(crate) fn config(address: &str) -> RedfishConfig {
    let mut config = RedfishConfig::new(address.parse().unwrap(), USER, PASSWORD.into());
    let long = Duration::from_secs(30);
    config.timeouts = Timeouts {
        connect: long,
        request: long,
        task: long,
        call: 2 * long,
        denied: Duration::from_millis(20),
        late_off: Duration::ZERO,
    };
    config
}
