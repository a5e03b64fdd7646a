//! MachineHealthChecks of OpenShift on a real control plane: what they show, what they do, and what
//! they leave alone.
//!
//! All scenarios run at the same time on one stage, each with checks and Machines of its own; the last
//! one, with OpenShift's own controllers there, after them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_in_result,
    missing_docs,
    unreachable_pub
)]

use anyhow::{Context, Result, ensure};
use kube::{
    Api, ResourceExt,
    api::{DynamicObject, Patch, PatchParams},
};
use rackhand_tests::{
    cluster::{apply, apply_yaml},
    stage::{
        HostLink, LONG, NAMESPACE, RackSpec, Scenarios, Stage, StageConfig, Witness, is_ready,
        wait_until,
    },
};
use serde_json::{Value, json};

const MARK: &str = "host.metal3.io/external-remediation";
const STRATEGY: &str = "machine.openshift.io/remediation-strategy";
const PAUSED: &str = "cluster.x-k8s.io/paused";
const POOL: &str = "pool";

const TEMPLATE: &str = "
apiVersion: rackhand.dev/v1alpha1
kind: PowerRemediationTemplate
metadata: { name: reboot, namespace: metal3 }
spec: { template: { spec: { strategy: { type: Reboot } } } }
";

struct World {
    stage: Stage,
    witness: Witness,
}

#[tokio::test(flavor = "multi_thread")]
async fn checks_of_openshift_show_act_and_leave_alone_as_they_say() {
    let dir = tempfile::tempdir().unwrap();
    let managed = RackSpec {
        hosts: ["template-1", "external-1", "external-2"]
            .map(str::to_owned)
            .to_vec(),
        ..RackSpec::new("managed", 0, HostLink::Managed)
    };
    let racks = vec![
        RackSpec::new("plain", 2, HostLink::Inventory).in_pool("none"),
        managed.in_pool("none"),
    ];
    let arguments = [
        "--power-timeout=20s",
        "--cooperative-grace=1s",
        "--health-checks=all",
    ];
    let config = StageConfig::steady(racks, &arguments);
    let stage = Stage::start(dir.path(), config).await.unwrap();
    if let Err(error) = begin(&stage).await {
        panic!("{error:#}\n{}", stage.report().await);
    }
    let witness = Witness::start(&stage.client);
    let world = World { stage, witness };
    let w = &world;
    let mut all = Scenarios::new();
    all.add("counts_and_conditions_are_openshifts", shown(w));
    all.add("its_owner_replaces_a_machine_or_nobody_does", owner(w));
    all.add("a_request_from_a_template_that_comes_late", template(w));
    all.add("f1_a_marked_machine_is_power_cycled_once", external(w));
    all.add("f10_a_closed_limit_deletes_nothing", closed(w));
    all.add("a_paused_check_does_and_writes_nothing", paused(w));
    all.add("a_check_that_does_not_read_says_so", invalid(w));
    let outcome = match all.run().await {
        Ok(()) => left_to_openshift(w).await,
        failed => failed,
    };
    let outcome = match outcome {
        Ok(()) => end(w).await,
        failed => failed,
    };
    if let Err(error) = outcome {
        panic!("{error:#}\n{}", world.stage.report().await);
    }
}

async fn begin(stage: &Stage) -> Result<()> {
    stage.install_openshift().await?;
    for host in ["template-1", "external-1", "external-2"] {
        let consumer = json!({ "spec": { "consumerRef": {
            "apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine",
            "name": machine_of(host), "namespace": NAMESPACE,
        }}});
        stage
            .bare_metal_hosts()
            .patch(host, &PatchParams::default(), &Patch::Merge(consumer))
            .await?;
    }
    stage.apply_rack_agents().await?;
    stage.start_controller("controller-0").await
}

fn machine_of(host: &str) -> String {
    format!("ocp-{host}")
}

fn status_of(node: &str) -> Value {
    json!({ "phase": "Running", "nodeRef": { "kind": "Node", "name": node } })
}

fn condition<'a>(object: &'a Value, name: &str) -> &'a Value {
    let list = object["status"]["conditions"].as_array();
    let mut found = list.into_iter().flatten();
    found.find(|c| c["type"] == name).unwrap_or(&Value::Null)
}

