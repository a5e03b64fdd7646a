//! Observed facts in the order of observation.

mod check;

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::events::v1::Event;
use kube::ResourceExt;
use rackhand_tests::{
    rack::{LogEvent, PowerState},
    stage::{HostLink, Stage, TAINT, ready},
};
use serde_json::Value;

use self::check::CheckSeen;
use crate::fact::{Fact, Moment};

/// Prefix of Rackhand's hold key on a BareMetalHost.
pub(crate) const HOLD: &str = "reboot.metal3.io/rackhand-";

/// Times that the summary uses.
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

/// Watches one host, its Node, its Machine, its BareMetalHost and one pod.
pub(crate) struct Timeline<'a> {
    stage: &'a Stage,
    victim: String,
    pod: String,
    managed: bool,
    pub(crate) start: Timestamp,
    pub(crate) moments: Moments,
    log_seen: usize,
    events_seen: BTreeSet<String>,
    ready: String,
    tainted: bool,
    pod_state: String,
    said: String,
    has_remediation: bool,
    hold: Option<String>,
    powered_on: Option<bool>,
    /// The observed NodeHealthCheck, if the Nodes have one.
    check: Option<CheckSeen>,
}

impl<'a> Timeline<'a> {
    pub(crate) fn new(stage: &'a Stage, victim: &str, pod: &str) -> Self {
        let log_seen = stage.host(victim).map(|h| h.log().len()).unwrap_or(0);
        let mut racks = stage.config().racks.iter();
        let managed = racks.any(|rack| rack.link == HostLink::Managed);
        Self {
            stage,
            victim: victim.to_owned(),
            pod: pod.to_owned(),
            managed,
            start: Timestamp::now(),
            moments: Moments::default(),
            log_seen,
            events_seen: BTreeSet::new(),
            ready: "True".into(),
            tainted: false,
            pod_state: String::new(),
            said: String::new(),
            has_remediation: false,
            hold: None,
            powered_on: None,
            check: stage.config().plain.then(CheckSeen::default),
        }
    }

    pub(crate) fn since(&self, at: Timestamp) -> f64 {
        at.duration_since(self.start).as_secs_f64()
    }

    pub(crate) fn now(&self) -> f64 {
        self.since(Timestamp::now())
    }

    /// Whether the remediation is gone, the Node is Ready and the pod runs.
    pub(crate) fn over(&self) -> bool {
        self.moments.cleaned.is_some() && self.moments.pod_running.is_some()
    }

    /// Polls everything; returns new facts.
    pub(crate) async fn look(&mut self) -> Vec<Moment> {
        let mut seen = Vec::new();
        if let Some(mut check) = self.check.take() {
            check.look(self, &mut seen).await;
            self.check = Some(check);
        } else {
            // The evidence comes before the taint, which may have the same time.
            self.look_at_remediation(&mut seen).await;
            self.look_at_node(&mut seen).await;
            self.look_at_pod(&mut seen).await;
            self.look_at_bare_metal_host(&mut seen).await;
            self.look_at_events(&mut seen).await;
        }
        self.date_by_events(&mut seen);
        // Last, because it takes no time, so that no fact found above is newer.
        self.look_at_host(&mut seen);
        self.look_at_others(&mut seen);
        seen.sort_by(|a, b| a.at.total_cmp(&b.at));
        seen
    }

    /// Dates the evidence and the taint by the Event of the taint, which rests on the one and reports the other: what is
    /// polled is seen later, maybe after what it has led to.
    fn date_by_events(&mut self, seen: &mut [Moment]) {
        let reported = |seen: &[Moment], wanted: &str| {
            let mut events = seen.iter().filter(
                |moment| matches!(&moment.fact, Fact::Event { reason, .. } if reason == wanted),
            );
            events.next().map(|moment| moment.at)
        };
        let of_taint = reported(seen, "Tainted");
        for moment in seen {
            let (event, when) = match moment.fact {
                Fact::Evidence { .. } => (of_taint, &mut self.moments.confirmed),
                Fact::Taint { there: true, .. } => (of_taint, &mut self.moments.tainted),
                _ => continue,
            };
            if let Some(earlier) = event.filter(|at| *at < moment.at) {
                moment.at = earlier;
                *when = self
                    .start
                    .checked_add(SignedDuration::from_secs_f64(earlier))
                    .ok();
            }
        }
    }

