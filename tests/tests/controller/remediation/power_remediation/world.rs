//! The stage of these tests, with PowerRemediations.

use anyhow::{Context, Result, ensure};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, DynamicObject, PostParams},
};
use rackhand_tests::stage::{CLUSTER, LONG, NAMESPACE, Recorder, Stage, wait_until};
use serde_json::{Value, json};

pub const NODE_NAME: &str = "remediation.medik8s.io/node-name";

pub const TIMED_OUT: &str = "remediation.medik8s.io/nhc-timed-out";

pub const HOLD: &str = "reboot.metal3.io/rackhand-";

pub const FOREIGN: &str = "reboot.metal3.io/firmware";

pub struct World {
    pub stage: Stage,
    pub recorder: Recorder,
}

pub fn condition<'a>(object: &'a Value, name: &str) -> &'a str {
    let list = object["status"]["conditions"].as_array();
    let found = list.into_iter().flatten().find(|c| c["type"] == name);
    found.and_then(|c| c["status"].as_str()).unwrap_or("none")
}

pub fn step(object: &Value) -> &str {
    object["status"]["step"].as_str().unwrap_or("none")
}

impl World {
    pub fn remediations(&self) -> Api<DynamicObject> {
        self.stage
            .api("rackhand.dev", "v1alpha1", "PowerRemediation")
    }

    /// Creates a remediation, by the Machine of this name or by the Node.
    pub async fn create_remediation(
        &self,
        name: &str,
        machine: bool,
        annotations: Value,
        strategy: Value,
    ) -> Result<()> {
        let mut owners = json!([]);
        if machine {
            let uid = self.stage.machines().get(name).await?.uid();
            owners = json!([{
                "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine",
                "name": name, "uid": uid,
            }]);
        }
        let object: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "rackhand.dev/v1alpha1", "kind": "PowerRemediation",
            "metadata": {
                "name": name, "namespace": NAMESPACE, "annotations": annotations,
                "labels": { "cluster.x-k8s.io/cluster-name": CLUSTER },
                "ownerReferences": owners,
            },
            "spec": { "strategy": strategy },
        }))?;
        self.remediations()
            .create(&PostParams::default(), &object)
            .await
            .with_context(|| format!("asking for {name}"))?;
        Ok(())
    }

    pub async fn strategy(&self, host: &str, strategy: Value) -> Result<()> {
        self.create_remediation(host, true, json!({}), strategy)
            .await
    }

    pub async fn wait(
        &self,
        name: &str,
        what: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        wait_until(&format!("{name}: {what}"), LONG, || async {
            let Some(object) = self.remediations().get_opt(name).await? else {
                return Ok(Err("there is no remediation".into()));
            };
            let object = serde_json::to_value(object)?;
            let status = &object["status"];
            let seen = format!(
                "{} {} {}",
                status["step"], status["reason"], status["message"]
            );
            Ok(if wanted(&object) {
                Ok(object)
            } else {
                Err(seen)
            })
        })
        .await
    }

    pub async fn wait_step(&self, name: &str, wanted: &str) -> Result<Value> {
        self.wait(name, wanted, |object| step(object) == wanted)
            .await
    }

    pub async fn withdraw(&self, name: &str) -> Result<()> {
        self.remediations()
            .delete(name, &DeleteParams::default())
            .await
            .map(drop)
            .with_context(|| format!("deleting {name}"))
    }

    pub async fn wait_gone(&self, name: &str) -> Result<()> {
        wait_until(&format!("{name}: gone"), LONG, || async {
            Ok(match self.remediations().get_opt(name).await? {
                None => Ok(()),
                Some(object) => Err(object.data["status"]["message"].to_string()),
            })
        })
        .await
    }

    /// Waits until the host is on, its Node is Ready, and nothing is left.
    pub async fn wait_back(&self, host: &str) -> Result<()> {
        let left = async || self.stage.left_on(host).await;
        self.stage.wait_ready_without(host, left).await
    }

    /// Hangs a host that never boots again.
    pub async fn lose_for_good(&self, host: &str, on_exhausted: &str) -> Result<()> {
        let sim = self.stage.host(host)?;
        sim.never_boots(true);
        ensure!(sim.hang(), "{host} was not up");
        let strategy = json!({
            "retryLimit": 0, "onExhausted": on_exhausted, "timeouts": { "bootSeconds": 2 },
        });
        self.strategy(host, strategy).await
    }

    /// The condition `OwnerRemediated` in both lists of a Machine.
    pub async fn owner_remediated(&self, machine: &str) -> Result<(Value, Value)> {
        let status = self.stage.machines().get(machine).await?.data["status"].clone();
        let find = |list: &Value| {
            let found = list.as_array().into_iter().flatten();
            let mut found = found.filter(|c| c["type"] == "OwnerRemediated");
            found.next().map_or(Value::Null, |c| c["status"].clone())
        };
        Ok((
            find(&status["conditions"]),
            [&status["v1beta2"], &status["deprecated"]["v1beta1"]]
                .map(|other| find(&other["conditions"]))
                .into_iter()
                .find(|found| !found.is_null())
                .unwrap_or_default(),
        ))
    }

    pub async fn shown(&self) -> String {
        let list = self
            .remediations()
            .list(&kube::api::ListParams::default())
            .await;
        let mut text = String::new();
        for object in list.into_iter().flatten() {
            text.push_str(&format!(
                "--- {}: {}\n",
                object.name_any(),
                object.data["status"]
            ));
        }
        text
    }
}