impl World {
    async fn machine(
        &self,
        name: &str,
        pool: &str,
        metadata: Value,
        status: Value,
    ) -> Result<DynamicObject> {
        let mut object = json!({
            "metadata": { "name": name, "labels": { POOL: pool } }, "spec": {}, "status": status,
        });
        if let (Some(all), Some(more)) = (object["metadata"].as_object_mut(), metadata.as_object())
        {
            all.extend(more.clone());
        }
        self.stage.apply_openshift("Machine", object).await
    }

    /// A Machine that a MachineSet would replace.
    async fn replaceable(&self, name: &str, pool: &str, status: Value) -> Result<DynamicObject> {
        let owner = json!({ "ownerReferences": [{
            "apiVersion": "v1", "kind": "ConfigMap", "name": "kube-root-ca.crt",
            "uid": self.owner().await?, "controller": true,
        }]});
        self.machine(name, pool, owner, status).await
    }

    /// Of an object that is there: what has an owner that is not is collected.
    async fn owner(&self) -> Result<String> {
        let maps: Api<DynamicObject> = self.stage.api("", "v1", "ConfigMap");
        wait_until("an owner", LONG, || async {
            Ok(match maps.get_opt("kube-root-ca.crt").await? {
                Some(map) => Ok(map.uid().unwrap_or_default()),
                None => Err("none".to_owned()),
            })
        })
        .await
    }

    async fn check(&self, pool: &str, annotations: Value, spec: Value) -> Result<()> {
        let mut whole = json!({
            "selector": { "matchLabels": { POOL: pool } },
            "nodeStartupTimeout": "1h",
            "unhealthyConditions": [
                { "type": "Ready", "status": "Unknown", "timeout": "1s" },
                { "type": "Ready", "status": "False", "timeout": "1s" },
            ],
        });
        if let (Some(whole), Some(spec)) = (whole.as_object_mut(), spec.as_object()) {
            whole.extend(spec.clone());
        }
        let object = json!({
            "metadata": { "name": pool, "annotations": annotations }, "spec": whole,
        });
        let applied = self.stage.apply_openshift("MachineHealthCheck", object);
        applied.await.map(drop)
    }

    async fn change(&self, pool: &str, body: Value) -> Result<()> {
        let checks = self.stage.openshift_checks();
        checks
            .patch(pool, &PatchParams::default(), &Patch::Merge(body))
            .await
            .map(drop)
            .with_context(|| format!("changing {pool}"))
    }

    async fn wait_check(
        &self,
        pool: &str,
        what: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        let checks = self.stage.openshift_checks();
        wait(&checks, pool, what, |object| object.is_some_and(&wanted)).await
    }

    async fn wait_machine(
        &self,
        name: &str,
        what: &str,
        wanted: impl Fn(Option<&Value>) -> bool,
    ) -> Result<Value> {
        wait(&self.stage.openshift_machines(), name, what, wanted).await
    }

    fn requests(&self) -> Api<DynamicObject> {
        self.stage
            .api("rackhand.dev", "v1alpha1", "PowerRemediation")
    }

    async fn wait_event(&self, object: &str, reason: &str) -> Result<()> {
        wait_until(&format!("{object}: {reason}"), LONG, || async {
            let events = self.stage.events(object).await?;
            let reasons: Vec<_> = events.into_iter().filter_map(|e| e.reason).collect();
            Ok(if reasons.iter().any(|r| r == reason) {
                Ok(())
            } else {
                Err(format!("{reasons:?}"))
            })
        })
        .await
    }

    async fn wait_ready(&self, node: &str) -> Result<()> {
        wait_until(&format!("{node}: Ready"), LONG, || async {
            let ready = is_ready(&self.stage.node(node).await?);
            Ok(if ready {
                Ok(())
            } else {
                Err("not Ready".to_owned())
            })
        })
        .await
    }

    /// Its host hangs: the control plane calls its Node Unknown some seconds later.
    fn hang(&self, host: &str) -> Result<()> {
        ensure!(self.stage.host(host)?.hang(), "{host} was not up");
        Ok(())
    }

