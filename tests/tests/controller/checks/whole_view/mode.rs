//! The kinds of checks, and how each remediates unhealthy members.

use anyhow::Result;
use kube::{
    Api, ResourceExt,
    api::{DynamicObject, ListParams, Patch, PatchParams, PostParams},
};
use rackhand_tests::{
    cluster::{apply, apply_yaml},
    stage::{NAMESPACE, SYSTEM, Stage},
};
use serde_json::json;

use super::fleet::{is, node_name};

const CLUSTER_API: &str = "cluster.x-k8s.io/v1beta1";
const NODE_NAME: &str = "remediation.medik8s.io/node-name";
const OPENSHIFT: &str = "machine.openshift.io/v1beta1";
/// How a check remediates a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Cluster API: a remediation from a template.
    Template,
    /// Cluster API: the Machine's owner.
    Owner,
    /// OpenShift: a remediation from a template.
    OpenShift,
    /// medik8s: a remediation of a Node.
    Nodes,
}

impl Mode {
    pub(crate) const ALL: [Self; 4] = [Self::Template, Self::Owner, Self::OpenShift, Self::Nodes];

    pub(crate) fn prefix(self) -> &'static str {
        match self {
            Self::Template => "t",
            Self::Owner => "w",
            Self::OpenShift => "o",
            Self::Nodes => "n",
        }
    }

    /// The name of a new Node, and of its Machine if there is one.
    pub(crate) fn fresh(self, i: usize) -> String {
        format!("{}-{i:03}", self.prefix())
    }

    /// The name of the remediated member if a Node of the fleet fails.
    pub(crate) fn target(self, i: usize) -> String {
        if self == Self::Nodes {
            node_name(i)
        } else {
            self.fresh(i)
        }
    }

    pub(crate) fn machines(self, stage: &Stage) -> Api<DynamicObject> {
        if self == Self::OpenShift {
            stage.openshift_machines()
        } else {
            stage.machines()
        }
    }

    pub(crate) fn checks(self, stage: &Stage) -> Api<DynamicObject> {
        match self {
            Self::Template | Self::Owner => stage.checks(),
            Self::OpenShift => stage.openshift_checks(),
            Self::Nodes => stage.node_health_checks(),
        }
    }

    /// The fields of a check's status with the number of all and of healthy members.
    pub(crate) fn counts(self) -> [&'static str; 2] {
        if self == Self::Nodes {
            ["observedNodes", "healthyNodes"]
        } else {
            ["expectedMachines", "currentHealthy"]
        }
    }

    pub(crate) async fn make_check(self, stage: &Stage, most: &str) -> Result<()> {
        match self {
            Self::Template | Self::Owner => self.make_machine_check(stage, most).await,
            Self::OpenShift => self.make_openshift_check(stage, most).await,
            Self::Nodes => self.make_node_check(stage, most).await,
        }
    }

    async fn make_machine_check(self, stage: &Stage, most: &str) -> Result<()> {
        let name = self.prefix();
        let mut text = stage.health_check_of(name, name, most);
        if self == Self::Owner {
            let end = text.find("  remediationTemplate:").unwrap_or(text.len());
            text.truncate(end);
        }
        apply_yaml(&stage.client, &text).await
    }

    async fn make_openshift_check(self, stage: &Stage, most: &str) -> Result<()> {
        let name = self.prefix();
        let rule = |status: &str| json!({ "type": "Ready", "status": status, "timeout": "1s" });
        let check = json!({
            "metadata": { "name": name },
            "spec": {
                "maxUnhealthy": most,
                "nodeStartupTimeout": "10m",
                "selector": { "matchLabels": { "nodepool": name } },
                "unhealthyConditions": [rule("Unknown"), rule("False")],
                "remediationTemplate": {
                    "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1",
                    "kind": "Metal3RemediationTemplate",
                    "name": "worker-remediation-request",
                },
            },
        });
        stage.apply_openshift("MachineHealthCheck", check).await?;
        Ok(())
    }

    async fn make_node_check(self, stage: &Stage, most: &str) -> Result<()> {
        let rule = |status: &str| json!({ "type": "Ready", "status": status, "duration": "1s" });
        let template = json!({
            "apiVersion": "rackhand.dev/v1alpha1",
            "kind": "PowerRemediationTemplate",
            "metadata": { "name": "reboot", "namespace": SYSTEM },
            "spec": { "template": { "spec": { "strategy": { "type": "Reboot" } } } },
        });
        let check = json!({
            "apiVersion": "remediation.medik8s.io/v1alpha1",
            "kind": "NodeHealthCheck",
            "metadata": { "name": self.prefix() },
            "spec": {
                "maxUnhealthy": most,
                "selector": { "matchLabels": { "pool": self.prefix() } },
                "unhealthyConditions": [rule("Unknown"), rule("False")],
                "remediationTemplate": {
                    "apiVersion": template["apiVersion"],
                    "kind": template["kind"],
                    "name": "reboot",
                    "namespace": SYSTEM,
                },
            },
        });
        apply(&stage.client, template).await?;
        apply(&stage.client, check).await?;
        Ok(())
    }

    /// Creates a Machine without a Node.
    pub(crate) async fn make_machine(self, stage: &Stage, name: &str) -> Result<()> {
        let api_version = match self {
            Self::Template | Self::Owner => CLUSTER_API,
            Self::OpenShift => OPENSHIFT,
            Self::Nodes => return Ok(()),
        };
        let mut machine = json!({
            "apiVersion": api_version,
            "kind": "Machine",
            "metadata": {
                "name": name,
                "namespace": NAMESPACE,
                "labels": { "nodepool": self.prefix(), "cluster.x-k8s.io/cluster-name": "demo" },
            },
            "spec": {},
        });
        if self != Self::OpenShift {
            machine["spec"] = json!({
                "clusterName": "demo",
                "bootstrap": { "dataSecretName": "none" },
                "infrastructureRef": {
                    "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1",
                    "kind": "Metal3Machine",
                    "name": name,
                    "namespace": NAMESPACE,
                },
            });
        }
        let machine: DynamicObject = serde_json::from_value(machine)?;
        self.machines(stage)
            .create(&PostParams::default(), &machine)
            .await?;
        Ok(())
    }

    /// Creates the Node of a Machine.
    pub(crate) async fn join(self, stage: &Stage, machine: &str, node: &str) -> Result<()> {
        if self == Self::Nodes {
            return Ok(());
        }
        let status = json!({ "status": {
            "phase": "Running",
            "nodeRef": { "apiVersion": "v1", "kind": "Node", "name": node },
            "lastUpdated": "2026-01-01T00:00:00Z",
        }});
        let params = PatchParams::default();
        self.machines(stage)
            .patch_status(machine, &params, &Patch::Merge(status))
            .await?;
        Ok(())
    }

    /// The Machines or Nodes that were remediated.
    pub(crate) async fn handed_over(self, stage: &Stage) -> Result<Vec<String>> {
        let all = ListParams::default();
        Ok(match self {
            Self::Template | Self::OpenShift => {
                let found = stage.remediations().list(&all).await?;
                found.iter().map(ResourceExt::name_any).collect()
            }
            Self::Owner => {
                let found = stage.machines().list(&all).await?;
                let told = found.iter().filter(|m| is(m, "OwnerRemediated", "False"));
                told.map(ResourceExt::name_any).collect()
            }
            Self::Nodes => {
                let found = stage.power_remediations().list(&all).await?;
                let node = |r: &DynamicObject| r.annotations().get(NODE_NAME).cloned();
                let unnamed = |r: &DynamicObject| node(r).unwrap_or_else(|| r.name_any());
                found.iter().map(unnamed).collect()
            }
        })
    }
}
