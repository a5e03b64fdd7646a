//! `explain maintenance`: a HostMaintenance in sentences, by its status.

use std::fmt::{self, Display, Formatter};

use anyhow::{Context, bail};
use jiff::Timestamp;
use kube::{Api, Client, ResourceExt, api::ListParams};
use rackhand_api::kinds::host_maintenance::{HostMaintenance, HostMaintenanceStatus};
use rackhand_core::{
    maintenance::{ChecksDo, checks_do},
    values::{duration::ago, time::whole_second},
};

use super::args::{Maintenance, TableOutput};

/// Explains one maintenance and prints the explanation.
///
/// # Errors
/// There is none of this name, and none of such a host that is not over; or they cannot be read.
pub(super) async fn run(
    asked: &Maintenance,
    client: &Client,
    now: Timestamp,
) -> anyhow::Result<()> {
    let object = find(asked, client).await?;
    match asked.output {
        TableOutput::Table => out!("{}", Explained(&object, now)),
        TableOutput::Json => outln!("{}", serde_json::to_string_pretty(&object)?),
        TableOutput::Yaml => out!("{}", serde_saphyr::to_string(&object)?),
    }
    Ok(())
}

async fn find(asked: &Maintenance, client: &Client) -> anyhow::Result<HostMaintenance> {
    let name = asked.name.as_str();
    let namespace = asked.namespace.as_deref();
    let near = namespace.unwrap_or_else(|| client.default_namespace());
    // A host is named as RACK/HOST, as no object is.
    if !name.contains('/') {
        let objects: Api<HostMaintenance> = Api::namespaced(client.clone(), near);
        let found = objects.get_opt(name).await;
        let what = || format!("HostMaintenance {near}/{name}");
        if let Some(object) = found.with_context(what)? {
            return Ok(object);
        }
    }
    let all: Api<HostMaintenance> = match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let listed = all.list(&ListParams::default()).await;
    let mut items = listed.context("HostMaintenances")?.items;
    items.retain(|object| is_of(object, name));
    match items.len() {
        0 => bail!(
            "there is no HostMaintenance {near}/{name}, and none that is not over is of {name}"
        ),
        1 => items.pop().context("one was found"),
        _ => {
            let names = items.iter().map(path).collect::<Vec<_>>().join(", ");
            bail!("several HostMaintenances are of {name}: {names}; name one of them")
        }
    }
}

/// Whether a maintenance is not over, and is of a Node, host or Machine of this name.
pub(crate) fn is_of(object: &HostMaintenance, name: &str) -> bool {
    let (spec, status) = (&object.spec, object.status.as_ref());
    let of_machine = |machine: &String| machine.rsplit('/').next() == Some(name);
    let seen = status.is_some_and(|status| {
        status.node_name.as_deref() == Some(name)
            || status.host.as_deref() == Some(name)
            || status.machine.as_ref().is_some_and(of_machine)
    });
    let mut named = [&spec.node, &spec.machine, &spec.host]
        .into_iter()
        .flatten();
    !status.is_some_and(|status| status.phase.is_over())
        && (seen || named.any(|named| named == name))
}

/// `namespace/name`.
pub(crate) fn path(object: &HostMaintenance) -> String {
    let namespace = object.namespace().unwrap_or_default();
    format!("{namespace}/{}", object.name_any())
}

struct Explained<'a>(&'a HostMaintenance, Timestamp);

impl Display for Explained<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (object, now) = (self.0, self.1);
        let spec = &object.spec;
        let status = object.status.clone().unwrap_or_default();
        let reason = status.reason.as_deref().unwrap_or("not evaluated yet");
        writeln!(
            f,
            "HostMaintenance {}: {:?} ({reason})",
            path(object),
            status.phase
        )?;
        let mut row = |name: &str, text: &str| match text.is_empty() {
            true => Ok(()),
            false => writeln!(f, "  {name:<12} {text}"),
        };
        let by = spec.requested_by.as_ref().map(|by| format!(", by {by}"));
        row(
            "work",
            &format!("{}{}", spec.reason, by.unwrap_or_default()),
        )?;
        row("host", &target(object, &status))?;
        row("now", status.message.as_deref().unwrap_or_default())?;
        row("checks", checks(&status))?;
        let in_place: Vec<&str> = status.in_place.iter().map(|mark| mark.words()).collect();
        row("in place", &in_place.join(", "))?;
        let evicted = status.evicted_pods.map(|pods| format!("{pods} evicted"));
        row("pods", &evicted.unwrap_or_default())?;
        let parked = status
            .parked_since
            .map(|at| format!("{} ({})", whole_second(at), ago(now, at)));
        row("parked since", &parked.unwrap_or_default())?;
        row("ends", &ends(object, &status))?;
        let made = status.remediation.filter(|_| !status.phase.is_over());
        let namespace = object.namespace().unwrap_or_default();
        let made = made.map(|name| {
            format!("kubectl rackhand explain remediation {name} --namespace {namespace}")
        });
        row("more", &made.unwrap_or_default())
    }
}