    async fn metrics(&self) -> Result<String> {
        let (status, text) = self.stage.admin("controller-0", "/metrics").await?;
        ensure!(status == 200, "{status}: {text}");
        Ok(text)
    }

    async fn wait_metric(&self, name: &str, check: &str, value: u32) -> Result<()> {
        let line = format!("{name}{{name=\"{check}\",namespace=\"{NAMESPACE}\"}} {value}");
        wait_until(&line, LONG, || async {
            let text = self.metrics().await?;
            let has = text.lines().any(|l| l == line);
            Ok(if has {
                Ok(())
            } else {
                Err("no such line".to_owned())
            })
        })
        .await
    }
}

async fn wait(
    objects: &Api<DynamicObject>,
    name: &str,
    what: &str,
    wanted: impl Fn(Option<&Value>) -> bool,
) -> Result<Value> {
    wait_until(&format!("{name}: {what}"), LONG, || async {
        let found = objects.get_opt(name).await?;
        let object = found.map(serde_json::to_value).transpose()?;
        let fits = wanted(object.as_ref());
        let object = object.unwrap_or_default();
        Ok(if fits {
            Ok(object)
        } else {
            Err(format!("{object}"))
        })
    })
    .await
}

async fn shown(w: &World) -> Result<()> {
    w.machine("shown-1", "shown", json!({}), status_of("plain-1"))
        .await?;
    let now = jiff::Timestamp::now()
        .round(jiff::Unit::Second)?
        .to_string();
    let starting = json!({ "phase": "Provisioned", "lastUpdated": now });
    w.machine("shown-2", "shown", json!({}), starting).await?;
    let bad = json!({ "phase": "Running", "lastUpdated": "yesterday" });
    w.machine("shown-bad", "shown", json!({}), bad).await?;
    w.check("shown", json!({}), json!({ "maxUnhealthy": "40%" }))
        .await?;
    let object = w
        .wait_check("shown", "the starting one counts", |o| {
            o["status"]["expectedMachines"] == 2 && o["status"]["currentHealthy"] == 1
        })
        .await?;
    ensure!(object["status"]["remediationsAllowed"] == 0, "{object}");
    let allowed = condition(&object, "RemediationAllowed");
    ensure!(
        allowed["status"] == "False"
            && allowed["severity"] == "Warning"
            && allowed["reason"] == "TooManyUnhealthy",
        "{allowed}"
    );
    w.wait_event("shown", "RemediationRestricted").await?;
    w.wait_metric("mapi_machinehealthcheck_short_circuit", "shown", 1)
        .await?;
    w.wait_metric("mapi_machinehealthcheck_nodes_covered", "shown", 2)
        .await?;
    let joined = json!({ "status": status_of("plain-2") });
    w.stage
        .openshift_machines()
        .patch_status("shown-2", &PatchParams::default(), &Patch::Merge(joined))
        .await?;
    let object = w
        .wait_check("shown", "both are healthy", |o| {
            o["status"]["currentHealthy"] == 2
        })
        .await?;
    let allowed = condition(&object, "RemediationAllowed");
    ensure!(
        allowed["status"] == "True" && allowed["severity"].is_null(),
        "{allowed}"
    );
    w.wait_metric("mapi_machinehealthcheck_short_circuit", "shown", 0)
        .await
}

async fn owner(w: &World) -> Result<()> {
    let failed = json!({ "phase": "Failed", "errorMessage": "no such image" });
    w.replaceable("owner-1", "owner", failed.clone()).await?;
    w.machine("owner-2", "owner", json!({}), failed).await?;
    w.check("owner", json!({}), json!({})).await?;
    w.wait_machine("owner-1", "it is deleted", |m| m.is_none())
        .await?;
    for (machine, reason) in [
        ("owner-1", "DetectedUnhealthy"),
        ("owner-1", "MachineDeleted"),
        ("owner-2", "SkippedNoController"),
    ] {
        w.wait_event(machine, reason).await?;
    }
    w.wait_metric(
        "mapi_machinehealthcheck_remediation_success_total",
        "owner",
        1,
    )
    .await?;
    let left = w.stage.openshift_machines().get("owner-2").await?;
    ensure!(left.metadata.deletion_timestamp.is_none(), "{left:?}");
    Ok(())
}

