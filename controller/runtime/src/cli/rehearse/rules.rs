//! The checks, policies and earlier remediations in the files of a rehearsal.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube::{ResourceExt, api::DynamicObject};
use rackhand_api::{
    kinds::host_history::{HostHistory, HostRemediation},
    names::{GROUP, groups, kinds},
    views::{
        ClusterView, LabelSelector, MachineHealthCheckView, NodeHealthCheckView,
        OpenShiftHealthCheckView,
    },
};
use rackhand_core::{
    checks::machines::ready_cluster,
    rehearsal::{CheckRules, Rehearsal, RehearsedCheck},
};

use crate::{
    checks::{FleetObjects, cluster_facts, nodes, openshift_rules, rules},
    remediation::attempts_of,
    serve::explain::{ExplainError, documents},
    store::{
        object::{Key, Kind},
        power_policy::StoredPolicy,
    },
};

/// The checks and policies of the files.
pub(super) struct Rules {
    pub(super) checks: Vec<FileCheck>,
    pub(super) policies: Vec<StoredPolicy>,
    /// Earlier remediations, by the name of their Node, in the order of time.
    earlier: Vec<HostRemediation>,
}

/// A check of the files.
pub(super) struct FileCheck {
    pub(super) rules: RehearsedCheck,
    pub(super) selects: CheckSelector,
}

/// What a check selects.
pub(super) enum CheckSelector {
    /// Machines of a Cluster of Cluster API.
    Machines {
        cluster: Key,
        selector: LabelSelector,
    },
    /// Machines of OpenShift, in the namespace of the check.
    OpenShift {
        namespace: String,
        selector: LabelSelector,
    },
    /// Nodes.
    Nodes(LabelSelector),
}

impl Rules {
    pub(super) fn read(
        files: &[(String, String)],
        notes: &mut Vec<String>,
    ) -> Result<Self, ExplainError> {
        let mut seen = FleetObjects::default();
        for (file, text) in files {
            let objects = documents(text);
            seen.objects
                .extend(objects.map_err(|error| ExplainError::File(format!("{file}: {error}")))?);
        }
        let mut checks = Vec::new();
        for object in seen.of(groups::CLUSTER_API, kinds::MACHINE_HEALTH_CHECK) {
            checks.push(machine_check(object, &seen, notes)?);
        }
        for object in seen.of(groups::OPENSHIFT_MACHINE, kinds::MACHINE_HEALTH_CHECK) {
            checks.push(openshift_check(object)?);
        }
        for object in seen.of(groups::MEDIK8S, kinds::NODE_HEALTH_CHECK) {
            let name = object.name_any();
            let view = NodeHealthCheckView::from_dynamic(object)
                .map_err(|error| ExplainError::File(format!("NodeHealthCheck {name}: {error}")))?;
            checks.push(FileCheck {
                rules: RehearsedCheck {
                    name,
                    rules: CheckRules::Nodes(nodes::rules_of(&view, false)),
                },
                selects: CheckSelector::Nodes(view.selector),
            });
        }
        if checks.is_empty() {
            return Err(ExplainError::Request(
                "the files hold no MachineHealthCheck of cluster.x-k8s.io or machine.openshift.io, and no \
                 NodeHealthCheck of remediation.medik8s.io"
                    .into(),
            ));
        }
        let policy = Kind::PowerPolicy;
        let mut policies = Vec::new();
        for object in seen.of(policy.group(), policy.kind()) {
            let stored = StoredPolicy::read(object);
            let stored = stored.map_err(|error| ExplainError::File(error.to_string()))?;
            if let Some(why) = &stored.policy.invalid {
                notes.push(format!(
                    "PowerPolicy {} holds what it selects: {why}",
                    object.name_any()
                ));
            }
            policies.push(stored);
        }
        notes.extend(ignored(&seen));
        Ok(Self {
            checks,
            policies,
            earlier: earlier(&seen)?,
        })
    }

    /// Adds the remediations of the HostHistories that were created before the history begins. The rehearsal
    /// itself computes the later remediations.
    pub(super) fn remember(&self, rehearsal: &mut Rehearsal, start: Timestamp) {
        let before = self.earlier.iter().filter(|r| r.created_at < start);
        for remediation in before {
            if let Some(node) = &remediation.node {
                rehearsal.remember(node, attempts_of(remediation));
            }
        }
    }
}

/// The remediations of all HostHistories, in the order of time.
fn earlier(seen: &FleetObjects) -> Result<Vec<HostRemediation>, ExplainError> {
    let mut all = Vec::new();
    for object in seen.of(GROUP, kinds::HOST_HISTORY) {
        let name = object.name_any();
        let history: HostHistory = object
            .clone()
            .try_parse()
            .map_err(|error| ExplainError::File(format!("HostHistory {name}: {error}")))?;
        all.extend(history.status.unwrap_or_default().remediations);
    }
    all.sort_by_key(|remediation| remediation.created_at);
    Ok(all)
}

fn openshift_check(object: &DynamicObject) -> Result<FileCheck, ExplainError> {
    let key = Key::of(object);
    let view = OpenShiftHealthCheckView::from_dynamic(object)
        .map_err(|error| ExplainError::File(format!("MachineHealthCheck {key}: {error}")))?;
    Ok(FileCheck {
        rules: RehearsedCheck {
            name: key.to_string(),
            rules: CheckRules::OpenShift(openshift_rules(&view)),
        },
        selects: CheckSelector::OpenShift {
            namespace: key.namespace,
            selector: view.selector,
        },
    })
}

fn machine_check(
    object: &DynamicObject,
    seen: &FleetObjects,
    notes: &mut Vec<String>,
) -> Result<FileCheck, ExplainError> {
    let key = Key::of(object);
    let view = MachineHealthCheckView::from_dynamic(object)
        .map_err(|error| ExplainError::File(format!("MachineHealthCheck {key}: {error}")))?;
    let cluster = Key::new(
        &key.namespace,
        view.cluster_name.clone().unwrap_or_default(),
    );
    let found = seen.get(groups::CLUSTER_API, kinds::CLUSTER, &cluster);
    let facts = match found.map(ClusterView::from_dynamic).transpose() {
        Ok(Some(view)) => cluster_facts(&view),
        Ok(None) => {
            notes.push(format!(
                "Cluster {cluster} is not in the files: it is assumed to be ready, initialized and not paused"
            ));
            ready_cluster()
        }
        Err(error) => return Err(ExplainError::File(format!("Cluster {cluster}: {error}"))),
    };
    Ok(FileCheck {
        rules: RehearsedCheck {
            name: key.to_string(),
            rules: CheckRules::Machines(rules(&view), facts),
        },
        selects: CheckSelector::Machines {
            cluster,
            selector: view.selector,
        },
    })
}

/// A note about the objects that a rehearsal does not use.
fn ignored(seen: &FleetObjects) -> Option<String> {
    let used = [
        kinds::MACHINE_HEALTH_CHECK,
        kinds::NODE_HEALTH_CHECK,
        kinds::CLUSTER,
        kinds::HOST_HISTORY,
        Kind::PowerPolicy.kind(),
    ];
    let mut others: BTreeMap<&str, usize> = BTreeMap::new();
    for object in &seen.objects {
        let kind = object.types.as_ref().map_or("", |types| &types.kind);
        if !used.contains(&kind) {
            *others.entry(kind).or_default() += 1;
        }
    }
    let listed: Vec<String> = others
        .iter()
        .map(|(kind, n)| format!("{n} {kind}"))
        .collect();
    (!listed.is_empty()).then(|| format!("not used from the files: {}", listed.join(", ")))
}
