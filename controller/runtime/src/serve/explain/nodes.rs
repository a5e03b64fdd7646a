//! The view of a check of Nodes, from a snapshot.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::ResourceExt;
use rackhand_api::{
    names::{EVALUATE_ANNOTATION, MEDIK8S_LEASE_NAMESPACE, WATCH_FILTER_LABEL, groups, kinds},
    views::{Meta, NodeHealthCheckView, NodeTemplateRef, group_of},
};
use rackhand_core::{
    checks::nodes::{
        Check, Disabled, LeaseStep, NodeFacts, NodeRemediation, Outside, lease_holder, lease_step,
    },
    explanation::{CheckView, NodeCheckFacts, explain_nodes},
};

use super::{
    ExplainError,
    ownership::{CrdOwnership, deleted, dry_run},
    snapshot::Snapshot,
};
use crate::{
    checks::{
        NODE_CHECK_CRD,
        nodes::{
            Fact, OpenShift, held, lease_name, memory_of, misnamed, name_of, node_facts, not_found,
            remediation_of, rules_of, template, templates_of, usable,
        },
        passes,
    },
    config::Config,
    store::{index::SeenNode, object::Key},
};

/// Explains a check of the snapshot.
pub(super) fn view(
    name: &str,
    snapshot: &Snapshot,
    config: &Config,
    now: Timestamp,
) -> Result<CheckView, ExplainError> {
    Ok(explain_nodes(&facts(name, snapshot, config, now)?, now))
}

/// The names of the existing checks.
pub(super) fn checks(snapshot: &Snapshot) -> Vec<String> {
    let found = snapshot.seen.of(groups::MEDIK8S, kinds::NODE_HEALTH_CHECK);
    let mut names: Vec<String> = found.map(ResourceExt::name_any).collect();
    names.sort();
    names.dedup();
    names
}

/// Lists the existing checks, for an error message.
pub(super) fn existing(names: &[String]) -> String {
    match names.is_empty() {
        true => "there are none".into(),
        false => format!("there are: {}", names.join(", ")),
    }
}

/// The templates of all existing checks, because this one sees their remediations, too.
pub(super) fn references(snapshot: &Snapshot) -> Vec<NodeTemplateRef> {
    let found = snapshot.seen.of(groups::MEDIK8S, kinds::NODE_HEALTH_CHECK);
    let views = found.filter_map(|object| NodeHealthCheckView::from_dynamic(object).ok());
    let mut all: Vec<NodeTemplateRef> = views.flat_map(|view| templates_of(&view)).collect();
    all.sort();
    all.dedup();
    all
}

/// Collects the facts of the view.
fn facts(
    name: &str,
    snapshot: &Snapshot,
    config: &Config,
    now: Timestamp,
) -> Result<NodeCheckFacts, ExplainError> {
    let mut found = snapshot.seen.of(groups::MEDIK8S, kinds::NODE_HEALTH_CHECK);
    let object = found
        .find(|object| object.name_any() == name)
        .ok_or_else(|| ExplainError::Request(format!("there is no NodeHealthCheck {name}")))?;
    let view = NodeHealthCheckView::from_dynamic(object).map_err(|error| {
        ExplainError::Request(format!(
            "NodeHealthCheck {name} is not evaluated: cannot parse it: {error}"
        ))
    })?;
    let mut notes = snapshot.notes.clone();
    let not_acting = not_acting(&view.meta, snapshot, config, &mut notes);
    let openshift = openshift(snapshot);
    let rules = rules_of(&view, openshift.spares_terminating());
    let memory = memory_of(&view);
    let made = memory.nodes.values().flat_map(|e| &e.tried);
    let made = made.map(|tried| {
        (
            group_of(&tried.id.api_version).to_owned(),
            tried.id.kind.clone(),
        )
    });
    let named = references(snapshot);
    let named = named
        .iter()
        .map(|r| (r.group().to_owned(), r.remediation_kind().to_owned()));
    let remediation_kinds: BTreeSet<(String, String)> = named.chain(made).collect();
    let remediations = remediation_kinds
        .iter()
        .flat_map(|(group, kind)| snapshot.seen.of(group, kind));
    let remediations: Vec<NodeRemediation> = remediations
        .map(|object| remediation_of(object, now))
        .collect();
    let mut nodes = Vec::new();
    for object in &snapshot.seen.nodes {
        let seen = serde_json::to_value(object).and_then(serde_json::from_value::<SeenNode>);
        match seen {
            Ok(seen) => {
                let selected = view.selector.matches(seen.labels());
                nodes.push((node_facts(&seen), selected));
            }
            Err(error) => notes.push(format!("left out: Node {}: {error}", object.name_any())),
        }
    }
    if snapshot.from_files && nodes.is_empty() {
        notes.push("the files hold no Node: add `kubectl get nodes -o yaml`".into());
    }
    let disabled = templates(&rules, &view, snapshot, &openshift, &mut notes);
    let mut outside = Outside {
        disabled: openshift.disabled().or(disabled),
        upgrading: openshift.upgrading(),
        ..Outside::default()
    };
    leases(snapshot, &rules, &nodes_of(&nodes), now, &mut outside);
    let status = |field: &str| {
        let value = object.data.pointer(&format!("/status/{field}"))?;
        value.as_str().map(str::to_owned)
    };
    Ok(NodeCheckFacts {
        rules,
        nodes,
        remediations,
        outside,
        memory,
        recorded: status("phase").zip(status("reason")),
        not_acting,
        notes,
    })
}

