//! The stage of these tests, with OpenShift's kinds.

use anyhow::{Context, Result, ensure};
use kube::{
    Api, ResourceExt,
    api::{DynamicObject, Patch, PatchParams},
};
use rackhand_tests::stage::{LONG, NAMESPACE, Recorder, Stage, is_ready, wait_until};
use serde_json::{Value, json};

pub const MARK: &str = "host.metal3.io/external-remediation";

pub const STRATEGY: &str = "machine.openshift.io/remediation-strategy";

pub const PAUSED: &str = "cluster.x-k8s.io/paused";

pub const POOL: &str = "pool";

pub const TEMPLATE: &str = "
apiVersion: rackhand.dev/v1alpha1
kind: PowerRemediationTemplate
metadata: { name: reboot, namespace: metal3 }
spec: { template: { spec: { strategy: { type: Reboot } } } }
";

pub struct World {
    pub stage: Stage,
    pub recorder: Recorder,
}

pub fn machine_of(host: &str) -> String {
    format!("ocp-{host}")
}

pub fn status_of(node: &str) -> Value {
    json!({ "phase": "Running", "nodeRef": { "kind": "Node", "name": node } })
}

pub fn condition<'a>(object: &'a Value, name: &str) -> &'a Value {
    let list = object["status"]["conditions"].as_array();
    let mut found = list.into_iter().flatten();
    found.find(|c| c["type"] == name).unwrap_or(&Value::Null)
}

impl World {
    pub async fn machine(
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

    /// Creates a Machine that a MachineSet would replace.
    pub async fn replaceable(
        &self,
        name: &str,
        pool: &str,
        status: Value,
    ) -> Result<DynamicObject> {
        let owner = json!({ "ownerReferences": self.owner_references().await? });
        self.machine(name, pool, owner, status).await
    }

    /// A controller, which no garbage collection misses.
    pub async fn owner_references(&self) -> Result<Value> {
        Ok(json!([{
            "apiVersion": "v1", "kind": "ConfigMap", "name": "kube-root-ca.crt",
            "uid": self.owner().await?, "controller": true,
        }]))
    }

    /// The UID of an existing owner, because objects with a missing owner are garbage-collected.
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

    pub async fn check(&self, pool: &str, annotations: Value, spec: Value) -> Result<()> {
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

    pub async fn change(&self, pool: &str, body: Value) -> Result<()> {
        let checks = self.stage.openshift_checks();
        checks
            .patch(pool, &PatchParams::default(), &Patch::Merge(body))
            .await
            .map(drop)
            .with_context(|| format!("changing {pool}"))
    }

    pub async fn wait_check(
        &self,
        pool: &str,
        what: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        let checks = self.stage.openshift_checks();
        wait(&checks, pool, what, |object| object.is_some_and(&wanted)).await
    }

    pub async fn wait_machine(
        &self,
        name: &str,
        what: &str,
        wanted: impl Fn(Option<&Value>) -> bool,
    ) -> Result<Value> {
        wait(&self.stage.openshift_machines(), name, what, wanted).await
    }

    pub fn remediations(&self) -> Api<DynamicObject> {
        self.stage
            .api("rackhand.dev", "v1alpha1", "PowerRemediation")
    }

    /// Waits until a remediation of a Machine was created; returns its first version.
    pub async fn requested(&self, machine: &str) -> Result<Value> {
        let what = "a remediation is created";
        self.recorder
            .wait_version("PowerRemediation", machine, what, |_| true)
            .await
    }

    pub async fn wait_event(&self, object: &str, reason: &str) -> Result<()> {
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

    pub async fn wait_ready(&self, node: &str) -> Result<()> {
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

    /// Hangs a host; its Node becomes Unknown some seconds later.
    pub fn hang(&self, host: &str) -> Result<()> {
        ensure!(self.stage.host(host)?.hang(), "{host} was not up");
        Ok(())
    }

    async fn metrics(&self) -> Result<String> {
        let (status, text) = self.stage.admin("controller-0", "/metrics").await?;
        ensure!(status == 200, "{status}: {text}");
        Ok(text)
    }

    pub async fn wait_metric(&self, name: &str, check: &str, value: u32) -> Result<()> {
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

pub async fn wait(
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