async fn template(w: &World) -> Result<()> {
    let host = "template-1";
    let machine = machine_of(host);
    let named =
        json!({ "annotations": { "metal3.io/BareMetalHost": format!("{NAMESPACE}/{host}") } });
    w.machine(&machine, "template", named, status_of(host))
        .await?;
    let reference = json!({ "remediationTemplate": {
        "apiVersion": "rackhand.dev/v1alpha1", "kind": "PowerRemediationTemplate",
        "name": "reboot", "namespace": "ignored",
    }});
    w.check("template", json!({}), reference).await?;
    w.wait_check("template", "it is well", |o| {
        o["status"]["currentHealthy"] == 1
    })
    .await?;
    w.hang(host)?;
    let missing = "ExternalRemediationTemplateAvailable";
    let object = w
        .wait_check("template", "its template is missing", |o| {
            !condition(o, missing).is_null()
        })
        .await?;
    let said = condition(&object, missing);
    ensure!(
        said["status"] == "False" && said["reason"] == "ExternalRemediationTemplateNotFound",
        "{said}"
    );
    apply_yaml(&w.stage.client, TEMPLATE).await?;
    let request = wait(&w.requests(), &machine, "it is requested", |o| o.is_some()).await?;
    let metadata = &request["metadata"];
    ensure!(
        metadata["annotations"]["machine.openshift.io/cloned-from-name"] == "reboot"
            && metadata["annotations"]["machine.openshift.io/cloned-from-groupkind"]
                == "PowerRemediationTemplate.rackhand.dev",
        "{metadata}"
    );
    let owners = metadata["ownerReferences"].as_array().context("no owner")?;
    ensure!(
        owners.len() == 1 && owners[0]["name"] == *machine && owners[0]["controller"].is_null(),
        "{metadata}"
    );
    w.wait_check("template", "it is said no more", |o| {
        condition(o, missing).is_null()
    })
    .await?;
    wait(&w.requests(), &machine, "it is withdrawn", |o| o.is_none()).await?;
    w.wait_ready(host).await?;
    w.wait_check("template", "it is well again", |o| {
        o["status"]["currentHealthy"] == 1
    })
    .await?;
    w.stage.one_cycle(host)
}

async fn marked(w: &World, host: &str) -> Result<()> {
    let named =
        json!({ "annotations": { "metal3.io/BareMetalHost": format!("{NAMESPACE}/{host}") } });
    let machine = machine_of(host);
    w.machine(&machine, host, named, status_of(host)).await?;
    let strategy = json!({ STRATEGY: "external-baremetal" });
    w.check(host, strategy, json!({ "nodeStartupTimeout": "5m" }))
        .await?;
    w.wait_check(host, "it is well", |o| o["status"]["currentHealthy"] == 1)
        .await?;
    w.hang(host)?;
    w.wait_machine(&machine, "it is marked", has_mark).await?;
    w.wait_event(&machine, "ExternalAnnotationAdded").await
}

fn has_mark(machine: Option<&Value>) -> bool {
    machine.is_some_and(|m| !m["metadata"]["annotations"][MARK].is_null())
}

async fn external(w: &World) -> Result<()> {
    let host = "external-1";
    let machine = machine_of(host);
    marked(w, host).await?;
    let request = wait(&w.requests(), &machine, "it is requested", |o| o.is_some()).await?;
    let strategy = &request["spec"]["strategy"];
    ensure!(
        strategy["type"] == "Reboot" && strategy["timeouts"]["bootSeconds"] == 300,
        "{strategy}"
    );
    let unmarked = |m: Option<&Value>| m.is_some() && !has_mark(m);
    w.wait_machine(&machine, "the mark is taken off", unmarked)
        .await?;
    wait(&w.requests(), &machine, "the request goes", |o| o.is_none()).await?;
    w.wait_ready(host).await?;
    w.wait_check(host, "it is well again", |o| {
        o["status"]["currentHealthy"] == 1
    })
    .await?;
    let left = w.stage.left_on(host).await?;
    ensure!(left.is_empty(), "{left:?}");
    w.stage.tainted_only_while_off(&w.witness, host).await?;
    w.stage.one_cycle(host)
}