    fn look_at_host(&mut self, seen: &mut Vec<Moment>) {
        let Ok(host) = self.stage.host(&self.victim) else {
            return;
        };
        for entry in host.log().into_iter().skip(self.log_seen) {
            self.log_seen += 1;
            let wall = entry.stamp.wall;
            let fact = match entry.event {
                LogEvent::Command { reset, by, answer } => {
                    self.moments.command.get_or_insert(wall);
                    let ignored = answer.is_none();
                    Fact::Command { reset, by, ignored }
                }
                LogEvent::Power(power) => {
                    if power == PowerState::Off {
                        self.moments.off.get_or_insert(wall);
                    }
                    Fact::Power(power)
                }
                LogEvent::Os(os) => Fact::Os(os),
                LogEvent::Booted(id) => Fact::Booted(id),
                LogEvent::Stopped { pod, why } => Fact::Ended { pod: pod.name, why },
                LogEvent::Started(pod) => Fact::Started { pod: pod.name },
                LogEvent::Reset | LogEvent::Note(_) => continue,
            };
            let at = self.since(wall);
            seen.push(Moment { at, fact });
        }
    }

    fn look_at_others(&mut self, seen: &mut Vec<Moment>) {
        let (None, Some(off)) = (self.moments.pod_started, self.moments.off) else {
            return;
        };
        let mut processes = self.stage.racks().iter().flat_map(|r| r.processes());
        let started = processes.find(|p| {
            p.process.pod.name == self.pod
                && p.host != self.victim
                && p.process.started_at.wall > off
        });
        if let Some(process) = started {
            let wall = process.process.started_at.wall;
            self.moments.pod_started = Some(wall);
            let (pod, host) = (self.pod.clone(), process.host);
            seen.push(Moment {
                at: self.since(wall),
                fact: Fact::Moved { pod, host },
            });
        }
    }

    async fn look_at_node(&mut self, seen: &mut Vec<Moment>) {
        let Ok(node) = self.stage.node(&self.victim).await else {
            return;
        };
        let now = Timestamp::now();
        let at = self.since(now);
        let status = ready(&node);
        if status != self.ready {
            if status == "Unknown" && self.moments.unknown_since.is_none() {
                let conditions = node.status.as_ref().and_then(|s| s.conditions.as_ref());
                let found = conditions
                    .into_iter()
                    .flatten()
                    .find(|c| c.type_ == "Ready");
                self.moments.unknown_since = found
                    .and_then(|c| c.last_transition_time.as_ref())
                    .map(|t| t.0);
            }
            if status == "True" {
                self.moments.node_back = Some(now);
            }
            self.ready.clone_from(&status);
            let node = self.victim.clone();
            seen.push(Moment {
                at,
                fact: Fact::Ready { node, status },
            });
        }
        let taints = node.spec.and_then(|s| s.taints).unwrap_or_default();
        let there = taints.iter().any(|t| t.key == TAINT);
        if there != self.tainted {
            self.tainted = there;
            if there {
                self.moments.tainted = Some(now);
            }
            let node = self.victim.clone();
            seen.push(Moment {
                at,
                fact: Fact::Taint { node, there },
            });
        }
    }

