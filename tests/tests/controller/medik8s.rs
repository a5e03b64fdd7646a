//! Beside medik8s and OpenShift: our remediation as medik8s' operator uses it, and our health checks of
//! Nodes where the controller dies in the middle, or where OpenShift has a say.
//!
//! All of it runs on one stage. The operator's part is played with exactly the rights that it gathers by
//! its label, and its checks are not evaluated here: only those that say so are.

use anyhow::{Context, Result, ensure};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use rackhand_tests::{
    cluster::{apply, apply_yaml, client_of},
    stage::{
        CLUSTER, HostLink, LONG, NAMESPACE, RackSpec, Scenarios, Stage, StageConfig, wait_until,
    },
};
use serde_json::{Value, json};

const NODE_NAME: &str = "remediation.medik8s.io/node-name";
const TEMPLATE_NAME: &str = "remediation.medik8s.io/template-name";
const TIMED_OUT: &str = "remediation.medik8s.io/nhc-timed-out";

/// The operator's account, with what its aggregation gives it, and nothing else.
const OPERATOR: &str = r#"
apiVersion: v1
kind: ServiceAccount
metadata: {name: node-healthcheck-controller-manager, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: node-healthcheck-operator-aggregation}
aggregationRule:
  clusterRoleSelectors:
    - matchLabels: {rbac.ext-remediation/aggregate-to-ext-remediation: "true"}
rules: []
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: node-healthcheck-operator-aggregation}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: node-healthcheck-operator-aggregation
subjects:
  - {kind: ServiceAccount, name: node-healthcheck-controller-manager, namespace: default}
"#;

const TEMPLATES: &str = r#"
apiVersion: rackhand.dev/v1alpha1
kind: PowerRemediationTemplate
metadata: {name: long, namespace: metal3}
spec: {template: {spec: {strategy: {type: Reboot, retryLimit: 9, timeouts: {bootSeconds: 40}}}}}
---
apiVersion: rackhand.dev/v1alpha1
kind: PowerRemediationTemplate
metadata: {name: full, namespace: metal3}
spec: {template: {spec: {strategy: {type: Reboot, timeouts: {bootSeconds: 120}}}}}
"#;

/// A remediator that does nothing, and OpenShift's kinds that its controllers are not there for.
const KINDS: &str = r#"
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: idleremediationtemplates.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {kind: IdleRemediationTemplate, plural: idleremediationtemplates}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: idleremediations.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {kind: IdleRemediation, plural: idleremediations}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: clusterversions.config.openshift.io}
spec:
  group: config.openshift.io
  scope: Cluster
  names: {kind: ClusterVersion, plural: clusterversions}
  versions:
    - name: v1
      served: true
      storage: true
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: idle
  labels: {rackhand.dev/aggregate-to-controller: "true"}
rules:
  - apiGroups: [example.org]
    resources: [idleremediationtemplates, idleremediations]
    verbs: [get, list, watch, create, update, patch, delete]
"#;

struct World {
    stage: Stage,
    operator: Client,
}

#[tokio::test(flavor = "multi_thread")]
async fn beside_medik8s_operator_and_openshift() {
    let dir = tempfile::tempdir().unwrap();
    let rack = RackSpec::new("bare", 2, HostLink::Inventory);
    let arguments = ["--power-timeout=20s", "--health-checks=annotated"];
    let config = StageConfig::steady(vec![rack], &arguments);
    let stage = Stage::start(dir.path(), config).await.unwrap();
    let operator = match begin(&stage).await {
        Ok(operator) => operator,
        Err(error) => panic!("{error:#}\n{}", stage.report().await),
    };
    let world = World { stage, operator };
    let w = &world;
    let mut all = Scenarios::new();
    all.add("its_remediation_succeeds_and_is_left_to_it", succeeds(w));
    all.add("told_to_stop_it_cleans_up_and_the_next_goes_on", stops(w));
    all.add("a_new_leader_goes_on_in_the_middle_of_a_step", crash(w));
    let all = async {
        all.run().await?;
        // It concerns every check of the cluster.
        openshift(w).await
    };
    // On a machine that is too busy a leader loses its Lease, ends, and is started again.
    let restarts = async {
        tokio::try_join!(
            w.stage.supervise("controller-0"),
            w.stage.supervise("controller-1"),
            w.stage.supervise("controller-2"),
        )
    };
    let outcome = tokio::select! {
        outcome = all => outcome,
        ended = restarts => ended.map(drop),
    };
    if let Err(error) = outcome {
        panic!("{error:#}\n{}", world.stage.report().await);
    }
}

