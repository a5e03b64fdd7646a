//! The cordon of a Node: who has set it, and the changes that set and remove ours (F9).

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use rackhand_api::names::CORDONED_BY_ANNOTATION;
use rackhand_core::remediation::Cordon;
use serde_json::{Value, json};

use crate::store::api::FIELD_MANAGER;

/// Whether the scheduler is kept from the Node, and by whom. The annotation tells, unless the `managedFields` show that
/// somebody else has cordoned the Node since; a Node of the watch has none of these.
pub(crate) fn cordon(node: &Node) -> Cordon {
    let is_cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable);
    if is_cordoned != Some(true) {
        return Cordon::Absent;
    }
    let entries = node.metadata.managed_fields.iter().flatten();
    let mut managers = entries.filter_map(|entry| {
        let fields = entry.fields_v1.as_ref().map(|fields| &fields.0);
        let has_it = fields.is_some_and(|fields| !fields["f:spec"]["f:unschedulable"].is_null());
        has_it.then(|| entry.manager.as_deref().unwrap_or_default())
    });
    match node.annotations().get(CORDONED_BY_ANNOTATION) {
        Some(uid) if managers.all(|manager| manager == FIELD_MANAGER) => {
            Cordon::Rackhand { uid: uid.clone() }
        }
        _ => Cordon::Other,
    }
}

/// A merge patch of exactly this version of the Node that cordons it for the remediation with the UID `by`; `None`: that
/// removes our cordon.
pub(crate) fn cordon_patch(node: &Node, by: Option<&str>) -> Value {
    json!({
        "metadata": {
            "resourceVersion": node.resource_version(),
            "annotations": { CORDONED_BY_ANNOTATION: by },
        },
        "spec": { "unschedulable": by.map(|_| true) },
    })
}

/// A merge patch of exactly this version of the Node that removes our mark, and leaves who may be scheduled as it is.
pub(crate) fn unmark_patch(node: &Node) -> Value {
    json!({
        "metadata": {
            "resourceVersion": node.resource_version(),
            "annotations": { CORDONED_BY_ANNOTATION: null },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(by: Option<&str>, manager: Option<&str>) -> Node {
        let managed: Vec<_> = manager
            .map(|manager| json!({ "manager": manager, "fieldsV1": { "f:spec": { "f:unschedulable": {} } } }))
            .into_iter()
            .collect();
        serde_json::from_value(json!({
            "metadata": {
                "name": "n",
                "resourceVersion": "7",
                "annotations": by.map(|by| json!({ CORDONED_BY_ANNOTATION: by })),
                "managedFields": managed,
            },
            "spec": { "unschedulable": true },
        }))
        .unwrap()
    }

    #[test]
    fn f9_cordon_is_ours_by_its_mark_unless_somebody_else_has_set_it_since() {
        let ours = Cordon::Rackhand { uid: "u".into() };
        assert_eq!(cordon(&node(Some("u"), Some(FIELD_MANAGER))), ours);
        assert_eq!(cordon(&node(Some("u"), None)), ours);
        assert_eq!(
            cordon(&node(Some("u"), Some("kubectl-cordon"))),
            Cordon::Other
        );
        assert_eq!(cordon(&node(None, Some(FIELD_MANAGER))), Cordon::Other);
        assert_eq!(cordon(&Node::default()), Cordon::Absent);
        let mut free = node(Some("u"), None);
        free.spec.get_or_insert_default().unschedulable = None;
        assert_eq!(cordon(&free), Cordon::Absent);
    }

    #[test]
    fn f9_cordon_changes_only_the_version_that_was_read() {
        let node = node(None, None);
        let on = cordon_patch(&node, Some("u"));
        assert_eq!(on["metadata"]["resourceVersion"], "7");
        assert_eq!(on["metadata"]["annotations"][CORDONED_BY_ANNOTATION], "u");
        assert_eq!(on["spec"]["unschedulable"], true);
        let off = cordon_patch(&node, None);
        assert!(off["spec"]["unschedulable"].is_null());
        assert!(off["metadata"]["annotations"][CORDONED_BY_ANNOTATION].is_null());
        let unmarked = json!({
            "metadata": { "resourceVersion": "7", "annotations": { CORDONED_BY_ANNOTATION: null } },
        });
        assert_eq!(unmark_patch(&node), unmarked);
    }
}
