//! Converts Kubernetes objects into the facts of the core.

use std::collections::BTreeSet;

use rackhand_api::{
    GoDuration,
    names::{
        self, BLOCK_MOVE_ANNOTATION, CAPI_PAUSED_ANNOTATION, CLONED_FROM_NAME_ANNOTATION,
        CONFIRM_FENCED_ANNOTATION, DELETE_FOR_MOVE_ANNOTATION, DIAGNOSTIC_INTERRUPT_ANNOTATION,
        EVICT_ANNOTATION, EVIDENCE_TIMEOUT_ANNOTATION, HOLD_ANNOTATION_PREFIX, MADE_BY_ANNOTATION,
        MEDIK8S_TIMED_OUT_ANNOTATION, MOVE_BLOCK_PREFIX, NODE_ACTION_ANNOTATION,
        NODE_ACTION_DELETE, NODE_ACTION_TAINT, OPENSHIFT_CLONED_FROM_NAME_ANNOTATION,
        OVERRIDE_OTHER_NODE_ANNOTATION, OVERRIDE_OWNER_ANNOTATION, PAUSED_ANNOTATION,
        POD_DELETION_ANNOTATION, POD_DELETION_IMMEDIATE, POD_DELETION_POD_GC, REBOOT_ANNOTATION,
        REMEDIATE_MACHINE_ANNOTATION, SKIP_REMEDIATION_ANNOTATION, UPDATE_IN_PROGRESS_ANNOTATION,
        conditions::{HEALTH_CHECK_SUCCEEDED, OWNER_REMEDIATED, UPDATING},
        kinds,
    },
    views::{BareMetalHostView, MachineView, Meta, find_condition},
};
use rackhand_core::remediation::{
    BareMetalHostFacts, LONGEST_EVIDENCE, MachineView as MachineFacts, MoveBlock, NodeAction,
    ObjectFacts, PodDeletion, Policy, WordsOfPersons, is_uncut, node_action,
};

use crate::{
    checks::{checked_conditions, given_up_at, is_judged},
    config::Config,
    hosts::Target,
    remediation::{
        policy::EVICTION_TIMEOUT,
        record::{displayed_state, remediation_state},
    },
    store::{
        index::Index,
        live_remediations::finalizer,
        object::{Key, Kind},
        remediation::{RemediationId, RemediationObject},
    },
};

/// The facts of the remediation itself.
pub(crate) fn object_facts(
    index: &Index,
    config: &Config,
    id: &RemediationId,
    view: &RemediationObject,
    target: &Target,
) -> ObjectFacts {
    let cluster = target.cluster.as_ref().and_then(|key| index.cluster(key));
    let cluster_paused = cluster
        .and_then(|e| e.view.ok())
        .is_some_and(|c| c.is_paused());
    let meta = view.meta();
    let paused = cluster_paused
        || meta.has_annotation(PAUSED_ANNOTATION)
        || meta.has_annotation(CAPI_PAUSED_ANNOTATION)
        || target
            .machine()
            .is_some_and(|m| m.meta.has_annotation(CAPI_PAUSED_ANNOTATION));
    let entry = index.remediation(id);
    let copy =
        entry.and_then(|entry| displayed_state::unrecorded_copy(index, id.kind, &entry.object));
    let ended_by_copy = copy
        .as_ref()
        .map(|copy| copy.step)
        .filter(|s| s.is_terminal());
    ObjectFacts {
        uid: meta.uid.clone(),
        ended_by_copy,
        made_by_check: meta.created.filter(|_| made_by_check(meta)),
        checked: checked_conditions(index, meta, &id.key.namespace),
        deleting: meta.is_deleting(),
        timed_out: meta.has_annotation(MEDIK8S_TIMED_OUT_ANNOTATION),
        given_up_at: given_up_at(index, meta),
        by_node: target.by_node,
        node_backup: remediation_state::node_backup(index, &meta.uid).is_some(),
        finalizer: meta.has_finalizer(finalizer(id.kind)),
        finalizer_is_shared: id.kind == Kind::Metal3Remediation,
        finalizer_by_copy: copy.as_ref().map(|copy| copy.finalizer),
        uncut_by_copy: copy.as_ref().is_some_and(is_uncut),
        // Another UID is what this object had before it was moved.
        move_block: move_block(meta, &meta.uid, |_| true),
        moved_away: meta.has_annotation(DELETE_FOR_MOVE_ANNOTATION),
        confirm_fenced: persons_word(config, meta, CONFIRM_FENCED_ANNOTATION),
        override_other_node: persons_word(config, meta, OVERRIDE_OTHER_NODE_ANNOTATION),
        override_owner: persons_word(config, meta, OVERRIDE_OWNER_ANNOTATION),
        paused,
        policy: view
            .policy(config)
            .map(|policy| annotated(policy, index, view, target)),
    }
}