async fn begin(stage: &Stage) -> Result<Client> {
    // A cluster that knows nothing of Cluster API.
    let all = DeleteParams::default();
    let machines = stage.machines();
    machines
        .delete_collection(&all, &ListParams::default())
        .await?;
    let clusters = stage.api("cluster.x-k8s.io", "v1beta1", "Cluster");
    clusters.delete(CLUSTER, &all).await?;
    stage.install("node-health-checks").await?;
    stage.install_openshift().await?;
    for text in [OPERATOR, TEMPLATES, KINDS] {
        apply_yaml(&stage.client, text).await?;
    }
    stage.apply_rack_agents().await?;
    stage.start_controller("controller-0").await?;
    let account = "node-healthcheck-controller-manager";
    client_of(&stage.plane().kubeconfig_of("default", account).await?).await
}

fn resource(version: &str, kind: &str) -> ApiResource {
    let (group, version) = version.split_once('/').unwrap();
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

fn condition<'a>(object: &'a DynamicObject, name: &str) -> &'a str {
    let list = object.data["status"]["conditions"].as_array();
    let found = list.into_iter().flatten().find(|c| c["type"] == name);
    found.and_then(|c| c["status"].as_str()).unwrap_or("none")
}

fn no_finalizer(object: &DynamicObject) -> bool {
    object
        .metadata
        .finalizers
        .as_ref()
        .is_none_or(Vec::is_empty)
}

impl World {
    fn checks(&self) -> Api<DynamicObject> {
        let resource = resource("remediation.medik8s.io/v1alpha1", "NodeHealthCheck");
        Api::all_with(self.stage.client.clone(), &resource)
    }

    fn idle(&self) -> Api<DynamicObject> {
        let resource = resource("example.org/v1", "IdleRemediation");
        Api::namespaced_with(self.stage.client.clone(), NAMESPACE, &resource)
    }

    // ---- as medik8s' operator does it ---------------------------------------

    fn requests(&self) -> Api<DynamicObject> {
        let resource = resource("rackhand.dev/v1alpha1", "PowerRemediation");
        Api::namespaced_with(self.operator.clone(), NAMESPACE, &resource)
    }

    /// A check that medik8s' operator evaluates, and nobody else.
    async fn foreign_check(&self, name: &str, template: &str) -> Result<String> {
        let check = json!({
            "apiVersion": "remediation.medik8s.io/v1alpha1", "kind": "NodeHealthCheck",
            "metadata": { "name": name },
            "spec": {
                "selector": { "matchLabels": { "of": name } }, "minHealthy": 0,
                "remediationTemplate": {
                    "apiVersion": "rackhand.dev/v1alpha1", "kind": "PowerRemediationTemplate",
                    "namespace": NAMESPACE, "name": template,
                },
            },
        });
        apply(&self.stage.client, check)
            .await?
            .uid()
            .context("no UID")
    }

