//! From objects to what a plan of Nodes looks at, and who acts on the check.
//!
//! Uses the functions that the evaluation uses. What is not there to look at is assumed, and said.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{ResourceExt, api::DynamicObject};
use rackhand_api::{
    names::{EVALUATE_ANNOTATION, MEDIK8S_LEASE_NAMESPACE, groups, kinds},
    views::{Meta, NodeHealthCheckView, NodeTemplateRef, group_of},
};
use rackhand_core::nodes::{Check, Disabled, Outside, Request};

use super::{
    ExplainError,
    nodes::NodesScene,
    whose::{Whose, deleted, dry_run},
};
use crate::{
    checks::{
        NODE_CHECK_CRD, is_of,
        nodes::{
            Fact, OpenShift, held, lease_name, memory_of, misnamed, name_of, node_facts, not_found,
            request_of, rules_of, template, templates_of, usable,
        },
    },
    config::HealthChecks,
    index::SeenNode,
    object::Key,
};

/// What there is to look at.
#[derive(Default)]
pub(super) struct Surroundings {
    /// The objects come from files, where any of them may be left out.
    pub(super) from_files: bool,
    pub(super) objects: Vec<DynamicObject>,
    /// Kinds of remediations that this cluster does not serve, as `Kind of group/version`.
    pub(super) not_served: BTreeSet<String>,
    /// What else is to be said.
    pub(super) notes: Vec<String>,
}

impl Surroundings {
    pub(super) fn of<'a>(
        &'a self,
        group: &'a str,
        kind: &'a str,
    ) -> impl Iterator<Item = &'a DynamicObject> {
        self.objects.iter().filter(move |o| is_of(o, group, kind))
    }
}

/// The names of the checks that are there.
pub(super) fn checks(around: &Surroundings) -> Vec<String> {
    let found = around.of(groups::MEDIK8S, kinds::NODE_HEALTH_CHECK);
    let mut names: Vec<String> = found.map(ResourceExt::name_any).collect();
    names.sort();
    names.dedup();
    names
}

/// The templates of all checks that are there: remediations of theirs are seen by this one too.
pub(super) fn references(around: &Surroundings) -> Vec<NodeTemplateRef> {
    let found = around.of(groups::MEDIK8S, kinds::NODE_HEALTH_CHECK);
    let views = found.filter_map(|object| NodeHealthCheckView::from_dynamic(object).ok());
    let mut all: Vec<NodeTemplateRef> = views.flat_map(|view| templates_of(&view)).collect();
    all.sort();
    all.dedup();
    all
}

/// Puts together what a plan looks at.
pub(super) fn scene(
    name: &str,
    around: &Surroundings,
    mode: HealthChecks,
    now: Timestamp,
) -> Result<NodesScene, ExplainError> {
    let mut found = around.of(groups::MEDIK8S, kinds::NODE_HEALTH_CHECK);
    let object = found
        .find(|object| object.name_any() == name)
        .ok_or_else(|| ExplainError::Request(format!("there is no NodeHealthCheck {name}")))?;
    let view = NodeHealthCheckView::from_dynamic(object).map_err(|error| {
        ExplainError::Request(format!(
            "NodeHealthCheck {name} is not evaluated, since it does not read: {error}"
        ))
    })?;
    let mut notes = around.notes.clone();
    let not_acting = standing(&view.meta, around, mode, &mut notes);
    let openshift = openshift(around);
    let rules = rules_of(&view, openshift.spares_terminating());
    let memory = memory_of(&view);
    let made = memory.nodes.values().flat_map(|e| &e.tried);
    let made = made.map(|tried| {
        (
            group_of(&tried.id.api_version).to_owned(),
            tried.id.kind.clone(),
        )
    });
    let named = references(around);
    let named = named
        .iter()
        .map(|r| (r.group().to_owned(), r.request_kind().to_owned()));
    let request_kinds: BTreeSet<(String, String)> = named.chain(made).collect();
    let requests = request_kinds
        .iter()
        .flat_map(|(group, kind)| around.of(group, kind));
    let requests: Vec<Request> = requests.map(|object| request_of(object, now)).collect();
    let mut nodes = Vec::new();
    for object in around.of("", "Node") {
        let seen = serde_json::to_value(object).and_then(serde_json::from_value::<SeenNode>);
        match seen {
            Ok(seen) => {
                let selected = view.selector.matches(seen.labels());
                nodes.push((node_facts(&seen), selected));
            }
            Err(error) => notes.push(format!("left out: Node {}: {error}", object.name_any())),
        }
    }
    if around.from_files && nodes.is_empty() {
        notes.push("the files hold no Node: add `kubectl get nodes -o yaml`".into());
    }
    let disabled = templates(&rules, &view, around, &openshift, &mut notes);
    let mut outside = Outside {
        disabled: openshift.disabled().or(disabled),
        upgrading: openshift.upgrading(),
        ..Outside::default()
    };
    leases(around, &rules, &nodes_of(&nodes), now, &mut outside);
    let status = |field: &str| {
        let value = object.data.pointer(&format!("/status/{field}"))?;
        value.as_str().map(str::to_owned)
    };
    Ok(NodesScene {
        rules,
        nodes,
        requests,
        outside,
        memory,
        recorded: status("phase").zip(status("reason")),
        not_acting,
        notes,
    })
}