/// The value of an annotation by which a person decides about this remediation, if such annotations count. Nothing
/// else reads them.
pub(super) fn persons_word(config: &Config, meta: &Meta, key: &str) -> Option<String> {
    match config.words_of_persons {
        WordsOfPersons::Accepted => meta.annotations.get(key).cloned(),
        WordsOfPersons::Ignored => None,
    }
}

/// Who makes clusterctl wait before it moves the object. `is_gone`: whether no remediation has this UID any more.
fn move_block(meta: &Meta, uid: &str, is_gone: impl Fn(&str) -> bool) -> MoveBlock {
    let Some(value) = meta.annotations.get(BLOCK_MOVE_ANNOTATION) else {
        return MoveBlock::Absent;
    };
    match value.strip_prefix(MOVE_BLOCK_PREFIX) {
        Some(of) if of == uid => MoveBlock::Ours,
        Some(of) if is_gone(of) => MoveBlock::Left,
        _ => MoveBlock::Other,
    }
}

/// Whether a health check made the remediation: ours says so, Cluster API's and OpenShift's name the template, and
/// medik8s' is its owner.
fn made_by_check(meta: &Meta) -> bool {
    // A label is put on a Node by somebody, and planned work is done, whether or not the Node is Ready.
    let maker = meta.annotations.get(MADE_BY_ANNOTATION);
    let kind = maker.and_then(|maker| maker.split('/').next());
    if matches!(
        kind,
        Some(kinds::REMEDIATION_TRIGGER | kinds::HOST_MAINTENANCE)
    ) {
        return false;
    }
    let marks = [
        MADE_BY_ANNOTATION,
        CLONED_FROM_NAME_ANNOTATION,
        OPENSHIFT_CLONED_FROM_NAME_ANNOTATION,
    ];
    let checks = [kinds::MACHINE_HEALTH_CHECK, kinds::NODE_HEALTH_CHECK];
    marks.iter().any(|mark| meta.has_annotation(mark))
        || meta
            .owners
            .iter()
            .any(|owner| checks.contains(&owner.kind.as_str()))
}

/// The policy with what the annotations of a Metal3Remediation or of its Cluster say, because CAPM3's schema
/// has no fields for it. A PowerRemediation has them.
fn annotated(policy: Policy, index: &Index, view: &RemediationObject, target: &Target) -> Policy {
    let RemediationObject::Metal3(remediation) = view else {
        return policy;
    };
    let cluster = target.cluster.as_ref().and_then(|key| index.cluster(key));
    let cluster = cluster.and_then(|entry| entry.view.ok());
    let metas = [Some(&remediation.meta), cluster.as_ref().map(|c| &c.meta)];
    let value = |name: &str| {
        let mut values = metas
            .iter()
            .flatten()
            .filter_map(|m| m.annotations.get(name));
        values.next().map(String::as_str)
    };
    let evidence_timeout = value(EVIDENCE_TIMEOUT_ANNOTATION)
        .and_then(|text| text.parse::<GoDuration>().ok())
        .and_then(|time| time.to_std().ok());
    Policy {
        pod_deletion: match value(POD_DELETION_ANNOTATION) {
            Some(POD_DELETION_IMMEDIATE) => PodDeletion::Immediate,
            Some(POD_DELETION_POD_GC) => PodDeletion::PodGc,
            _ => policy.pod_deletion,
        },
        evidence_timeout: evidence_timeout
            .unwrap_or(policy.evidence_timeout)
            .min(LONGEST_EVIDENCE),
        eviction_timeout: match value(EVICT_ANNOTATION) {
            Some("true") => EVICTION_TIMEOUT,
            _ => policy.eviction_timeout,
        },
        diagnostic_interrupt: match value(DIAGNOSTIC_INTERRUPT_ANNOTATION) {
            Some(word) => word == "true",
            None => policy.diagnostic_interrupt,
        },
        ..policy
    }
}

/// Whether the Node is tainted or deleted: by the annotation of the remediation, that of its Cluster,
/// the flag, or the version of the workload cluster, in this order.
pub(crate) fn wanted_node_action(
    index: &Index,
    config: &Config,
    view: &RemediationObject,
    target: &Target,
) -> NodeAction {
    let word = |meta: &Meta| match meta
        .annotations
        .get(NODE_ACTION_ANNOTATION)
        .map(String::as_str)
    {
        Some(NODE_ACTION_DELETE) => Some(NodeAction::Delete),
        Some(NODE_ACTION_TAINT) => Some(NodeAction::Taint),
        _ => None,
    };
    let cluster = target.cluster.as_ref();
    let of_cluster = cluster
        .and_then(|key| index.cluster(key))
        .and_then(|e| e.view.ok())
        .and_then(|c| word(&c.meta));
    let asked = word(view.meta()).or(of_cluster).or(config.node_action);
    let version = cluster.and_then(|key| index.version(key));
    let version = version.as_ref().map(|(a, b)| (a.as_str(), b.as_str()));
    node_action(asked, version)
}