    /// Makes a remediation from a template: a copy, with the Node's name and the template's.
    async fn remediate(
        &self,
        check: &str,
        uid: &str,
        node: &str,
        template: &str,
        generated: bool,
    ) -> Result<String> {
        let resource = resource("rackhand.dev/v1alpha1", "PowerRemediationTemplate");
        let templates: Api<DynamicObject> =
            Api::namespaced_with(self.operator.clone(), NAMESPACE, &resource);
        let found = wait_until("the operator has its rights", LONG, || async {
            Ok(templates
                .get(template)
                .await
                .map_err(|error| error.to_string()))
        })
        .await?;
        let mut metadata = json!({
            "namespace": NAMESPACE,
            "annotations": { NODE_NAME: node, TEMPLATE_NAME: template },
            "labels": { "app.kubernetes.io/part-of": "node-healthcheck-controller" },
            "ownerReferences": [{
                "apiVersion": "remediation.medik8s.io/v1alpha1", "kind": "NodeHealthCheck",
                "name": check, "uid": uid, "controller": false,
            }],
        });
        let (field, name) = match generated {
            true => ("generateName", format!("{node}-")),
            false => ("name", node.to_owned()),
        };
        metadata[field] = name.into();
        let object: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "rackhand.dev/v1alpha1", "kind": "PowerRemediation",
            "metadata": metadata, "spec": found.data["spec"]["template"]["spec"],
        }))?;
        let params = PostParams::default();
        Ok(self.requests().create(&params, &object).await?.name_any())
    }

    async fn wait(
        &self,
        name: &str,
        what: &str,
        wanted: impl Fn(&DynamicObject) -> bool,
    ) -> Result<DynamicObject> {
        wait_until(&format!("{name}: {what}"), LONG, || async {
            let object = self.requests().get(name).await?;
            Ok(match wanted(&object) {
                true => Ok(object),
                false => Err(object.data["status"].to_string()),
            })
        })
        .await
    }

    async fn delete_and_wait(&self, name: &str) -> Result<()> {
        self.requests()
            .delete(name, &DeleteParams::default())
            .await?;
        wait_until(&format!("{name}: gone"), LONG, || async {
            let found = self.requests().get_opt(name).await?;
            Ok(found.map_or(Ok(()), |o| Err(o.data["status"].to_string())))
        })
        .await
    }

    // ---- our own checks ------------------------------------------------------

    /// A Node without a kubelet, of whose condition `Sick` no part of Kubernetes has a say.
    async fn make_node(&self, name: &str, pool: &str, annotations: Value) -> Result<()> {
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {
                "name": name, "labels": { "of": pool }, "annotations": annotations,
            },
        });
        apply(&self.stage.client, node).await.map(drop)
    }

    async fn sick(&self, name: &str, sick: bool) -> Result<()> {
        let nodes: Api<Node> = Api::all(self.stage.client.clone());
        let since = Timestamp::now() - SignedDuration::from_secs(301);
        let patch = json!({ "status": { "conditions": [{
            "type": "Sick", "status": if sick { "True" } else { "False" },
            "reason": "Test", "message": "",
            "lastTransitionTime": format!("{since:.0}"),
            "lastHeartbeatTime": format!("{since:.0}"),
        }] } });
        let params = PatchParams::default();
        let patch = Patch::Strategic(patch);
        nodes.patch_status(name, &params, &patch).await?;
        Ok(())
    }

    async fn our_check(&self, name: &str, more: Value) -> Result<()> {
        let mut check = json!({
            "apiVersion": "remediation.medik8s.io/v1alpha1", "kind": "NodeHealthCheck",
            "metadata": { "name": name, "annotations": { "rackhand.dev/evaluate": "true" } },
            "spec": {
                "selector": { "matchLabels": { "of": name } }, "minHealthy": 0,
                "unhealthyConditions": [{ "type": "Sick", "status": "True", "duration": "1s" }],
            },
        });
        let (spec, more) = (check["spec"].as_object_mut(), more.as_object().cloned());
        if let (Some(spec), Some(more)) = (spec, more) {
            spec.extend(more);
        }
        apply(&self.stage.client, check).await.map(drop)
    }

    async fn idle_template(&self, name: &str) -> Result<Value> {
        let template = json!({
            "apiVersion": "example.org/v1", "kind": "IdleRemediationTemplate",
            "metadata": {
                "name": name, "namespace": NAMESPACE,
                "annotations": { "remediation.medik8s.io/multiple-templates-support": "" },
            },
            "spec": { "template": { "spec": {} } },
        });
        apply(&self.stage.client, template).await?;
        Ok(json!({
            "apiVersion": "example.org/v1", "kind": "IdleRemediationTemplate",
            "name": name, "namespace": NAMESPACE,
        }))
    }

    /// The remediations of a Node, oldest first.
    async fn idle_of(&self, node: &str) -> Result<Vec<DynamicObject>> {
        let mut list = self.idle().list(&ListParams::default()).await?.items;
        list.retain(|r| r.annotations().get(NODE_NAME).map(String::as_str) == Some(node));
        list.sort_by_key(|r| r.creation_timestamp().map(|t| t.0));
        Ok(list)
    }

    async fn wait_idle(&self, node: &str, count: usize) -> Result<Vec<DynamicObject>> {
        wait_until(&format!("{node}: {count} remediations"), LONG, || async {
            let list = self.idle_of(node).await?;
            Ok(match list.len() == count {
                true => Ok(list),
                false => Err(list.len().to_string()),
            })
        })
        .await
    }

    async fn wait_check(
        &self,
        name: &str,
        what: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        wait_until(&format!("{name}: {what}"), LONG, || async {
            let status = self.checks().get(name).await?.data["status"].clone();
            Ok(match wanted(&status) {
                true => Ok(status),
                false => Err(status.to_string()),
            })
        })
        .await
    }

    async fn wait_note(&self, check: &str, words: &str) -> Result<()> {
        let events: Api<k8s_openapi::api::events::v1::Event> =
            Api::namespaced(self.stage.client.clone(), "default");
        wait_until(&format!("{check}: {words}"), LONG, || async {
            let list = events.list(&ListParams::default()).await?;
            let of = |e: &&k8s_openapi::api::events::v1::Event| {
                e.regarding.as_ref().and_then(|r| r.name.as_deref()) == Some(check)
            };
            let notes: Vec<String> = list
                .iter()
                .filter(of)
                .filter_map(|e| e.note.clone())
                .collect();
            Ok(match notes.iter().any(|note| note.contains(words)) {
                true => Ok(()),
                false => Err(format!("{notes:?}")),
            })
        })
        .await
    }

    /// `rackhand-controller explain nhc`, as a person runs it.
    fn explain(&self, args: &[&str]) -> Result<Value> {
        let more = ["--health-checks=annotated", "-o", "json"];
        let args = [&["nhc"], args, &more].concat();
        Ok(serde_json::from_str(&self.stage.explain(&args, "")?)?)
    }
}

