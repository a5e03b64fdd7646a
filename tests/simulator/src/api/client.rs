//! kube's client over the API server in memory: requests and answers take their time, and the way fails.

use std::{
    collections::BTreeMap,
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame};
use kube::{Client, client::Body};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use super::{
    load::{Load, Turn},
    request::{Reply, Request},
    resource::PODS,
    watch::Line,
};
use crate::kernel::{ProcessId, Simulation, World};

/// The condition of the way between a process and the API server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ApiCondition {
    /// Nothing comes through. Requests that were sent arrive when the way is whole again, and are
    /// carried out then, whoever still waits for them.
    pub silent: bool,
    /// How much later everything arrives.
    pub late: Duration,
    /// How much later changes are told to watches, beside.
    pub watches_late: Duration,
}

type Held = Box<dyn FnOnce(&mut World) + Send>;

/// The ways of all processes.
#[derive(Default)]
pub(crate) struct ApiWays {
    conditions: BTreeMap<ProcessId, ApiCondition>,
    held: BTreeMap<ProcessId, Vec<Held>>,
    /// How much the API servers have to do.
    pub(crate) load: Load,
}

/// A client of the API server for a process: that of the management cluster, or of the workload cluster with this
/// number where there are several.
#[must_use]
pub fn connect(simulation: &Simulation, process: ProcessId, cluster: Option<usize>) -> Client {
    let simulation = simulation.clone();
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let simulation = simulation.clone();
        async move {
            let request = read(request, cluster).await?;
            let (answer, answered) = oneshot::channel();
            simulation.world().request(process, request, answer);
            answered
                .await
                .unwrap_or_else(|_| Err(io::ErrorKind::ConnectionReset.into()))
                .map_err(tower::BoxError::from)
        }
    });
    Client::new(service, "default")
}

async fn read(
    request: http::Request<Body>,
    cluster: Option<usize>,
) -> Result<Request, tower::BoxError> {
    let (parts, body) = request.into_parts();
    let body = body.collect_bytes().await?;
    let header = |name: http::HeaderName| {
        let value = parts.headers.get(name).and_then(|v| v.to_str().ok());
        value.unwrap_or_default().to_owned()
    };
    let query = parts.uri.query().unwrap_or_default();
    Ok(Request {
        cluster,
        method: parts.method.to_string(),
        path: parts.uri.path().to_owned(),
        query: decode_query(query),
        accept: header(http::header::ACCEPT),
        content_type: header(http::header::CONTENT_TYPE),
        body: if body.is_empty() {
            Value::Null
        } else {
            serde_json::from_slice(&body)?
        },
    })
}

fn decode_query(query: &str) -> BTreeMap<String, String> {
    url::form_urlencoded::parse(query.as_bytes())
        .into_owned()
        .collect()
}

type Answer = oneshot::Sender<io::Result<http::Response<ResponseBody>>>;

impl World {
    /// Changes the way of a process to the API server.
    pub fn set_api_condition(&mut self, process: ProcessId, condition: ApiCondition) {
        self.ways.conditions.insert(process, condition);
        if condition.silent {
            return;
        }
        for held in self.ways.held.remove(&process).unwrap_or_default() {
            let delay = self.api_delay(process);
            self.after(delay, held);
        }
    }

    fn api_condition(&self, process: ProcessId) -> ApiCondition {
        self.ways
            .conditions
            .get(&process)
            .copied()
            .unwrap_or_default()
    }

    pub(super) fn api_is_silent(&self, process: ProcessId) -> bool {
        self.api_condition(process).silent
    }

    pub(super) fn hold_for_api(&mut self, process: ProcessId, held: Held) {
        self.ways.held.entry(process).or_default().push(held);
    }

    /// How long a message takes between a process and the API server.
    pub(super) fn api_delay(&mut self, process: ProcessId) -> Duration {
        let late = self.api_condition(process).late;
        late + self.between(Duration::from_micros(300), Duration::from_millis(3))
    }

    /// How long a change takes until a watch tells it.
    pub(super) fn watch_delay(&mut self, process: ProcessId) -> Duration {
        self.api_condition(process).watches_late + self.api_delay(process)
    }

