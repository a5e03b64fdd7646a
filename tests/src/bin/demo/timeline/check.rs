//! Facts from a NodeHealthCheck and its PowerRemediations about one Node.
//!
//! Events have a time, and objects only show their current state. Objects are read after Events, so that the
//! cause of an Event is in the objects.

use std::collections::BTreeMap;

use k8s_openapi::api::coordination::v1::Lease;
use kube::{ResourceExt, api::DynamicObject};
use rackhand_tests::stage::NODE_CHECK;
use serde_json::Value;

use super::Timeline;
use crate::fact::{CheckState, Fact, Moment};

const TEMPLATE: &str = "remediation.medik8s.io/template-name";
const TIMED_OUT: &str = "remediation.medik8s.io/nhc-timed-out";

/// The last observed state.
#[derive(Default)]
pub(super) struct CheckSeen {
    state: CheckState,
    asked: BTreeMap<String, AskedSeen>,
    holder: Option<String>,
}

#[derive(Default)]
struct AskedSeen {
    template: String,
    succeeded: String,
    stopped: bool,
    said: String,
    reason: String,
}

impl CheckSeen {
    pub(super) async fn look(&mut self, timeline: &mut Timeline<'_>, seen: &mut Vec<Moment>) {
        look_at_events(timeline, seen).await;
        let mut found = Vec::new();
        let (stage, victim) = (timeline.stage, timeline.victim.clone());
        let checks = stage.node_health_checks();
        let (check, lease, asked) = tokio::join!(
            checks.get(NODE_CHECK),
            stage.work_lease(&victim),
            stage.power_remediations_of(&victim),
        );
        if let Ok(check) = check {
            self.see_check(&check, timeline, &mut found);
        }
        if let Ok(lease) = lease {
            self.see_lease(lease, timeline, &mut found);
        }
        if let Ok(asked) = asked {
            self.see_asked(&asked, timeline, &mut found);
        }
        timeline.look_at_pod(&mut found).await;
        timeline.look_at_node(&mut found).await;
        found.sort_by_key(|one| rank(&one.fact));
        let at = timeline.now();
        seen.extend(found.into_iter().map(|one| Moment { at, ..one }));
    }

    fn see_check(
        &mut self,
        check: &DynamicObject,
        timeline: &Timeline<'_>,
        seen: &mut Vec<Moment>,
    ) {
        let state = state(check);
        if state != self.state {
            self.state.clone_from(&state);
            let at = timeline.now();
            let fact = Fact::Check(state);
            seen.push(Moment { at, fact });
        }
    }

    fn see_lease(&mut self, lease: Option<Lease>, timeline: &Timeline<'_>, seen: &mut Vec<Moment>) {
        let holder = lease.map(|l| l.spec.and_then(|s| s.holder_identity).unwrap_or_default());
        if holder != self.holder {
            self.holder.clone_from(&holder);
            let name = format!("node-{}", timeline.victim);
            seen.push(Moment {
                at: timeline.now(),
                fact: Fact::WorkLease { name, holder },
            });
        }
    }

    fn see_asked(
        &mut self,
        list: &[DynamicObject],
        timeline: &Timeline<'_>,
        seen: &mut Vec<Moment>,
    ) {
        let at = timeline.now();
        let mut tell = |fact| seen.push(Moment { at, fact });
        for object in list {
            let name = object.name_any();
            let text = |key: &str| object.annotations().get(key).cloned().unwrap_or_default();
            let template = text(TEMPLATE);
            if !self.asked.contains_key(&name) {
                tell(Fact::Asked {
                    name: name.clone(),
                    template: template.clone(),
                    there: true,
                });
            }
            let last = self.asked.entry(name).or_default();
            last.template.clone_from(&template);
            if let Some((bmc, said)) = evidence(&object.data).filter(|(_, said)| *said != last.said)
            {
                last.said.clone_from(&said);
                tell(Fact::Evidence { bmc, said });
            }
            // The only reason without an Event.
            let reason = object.data["status"]["reason"].as_str().unwrap_or_default();
            if reason != last.reason {
                reason.clone_into(&mut last.reason);
                if reason == "Cycling" {
                    let note = object.data["status"]["message"].as_str();
                    let note = note.unwrap_or_default().to_owned();
                    tell(Fact::Event {
                        reason: reason.to_owned(),
                        note,
                    });
                }
            }
            let succeeded = succeeded(&object.data);
            if succeeded != last.succeeded {
                last.succeeded.clone_from(&succeeded);
                if succeeded != "Unknown" {
                    let template = template.clone();
                    tell(Fact::Outcome {
                        template,
                        succeeded,
                    });
                }
            }
            if !last.stopped && !text(TIMED_OUT).is_empty() {
                last.stopped = true;
                tell(Fact::ToldToStop { template });
            }
        }
        let there = |name: &String| list.iter().any(|object| object.name_any() == *name);
        let gone = self.asked.keys().filter(|name| !there(name));
        let gone: Vec<String> = gone.cloned().collect();
        for name in gone {
            let last = self.asked.remove(&name).unwrap_or_default();
            tell(Fact::Asked {
                name,
                template: last.template,
                there: false,
            });
        }
    }
}

