//! Real hosts in the cluster of a stage, with Rackhand.

use std::path::Path;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use serde_json::json;

use super::{
    BmcKind, Prepared, RealHost, Reports,
    bmc::{HostBmc, PASSWORD},
    guest::TEST_ADDRESS,
};
use crate::{
    cluster::{Periods, apply},
    pki::Pki,
    stage::{
        BMC_USER, HealthTimes, HostLink, LONG, RackSpec, Recorder, Stage, StageConfig, is_ready,
        machine, wait_until,
    },
};

/// The only rack of a site.
const RACK: &str = "real";
/// The only controller.
const CONTROLLER: &str = "controller-0";

/// The settings of a site.
#[derive(Debug, Clone)]
pub struct RealSpec {
    /// How many hosts there are: `real-1` and so on.
    pub hosts: usize,
    /// What their BMCs are.
    pub bmc: BmcKind,
    /// Whether the inventory gives each host the BMC of another, and their system UUIDs are unknown.
    pub swapped: bool,
    /// How long a Node may be unhealthy, in Go's form.
    pub unhealthy: String,
    /// The periods of Kubernetes.
    pub periods: Periods,
}

impl RealSpec {
    /// Hosts with their own BMCs.
    #[must_use]
    pub fn new(hosts: usize, bmc: BmcKind) -> Self {
        Self {
            hosts,
            bmc,
            swapped: false,
            unhealthy: "5s".to_owned(),
            periods: Periods::Short,
        }
    }

    /// Sets the periods of Kubernetes.
    #[must_use]
    pub fn with_periods(mut self, periods: Periods) -> Self {
        self.periods = periods;
        self
    }

    /// Gives each host the BMC of another.
    #[must_use]
    pub fn swapped(mut self) -> Self {
        self.swapped = true;
        self
    }

    /// Sets how long a Node may be unhealthy, so that a host may reboot by itself.
    #[must_use]
    pub fn patient(mut self) -> Self {
        self.unhealthy = "600s".to_owned();
        self
    }
}

/// Real hosts with their BMCs, a control plane, and Rackhand.
pub struct RealSite {
    /// Control plane and Rackhand.
    pub stage: Stage,
    /// Every version of the objects.
    pub recorder: Recorder,
    /// What the workload reports.
    pub reports: Reports,
    pub(super) hosts: Vec<RealHost>,
    _bmcs: Vec<HostBmc>,
}

impl RealSite {
    /// Starts all of it, and waits until the Nodes of all hosts are Ready. No health check is there yet.
    ///
    /// # Errors
    /// A part does not start; the error contains the ends of the consoles.
    pub async fn start(prepared: &Prepared, dir: &Path, spec: &RealSpec) -> Result<Self> {
        let pki = Pki::new(dir.join("pki"))?;
        let mut hosts = Vec::new();
        let mut bmcs = Vec::new();
        for number in 1..=spec.hosts {
            let name = format!("{RACK}-{number}");
            let host = RealHost::new(prepared, &name, &dir.join(&name))?;
            bmcs.push(HostBmc::start(spec.bmc, &host, &dir.join(&name), &pki).await?);
            hosts.push(host);
        }
        let password = dir.join("bmc-password");
        std::fs::write(&password, PASSWORD)?;
        std::fs::set_permissions(
            &password,
            std::os::unix::fs::PermissionsExt::from_mode(0o600),
        )?;
        let entries = hosts.iter().enumerate().map(|(place, host)| {
            let cabled = if spec.swapped {
                spec.hosts - 1 - place
            } else {
                place
            };
            let mut entry = json!({
                "name": host.name(),
                "node_name": host.name(),
                "bmc": {
                    "address": bmcs[cabled].address,
                    "username": BMC_USER,
                    "password_file": password,
                },
            });
            if !spec.swapped {
                entry["system_uuid"] = json!(host.uuid());
            }
            entry
        });
        let mut rack = RackSpec::new(RACK, 0, HostLink::Inventory);
        rack.real = entries.collect();
        let machines: Vec<_> = hosts
            .iter()
            .map(|host| machine(&rack, host.name()))
            .collect();
        let config = StageConfig {
            health: HealthTimes {
                unhealthy: spec.unhealthy.clone(),
                boot: "600s".into(),
                retries: 2,
            },
            periods: spec.periods,
            ..StageConfig::steady(vec![rack], &[])
        };
        let stage = Stage::start(dir, config).await?;
        for object in machines {
            apply(&stage.client, object).await?;
        }
        apply(&stage.client, kubelet_rights()).await?;
        for host in &hosts {
            host.join(stage.plane(), RACK, spec.periods)?;
            host.press_power()?;
        }
        stage.apply_rack_agents().await?;
        stage.start_controller(CONTROLLER).await?;
        let recorder = Recorder::start(&stage.client);
        let site = Self {
            recorder,
            reports: Reports::start().await?,
            hosts,
            _bmcs: bmcs,
            stage,
        };
        for host in &site.hosts {
            let ready = site.wait_ready(host.name()).await;
            ready.with_context(|| site.report())?;
        }
        Ok(site)
    }