    fn request(&mut self, process: ProcessId, request: Request, answer: Answer) {
        let delay = self.api_delay(process);
        self.after(delay, move |world| world.queue(process, request, answer));
    }

    /// Lets the API server serve only so many requests in a second, and refuse those that find too many waiting.
    pub(crate) fn load_api(&mut self, rate: u32, most_waiting: usize) {
        self.ways.load.limit(rate, most_waiting);
    }

    /// Ends that. Requests that wait are served in their turn.
    pub(crate) fn unload_api(&mut self) {
        self.ways.load.unlimit();
    }

    /// A request waits until the API server has served those before it.
    fn queue(&mut self, process: ProcessId, request: Request, answer: Answer) {
        // Probes of its health are exempt, and it refuses nothing that does not reach it.
        let is_exempt = request.path == "/readyz" || self.api.away || self.api_is_silent(process);
        let (now, cluster) = (self.now(), request.cluster);
        match self.ways.load.arrive(cluster, is_exempt, now) {
            Turn::Now => self.receive(process, request, answer),
            Turn::Refused => self.respond(process, too_many_requests(), answer),
            Turn::At(at) => self.at(at, move |world| {
                world.ways.load.leaves(cluster);
                world.receive(process, request, answer);
            }),
        }
    }

    fn receive(&mut self, process: ProcessId, request: Request, answer: Answer) {
        if self.api_is_silent(process) {
            let held = move |world: &mut World| world.receive(process, request, answer);
            self.hold_for_api(process, Box::new(held));
            return;
        }
        if self.api.away {
            self.respond(
                process,
                Err(io::ErrorKind::ConnectionRefused.into()),
                answer,
            );
            return;
        }
        let name = self.name(process).to_owned();
        let node = self.node_of_pod_to_delete(&request);
        let reply = self.api.handle(&request);
        let code = match &reply {
            Reply::Document(code, _) | Reply::Text(code, _) => *code,
            Reply::Watch(_) => 200,
        };
        if let (200, Some(node)) = (code, node) {
            self.judge_pod_deletion(&node);
        }
        let reads = request.method == "GET";
        if !reads {
            self.log(format_args!(
                "{name}: {} {} {code}",
                request.method, request.path
            ));
        }
        if request.path.ends_with("/eviction") {
            let counts = &mut self.fleet.oracle.counts;
            counts.evictions += u64::from(code == 201);
            counts.blocked_evictions += u64::from(code == 429);
        }
        let retry_after = match &reply {
            Reply::Document(429, object) => object["details"]["retryAfterSeconds"].as_u64(),
            _ => None,
        };
        let longer = match &reply {
            Reply::Document(_, object) => {
                let now = self.now();
                let load = &mut self.ways.load;
                load.answers(request.cluster, &request, object, now)
            }
            Reply::Text(..) | Reply::Watch(_) => Duration::ZERO,
        };
        let response = match reply {
            Reply::Document(code, object) => serde_json::to_vec(&*object)
                .map_err(io::Error::from)
                .and_then(|json| response(code, ResponseBody::Whole(Some(json.into())))),
            Reply::Text(code, text) => response(code, ResponseBody::Whole(Some(text.into()))),
            Reply::Watch(watch) => {
                let (lines, body) = mpsc::unbounded_channel();
                self.open_watch(process, watch, lines);
                response(200, ResponseBody::Watch(body))
            }
        };
        let response = response.map(|mut response| {
            if let Some(seconds) = retry_after {
                let headers = response.headers_mut();
                headers.insert(http::header::RETRY_AFTER, seconds.into());
            }
            response
        });
        self.settle_changes();
        if longer.is_zero() {
            return self.respond(process, response, answer);
        }
        self.after(longer, move |world| {
            world.respond(process, response, answer);
        });
    }