fn nodes_of(nodes: &[(rackhand_core::nodes::NodeFacts, bool)]) -> Vec<String> {
    nodes.iter().map(|(node, _)| node.name.clone()).collect()
}

/// Why Rackhand does not act on a check, by what the check and its CRD say. A pause is a phase.
fn standing(
    meta: &Meta,
    around: &Surroundings,
    mode: HealthChecks,
    notes: &mut Vec<String>,
) -> Vec<String> {
    let whose = Whose::look(NODE_CHECK_CRD, around.objects.iter());
    notes.extend(whose.assumed(mode, meta));
    let why: Vec<String> = whose
        .not_evaluated(mode, meta)
        .into_iter()
        .chain(deleted(meta))
        .chain(dry_run(meta))
        .collect();
    let fights = meta.is_annotated_true(EVALUATE_ANNOTATION) && whose.ours == Some(false);
    if fights && why.is_empty() {
        notes.push(
            "medik8s' operator acts on every NodeHealthCheck, where it runs: then this one must not \
             be Rackhand's too"
                .into(),
        );
    }
    why
}

fn openshift(around: &Surroundings) -> OpenShift {
    let mut known = OpenShift::default();
    for fact in Fact::ALL {
        let mut keys = BTreeSet::new();
        for object in around.of(fact.group(), fact.kind()) {
            keys.insert(Key::of(object));
            known.put(fact, object.clone());
        }
        known.listed(fact, &keys);
    }
    known
}

/// Why a template cannot be used. One that a file does not hold is taken for usable.
fn templates(
    rules: &Check,
    view: &NodeHealthCheckView,
    around: &Surroundings,
    openshift: &OpenShift,
    notes: &mut Vec<String>,
) -> Option<Disabled> {
    for reference in templates_of(view) {
        if let Some(disabled) = misnamed(&reference, openshift.is_there()) {
            return Some(disabled);
        }
        let what = name_of(&reference);
        let target = Key::new(&reference.namespace, &reference.name);
        let mut found = around.of(reference.group(), &reference.kind);
        let Some(object) = found.find(|object| Key::of(object) == target) else {
            if !around.from_files {
                return Some(not_found(format!("{what} does not exist")));
            }
            notes.push(format!(
                "{what} is not in the files: it is taken for usable"
            ));
            continue;
        };
        if let Err(disabled) = usable(rules, &reference, object) {
            return Some(disabled);
        }
        let of = template(&reference);
        let kind = format!("{} of {}", of.request_kind, of.api_version);
        if around.not_served.contains(&kind) {
            return Some(not_found(format!("{kind} is not served")));
        }
    }
    None
}

/// Who works on which Node, by the Leases.
fn leases(
    around: &Surroundings,
    rules: &Check,
    nodes: &[String],
    now: Timestamp,
    outside: &mut Outside,
) {
    let me = rackhand_core::nodes::lease_holder(&rules.name);
    for object in around.of("coordination.k8s.io", "Lease") {
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
        let Some(renewed) = lease.renewed else {
            continue;
        };
        if lease.holder.as_deref() == Some(&me) {
            outside.leases.insert(node.clone(), lease);
            continue;
        }
        let step = rackhand_core::nodes::lease_step(Some(&lease), &me, now);
        if let rackhand_core::nodes::LeaseStep::Taken { holder } = step {
            let lasts = SignedDuration::try_from(lease.duration).unwrap_or_default();
            let until = renewed.checked_add(lasts).unwrap_or(Timestamp::MAX);
            let why = format!("its Lease is held by {holder}");
            outside.blocked.insert(node.clone(), (until, why));
        }
    }
}
