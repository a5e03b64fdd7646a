//! Who may set the annotations by which a person's word counts.

use anyhow::{Result, ensure};
use rackhand_tests::{
    admission::AdmissionServer,
    cluster::apply,
    stage::{LONG, wait_until},
};
use serde_json::{Value, json};

use super::verdicts::kubectl;

const REMEDIATION: &str = "metal3remediations.infrastructure.cluster.x-k8s.io/m1";
const WORDS: [(&str, &str); 5] = [
    ("rackhand.dev/approved", "approve"),
    ("rackhand.dev/confirm-fenced", "confirm"),
    ("rackhand.dev/override-other-node", "confirm"),
    ("rackhand.dev/override-owner", "confirm"),
    ("rackhand.dev/override-quorum", "confirm"),
];

#[tokio::test(flavor = "multi_thread")]
async fn f15_word_of_a_person_counts_only_from_who_may_give_it() {
    let dir = tempfile::tempdir().unwrap();
    let server = AdmissionServer::start(dir.path()).await.unwrap();
    if let Err(error) = scenario(&server).await {
        panic!("{error:#}");
    }
}

/// Runs kubectl as this user; `Err`: what it was refused with.
fn by(
    server: &AdmissionServer,
    user: &str,
    args: &[&str],
    input: &str,
) -> Result<Result<(), String>> {
    let all: Vec<&str> = ["--as", user].iter().chain(args).copied().collect();
    let output = kubectl(&server.plane.kubeconfig(), &all, input)?;
    let printed = String::from_utf8_lossy(&output.stderr).into_owned();
    Ok(output.status.success().then_some(()).ok_or(printed))
}

fn remediation(annotations: &Value) -> String {
    json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "Metal3Remediation",
        "metadata": { "name": "m1", "namespace": "default", "annotations": annotations },
        "spec": { "strategy": { "type": "Reboot", "retryLimit": 1, "timeout": "100s" } },
    })
    .to_string()
}

/// A role that may do everything with the objects of a resource.
async fn make_role(server: &AdmissionServer, name: &str, of: (&str, &str)) -> Result<()> {
    let (group, resource) = of;
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": { "name": name },
        "rules": [{
            "apiGroups": [group], "resources": [resource],
            "verbs": ["get", "create", "update", "patch", "delete"],
        }],
    });
    apply(&server.client, role).await.map(drop)
}

/// Gives a user a role in the namespace `default`.
async fn bind_role(server: &AdmissionServer, user: &str, role: &str) -> Result<()> {
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": { "name": user, "namespace": "default" },
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role,
        },
        "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user }],
    });
    apply(&server.client, binding).await.map(drop)
}

async fn accounts(server: &AdmissionServer) -> Result<()> {
    let of = ("infrastructure.cluster.x-k8s.io", "metal3remediations");
    make_role(server, "tenant", of).await?;
    bind_role(server, "tenant", "tenant").await?;
    bind_role(server, "person", "rackhand-remediation-approver").await
}

const CONTROLLER: &str = "system:serviceaccount:rackhand-system:rackhand-controller";

fn annotate(server: &AdmissionServer, user: &str, change: &str) -> Result<Result<(), String>> {
    let args = ["annotate", REMEDIATION, change, "--overwrite"];
    by(server, user, &args, "")
}

/// A remediation that a tenant creates, with a finalizer, by a policy that is in effect.
async fn held_remediation(server: &AdmissionServer) -> Result<()> {
    accounts(server).await?;
    let mut held: Value = serde_json::from_str(&remediation(&json!({})))?;
    held["metadata"]["finalizers"] = json!(["example.org/a", "example.org/b"]);
    wait_until("a remediation is created", LONG, || async {
        by(server, "tenant", &["apply", "-f", "-"], &held.to_string())
    })
    .await?;
    wait_until("the policy is in effect", LONG, || async {
        Ok(
            match annotate(server, "tenant", "rackhand.dev/approved=x")? {
                Err(why) if why.contains("with the verb approve") => Ok(()),
                other => Err(format!("{other:?}")),
            },
        )
    })
    .await
}

/// Planned work in the name of this user.
fn planned(name: &str, by: Option<&str>) -> String {
    json!({
        "apiVersion": "rackhand.dev/v1alpha1", "kind": "HostMaintenance",
        "metadata": { "name": name, "namespace": "default" },
        "spec": { "node": "n1", "reason": "a DIMM is changed", "requestedBy": by },
    })
    .to_string()
}