    /// All hosts.
    pub fn hosts(&self) -> impl Iterator<Item = &RealHost> {
        self.hosts.iter()
    }

    /// The host with this name.
    ///
    /// # Errors
    /// There is none.
    pub fn host(&self, name: &str) -> Result<&RealHost> {
        let found = self.hosts.iter().find(|host| host.name() == name);
        found.with_context(|| format!("no host {name}"))
    }

    /// Waits until the Node of a host is Ready, and returns it.
    ///
    /// # Errors
    /// It is not Ready in time.
    pub async fn wait_ready(&self, name: &str) -> Result<Node> {
        let nodes: Api<Node> = Api::all(self.stage.client.clone());
        wait_until(&format!("{name}: Ready"), 4 * LONG, || async {
            Ok(match nodes.get_opt(name).await? {
                Some(node) if is_ready(&node) => Ok(node),
                Some(_) => Err("not Ready".to_owned()),
                None => Err("there is no Node".to_owned()),
            })
        })
        .await
    }

    /// Applies a StatefulSet `db` whose Pods report to the test, and waits for the reports of all.
    ///
    /// # Errors
    /// A Pod does not report in time.
    pub async fn run_workload(&self, replicas: usize) -> Result<()> {
        let from = |path: &str| json!({ "fieldRef": { "fieldPath": path } });
        let address = format!("{TEST_ADDRESS}:{}", self.reports.port());
        let labels = json!({ "app": "db" });
        let set = json!({
            "apiVersion": "apps/v1",
            "kind": "StatefulSet",
            "metadata": { "name": "db", "namespace": "default" },
            "spec": {
                "serviceName": "db",
                "replicas": replicas,
                "podManagementPolicy": "Parallel",
                "selector": { "matchLabels": labels },
                "template": {
                    "metadata": { "labels": labels },
                    "spec": {
                        "hostNetwork": true,
                        "containers": [{
                            "name": "db",
                            "image": "rackhand.test/member:1",
                            "imagePullPolicy": "Never",
                            "env": [
                                { "name": "REPORT_TO", "value": address },
                                { "name": "POD", "valueFrom": from("metadata.name") },
                                { "name": "NODE", "valueFrom": from("spec.nodeName") },
                            ],
                        }],
                    },
                },
            },
        });
        apply(&self.stage.client, set).await?;
        for number in 0..replicas {
            self.wait_report(&format!("db-{number}"), "it reports", |_| true)
                .await?;
        }
        Ok(())
    }

    /// The ends of all logs and consoles, for a failed test.
    #[must_use]
    pub fn report(&self) -> String {
        let mut text = self.stage.logs();
        for host in &self.hosts {
            let console = std::fs::read(host.console()).unwrap_or_default();
            let console = String::from_utf8_lossy(&console);
            let lines: Vec<&str> = console.lines().collect();
            let from = lines.len().saturating_sub(15);
            text.push_str(&format!(
                "--- console of {} ({:?})\n{}\n",
                host.name(),
                host.power_changes(),
                lines.get(from..).unwrap_or_default().join("\n")
            ));
        }
        text
    }
}

/// The rights that Kubernetes itself publishes for kubelets, for all of them.
fn kubelet_rights() -> serde_json::Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": { "name": "kubelets" },
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "system:node",
        },
        "subjects": [{
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "Group",
            "name": "system:nodes",
        }],
    })
}
