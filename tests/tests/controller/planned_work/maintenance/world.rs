//! The stage of these tests, with HostMaintenances.

use anyhow::{Context, Result, ensure};
use kube::{
    Api, ResourceExt,
    api::{
        ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams,
        PostParams,
    },
};
use rackhand_tests::{
    rack::LedState,
    stage::{LONG, NAMESPACE, Recorder, Stage, wait_until},
};
use serde_json::{Value, json};

pub const SKIP: &str = "cluster.x-k8s.io/skip-remediation";
pub const MARK: &str = "rackhand.dev/maintenance";

pub struct World {
    pub stage: Stage,
    pub recorder: Recorder,
}

impl World {
    pub fn maintenances(&self) -> Api<DynamicObject> {
        self.stage
            .api("rackhand.dev", "v1alpha1", "HostMaintenance")
    }

    pub fn maintenances_in(&self, namespace: &str) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk("rackhand.dev", "v1alpha1", "HostMaintenance");
        let resource = ApiResource::from_gvk(&kind);
        Api::namespaced_with(self.stage.client.clone(), namespace, &resource)
    }

    pub fn remediations(&self) -> Api<DynamicObject> {
        self.stage
            .api("rackhand.dev", "v1alpha1", "PowerRemediation")
    }

    pub async fn start(&self, name: &str, mut spec: Value) -> Result<()> {
        spec["reason"] = "a DIMM is changed".into();
        // No operating system answers a soft off here.
        spec["softOffSeconds"] = 0.into();
        let object: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "rackhand.dev/v1alpha1", "kind": "HostMaintenance",
            "metadata": { "name": name, "namespace": NAMESPACE },
            "spec": spec,
        }))?;
        self.maintenances()
            .create(&PostParams::default(), &object)
            .await
            .map(drop)
            .with_context(|| format!("creating {name}"))
    }

    pub async fn wait(
        &self,
        name: &str,
        what: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Result<Value> {
        wait_until(&format!("{name}: {what}"), LONG, || async {
            let Some(object) = self.maintenances().get_opt(name).await? else {
                return Ok(Err("there is no maintenance".into()));
            };
            let object = serde_json::to_value(object)?;
            let seen = object["status"].to_string();
            Ok(if wanted(&object) {
                Ok(object)
            } else {
                Err(seen)
            })
        })
        .await
    }

    /// Waits for a phase of a maintenance in another namespace.
    pub async fn wait_in(&self, namespace: &str, name: &str, phase: &str) -> Result<Value> {
        let objects = self.maintenances_in(namespace);
        wait_until(&format!("{name}: {phase}"), LONG, || async {
            let object = serde_json::to_value(objects.get(name).await?)?;
            let status = object["status"].to_string();
            Ok(match object["status"]["phase"] == phase {
                true => Ok(object),
                false => Err(status),
            })
        })
        .await
    }

    /// Changes the spec of a maintenance.
    pub async fn change(&self, name: &str, spec: Value) -> Result<()> {
        let body = json!({ "spec": spec });
        let params = PatchParams::default();
        self.maintenances()
            .patch(name, &params, &Patch::Merge(body))
            .await?;
        Ok(())
    }

    pub async fn wait_phase(&self, name: &str, phase: &str) -> Result<Value> {
        self.wait(name, phase, |object| object["status"]["phase"] == phase)
            .await
    }

    pub async fn end(&self, name: &str) -> Result<()> {
        self.maintenances()
            .delete(name, &DeleteParams::default())
            .await
            .map(drop)
            .with_context(|| format!("ending {name}"))
    }

    pub async fn wait_gone(&self, name: &str) -> Result<()> {
        wait_until(&format!("{name}: gone"), LONG, || async {
            Ok(match self.maintenances().get_opt(name).await? {
                None => Ok(()),
                Some(object) => Err(object.data["status"].to_string()),
            })
        })
        .await
    }

    /// The remediation of a maintenance.
    pub async fn remediation_of(&self, name: &str) -> Result<Option<DynamicObject>> {
        let uid = self
            .maintenances()
            .get(name)
            .await?
            .uid()
            .unwrap_or_default();
        Ok(self
            .remediations()
            .get_opt(&format!("maintenance-{uid}"))
            .await?)
    }

    /// What is left on a host and its objects.
    pub async fn left(&self, host: &str) -> Result<Vec<String>> {
        let mut left = self.stage.left_on(host).await?;
        let machine = self.stage.machines().get(host).await?;
        let marks = [SKIP, MARK];
        left.extend(
            (marks.iter())
                .filter(|key| machine.annotations().contains_key(**key))
                .map(|key| format!("annotation {key}")),
        );
        if self.stage.work_lease(host).await?.is_some() {
            left.push("Lease".into());
        }
        if self.led(host)? {
            left.push("LED".into());
        }
        if self
            .stage
            .node(host)
            .await?
            .spec
            .is_some_and(|s| s.unschedulable == Some(true))
        {
            left.push("cordon".into());
        }
        let all = self.remediations().list(&ListParams::default()).await?;
        let of_host = |object: &&DynamicObject| object.data["status"]["nodeName"] == host;
        left.extend(all.iter().filter(of_host).map(ResourceExt::name_any));
        Ok(left)
    }

    pub fn led(&self, host: &str) -> Result<bool> {
        let host = self.stage.host(host)?;
        Ok(host.with_settings(|_, settings| settings.led != LedState::default()))
    }

    /// Waits until the host is on, its Node is Ready, and nothing is left.
    pub async fn wait_back(&self, host: &str) -> Result<()> {
        let left = async || self.left(host).await;
        self.stage.wait_ready_without(host, left).await
    }

    /// What the kubectl plugin prints.
    pub async fn plugin(&self, args: &[&str]) -> Result<String> {
        let kubeconfig = self.stage.plane().kubeconfig();
        let mut plugin = tokio::process::Command::from(self.stage.plugin(&kubeconfig)?);
        let output = plugin.args(args).output().await?;
        let text = String::from_utf8(output.stdout)?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{args:?}: {text}{errors}");
        Ok(text)
    }

    pub async fn shown(&self) -> String {
        let mut text = String::new();
        for objects in [self.maintenances(), self.remediations()] {
            let list = objects.list(&ListParams::default()).await;
            for object in list.into_iter().flatten() {
                text.push_str(&format!(
                    "--- {}: {}\n",
                    object.name_any(),
                    object.data["status"]
                ));
            }
        }
        text
    }
}
