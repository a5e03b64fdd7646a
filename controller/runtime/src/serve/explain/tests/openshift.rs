//! Explanations of a MachineHealthCheck of OpenShift.

use serde_json::{Value, json};

use rackhand_core::explanation::{CheckView, TargetView};

use super::{explain_check_files, texts};
use crate::{config::Config, serve::explain::CheckGroup};

const NAMESPACE: &str = "openshift-machine-api";
/// The time 2026-08-01T02:10:00Z in seconds since the epoch.
const NOW: i64 = 1_785_550_200;
const MARK: &str = "host.metal3.io/external-remediation";

fn check(annotations: &Value, spec: &Value) -> Value {
    let mut object = json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineHealthCheck",
        "metadata": { "name": "workers", "namespace": NAMESPACE, "annotations": annotations },
        "spec": {
            "selector": { "matchLabels": { "pool": "a" } },
            "unhealthyConditions": [{ "type": "Ready", "status": "Unknown", "timeout": "300s" }],
        },
    });
    for (field, value) in spec.as_object().unwrap() {
        object["spec"][field] = value.clone();
    }
    object
}

fn machine(name: &str, status: &Value) -> Value {
    json!({
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
        "metadata": {
            "name": name, "namespace": NAMESPACE, "uid": format!("u-{name}"),
            "labels": { "pool": "a" }, "annotations": {},
            "ownerReferences": [{
                "apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet",
                "name": "set", "uid": "s", "controller": true,
            }],
        },
        "status": status,
    })
}

fn joined(name: &str) -> Value {
    machine(
        name,
        &json!({ "phase": "Running", "nodeRef": { "name": name } }),
    )
}

fn node(name: &str, ready: &str, since: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": { "name": name },
        "status": { "conditions": [{ "type": "Ready", "status": ready, "lastTransitionTime": since }] },
    })
}

fn crd(ours: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {
            "name": "machinehealthchecks.machine.openshift.io",
            "labels": { "rackhand.dev/crd": ours },
        },
    })
}

/// Four Machines: one unhealthy since 02:01, one since 02:07, one healthy, one without a Node since 02:05.
fn fleet(annotations: &Value, spec: &Value) -> Vec<Value> {
    let starting = json!({ "phase": "Provisioned", "lastUpdated": "2026-08-01T02:05:00Z" });
    vec![
        check(annotations, spec),
        crd("true"),
        joined("a-dead"),
        node("a-dead", "Unknown", "2026-08-01T02:01:00Z"),
        joined("b-soon"),
        node("b-soon", "Unknown", "2026-08-01T02:07:00Z"),
        joined("c-well"),
        node("c-well", "True", "2026-07-01T00:00:00Z"),
        machine("e-new", &starting),
    ]
}

fn asked(objects: &[Value], group: Option<CheckGroup>) -> Result<CheckView, String> {
    let documents: Vec<String> = objects.iter().map(ToString::to_string).collect();
    let files = [("dump.yaml".to_owned(), documents.join("\n---\n"))];
    let now = jiff::Timestamp::from_second(NOW).map_err(|e| e.to_string())?;
    let config = Config::default();
    explain_check_files(&files, Some("workers"), None, group, &config, now)
        .map_err(|e| e.to_string())
}

fn explained(objects: &[Value]) -> CheckView {
    asked(objects, None).unwrap()
}

fn row<'a>(e: &'a CheckView, name: &str) -> &'a TargetView {
    e.targets.iter().find(|m| m.name() == name).unwrap()
}

fn find<'a>(objects: &'a mut [Value], kind: &str, name: &str) -> &'a mut Value {
    let fits = |o: &&mut Value| o["kind"] == kind && o["metadata"]["name"] == name;
    objects.iter_mut().find(fits).unwrap()
}

#[test]
fn explain_shows_verdicts_limit_action_and_next_deadline() {
    let e = explained(&fleet(&json!({}), &json!({ "maxUnhealthy": "80%" })));
    assert!(e.acts && e.limit.allowed, "{e}");
    let order: Vec<&str> = e.targets.iter().map(TargetView::name).collect();
    assert_eq!(order, ["a-dead", "b-soon", "e-new", "c-well"]);
    let dead = row(&e, "a-dead");
    assert_eq!(
        dead.since.map(|at| at.to_string()).as_deref(),
        Some("2026-08-01T02:06:00Z")
    );
    assert_eq!(
        dead.does,
        "deletes Machine a-dead: MachineSet set replaces it"
    );
    assert_eq!(
        e.limit.message,
        "4 machines: 1 healthy, 1 unhealthy, 2 suspect. 3 count against the limit: a-dead \
         (unhealthy), b-soon (suspect), e-new (suspect). The limit is 80% of 4, rounded down 3. 3 is \
         not more than 3: remediation is allowed; 0 more may fail before it stops."
    );
    let next = e.next.clone().unwrap();
    assert_eq!(next.at.to_string(), "2026-08-01T02:12:00Z");
    assert_eq!(
        next.message,
        "b-soon becomes unhealthy; then Rackhand deletes Machine b-soon: MachineSet set replaces it"
    );
    let shown = e.to_string();
    for part in [
        "MachineHealthCheck.machine.openshift.io openshift-machine-api/workers, at 2026-08-01T02:10:00Z",
        "unhealthy  after phase Failed at once; Node Ready=Unknown for 5m0s; no Node within 10m0s",
        "then by    deleting the Machine, which its owner replaces",
        "recorded   the check carries no condition RemediationAllowed",
    ] {
        assert!(shown.contains(part), "{part:?} is missing in\n{shown}");
    }
    let json: Value = serde_json::from_str(&texts(&e).0).unwrap();
    assert_eq!(json["targets"][0]["machine"], "a-dead");
    assert!(texts(&e).1.contains("machine: a-dead"));
}