fn target(object: &HostMaintenance, status: &HostMaintenanceStatus) -> String {
    let spec = &object.spec;
    let named = |what: &str, name: Option<&String>| name.map(|name| format!("{what} {name}"));
    let parts = [
        named("host", status.host.as_ref().or(spec.host.as_ref())),
        named("Node", status.node_name.as_ref().or(spec.node.as_ref())),
        named("cluster", status.cluster.as_ref()),
        named("Machine", status.machine.as_ref().or(spec.machine.as_ref())),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn checks(status: &HostMaintenanceStatus) -> &'static str {
    let reason = status.reason.as_deref();
    match checks_do(status.phase, reason, status.marked, &status.in_place) {
        ChecksDo::LeaveAlone => "leave the host alone",
        ChecksDo::LeaveAloneStill => {
            "leave the host alone still: a mark is not taken back, see what is in place"
        }
        ChecksDo::MayAct => "may act on the host: a mark is missing",
        ChecksDo::ActUntilItBegins => "act as ever, until the work begins",
        ChecksDo::Act => "act as ever",
    }
}

fn ends(object: &HostMaintenance, status: &HostMaintenanceStatus) -> String {
    if status.phase.is_over() {
        let at = status.ended_at;
        let at = at.map(|at| format!("ended at {}", whole_second(at)));
        return at.unwrap_or_default();
    }
    if status.ending.is_some() || object.metadata.deletion_timestamp.is_some() {
        return "now".to_owned();
    }
    match (status.ends_at, object.spec.duration_seconds) {
        (Some(at), _) => format!("at {}, or when it is deleted", whole_second(at)),
        (None, Some(seconds)) => {
            format!("{seconds} s after the host can be worked on, or when it is deleted")
        }
        (None, None) => "when it is deleted".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn mk(status: &Value) -> HostMaintenance {
        serde_json::from_value(json!({
            "apiVersion": "rackhand.dev/v1alpha1", "kind": "HostMaintenance",
            "metadata": { "name": "m", "namespace": "ns" },
            "spec": { "machine": "m1", "reason": "DIMM A3", "requestedBy": "eva", "durationSeconds": 60 },
            "status": status,
        }))
        .unwrap()
    }

    #[test]
    fn maintenance_is_explained_with_what_it_has_set() {
        let object = mk(&json!({
            "phase": "Parked", "reason": "Parked", "message": "work on it", "nodeName": "n1",
            "host": "r/h", "machine": "ns/m1", "marked": true, "evictedPods": 3,
            "inPlace": ["Remediation", "SkipRemediation"], "remediation": "maintenance-u",
            "parkedSince": "2026-03-01T10:00:00.25Z", "endsAt": "2026-03-01T12:00:00.123456789Z",
        }));
        let now: Timestamp = "2026-03-01T11:00:00Z".parse().unwrap();
        let text = Explained(&object, now).to_string();
        for part in [
            "HostMaintenance ns/m: Parked (Parked)",
            "DIMM A3, by eva",
            "host r/h, Node n1, Machine ns/m1",
            "work on it",
            "leave the host alone",
            "the annotation of the Machine",
            "3 evicted",
            "2026-03-01T10:00:00Z (59 min ago)",
            "at 2026-03-01T12:00:00Z,",
            "explain remediation maintenance-u --namespace ns",
        ] {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
    }

    #[test]
    fn maintenance_is_found_by_its_host_while_it_is_not_over() {
        let parked =
            json!({ "phase": "Parked", "nodeName": "n1", "host": "r/h", "machine": "ns/m1" });
        let object = mk(&parked);
        for name in ["n1", "r/h", "m1"] {
            assert!(is_of(&object, name), "{name}");
        }
        assert!(!is_of(&object, "h") && !is_of(&object, "n2"));
        let mut over = parked;
        over["phase"] = "Ended".into();
        assert!(!is_of(&mk(&over), "n1"));
        assert!(is_of(&mk(&json!({})), "m1"), "by its spec");
    }

    #[test]
    fn checks_are_said_to_act_where_they_do() {
        let text = |status: Value| {
            let status: HostMaintenanceStatus = serde_json::from_value(status).unwrap();
            checks(&status)
        };
        assert!(text(json!({ "phase": "Pending" })).contains("until the work begins"));
        assert_eq!(text(json!({ "phase": "Ended" })), "act as ever");
        assert!(text(json!({ "phase": "Parked" })).contains("a mark is missing"));
        let marked = text(json!({ "phase": "Pending", "marked": true }));
        assert_eq!(marked, "leave the host alone");
        let left = text(json!({ "phase": "Ending", "inPlace": ["SkipRemediation"] }));
        assert!(left.contains("alone still"), "{left}");
        let taint = text(json!({ "phase": "Ending", "reason": "TaintLeft" }));
        assert_eq!(taint, "act as ever");
    }
}
