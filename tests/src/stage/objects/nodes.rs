//! A cluster of Nodes without Machines, with a NodeHealthCheck and its remediations.

use anyhow::{Result, ensure};
use k8s_openapi::api::{coordination::v1::Lease, events::v1::Event};
use kube::{
    Api, ResourceExt,
    api::{DynamicObject, ListParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Value, json};

use crate::cluster::{apply, apply_yaml};
use crate::stage::{LONG, SYSTEM, Stage, wait_until};

/// The name of the stage's NodeHealthCheck.
pub const NODE_CHECK: &str = "workers";
/// Namespace of the Leases by which medik8s' operators lock Nodes.
pub const NODE_LEASES: &str = "medik8s-leases";

const NODE_NAME: &str = "remediation.medik8s.io/node-name";

/// The example of docs/node-health-checks.md with the times of the stage.
const CHECK: &str = r#"
apiVersion: rackhand.dev/v1alpha1
kind: PowerRemediationTemplate
metadata: {name: quick, namespace: rackhand-system}
spec:
  template:
    spec:
      strategy:
        type: PowerCycleFirst
        retryLimit: 0
        onExhausted: Notify
        timeouts: {bootSeconds: @QUICK@}
---
apiVersion: rackhand.dev/v1alpha1
kind: PowerRemediationTemplate
metadata: {name: full, namespace: rackhand-system}
spec:
  template:
    spec:
      strategy: {type: Reboot, retryLimit: 2}
---
apiVersion: remediation.medik8s.io/v1alpha1
kind: NodeHealthCheck
metadata:
  name: workers
spec:
  selector:
    matchExpressions:
      - {key: node-role.kubernetes.io/control-plane, operator: DoesNotExist}
  minHealthy: 51%
  unhealthyConditions:
    - {type: Ready, status: "False", duration: @UNHEALTHY@}
    - {type: Ready, status: Unknown, duration: @UNHEALTHY@}
  escalatingRemediations:
    - order: 1
      timeout: 5m
      remediationTemplate: {apiVersion: rackhand.dev/v1alpha1, kind: PowerRemediationTemplate, namespace: rackhand-system, name: quick}
    - order: 2
      timeout: 30m
      remediationTemplate: {apiVersion: rackhand.dev/v1alpha1, kind: PowerRemediationTemplate, namespace: rackhand-system, name: full}
"#;

impl Stage {
    /// API of the NodeHealthChecks.
    #[must_use]
    pub fn node_health_checks(&self) -> Api<DynamicObject> {
        let gvk = GroupVersionKind::gvk("remediation.medik8s.io", "v1alpha1", "NodeHealthCheck");
        let resource = ApiResource::from_gvk_with_plural(&gvk, "nodehealthchecks");
        Api::all_with(self.client.clone(), &resource)
    }

    /// API of the PowerRemediations in the controller's namespace, which contains the check's templates.
    #[must_use]
    pub fn power_remediations(&self) -> Api<DynamicObject> {
        let gvk = GroupVersionKind::gvk("rackhand.dev", "v1alpha1", "PowerRemediation");
        Api::namespaced_with(
            self.client.clone(),
            SYSTEM,
            &ApiResource::from_gvk_with_plural(&gvk, "powerremediations"),
        )
    }

    /// The PowerRemediations of a Node, oldest first.
    ///
    /// # Errors
    /// The API server does not answer.
    pub async fn power_remediations_of(&self, node: &str) -> Result<Vec<DynamicObject>> {
        let all = self
            .power_remediations()
            .list(&ListParams::default())
            .await?;
        let of_node = |object: &DynamicObject| {
            object
                .annotations()
                .get(NODE_NAME)
                .is_some_and(|n| n == node)
        };
        let mut list: Vec<DynamicObject> = all.into_iter().filter(of_node).collect();
        list.sort_by_key(|object| object.creation_timestamp().map(|t| t.0));
        Ok(list)
    }

    /// The Events about NodeHealthChecks and PowerRemediations, oldest first.
    ///
    /// # Errors
    /// The API server does not answer.
    pub async fn events_of_nodes(&self) -> Result<Vec<Event>> {
        let mut list = Vec::new();
        // Events about cluster-scoped objects are in this namespace.
        for namespace in ["default", SYSTEM] {
            let events: Api<Event> = Api::namespaced(self.client.clone(), namespace);
            let found = events.list(&ListParams::default()).await?;
            list.extend(found.into_iter().filter(|event| {
                let kind = event.regarding.as_ref().and_then(|r| r.kind.as_deref());
                matches!(kind, Some("NodeHealthCheck" | "PowerRemediation"))
            }));
        }
        list.sort_by_key(|event| event.event_time.as_ref().map(|t| t.0));
        Ok(list)
    }

    /// The Lease of a Node, if it is held.
    ///
    /// # Errors
    /// The API server does not answer.
    pub async fn work_lease(&self, node: &str) -> Result<Option<Lease>> {
        Ok(self.work_leases().get_opt(&format!("node-{node}")).await?)
    }

    /// The Leases by which medik8s' operators exclude each other.
    pub fn work_leases(&self) -> Api<Lease> {
        Api::namespaced(self.client.clone(), NODE_LEASES)
    }

    /// Applies the NodeHealthCheck and its two templates: a quick power cycle with a boot timeout of
    /// `quick_boot` seconds, and full fencing with the taint.
    ///
    /// # Errors
    /// The API server rejects an object.
    pub async fn apply_node_health_check(&self, quick_boot: u32) -> Result<()> {
        let text = CHECK
            .replace("@UNHEALTHY@", &self.config.health.unhealthy)
            .replace("@QUICK@", &quick_boot.to_string());
        apply_yaml(&self.client, &text).await
    }

    /// Waits until the status of the NodeHealthCheck has all Nodes healthy and no remediation.
    ///
    /// # Errors
    /// The state is not reached in time; the message contains the last state.
    pub async fn wait_check_at_rest(&self) -> Result<()> {
        let hosts: usize = self.config.racks.iter().map(|r| r.hosts.len()).sum();
        wait_until("the health check is at rest", LONG, || async {
            let check = self.node_health_checks().get(NODE_CHECK).await?;
            let status = &check.data["status"];
            let unhealthy = status["unhealthyNodes"].as_array();
            let rests = status["phase"] == "Enabled"
                && status["healthyNodes"] == hosts
                && unhealthy.is_none_or(Vec::is_empty);
            Ok(if rests {
                Ok(())
            } else {
                Err(status.to_string())
            })
        })
        .await
    }

    /// Applies a StatefulSet with one Pod in each zone.
    ///
    /// # Errors
    /// The API server rejects the object.
    pub async fn apply_workload_by_zone(&self) -> Result<()> {
        let app = json!({ "app": "db" });
        apply(
            &self.client,
            json!({
                "apiVersion": "apps/v1",
                "kind": "StatefulSet",
                "metadata": { "name": "db", "namespace": "default" },
                "spec": {
                    "serviceName": "db",
                    "replicas": self.config.racks.len(),
                    "podManagementPolicy": "Parallel",
                    "selector": { "matchLabels": app },
                    "template": {
                        "metadata": { "labels": app },
                        "spec": {
                            "containers": [{ "name": "db", "image": "db.invalid/db:1" }],
                            "topologySpreadConstraints": [{
                                "maxSkew": 1,
                                "topologyKey": "topology.kubernetes.io/zone",
                                "whenUnsatisfiable": "DoNotSchedule",
                                "labelSelector": { "matchLabels": app },
                            }],
                        },
                    },
                },
            }),
        )
        .await
        .map(drop)
    }

    /// Checks that the API server serves no kind of Cluster API and no BareMetalHosts.
    ///
    /// # Errors
    /// The API server serves such groups; the message names them.
    pub async fn no_machines_are_served(&self) -> Result<()> {
        let groups = self.client.list_api_groups().await?.groups;
        let of_machines = groups
            .into_iter()
            .map(|group| group.name)
            .filter(|name| name.ends_with("cluster.x-k8s.io") || name.ends_with("metal3.io"));
        let served: Vec<String> = of_machines.collect();
        ensure!(served.is_empty(), "it serves {}", served.join(", "));
        Ok(())
    }

    /// States of check and remediations, for a failed test.
    pub(in crate::stage) async fn report_of_nodes(&self) -> String {
        let mut text = String::new();
        let all = ListParams::default();
        for check in self
            .node_health_checks()
            .list(&all)
            .await
            .into_iter()
            .flatten()
        {
            text.push_str(&format!(
                "--- {}: {}\n",
                check.name_any(),
                check.data["status"]
            ));
        }
        for asked in self
            .power_remediations()
            .list(&all)
            .await
            .into_iter()
            .flatten()
        {
            text.push_str(&format!("--- {}\n", words(&asked)));
        }
        text
    }
}

/// State of a PowerRemediation as text.
pub(in crate::stage) fn words(asked: &DynamicObject) -> String {
    let of = |field: &str| -> Value { asked.data["status"][field].clone() };
    let text = |field: &str| of(field).as_str().unwrap_or("none").to_owned();
    format!(
        "{}: {} ({}): {}",
        asked.name_any(),
        text("step"),
        text("reason"),
        text("message")
    )
}