/// Changes the planned work that is named `own`.
fn patch_own(server: &AdmissionServer, patch: &Value) -> Result<Result<(), String>> {
    let args = ["patch", "hostmaintenance", "own", "--type=merge", "--patch"];
    by(
        server,
        "eva",
        &[&args[..], &[&patch.to_string()]].concat(),
        "",
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn f15_nobody_asks_for_planned_work_in_the_name_of_another() {
    let dir = tempfile::tempdir().unwrap();
    let server = AdmissionServer::start(dir.path()).await.unwrap();
    if let Err(error) = in_the_name_of(&server).await {
        panic!("{error:#}");
    }
}

async fn in_the_name_of(server: &AdmissionServer) -> Result<()> {
    let of = ("rackhand.dev", "hostmaintenances");
    make_role(server, "technician", of).await?;
    bind_role(server, "eva", "technician").await?;
    let apply_args = ["apply", "-f", "-"];
    wait_until("the policy is in effect", LONG, || async {
        let text = planned("other", Some("adam"));
        Ok(match by(server, "eva", &apply_args, &text)? {
            Err(why) if why.contains("spec.requestedBy") => Ok(()),
            Ok(()) => {
                let args = ["delete", "hostmaintenance", "other", "--wait=false"];
                by(server, "eva", &args, "")?.ok();
                Err("it was created".to_owned())
            }
            other => Err(format!("{other:?}")),
        })
    })
    .await?;
    for (name, who) in [("own", Some("eva")), ("nobody", None)] {
        let made = by(server, "eva", &apply_args, &planned(name, who))?;
        ensure!(made.is_ok(), "{name}: {made:?}");
    }
    let changed = patch_own(server, &json!({ "spec": { "requestedBy": "adam" } }))?;
    ensure!(changed.is_err(), "the name was changed");
    // What does not change the name passes, whoever does it.
    let args = ["annotate", "hostmaintenance", "own", "example.org/x=y"];
    let other = by(server, "eva", &args, "")?;
    ensure!(other.is_ok(), "{other:?}");
    // Exactly one host, which stays the same.
    let moved = patch_own(server, &json!({ "spec": { "node": "n2" } }))?;
    ensure!(
        moved
            .as_ref()
            .is_err_and(|why| why.contains("cannot be changed")),
        "{moved:?}"
    );
    let two = planned("two", None).replace(r#""node":"n1""#, r#""node":"n1","machine":"m1""#);
    let refused = by(server, "eva", &apply_args, &two)?;
    ensure!(
        refused
            .as_ref()
            .is_err_and(|why| why.contains("exactly one")),
        "{refused:?}"
    );
    Ok(())
}

fn patch_finalizers(server: &AdmissionServer, user: &str, left: &Value) -> Result<()> {
    let patch = json!({ "metadata": { "finalizers": left } }).to_string();
    let args = ["patch", REMEDIATION, "--type=merge", "--patch", &patch];
    let removed = by(server, user, &args, "")?;
    ensure!(removed.is_ok(), "{user} removes a finalizer: {removed:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn f15_word_of_a_person_is_checked_on_a_remediation_that_is_being_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let server = AdmissionServer::start(dir.path()).await.unwrap();
    if let Err(error) = while_deleted(&server).await {
        panic!("{error:#}");
    }
}

async fn while_deleted(server: &AdmissionServer) -> Result<()> {
    held_remediation(server).await?;
    let given = annotate(server, "person", "rackhand.dev/confirm-fenced=uid")?;
    ensure!(given.is_ok(), "{given:?}");
    let deleted = by(
        server,
        "tenant",
        &["delete", REMEDIATION, "--wait=false"],
        "",
    )?;
    ensure!(deleted.is_ok(), "{deleted:?}");
    for (key, verb) in WORDS {
        let set = annotate(server, "tenant", &format!("{key}=x"))?;
        let why = set.err().unwrap_or_default();
        ensure!(
            why.contains(&format!("with the verb {verb}")),
            "{key}: {why:?}"
        );
    }
    let set = annotate(server, "tenant", "rackhand.dev/made-by=x")?;
    ensure!(set.is_err(), "made-by is set by a tenant");
    // What is there does not block other changes, and finalizers can be removed.
    let other = annotate(server, "tenant", "example.org/note=x")?;
    ensure!(other.is_ok(), "{other:?}");
    let given = annotate(server, "person", "rackhand.dev/override-owner=uid")?;
    ensure!(given.is_ok(), "{given:?}");
    patch_finalizers(server, CONTROLLER, &json!(["example.org/b"]))?;
    patch_finalizers(server, "tenant", &json!([]))?;
    let left = by(server, "tenant", &["get", REMEDIATION], "")?;
    ensure!(left.is_err(), "it is still there");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn f15_what_rackhand_writes_on_a_remediation_is_set_only_by_its_account() {
    let dir = tempfile::tempdir().unwrap();
    let server = AdmissionServer::start(dir.path()).await.unwrap();
    if let Err(error) = marks(&server).await {
        panic!("{error:#}");
    }
}

const MADE_BY: &str = "rackhand.dev/made-by";
const MACHINE: &str = "rackhand.dev/machine";
/// The verb that they need is `attribute`.
const MARKS: [&str; 5] = [
    MADE_BY,
    MACHINE,
    "rackhand.dev/cause",
    "rackhand.dev/state",
    "rackhand.dev/blocked",
];

async fn marks(server: &AdmissionServer) -> Result<()> {
    held_remediation(server).await?;
    let says = "only an account with the verb attribute";
    for key in MARKS {
        for user in ["tenant", "person"] {
            let set = annotate(server, user, &format!("{key}=x"))?;
            let why = set.err().unwrap_or_default();
            ensure!(why.contains(says), "{key} by {user}: {why:?}");
        }
        let set = annotate(server, CONTROLLER, &format!("{key}=x"))?;
        ensure!(set.is_ok(), "{key}: {set:?}");
        let changed = annotate(server, "tenant", &format!("{key}=y"))?;
        ensure!(changed.is_err(), "{key}: changed by a tenant");
        let removed = annotate(server, "tenant", &format!("{key}-"))?;
        ensure!(
            removed.is_ok() != [MADE_BY, MACHINE].contains(&key),
            "{key}: {removed:?}"
        );
    }
    let other = annotate(server, "tenant", "example.org/note=x")?;
    ensure!(other.is_ok(), "{other:?}");
    // As another project's check creates it from a template, and as ours does.
    for (user, annotations, accepted) in [
        (
            "tenant",
            json!({ "cluster.x-k8s.io/cloned-from-name": "t" }),
            true,
        ),
        (
            "tenant",
            json!({ MADE_BY: "MachineHealthCheck/c/u" }),
            false,
        ),
        (
            CONTROLLER,
            json!({ MADE_BY: "MachineHealthCheck/c/u" }),
            true,
        ),
    ] {
        let create = ["create", "--dry-run=server", "-f", "-"];
        let made = remediation(&annotations).replace("\"m1\"", "\"m2\"");
        let created = by(server, user, &create, &made)?;
        ensure!(
            created.is_ok() == accepted,
            "{user} {annotations}: {created:?}"
        );
    }
    Ok(())
}

async fn scenario(server: &AdmissionServer) -> Result<()> {
    accounts(server).await?;
    let plain = remediation(&json!({}));
    wait_until("a remediation is created", LONG, || async {
        by(server, "tenant", &["apply", "-f", "-"], &plain)
    })
    .await?;
    for (key, verb) in WORDS {
        let set = |value: &str| format!("{key}={value}");
        let says = format!("only an account with the verb {verb}");
        // A policy takes effect a moment after it was applied.
        wait_until(&format!("{key} is refused"), LONG, || async {
            let args = ["annotate", REMEDIATION, &set("x"), "--overwrite"];
            Ok(match by(server, "tenant", &args, "")? {
                Err(why) if why.contains(&says) => Ok(()),
                other => Err(format!("{other:?}")),
            })
        })
        .await?;
        let annotate = |user: &str, change: &str| annotate(server, user, change);
        let given = annotate("person", &set("uid"))?;
        ensure!(given.is_ok(), "{key}: {given:?}");
        // What is there may stay while other parts change, and may be taken back.
        let other = annotate("tenant", "example.org/note=x")?;
        ensure!(other.is_ok(), "{key}: {other:?}");
        let changed = annotate("tenant", &set("other"))?;
        ensure!(changed.is_err(), "{key}: changed by a tenant");
        let removed = annotate("tenant", &format!("{key}-"))?;
        ensure!(removed.is_ok(), "{key}: {removed:?}");
    }
    let deleted = by(server, "tenant", &["delete", REMEDIATION], "")?;
    ensure!(deleted.is_ok(), "{deleted:?}");
    let created = remediation(&json!({ "rackhand.dev/confirm-fenced": "x" }));
    let created = by(server, "tenant", &["create", "-f", "-"], &created)?;
    let why = created.err().unwrap_or_default();
    ensure!(why.contains("with the verb confirm"), "{why}");
    a_state_is_not_theirs(server)
}

/// F15: no right in a namespace lets anybody write what is recorded.
fn a_state_is_not_theirs(server: &AdmissionServer) -> Result<()> {
    let state = json!({
        "apiVersion": "rackhand.dev/v1alpha1", "kind": "RemediationState",
        "metadata": { "name": "0d5f7a3e-3c5f-4f0e-9b7e-8a3f1c9d2b10" },
        "spec": { "kind": "Metal3Remediation", "namespace": "default", "name": "m1" },
    });
    let history = json!({
        "apiVersion": "rackhand.dev/v1alpha1", "kind": "HostHistory",
        "metadata": { "name": "r1-node-1" }, "spec": {},
    });
    for (user, object) in [
        ("tenant", &state),
        ("person", &state),
        ("tenant", &history),
        ("person", &history),
    ] {
        let made = by(server, user, &["create", "-f", "-"], &object.to_string())?;
        let why = made.err().unwrap_or_default();
        ensure!(why.contains("orbidden"), "{user} {object}: {why:?}");
    }
    Ok(())
}