async fn succeeds(w: &World) -> Result<()> {
    let (node, check) = ("bare-1", "foreign-1");
    let uid = w.foreign_check(check, "full").await?;
    ensure!(w.stage.host(node)?.hang(), "it was not up");
    let name = w.remediate(check, &uid, node, "full", false).await?;
    let begun = |o: &DynamicObject| condition(o, "Processing") == "True";
    let object = w.wait(&name, "begun", begun).await?;
    ensure!(condition(&object, "Succeeded") == "Unknown", "{object:?}");
    let over = |o: &DynamicObject| condition(o, "Succeeded") == "True" && no_finalizer(o);
    let object = w.wait(&name, "over", over).await?;
    ensure!(condition(&object, "Processing") == "False", "{object:?}");
    w.stage.wait_clean(node).await?;
    w.stage.one_cycle(node)?;
    // The Node is healthy, and the object is still the operator's to delete.
    let object = w.requests().get(&name).await?;
    ensure!(object.metadata.deletion_timestamp.is_none(), "{object:?}");
    w.delete_and_wait(&name).await?;
    let status = w.checks().get(check).await?.data["status"].clone();
    ensure!(status.is_null(), "its check is not ours: {status}");
    w.stage.one_cycle(node)
}

async fn stops(w: &World) -> Result<()> {
    let (node, check) = ("bare-2", "foreign-2");
    let uid = w.foreign_check(check, "long").await?;
    let host = w.stage.host(node)?;
    host.never_boots(true);
    ensure!(host.hang(), "it was not up");
    let first = w.remediate(check, &uid, node, "long", true).await?;
    ensure!(first.starts_with("bare-2-"), "{first}");
    let boots = |o: &DynamicObject| o.data["status"]["step"] == "Booting";
    w.wait(&first, "boots, and will not come back", boots)
        .await?;
    let stop =
        json!({ "metadata": { "annotations": { TIMED_OUT: Timestamp::now().to_string() } } });
    let params = PatchParams::default();
    w.requests()
        .patch(&first, &params, &Patch::Merge(stop))
        .await?;
    let stopped = |o: &DynamicObject| {
        condition(o, "Processing") == "False"
            && condition(o, "Succeeded") == "False"
            && no_finalizer(o)
    };
    let object = w.wait(&first, "stopped", stopped).await?;
    ensure!(object.metadata.deletion_timestamp.is_none(), "{object:?}");
    // Not at once: a Node that may still come back keeps its taint for the time of one boot.
    ensure!(!w.stage.tainted(node).await?, "it is cleaned up");
    let offs = host.counters().offs;
    ensure!(
        offs == 1,
        "nine attempts are left, and none is made: {:?}",
        host.counters()
    );
    // The next step of an escalation, while the first object is still there.
    host.never_boots(false);
    let second = w.remediate(check, &uid, node, "full", true).await?;
    let over = |o: &DynamicObject| condition(o, "Succeeded") == "True" && no_finalizer(o);
    w.wait(&second, "brings it back", over).await?;
    ensure!(host.counters().offs == offs + 1, "{:?}", host.counters());
    for name in [&first, &second] {
        w.delete_and_wait(name).await?;
    }
    w.stage.wait_clean(node).await
}

