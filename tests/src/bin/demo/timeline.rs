//! What happens, in the order in which it was seen.

use std::{
    collections::BTreeSet,
    io::{IsTerminal, Write},
};

use jiff::Timestamp;
use kube::ResourceExt;
use rackhand_tests::{
    rack::{LogEvent, PowerState},
    stage::{Stage, ready},
};
use serde_json::Value;

/// Where it is shown.
pub(crate) struct Screen {
    colour: bool,
}

impl Screen {
    pub(crate) fn new() -> Self {
        Self {
            colour: std::io::stdout().is_terminal(),
        }
    }

    fn print(&self, text: &str) {
        let mut out = std::io::stdout().lock();
        // A closed pipe is no reason to leave processes behind.
        writeln!(out, "{text}").ok();
        out.flush().ok();
    }

    pub(crate) fn title(&mut self, text: &str) {
        self.print(&format!("\n{}\n", self.paint("1", text)));
    }

    pub(crate) fn step(&mut self, text: &str) {
        self.print(&format!("  ... {text}"));
    }

    pub(crate) fn header(&mut self) {
        self.print(&format!(
            "\n{}",
            self.paint("1", " elapsed  who         what")
        ));
    }

    pub(crate) fn line(&mut self, at: f64, who: &str, what: &str) {
        let colour = match who {
            "BMC" => "31",
            "controller" => "36",
            "kubernetes" => "34",
            "host" => "33",
            _ => "0",
        };
        self.print(&format!(
            "{at:>6.2} s  {} {what}",
            self.paint(colour, &format!("{who:<11}"))
        ));
    }