async fn look_at_events(timeline: &mut Timeline<'_>, seen: &mut Vec<Moment>) {
    let Ok(events) = timeline.stage.events_of_nodes().await else {
        return;
    };
    for event in events {
        let about = event.regarding.clone().unwrap_or_default();
        let of_check = about.kind.as_deref() == Some("NodeHealthCheck");
        let name = about.name.unwrap_or_default();
        // The name of a remediation starts with the name of its Node.
        if !of_check && !name.starts_with(&timeline.victim) {
            continue;
        }
        let Some((at, reason, note)) = timeline.told(event) else {
            continue;
        };
        let fact = if of_check {
            Fact::CheckEvent { reason, note }
        } else {
            Fact::Event { reason, note }
        };
        seen.push(Moment { at, fact });
    }
}

/// The order of facts from one poll.
fn rank(fact: &Fact) -> u8 {
    match fact {
        Fact::Ready { .. } => 0,
        Fact::WorkLease {
            holder: Some(_), ..
        } => 1,
        Fact::Taint { .. } => 2,
        Fact::WorkLease { holder: None, .. } => 4,
        Fact::Check(_) => 5,
        _ => 3,
    }
}

fn state(check: &DynamicObject) -> CheckState {
    let status = &check.data["status"];
    let count = |field: &str| status[field].as_u64().unwrap_or(0);
    let unhealthy = status["unhealthyNodes"].as_array().into_iter().flatten();
    let names = unhealthy.filter_map(|node| node["name"].as_str());
    CheckState {
        name: check.name_any(),
        phase: status["phase"].as_str().unwrap_or_default().to_owned(),
        observed: count("observedNodes"),
        healthy: count("healthyNodes"),
        unhealthy: names.map(str::to_owned).collect(),
    }
}

fn succeeded(object: &Value) -> String {
    let conditions = object["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    let found = conditions.find(|c| c["type"] == "Succeeded");
    let status = found.and_then(|c| c["status"].as_str());
    status.unwrap_or("Unknown").to_owned()
}

/// Protocol and readings of the BMC that confirm the power-off.
fn evidence(object: &Value) -> Option<(String, String)> {
    let readings = object["status"]["powerOff"]["readings"].as_array()?;
    let said = readings.iter().map(|reading| {
        let time = reading["readAt"].as_str().unwrap_or_default();
        super::said(&reading["state"], time)
    });
    let said: Vec<String> = said.collect();
    let protocol = readings.first()?["protocol"].as_str().unwrap_or_default();
    Some((protocol.to_owned(), said.join(", ")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn check_state_is_read_from_status() {
        let check: DynamicObject = serde_json::from_value(json!({
            "metadata": { "name": "workers" },
            "status": {
                "phase": "Remediating", "observedNodes": 4, "healthyNodes": 3,
                "unhealthyNodes": [{ "name": "a-1" }],
            },
        }))
        .unwrap();
        let wanted = CheckState {
            name: "workers".into(),
            phase: "Remediating".into(),
            observed: 4,
            healthy: 3,
            unhealthy: vec!["a-1".into()],
        };
        assert_eq!(state(&check), wanted);
    }

    #[test]
    fn outcome_and_evidence_are_read_from_status() {
        let object = json!({ "status": {
            "conditions": [{ "type": "Fenced", "status": "True" }, { "type": "Succeeded", "status": "False" }],
            "powerOff": { "readings": [
                { "protocol": "IPMI", "state": "off", "readAt": "2026-08-01T02:14:07.123456Z" },
            ]},
        }});
        assert_eq!(succeeded(&object), "False");
        let said = Some(("IPMI".to_owned(), "\"off\" at 02:14:07.123".to_owned()));
        assert_eq!(evidence(&object), said);
        assert_eq!(succeeded(&json!({})), "Unknown");
        assert_eq!(evidence(&json!({})), None);
    }
}