async fn crash(w: &World) -> Result<()> {
    let node = "crash-1";
    for name in [node, "crash-2"] {
        w.make_node(name, "crash", json!({})).await?;
    }
    let mut steps = Vec::new();
    for (place, name) in ["one", "two"].into_iter().enumerate() {
        steps.push(json!({
            "remediationTemplate": w.idle_template(name).await?, "order": place, "timeout": "60s",
        }));
    }
    w.our_check("crash", json!({ "escalatingRemediations": steps }))
        .await?;
    w.sick(node, true).await?;
    let first = w.wait_idle(node, 1).await?.remove(0);
    let has = |count: usize| {
        move |s: &Value| {
            let list = s["unhealthyNodes"][0]["remediations"].as_array();
            list.is_some_and(|list| list.len() == count)
        }
    };
    let begun = w.wait_check("crash", "the first is shown", has(1)).await?;
    let started = begun["unhealthyNodes"][0]["remediations"][0]["started"].clone();
    let told = w.explain(&["crash"])?;
    let step = &told["targets"][0]["remediations"][0];
    ensure!(
        told["targets"][0]["node"] == node
            && step["state"] == "running"
            && step["step"] == "1 of 2",
        "{told}"
    );

    w.stage.kill_controller("controller-0")?;
    w.stage.start_controller("controller-1").await?;
    let both = w.wait_idle(node, 2).await?;
    ensure!(both[0].uid() == first.uid(), "it was made anew");
    let made = |o: &DynamicObject| o.creation_timestamp().map(|t| t.0).context("no time");
    let waited = made(&both[1])?.duration_since(made(&both[0])?);
    ensure!(
        waited >= SignedDuration::from_secs(60),
        "too early: {waited}"
    );

    // Again, at the moment at which the next one was made.
    w.stage.kill_controller("controller-1")?;
    w.stage.start_controller("controller-2").await?;
    let status = w
        .wait_check("crash", "both are shown", |s| {
            let list = &s["unhealthyNodes"][0]["remediations"];
            has(2)(s) && list[0]["timedOut"].is_string()
        })
        .await?;
    let list = &status["unhealthyNodes"][0]["remediations"];
    ensure!(list[0]["started"] == started, "{status}");
    ensure!(list[1]["timedOut"].is_null(), "{status}");
    let told = wait_until("the first is told to stop", LONG, || async {
        let list = w.idle_of(node).await?;
        let told = list
            .first()
            .is_some_and(|r| r.annotations().contains_key(TIMED_OUT));
        Ok(if told {
            Ok(list)
        } else {
            Err("not yet".to_owned())
        })
    })
    .await?;
    ensure!(told.len() == 2, "a second object was made: {told:?}");
    // The same from files, for a time at which the second step is over too.
    let mut files = String::new();
    for kinds in ["nhc,nodes", "idleremediations,idleremediationtemplates"] {
        let dump = w
            .stage
            .kubectl(&["get", kinds, "-n", NAMESPACE, "-o", "yaml"])?;
        files = format!("{files}\n---\n{dump}");
    }
    let path = w.stage.dir().join("crash.yaml");
    std::fs::write(&path, files)?;
    let later = (Timestamp::now() + SignedDuration::from_secs(120)).to_string();
    let path = path.display().to_string();
    let told = w.explain(&["crash", "--at", &later, "-f", &path])?;
    let does = told["targets"][0]["does"].as_str().unwrap_or_default();
    ensure!(does.contains("no template is left"), "{told}");
    w.sick(node, false).await?;
    w.wait_idle(node, 0).await.map(drop)
}