#[test]
fn explain_reports_closed_and_malformed_limit() {
    let e = explained(&fleet(&json!({}), &json!({ "maxUnhealthy": "40%" })));
    assert!(!e.limit.allowed);
    assert_eq!(row(&e, "a-dead").does, "nothing: the limit forbids it");
    let e = explained(&fleet(&json!({}), &json!({ "maxUnhealthy": "many" })));
    assert!(
        e.limit.message.contains("spec.maxUnhealthy")
            && e.limit.message.ends_with("remediation is NOT allowed."),
        "{}",
        e.limit.message
    );
    let e = explained(&fleet(&json!({}), &json!({})));
    assert!(
        e.limit.message.contains("100% of 4 (the default)"),
        "{}",
        e.limit.message
    );
}

#[test]
fn running_remediation_counts_against_limit() {
    let template = json!({ "remediationTemplate": {
        "apiVersion": "rackhand.dev/v1alpha1", "kind": "PowerRemediationTemplate", "name": "t",
    }});
    let mut objects = fleet(&json!({}), &template);
    let owner = json!([{
        "apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
        "name": "c-well", "uid": "u-c-well",
    }]);
    objects.push(json!({
        "apiVersion": "rackhand.dev/v1alpha1", "kind": "PowerRemediation",
        "metadata": { "name": "c-well", "namespace": NAMESPACE, "ownerReferences": owner },
    }));
    let e = explained(&objects);
    assert_eq!(
        e.due,
        [
            "creates PowerRemediation a-dead",
            "deletes PowerRemediation c-well: the machine is healthy again"
        ]
    );
    let well = row(&e, "c-well");
    assert!(well.counts, "F10: its remediation is not over");
    assert_eq!(
        well.remediations[0].to_string(),
        "PowerRemediation c-well: running"
    );
}

#[test]
fn explain_shows_progress_of_external_annotation_and_its_executor() {
    let external = json!({ "machine.openshift.io/remediation-strategy": "external-baremetal" });
    let mut objects = fleet(&external, &json!({}));
    let dead = |objects: &[Value]| row(&explained(objects), "a-dead").does.clone();
    let marks = dead(&objects);
    assert_eq!(
        marks,
        format!("puts {MARK} on Machine a-dead: its host is to be power-cycled")
    );
    find(&mut objects, "Machine", "a-dead")["metadata"]["annotations"][MARK] = "".into();
    let unknown = dead(&objects);
    assert!(
        unknown.starts_with("does not begin with the host"),
        "{unknown}"
    );
    objects.push(json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": { "name": "machine-api-controllers", "namespace": NAMESPACE },
    }));
    let theirs = dead(&objects);
    assert!(
        theirs.starts_with("leaves the host of Machine a-dead"),
        "{theirs}"
    );
    let remediation = json!({
        "apiVersion": "rackhand.dev/v1alpha1", "kind": "PowerRemediation",
        "metadata": {
            "name": "a-dead", "namespace": NAMESPACE, "uid": "r", "annotations": external,
            "ownerReferences": [{
                "apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
                "name": "a-dead", "uid": "u-a-dead",
            }],
        },
        "status": { "phase": "Running" },
    });
    objects.push(remediation);
    assert_eq!(dead(&objects), "nothing more: its remediation is under way");
    find(&mut objects, "PowerRemediation", "a-dead")["status"]["phase"] = "Succeeded".into();
    assert_eq!(
        dead(&objects),
        format!("removes {MARK} from Machine a-dead: its host came back")
    );
    find(&mut objects, "PowerRemediation", "a-dead")["status"]["phase"] = "Failed".into();
    assert!(dead(&objects).contains("a person is needed"));
    find(&mut objects, "Machine", "a-dead")["metadata"]["annotations"]["metal3.io/BareMetalHost"] =
        format!("{NAMESPACE}/h").into();
    objects.push(json!({
        "apiVersion": "metal3.io/v1alpha1", "kind": "BareMetalHost",
        "metadata": { "name": "h", "namespace": NAMESPACE }, "spec": {},
    }));
    assert!(dead(&objects).starts_with("deletes Machine a-dead"));
    let mark = &mut find(&mut objects, "Machine", "a-dead")["metadata"]["annotations"];
    mark.as_object_mut().unwrap().remove(MARK);
    assert!(
        explained(&objects)
            .due
            .iter()
            .any(|due| due.contains("puts") || due.contains("the mark is gone")),
        "{:?}",
        explained(&objects).due
    );
}