    async fn look_at_remediation(&mut self, seen: &mut Vec<Moment>) {
        let Ok(found) = self.stage.remediation(&self.victim).await else {
            return;
        };
        let now = Timestamp::now();
        let at = self.since(now);
        let there = found.is_some();
        if there != self.has_remediation {
            self.has_remediation = there;
            if !there {
                self.moments.cleaned = Some(now);
            }
            let name = self.victim.clone();
            seen.push(Moment {
                at,
                fact: Fact::Remediation { name, there },
            });
        }
        if let Some((bmc, said)) = found.and_then(|f| evidence(&f.object))
            && said != self.said
        {
            self.moments.confirmed.get_or_insert(now);
            self.said.clone_from(&said);
            seen.push(Moment {
                at,
                fact: Fact::Evidence { bmc, said },
            });
        }
    }

    async fn look_at_pod(&mut self, seen: &mut Vec<Moment>) {
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
            self.pod_state.clone_from(&state);
            let name = self.pod.clone();
            seen.push(Moment {
                at: self.since(now),
                fact: Fact::Pod { name, state },
            });
            if let Some(node) = running_on.filter(|n| *n != self.victim) {
                self.moments.pod_running = Some((now, node));
            }
        }
    }

    async fn look_at_bare_metal_host(&mut self, seen: &mut Vec<Moment>) {
        if !self.managed {
            return;
        }
        let Ok(host) = self.stage.bare_metal_hosts().get(&self.victim).await else {
            return;
        };
        let at = self.now();
        let mut keys = host.annotations().keys();
        let hold = keys.find(|key| key.starts_with(HOLD)).cloned();
        if hold != self.hold {
            let there = hold.is_some();
            let was = std::mem::replace(&mut self.hold, hold.clone());
            let key = hold.or(was).unwrap_or_default();
            seen.push(Moment {
                at,
                fact: Fact::Hold { key, there },
            });
        }
        let on = host.data["status"]["poweredOn"].as_bool();
        let was = std::mem::replace(&mut self.powered_on, on);
        if let (Some(on), true) = (on, was.is_some() && was != on) {
            seen.push(Moment {
                at,
                fact: Fact::PoweredOn(on),
            });
        }
    }

    async fn look_at_events(&mut self, seen: &mut Vec<Moment>) {
        let Ok(events) = self.stage.events(&self.victim).await else {
            return;
        };
        for event in events {
            let kind = event
                .regarding
                .as_ref()
                .and_then(|r| r.kind.clone())
                .unwrap_or_default();
            if kind == "Node" {
                continue;
            }
            if let Some((at, reason, note)) = self.told(event) {
                let fact = Fact::Event { reason, note };
                seen.push(Moment { at, fact });
            }
        }
    }

    /// Time, reason and note of an Event, when it is first observed.
    fn told(&mut self, event: Event) -> Option<(f64, String, String)> {
        let wall = event
            .event_time
            .as_ref()
            .map_or_else(Timestamp::now, |t| t.0);
        let old = wall < self.start;
        if old || !self.events_seen.insert(event.name_any()) {
            return None;
        }
        let note = event.note.unwrap_or_default();
        let note = note.split_whitespace().collect::<Vec<_>>().join(" ");
        Some((self.since(wall), event.reason.unwrap_or_default(), note))
    }
}

/// Protocol and readings of the BMC that confirm the power-off.
fn evidence(remediation: &Value) -> Option<(String, String)> {
    let annotation = remediation["metadata"]["annotations"]["rackhand.dev/state"].as_str()?;
    let state: Value = serde_json::from_str(annotation).ok()?;
    let readings = state["state"]["attempt"]["off"]["bmc"]["readings"].as_array()?;
    let said: Vec<String> = readings
        .iter()
        .map(|r| said(&r["raw"], r["at"].as_str().unwrap_or_default()))
        .collect();
    let bmc = readings.first()?["bmc"].as_str().unwrap_or_default();
    Some((bmc.to_owned(), said.join(", ")))
}

/// One reading: the raw state and the time of day.
fn said(raw: &Value, at: &str) -> String {
    let time = at.split('T').nth(1).unwrap_or(at);
    let time = time.get(..12).unwrap_or(time);
    format!("{raw} at {time}")
}