async fn openshift(w: &World) -> Result<()> {
    let version = |progressing: &str| {
        json!({
            "apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion",
            "metadata": { "name": "version" },
            "status": { "conditions": [{ "type": "Progressing", "status": progressing }] },
        })
    };
    let machine = json!({ "metadata": { "name": "m-1" }, "spec": {} });
    let machine = w.stage.apply_openshift("Machine", machine).await?;
    let node = "ocp-1";
    let of_machine = json!({ "machine.openshift.io/machine": format!("{NAMESPACE}/m-1") });
    w.make_node(node, "ocp", of_machine).await?;
    apply(&w.stage.client, version("True")).await?;
    let template = w.idle_template("only").await?;
    w.our_check("ocp", json!({ "remediationTemplate": template }))
        .await?;
    w.sick(node, true).await?;
    w.wait_note(
        "ocp",
        "the cluster is being upgraded: ClusterVersion version is Progressing",
    )
    .await?;
    ensure!(w.idle_of(node).await?.is_empty(), "it is being upgraded");
    apply(&w.stage.client, version("False")).await?;
    let made = w.wait_idle(node, 1).await?;
    let owners = made[0].owner_references();
    ensure!(
        owners.len() == 2
            && owners[1].kind == "Machine"
            && Some(&owners[1].uid) == machine.uid().as_ref(),
        "{owners:?}"
    );

    let check = json!({
        "metadata": { "name": "machines" },
        "spec": {
            "selector": { "matchLabels": { "nobody": "" } },
            "unhealthyConditions": [{ "type": "Ready", "status": "Unknown", "timeout": "300s" }],
        },
    });
    w.stage.apply_openshift("MachineHealthCheck", check).await?;
    let disabled = |s: &Value| s["phase"] == "Disabled";
    let status = w.wait_check("ocp", "gives way", disabled).await?;
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let mut conditions = conditions.filter(|c| c["type"] == "Disabled");
    let condition = conditions.next().context("no condition")?;
    ensure!(
        condition["reason"] == "ConflictingMachineHealthCheckDetected"
            && condition["status"] == "True",
        "{status}"
    );
    ensure!(
        w.idle_of(node).await?.len() == 1,
        "what is there is left alone"
    );
    let told = w.explain(&["ocp"])?;
    ensure!(told["phase"] == "Disabled", "{told}");
    let checks = w.stage.openshift_checks();
    checks.delete("machines", &DeleteParams::default()).await?;
    w.wait_check("ocp", "goes on", |s| s["phase"] == "Remediating")
        .await?;
    w.sick(node, false).await?;
    w.wait_idle(node, 0).await.map(drop)
}