#[test]
fn explain_reports_future_condition_and_counts_timeout_from_it() {
    let mut objects = fleet(&json!({}), &json!({}));
    *find(&mut objects, "Node", "c-well") = node("c-well", "Unknown", "2026-08-01T03:00:00Z");
    let e = explained(&objects);
    let early = row(&e, "c-well");
    let until = early.until.map(|at| at.to_string());
    assert_eq!(
        (early.verdict.as_str(), until.as_deref()),
        ("suspect", Some("2026-08-01T03:05:00Z"))
    );
    let said = "c-well (Ready=Unknown on Node since 2026-08-01T03:00:00Z)";
    let told: Vec<&String> = e
        .notes
        .iter()
        .filter(|n| n.contains("in the future"))
        .collect();
    assert!(told.len() == 1 && told[0].contains(said), "{:?}", e.notes);
}

#[test]
fn explain_distinguishes_failed_gone_and_timeless_machines() {
    let mut objects = fleet(&json!({}), &json!({}));
    objects.push(machine(
        "f-failed",
        &json!({ "phase": "Failed", "errorMessage": "no host" }),
    ));
    objects.push(joined("g-gone"));
    objects.push(machine("h-timeless", &json!({ "phase": "Provisioned" })));
    let bad = json!({ "phase": "Running", "lastUpdated": "yesterday" });
    objects.push(machine("i-bad", &bad));
    let e = explained(&objects);
    let failed = row(&e, "f-failed");
    assert_eq!((failed.verdict.as_str(), failed.since), ("unhealthy", None));
    assert!(failed.why.contains("no host"), "{}", failed.why);
    // A Node that is missing from files is unknown.
    assert_eq!(row(&e, "g-gone").verdict, "unknown");
    let timeless = row(&e, "h-timeless");
    assert_eq!(
        (timeless.verdict.as_str(), timeless.until),
        ("suspect", None)
    );
    let said = |part: &str| e.notes.iter().any(|note| note.contains(part));
    assert!(said("has not begun: h-timeless"), "{:?}", e.notes);
    assert!(said("left out: Machine"), "{:?}", e.notes);
    assert!(e.targets.iter().all(|m| m.name() != "i-bad"));
}

#[test]
fn explain_reports_check_that_does_not_act_or_yields() {
    let mut objects = fleet(&json!({}), &json!({}));
    objects[1] = crd("false");
    let e = explained(&objects);
    assert!(!e.acts && e.not_acting[0].contains("not installed by Rackhand"));
    let evaluate = json!({ "rackhand.dev/evaluate": "true" });
    objects[0]["metadata"]["annotations"] = evaluate.clone();
    let e = explained(&objects);
    let fights = "OpenShift's own controller acts on this check too";
    assert!(
        e.acts && e.notes.iter().any(|n| n.contains(fights)),
        "{:?}",
        e.notes
    );
    let mut older = check(&evaluate, &json!({ "selector": {} }));
    older["metadata"]["name"] = "all".into();
    older["metadata"]["creationTimestamp"] = "2026-07-01T00:00:00Z".into();
    objects.push(older);
    let e = explained(&objects);
    assert!(e.due.is_empty(), "{:?}", e.due);
    assert_eq!(
        row(&e, "a-dead").does,
        "nothing: MachineHealthCheck all acts for it"
    );
    // A paused check does not prevent others from acting.
    let last = objects.last_mut().unwrap();
    last["metadata"]["annotations"]["rackhand.dev/paused"] = "".into();
    assert_eq!(explained(&objects).due.len(), 1);
}

#[test]
fn check_name_in_both_api_groups_requires_group_flag() {
    let mut objects = fleet(&json!({}), &json!({}));
    objects.push(json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineHealthCheck",
        "metadata": { "name": "workers", "namespace": NAMESPACE },
        "spec": { "clusterName": "demo", "selector": { "matchLabels": { "pool": "a" } } },
    }));
    let which = asked(&objects, None).unwrap_err();
    assert!(
        which.contains("--group=cluster.x-k8s.io or --group=machine.openshift.io"),
        "{which}"
    );
    let openshift = asked(&objects, Some(CheckGroup::OpenShift)).unwrap();
    assert!(openshift.check.contains("machine.openshift.io"));
    let cluster_api = asked(&objects, Some(CheckGroup::ClusterApi)).unwrap();
    let cluster = format!("Cluster {NAMESPACE}/demo");
    assert_eq!(cluster_api.cluster, Some(cluster));
    objects.pop();
    let none = asked(&objects, Some(CheckGroup::ClusterApi)).unwrap_err();
    assert!(
        none.contains("no MachineHealthCheck workers of cluster.x-k8s.io")
            && none.contains("workers of machine.openshift.io"),
        "{none}"
    );
}