fn nodes_of(nodes: &[(NodeFacts, bool)]) -> Vec<String> {
    nodes.iter().map(|(node, _)| node.name.clone()).collect()
}

/// Why Rackhand does not act on a check, by the check and its CRD. A pause is shown as a phase instead.
fn not_acting(
    meta: &Meta,
    snapshot: &Snapshot,
    config: &Config,
    notes: &mut Vec<String>,
) -> Vec<String> {
    let mode = config.health_checks;
    let crd = CrdOwnership::find(NODE_CHECK_CRD, snapshot.seen.objects.iter());
    notes.extend(crd.assumed(mode, meta));
    let filter = config.watch_filter.as_deref();
    let filtered = filter.filter(|_| !passes(filter, meta)).map(|filter| {
        format!("the check does not carry the label {WATCH_FILTER_LABEL}={filter} (--watch-filter)")
    });
    let why: Vec<String> = crd
        .not_evaluated(mode, meta)
        .into_iter()
        .chain(filtered)
        .chain(deleted(meta))
        .chain(dry_run(meta))
        .collect();
    let fights = meta.is_annotated_true(EVALUATE_ANNOTATION) && crd.ours == Some(false);
    if fights && why.is_empty() {
        notes.push(
            "medik8s' operator acts on every NodeHealthCheck, where it runs: then this one must not \
             be Rackhand's too"
                .into(),
        );
    }
    why
}

fn openshift(snapshot: &Snapshot) -> OpenShift {
    let mut known = OpenShift::default();
    for fact in Fact::ALL {
        let mut keys = BTreeSet::new();
        for object in snapshot.seen.of(fact.group(), fact.kind()) {
            keys.insert(Key::of(object));
            known.put(fact, object.clone());
        }
        known.listed(fact, &keys);
    }
    known
}

/// Why a template cannot be used. A template that is not in the files is assumed to be usable.
fn templates(
    rules: &Check,
    view: &NodeHealthCheckView,
    snapshot: &Snapshot,
    openshift: &OpenShift,
    notes: &mut Vec<String>,
) -> Option<Disabled> {
    for reference in templates_of(view) {
        if let Some(disabled) = misnamed(&reference, openshift.is_there()) {
            return Some(disabled);
        }
        let what = name_of(&reference);
        let target = Key::new(&reference.namespace, &reference.name);
        let mut found = snapshot.seen.of(reference.group(), &reference.kind);
        let Some(object) = found.find(|object| Key::of(object) == target) else {
            if !snapshot.from_files {
                return Some(not_found(format!("{what} does not exist")));
            }
            notes.push(format!(
                "{what} is not in the files: it is assumed to be usable"
            ));
            continue;
        };
        if let Err(disabled) = usable(rules, &reference, object) {
            return Some(disabled);
        }
        let of = template(&reference);
        let kind = format!("{} of {}", of.remediation_kind, of.api_version);
        if snapshot.not_served.contains(&kind) {
            return Some(not_found(format!("{kind} is not served")));
        }
    }
    None
}

/// The holders of the Leases of Nodes.
fn leases(
    snapshot: &Snapshot,
    rules: &Check,
    nodes: &[String],
    now: Timestamp,
    outside: &mut Outside,
) {
    let me = lease_holder(&rules.name);
    for object in snapshot.seen.of("coordination.k8s.io", "Lease") {
        if object.namespace().as_deref() != Some(MEDIK8S_LEASE_NAMESPACE) {
            continue;
        }
        let name = object.name_any();
        let Some(node) = nodes.iter().find(|node| lease_name(node) == name) else {
            continue;
        };
        let value = serde_json::to_value(object);
        let Ok(lease) = value.and_then(serde_json::from_value::<Lease>) else {
            continue;
        };
        let lease = held(&lease);
        if lease.renewed.is_none() {
            continue;
        }
        if lease.holder.as_deref() == Some(&me) {
            outside.leases.insert(node.clone(), lease);
            continue;
        }
        let step = lease_step(Some(&lease), &me, now);
        if let LeaseStep::Taken { holder, until } = step {
            let why = format!("its Lease is held by {holder}");
            outside.blocked.insert(node.clone(), (until, why));
        }
    }
}