    /// The Node of the pod that a request deletes. Only Rackhand deletes pods by requests.
    fn node_of_pod_to_delete(&self, request: &Request) -> Option<String> {
        let mut parts = request.path.rsplit('/');
        let (name, kind, namespace) = (parts.next()?, parts.next()?, parts.next()?);
        if request.method != "DELETE" || kind != PODS.plural {
            return None;
        }
        let pod = self.api.get(PODS, namespace, name)?;
        pod["spec"]["nodeName"].as_str().map(str::to_owned)
    }

    fn respond(
        &mut self,
        process: ProcessId,
        response: io::Result<http::Response<ResponseBody>>,
        answer: Answer,
    ) {
        let delay = self.api_delay(process);
        self.after(delay, move |world| world.give(process, response, answer));
    }

    fn give(
        &mut self,
        process: ProcessId,
        response: io::Result<http::Response<ResponseBody>>,
        answer: Answer,
    ) {
        if self.api_is_silent(process) {
            let held = move |world: &mut World| world.give(process, response, answer);
            self.hold_for_api(process, Box::new(held));
            return;
        }
        answer.send(response).ok();
        self.wake(process, None);
    }

    /// Tells everybody of what has changed: watches, and the parts of the world that act on it.
    pub fn settle_changes(&mut self) {
        let changes = self.api.take_changes();
        if changes.is_empty() {
            return;
        }
        self.tell_watches(&changes);
        for change in changes {
            self.observe(&change);
        }
    }
}

/// The answer of priority and fairness: no Status, and always the same pause.
fn too_many_requests() -> io::Result<http::Response<ResponseBody>> {
    let text = "Too many requests, please try again later.\n";
    let response = http::Response::builder()
        .status(429)
        .header(http::header::CONTENT_TYPE, "text/plain; charset=utf-8")
        .header(http::header::RETRY_AFTER, "1")
        .body(ResponseBody::Whole(Some(text.into())));
    response.map_err(io::Error::other)
}

fn response(code: u16, body: ResponseBody) -> io::Result<http::Response<ResponseBody>> {
    let response = http::Response::builder()
        .status(code)
        .header(http::header::CONTENT_TYPE, "application/json")
        .body(body);
    response.map_err(io::Error::other)
}

/// The body of a response.
#[derive(Debug)]
pub(super) enum ResponseBody {
    Whole(Option<Bytes>),
    Watch(mpsc::UnboundedReceiver<Line>),
}

impl HttpBody for ResponseBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match &mut *self {
            Self::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Self::Watch(lines) => lines
                .poll_recv(cx)
                .map(|line| line.map(|line| line.map(Frame::data))),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use std::sync::Arc;

    use futures::FutureExt;

    use super::*;
    use crate::{
        fleet::{Fleet, FleetSpec},
        kernel::Kernel,
    };

    #[test]
    fn busy_api_server_refuses_what_finds_too_many_waiting() {
        let mut kernel = Kernel::new(World::new(1, Fleet::new(FleetSpec::of(0, 1, 0))));
        let process = kernel.add("client", Arc::new(|_| std::future::pending().boxed()));
        let simulation = kernel.simulation();
        simulation.world().load_api(1, 2);
        let ask = |path: &str| {
            let (answer, answered) = oneshot::channel();
            let request = Request {
                method: "GET".into(),
                path: path.into(),
                ..Request::default()
            };
            simulation.world().queue(process, request, answer);
            answered
        };
        let mut asked: Vec<_> = (0..4).map(|_| ask("/api/v1/nodes")).collect();
        asked.push(ask("/readyz"));
        kernel.run_until(Duration::from_secs(10)).unwrap();
        let answers = asked.into_iter().map(|mut answered| {
            let response = answered.try_recv().unwrap().unwrap();
            let pause = response.headers().get(http::header::RETRY_AFTER);
            (
                response.status().as_u16(),
                pause.map(|pause| pause.to_str().unwrap() == "1"),
            )
        });
        let answers: Vec<_> = answers.collect();
        let refused = (429, Some(true));
        let served = (200, None);
        assert_eq!(answers, [served, served, refused, refused, served]);
        assert_eq!(simulation.world().ways.load.refused, 2);
        simulation.world().unload_api();
        assert_eq!(simulation.world().ways.load.rate, None);
    }
}