/// The facts of the Machine, if there is one. Its health condition does not count for a remediation by
/// Node, nor if no live check evaluates the Machine, because nobody would reset it.
pub(crate) fn machine_facts(index: &Index, target: &Target) -> Option<MachineFacts> {
    match target.machine() {
        Some(_) if target.openshift.is_some() => Some(MachineFacts::not_asked()),
        Some(machine) => Some(MachineFacts {
            is_requested: !target.by_node && machine_view_facts(machine).is_requested,
            not_checked: target.by_node
                || machine_view_facts(machine).not_checked
                || !is_judged(index, machine),
            ..machine_view_facts(machine)
        }),
        None if target.by_node => Some(MachineFacts::not_asked()),
        None => None,
    }
}

fn machine_view_facts(machine: &MachineView) -> MachineFacts {
    let is_false = |list: &[rackhand_api::views::Condition]| {
        find_condition(list, OWNER_REMEDIATED).is_some_and(rackhand_api::views::Condition::is_false)
    };
    MachineFacts {
        created: machine.meta.created,
        provider_id: machine.provider_id.clone().unwrap_or_default(),
        health_check_succeeded: machine
            .condition(HEALTH_CHECK_SUCCEEDED)
            .map(|c| c.is_true()),
        owner_remediated_false: is_false(&machine.conditions_v1beta1)
            && is_false(&machine.conditions_v1beta2),
        not_checked: machine.meta.has_annotation(CAPI_PAUSED_ANNOTATION)
            || machine.meta.has_annotation(SKIP_REMEDIATION_ANNOTATION),
        is_requested: machine.meta.has_annotation(REMEDIATE_MACHINE_ANNOTATION),
        updating: updating(machine),
    }
}

/// By what the owner of a Machine announces that it updates it in place.
fn updating(machine: &MachineView) -> Option<String> {
    if machine.meta.has_annotation(UPDATE_IN_PROGRESS_ANNOTATION) {
        return Some(format!("annotation {UPDATE_IN_PROGRESS_ANNOTATION}"));
    }
    let condition = machine.condition(UPDATING).filter(|c| c.is_true())?;
    let reason = condition.reason.as_deref().unwrap_or_default();
    Some(format!("condition {UPDATING} of the Machine: {reason}"))
}

/// The facts of a BareMetalHost for the remediation with this UID. `gone`: UIDs of remediations that no live list
/// shows.
pub(crate) fn bmh_facts(
    view: &BareMetalHostView,
    key: &Key,
    uid: &str,
    gone: &BTreeSet<String>,
) -> BareMetalHostFacts {
    let ours = names::hold_annotation(uid);
    let keys = view.meta.annotations.keys();
    let is_gone = |key: &String| {
        let of = key.strip_prefix(HOLD_ANNOTATION_PREFIX);
        of.is_some_and(|of| gone.contains(of))
    };
    let (orphaned_holds, foreign) = keys
        .filter(|k| k.starts_with(REBOOT_ANNOTATION) && **k != ours)
        .cloned()
        .partition(is_gone);
    BareMetalHostFacts {
        name: key.to_string(),
        online: view.online.unwrap_or(true),
        paused: view.is_paused(),
        detached: view.is_detached(),
        servicing: view.operational_status.as_deref() == Some("servicing"),
        provisioned: view.is_provisioned(),
        disable_power_off: view.disable_power_off,
        deleting: view.meta.is_deleting(),
        powered_on: view.powered_on,
        error: view.current_error(),
        our_hold: view.is_held_by(uid),
        hold_renewed: view.hold_renewed(uid),
        hold_refused: None,
        foreign_holds: foreign,
        orphaned_holds,
        created: view.meta.created,
        move_block: move_block(&view.meta, uid, |of| gone.contains(of)),
        moved_away: view.meta.has_annotation(DELETE_FOR_MOVE_ANNOTATION),
        unhealthy_mark: view.meta.has_annotation(names::UNHEALTHY_ANNOTATION)
            && view
                .meta
                .has_annotation(names::UNHEALTHY_V1BETA1_ANNOTATION),
        serial: view.serial_number.clone(),
    }
}