    fn paint(&self, colour: &str, text: &str) -> String {
        if self.colour {
            format!("\x1b[{colour}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

/// Moments that the summary speaks of.
#[derive(Debug, Clone, Default)]
pub(crate) struct Moments {
    pub(crate) unknown_since: Option<Timestamp>,
    pub(crate) command: Option<Timestamp>,
    pub(crate) off: Option<Timestamp>,
    pub(crate) confirmed: Option<Timestamp>,
    pub(crate) tainted: Option<Timestamp>,
    pub(crate) pod_started: Option<Timestamp>,
    pub(crate) pod_running: Option<(Timestamp, String)>,
    pub(crate) node_back: Option<Timestamp>,
    pub(crate) cleaned: Option<Timestamp>,
}

/// Watches one host, its Node, its Machine and one pod.
pub(crate) struct Timeline<'a> {
    stage: &'a Stage,
    victim: String,
    pod: String,
    pub(crate) start: Timestamp,
    pub(crate) moments: Moments,
    log_seen: usize,
    events_seen: BTreeSet<String>,
    ready: String,
    tainted: bool,
    pod_state: String,
    evidence: bool,
    requested: bool,
}

type Line = (f64, &'static str, String);

impl<'a> Timeline<'a> {
    pub(crate) fn new(stage: &'a Stage, victim: &str, pod: &str) -> Self {
        let log_seen = stage.host(victim).map(|h| h.log().len()).unwrap_or(0);
        Self {
            stage,
            victim: victim.to_owned(),
            pod: pod.to_owned(),
            start: Timestamp::now(),
            moments: Moments::default(),
            log_seen,
            events_seen: BTreeSet::new(),
            ready: "True".into(),
            tainted: false,
            pod_state: String::new(),
            evidence: false,
            requested: false,
        }
    }

    pub(crate) fn since(&self, at: Timestamp) -> f64 {
        at.duration_since(self.start).as_secs_f64()
    }

    /// The request is gone, the node is back, the pod runs.
    pub(crate) fn over(&self) -> bool {
        self.moments.cleaned.is_some() && self.moments.pod_running.is_some()
    }

    /// What is new.
    pub(crate) async fn look(&mut self) -> Vec<Line> {
        let mut lines = Vec::new();
        self.look_at_host(&mut lines);
        self.look_at_node(&mut lines).await;
        self.look_at_remediation(&mut lines).await;
        self.look_at_pod(&mut lines).await;
        self.look_at_events(&mut lines).await;
        lines.sort_by(|a, b| a.0.total_cmp(&b.0));
        lines
    }

    fn look_at_host(&mut self, lines: &mut Vec<Line>) {
        let Ok(host) = self.stage.host(&self.victim) else {
            return;
        };
        for entry in host.log().into_iter().skip(self.log_seen) {
            self.log_seen += 1;
            let wall = entry.stamp.wall;
            let at = self.since(wall);
            match entry.event {
                LogEvent::Command { reset, .. } => {
                    self.moments.command.get_or_insert(wall);
                    lines.push((at, "BMC", format!("received {reset:?}")));
                }
                LogEvent::Power(power) => {
                    if power == PowerState::Off {
                        self.moments.off.get_or_insert(wall);
                    }
                    lines.push((at, "BMC", format!("power is {power:?}")));
                }
                LogEvent::Os(os) => lines.push((at, "host", format!("operating system: {os:?}"))),
                LogEvent::Booted(id) => {
                    let short: String = id.chars().take(8).collect();
                    lines.push((at, "host", format!("booted, boot id {short}...")));
                }
                LogEvent::Stopped { pod, why } => lines.push((
                    at,
                    "host",
                    format!("processes of {} ended: {why:?}", pod.name),
                )),
                LogEvent::Started(pod) => {
                    lines.push((at, "host", format!("processes of {} started", pod.name)));
                }
                LogEvent::Reset | LogEvent::Note(_) => {}
            }
        }
        if self.moments.pod_started.is_none()
            && let Some(off) = self.moments.off
        {
            let started = self
                .stage
                .racks()
                .iter()
                .flat_map(|r| r.processes())
                .find(|p| {
                    p.process.pod.name == self.pod
                        && p.host != self.victim
                        && p.process.started_at.wall > off
                });
            if let Some(process) = started {
                let wall = process.process.started_at.wall;
                self.moments.pod_started = Some(wall);
                lines.push((
                    self.since(wall),
                    "host",
                    format!("processes of {} started on {}", self.pod, process.host),
                ));
            }
        }
    }

    async fn look_at_node(&mut self, lines: &mut Vec<Line>) {
        let Ok(node) = self.stage.node(&self.victim).await else {
            return;
        };
        let now = Timestamp::now();
        let state = ready(&node);
        if state != self.ready {
            if state == "Unknown" && self.moments.unknown_since.is_none() {
                let conditions = node.status.as_ref().and_then(|s| s.conditions.as_ref());
                let found = conditions
                    .into_iter()
                    .flatten()
                    .find(|c| c.type_ == "Ready");
                self.moments.unknown_since = found
                    .and_then(|c| c.last_transition_time.as_ref())
                    .map(|t| t.0);
            }
            if state == "True" {
                self.moments.node_back = Some(now);
            }
            lines.push((
                self.since(now),
                "kubernetes",
                format!("node {}: Ready={state}", self.victim),
            ));
            self.ready = state;
        }
        let taints = node.spec.and_then(|s| s.taints).unwrap_or_default();
        let tainted = taints
            .iter()
            .any(|t| t.key == "node.kubernetes.io/out-of-service");
        if tainted != self.tainted {
            self.tainted = tainted;
            if tainted {
                self.moments.tainted = Some(now);
            }
            let what = if tainted { "carries" } else { "does not carry" };
            let what = format!("node {} {what} the out-of-service taint", self.victim);
            lines.push((self.since(now), "kubernetes", what));
        }
    }

    async fn look_at_remediation(&mut self, lines: &mut Vec<Line>) {
        let Ok(found) = self.stage.remediation(&self.victim).await else {
            return;
        };
        let now = Timestamp::now();
        let at = self.since(now);
        match found {
            Some(seen) => {
                if !self.requested {
                    self.requested = true;
                    lines.push((
                        at,
                        "kubernetes",
                        format!("Metal3Remediation {} exists", self.victim),
                    ));
                }
                let annotation = &seen.object["metadata"]["annotations"]["rackhand.dev/state"];
                let state: Value =
                    serde_json::from_str(annotation.as_str().unwrap_or("null")).unwrap_or_default();
                let readings = &state["state"]["off"]["bmc"]["readings"];
                if let (false, Some(list)) = (self.evidence, readings.as_array()) {
                    self.evidence = true;
                    self.moments.confirmed = Some(now);
                    let said: Vec<String> = list
                        .iter()
                        .map(|r| {
                            let time = r["at"].as_str().unwrap_or_default();
                            let time = time.split('T').nth(1).unwrap_or(time);
                            let time = time.get(..12).unwrap_or(time);
                            format!("{} at {time}", r["raw"])
                        })
                        .collect();
                    let bmc = list.first().map(|r| r["bmc"].clone()).unwrap_or_default();
                    let bmc = bmc.as_str().unwrap_or_default().to_owned();
                    lines.push((at, "evidence", format!("{bmc} said {}", said.join(", "))));
                }
            }
            None if self.requested => {
                self.requested = false;
                self.moments.cleaned = Some(now);
                lines.push((
                    at,
                    "kubernetes",
                    format!("Metal3Remediation {} is gone", self.victim),
                ));
            }
            None => {}
        }
    }

    async fn look_at_pod(&mut self, lines: &mut Vec<Line>) {
        let Ok(pods) = self.stage.pods().await else {
            return;
        };
        let now = Timestamp::now();
        let found = pods.iter().find(|p| p.name_any() == self.pod);
        let (state, running_on) = match found {
            None => ("does not exist".to_owned(), None),
            Some(pod) => {
                let node = pod.spec.as_ref().and_then(|s| s.node_name.clone());
                let phase = pod
                    .status
                    .as_ref()
                    .and_then(|s| s.phase.clone())
                    .unwrap_or_default();
                let going = pod.metadata.deletion_timestamp.is_some();
                let place = node.clone().map(|n| format!(" on {n}")).unwrap_or_default();
                let running = (phase == "Running" && !going).then_some(node).flatten();
                let state = if going {
                    "is to end".to_owned()
                } else {
                    format!("is {phase}")
                };
                (format!("{state}{place}"), running)
            }
        };
        if self.pod_state.is_empty() {
            self.pod_state.clone_from(&state);
        }
        if state != self.pod_state {
            lines.push((
                self.since(now),
                "kubernetes",
                format!("pod {} {state}", self.pod),
            ));
            self.pod_state = state;
            if let Some(node) = running_on.filter(|n| *n != self.victim) {
                self.moments.pod_running = Some((now, node));
            }
        }
    }

    async fn look_at_events(&mut self, lines: &mut Vec<Line>) {
        let Ok(events) = self.stage.events(&self.victim).await else {
            return;
        };
        for event in events {
            let kind = event
                .regarding
                .as_ref()
                .and_then(|r| r.kind.clone())
                .unwrap_or_default();
            let note = event.note.clone().unwrap_or_default();
            let reason = event.reason.clone().unwrap_or_default();
            if kind == "Node" || !self.events_seen.insert(event.name_any()) {
                continue;
            }
            let wall = event
                .event_time
                .as_ref()
                .map_or_else(Timestamp::now, |t| t.0);
            let note = note.split_whitespace().collect::<Vec<_>>().join(" ");
            lines.push((self.since(wall), "controller", format!("{reason}: {note}")));
        }
    }
}