async fn closed(w: &World) -> Result<()> {
    w.replaceable("closed-1", "closed", json!({ "phase": "Failed" }))
        .await?;
    w.check("closed", json!({}), json!({ "maxUnhealthy": 0 }))
        .await?;
    w.wait_event("closed", "RemediationRestricted").await?;
    let there = w.stage.openshift_machines().get("closed-1").await?;
    ensure!(there.metadata.deletion_timestamp.is_none(), "{there:?}");
    w.change("closed", json!({ "spec": { "maxUnhealthy": 1 } }))
        .await?;
    w.wait_machine("closed-1", "it is deleted", |m| m.is_none())
        .await
        .map(drop)
}

async fn paused(w: &World) -> Result<()> {
    let failed = json!({ "phase": "Failed" });
    w.replaceable("paused-1", "paused", failed.clone()).await?;
    w.replaceable("paused-2", "running", failed).await?;
    w.check("paused", json!({ PAUSED: "" }), json!({})).await?;
    w.check("running", json!({}), json!({})).await?;
    // Both are looked at together: the other one has been acted on.
    w.wait_machine("paused-2", "it is deleted", |m| m.is_none())
        .await?;
    w.wait_check("running", "none is left", |o| {
        o["status"]["expectedMachines"] == 0
    })
    .await?;
    let there = w.stage.openshift_machines().get("paused-1").await?;
    ensure!(there.metadata.deletion_timestamp.is_none(), "{there:?}");
    let check = w.stage.openshift_checks().get("paused").await?;
    ensure!(check.data["status"].is_null(), "{:?}", check.data);
    w.change(
        "paused",
        json!({ "metadata": { "annotations": { PAUSED: null } } }),
    )
    .await?;
    w.wait_machine("paused-1", "it is deleted", |m| m.is_none())
        .await
        .map(drop)
}

async fn invalid(w: &World) -> Result<()> {
    let near = json!({ "matchExpressions": [{ "key": POOL, "operator": "Near" }] });
    w.check("invalid", json!({}), json!({ "selector": near }))
        .await?;
    let object = w
        .wait_check("invalid", "it says so", |o| {
            !condition(o, "RemediationAllowed").is_null()
        })
        .await?;
    let said = condition(&object, "RemediationAllowed");
    ensure!(
        said["status"] == "False"
            && said["reason"] == "InvalidSpec"
            && said["message"].as_str().is_some_and(|m| m.contains("Near")),
        "{said}"
    );
    Ok(())
}

/// Where OpenShift's own controllers are, they act on the mark, and Rackhand never does.
async fn left_to_openshift(w: &World) -> Result<()> {
    let namespace = "openshift-machine-api";
    let name = json!({ "name": namespace });
    apply(
        &w.stage.client,
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": name }),
    )
    .await?;
    let labels = json!({ "app": "machine-api" });
    apply(
        &w.stage.client,
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": { "name": "machine-api-controllers", "namespace": namespace },
            "spec": {
                "replicas": 0,
                "selector": { "matchLabels": labels },
                "template": {
                    "metadata": { "labels": labels },
                    "spec": { "containers": [{ "name": "machine-controller", "image": "none.invalid/none" }] },
                },
            },
        }),
    )
    .await?;
    let host = "external-2";
    marked(w, host).await?;
    w.wait_event(&machine_of(host), "LeftToOpenShift").await?;
    let request = w.requests().get_opt(&machine_of(host)).await?;
    ensure!(request.is_none(), "{request:?}");
    w.stage.untouched(host)
}

/// Nothing was forbidden to the controller, and the machine that does not read was told of once.
async fn end(w: &World) -> Result<()> {
    let log = w.stage.log_of("controller-0")?;
    let with = |part: &str| log.lines().filter(|l| l.contains(part)).count();
    ensure!(with("forbidden") == 0 && with("Forbidden") == 0, "{log}");
    let told = log
        .lines()
        .filter(|l| l.contains("cannot be read") && l.contains("shown-bad"));
    ensure!(told.count() == 1, "{log}");
    Ok(())
}
