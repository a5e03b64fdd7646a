//! F11: remediations that their check of OpenShift no longer requires.

use super::*;

const REMEDIATION: &str = "/apis/rackhand.dev/v1alpha1/namespaces/ns/powerremediations/a";
const CHECK: &str = "/apis/machine.openshift.io/v1beta1/namespaces/ns/machinehealthchecks/check";
const MACHINE: &str = "/apis/machine.openshift.io/v1beta1/namespaces/ns/machines/a";
const DELETED: &str = "DELETE powerremediations/a";

fn template() -> Value {
    json!({ "remediationTemplate": {
        "apiVersion": "rackhand.dev/v1alpha1", "kind": "PowerRemediationTemplate", "name": "t",
    }})
}

/// Serves the discovery of the kind of the remediations.
fn serve_remediations(world: &World) {
    let served = json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "rackhand.dev/v1alpha1",
        "resources": [{
            "name": "powerremediations", "singularName": "powerremediation", "namespaced": true,
            "kind": "PowerRemediation", "verbs": ["get", "list", "delete"],
        }],
    });
    let at = "/apis/rackhand.dev/v1alpha1".to_owned();
    world.server.0.lock().objects.insert(at, served);
}

/// A world in which one Machine has failed and has a remediation of its check.
async fn requested() -> World {
    let world = World::start(vec![machine("a", |_| {})]).await;
    serve_remediations(&world);
    world.tell(
        Kind::PowerRemediation,
        json!({
            "apiVersion": "rackhand.dev/v1alpha1", "kind": "PowerRemediation",
            "metadata": {
                "name": "a", "namespace": "ns", "uid": "r",
                "annotations": { "rackhand.dev/made-by": "MachineHealthCheck/check/check" },
                "ownerReferences": [{
                    "apiVersion": GROUP, "kind": "Machine", "name": "a", "uid": "uid-a",
                }],
            },
            "spec": {},
        }),
    );
    world.node("a", "Unknown", LONG_AGO);
    let (kind, object) = check("check", &json!({}), &template());
    world.tell(kind, object);
    world.until_shown("check", 1, 0).await;
    assert_eq!(world.server.0.lock().wrote(DELETED), 0);
    world
}

fn lose_check(world: &World, at_the_server_too: bool) {
    if at_the_server_too {
        world.server.0.lock().objects.remove(CHECK);
    }
    let key = Key::new("ns", "check");
    world.index.delete(Kind::OpenShiftCheck, &key);
}

async fn withdrawn(world: &World, why: &str) {
    world
        .until(why, |told| {
            let said = told.events.iter().any(|e| e == "RemediationWithdrawn a");
            said && told.wrote(DELETED) == 1
        })
        .await;
    assert!(!world.server.0.lock().objects.contains_key(REMEDIATION));
}

#[tokio::test]
async fn f11_remediations_of_deleted_check_are_withdrawn() {
    let world = requested().await;
    lose_check(&world, true);
    withdrawn(&world, "deleted").await;
}

#[tokio::test]
async fn f11_remediations_of_paused_check_are_withdrawn() {
    let world = requested().await;
    let (kind, object) = check(
        "check",
        &json!({ "cluster.x-k8s.io/paused": "" }),
        &template(),
    );
    world.tell(kind, object);
    withdrawn(&world, "paused").await;
}

#[tokio::test]
async fn f11_remediations_outside_narrowed_selector_are_withdrawn() {
    let world = requested().await;
    let (kind, mut object) = check("check", &json!({}), &template());
    object["spec"]["selector"]["matchLabels"]["zone"] = "a".into();
    world.tell(kind, object);
    withdrawn(&world, "narrowed").await;
}

#[tokio::test]
async fn f11_external_annotation_is_removed_before_its_remediation() {
    let world = World::start(vec![machine("a", |_| {})]).await;
    serve_remediations(&world);
    world.node("a", "Unknown", LONG_AGO);
    let external = json!({ STRATEGY: "external-baremetal" });
    let (kind, object) = check("check", &external, &json!({}));
    world.tell(kind, object);
    world
        .until("it is asked for", |told| {
            told.objects.contains_key(REMEDIATION)
        })
        .await;
    world.until_shown("check", 1, 0).await;
    lose_check(&world, true);
    withdrawn(&world, "deleted").await;
    let told = world.server.0.lock();
    assert!(told.objects[MACHINE]["metadata"]["annotations"][MARK].is_null());
    let place = |what: &str| told.writes.iter().rposition(|write| write == what);
    assert!(place("PATCH machines/a") < place(DELETED));
}

#[tokio::test]
async fn f12_check_missing_from_index_only_keeps_its_remediations() {
    let world = requested().await;
    lose_check(&world, false);
    world
        .until("check and Machine are read", |told| {
            let read = |path: &str| told.read.iter().any(|read| read == path);
            read(CHECK) && read(MACHINE)
        })
        .await;
    let (kind, object) = machine("b", |_| {});
    world.tell(kind, object);
    let (kind, object) = check("check", &json!({}), &template());
    world.tell(kind, object);
    world.node("b", "True", LONG_AGO);
    world.until_shown("check", 2, 1).await;
    assert_eq!(world.server.0.lock().wrote(DELETED), 0);
}