#[cfg(test)]
mod tests {
    use kube::api::DynamicObject;
    use rackhand_api::names::{APPROVED_ANNOTATION, OVERRIDE_QUORUM_ANNOTATION};
    use serde_json::json;

    use super::*;

    fn object(metadata: &serde_json::Value) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine", "metadata": metadata,
            "spec": { "clusterName": "demo" },
        }))
        .unwrap()
    }

    /// F11: what each project's check leaves on the remediations that it makes.
    #[test]
    fn f11_remediation_of_a_check_is_known_by_the_marks_of_each_project() {
        let annotated = |name: &str| json!({ "annotations": { name: "x" } });
        let owned = |group: &str, kind: &str| {
            json!({ "ownerReferences": [{
                "apiVersion": format!("{group}/v1"), "kind": kind, "name": "x", "uid": "u",
            }] })
        };
        for (metadata, expected) in [
            (annotated("rackhand.dev/made-by"), true),
            (annotated("cluster.x-k8s.io/cloned-from-name"), true),
            (annotated("machine.openshift.io/cloned-from-name"), true),
            (owned("remediation.medik8s.io", "NodeHealthCheck"), true),
            (owned("machine.openshift.io", "MachineHealthCheck"), true),
            // A person names the Machine, and may annotate the remediation.
            (owned("cluster.x-k8s.io", "Machine"), false),
            (annotated("rackhand.dev/approved"), false),
            (
                json!({ "annotations": { "rackhand.dev/made-by": "RemediationTrigger/reboot/u" } }),
                false,
            ),
            (json!({}), false),
        ] {
            let meta = Meta::of(&object(&metadata));
            assert_eq!(made_by_check(&meta), expected, "{metadata}");
        }
    }

    #[test]
    fn f11_machine_tells_when_it_was_created() {
        let created = "2026-08-01T02:14:07Z";
        let machine = object(&json!({ "name": "m", "creationTimestamp": created }));
        let facts = machine_view_facts(&MachineView::from_dynamic(&machine).unwrap());
        assert_eq!(facts.created, created.parse().ok());
    }

    #[test]
    fn f15_no_word_of_a_person_has_an_effect_where_words_are_ignored() {
        let config = |words_of_persons| Config {
            words_of_persons,
            ..Config::default()
        };
        let (accepting, ignoring) = (
            config(WordsOfPersons::Accepted),
            config(WordsOfPersons::Ignored),
        );
        for key in [
            APPROVED_ANNOTATION,
            CONFIRM_FENCED_ANNOTATION,
            OVERRIDE_OTHER_NODE_ANNOTATION,
            OVERRIDE_OWNER_ANNOTATION,
            OVERRIDE_QUORUM_ANNOTATION,
        ] {
            let object = json!({
                "metadata": { "name": "a", "uid": "u", "annotations": { key: "u" } },
                "spec": {},
            });
            let object: DynamicObject = serde_json::from_value(object).unwrap();
            let meta = Meta::of(&object);
            let word = persons_word(&accepting, &meta, key);
            assert_eq!(word.as_deref(), Some("u"), "{key}");
            assert_eq!(persons_word(&ignoring, &meta, key), None, "{key}");
        }
    }

    #[test]
    fn f15_facts_of_a_remediation_are_without_ignored_words() {
        let object = json!({
            "apiVersion": "rackhand.dev/v1alpha1", "kind": "PowerRemediation",
            "metadata": { "name": "a", "namespace": "ns", "uid": "u", "annotations": {
                CONFIRM_FENCED_ANNOTATION: "u",
                OVERRIDE_OTHER_NODE_ANNOTATION: "u",
                OVERRIDE_OWNER_ANNOTATION: "u",
            }},
            "spec": { "nodeName": "n" },
        });
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        let view = RemediationObject::read(Kind::PowerRemediation, &object).unwrap();
        let id = RemediationId {
            kind: Kind::PowerRemediation,
            key: Key::new("ns", "a"),
        };
        let index = Index::new(Vec::new());
        let target = crate::hosts::target(&index, &id.key, &view, None);
        let words = |words_of_persons| {
            let config = Config {
                words_of_persons,
                ..Config::default()
            };
            let facts = object_facts(&index, &config, &id, &view, &target);
            let policy = facts.policy.unwrap();
            assert_eq!(policy.words_of_persons, words_of_persons);
            let read = [
                facts.confirm_fenced,
                facts.override_other_node,
                facts.override_owner,
            ];
            read.iter().flatten().count()
        };
        assert_eq!(words(WordsOfPersons::Accepted), 3);
        assert_eq!(words(WordsOfPersons::Ignored), 0);
    }
}
