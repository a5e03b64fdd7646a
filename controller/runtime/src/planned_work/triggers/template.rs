//! The templates of triggers, and the remediations that are made from them.

use std::{collections::BTreeMap, sync::Arc};

use kube::core::{ApiResource, DynamicObject, TypeMeta};
use rackhand_api::{
    names::{
        CAUSE_ANNOTATION, CLUSTER_NAME_LABEL, DIAGNOSTIC_INTERRUPT_ANNOTATION,
        EVIDENCE_TIMEOUT_ANNOTATION, MADE_BY_ANNOTATION, MEDIK8S_NODE_NAME_ANNOTATION,
        NODE_ACTION_ANNOTATION, NODE_UID_ANNOTATION, POD_DELETION_ANNOTATION, WATCH_FILTER_LABEL,
        kinds,
    },
    views::{MachineView, RemediationTemplateView},
};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::{INTERVAL, Triggers, act::Subject, observe::Watched};
use crate::store::{
    api::{ApiError, call, optional},
    index::Entry,
    object::{Key, api},
};

/// A template, and the API resource of its remediations.
pub(super) struct Template {
    view: RemediationTemplateView,
    pub(super) resource: ApiResource,
}

/// The templates as they were read last, by trigger.
#[derive(Default)]
pub(super) struct Templates {
    read: BTreeMap<Key, (Instant, Result<Arc<Template>, String>)>,
}

impl Templates {
    pub(super) fn get(&self, trigger: &Key) -> Option<Arc<Template>> {
        let (_, read) = self.read.get(trigger)?;
        read.as_ref().ok().cloned()
    }

    /// Why the template of a trigger cannot be used.
    pub(super) fn problem(&self, trigger: &Key) -> Option<String> {
        match self.read.get(trigger) {
            Some((_, read)) => read.as_ref().err().cloned(),
            None => Some("the template was not read yet".to_owned()),
        }
    }

    fn is_due(&self, trigger: &Watched) -> bool {
        let known = self.read.get(&trigger.key);
        known.is_none_or(|(at, _)| at.elapsed() >= INTERVAL)
    }
}

/// Reads the templates that were not read lately.
pub(super) async fn refresh(triggers: &Triggers, watched: &[Watched]) {
    if !triggers.enabled {
        return;
    }
    let exists = |key: &Key| watched.iter().any(|trigger| trigger.key == *key);
    triggers
        .memory
        .lock()
        .templates
        .read
        .retain(|key, _| exists(key));
    for trigger in watched {
        if !triggers.memory.lock().templates.is_due(trigger) {
            continue;
        }
        let read = match read(triggers, trigger).await {
            Ok(read) => read,
            Err(error) => Err(error.to_string()),
        };
        let read = (Instant::now(), read.map(Arc::new));
        let templates = &mut triggers.memory.lock().templates;
        templates.read.insert(trigger.key.clone(), read);
    }
}

async fn read(
    triggers: &Triggers,
    trigger: &Watched,
) -> Result<Result<Template, String>, ApiError> {
    let (reference, namespace) = (&trigger.spec.template_ref, &trigger.key.namespace);
    let version = &reference.api_version;
    let remediations = trigger.remediations();
    let kind = format!("{}{}", remediations.kind(), kinds::TEMPLATE_SUFFIX);
    let what = format!("{kind} {namespace}/{}", reference.name);
    let (client, served) = (&triggers.client, &triggers.served);
    let Some(resource) = served.resource_of(client, version, &kind).await? else {
        return Ok(Err(format!("{kind} of {version} is not served")));
    };
    let templates = api(client, &resource, namespace);
    let found = optional(call(&what, templates.get(&reference.name)).await)?;
    let Some(found) = found else {
        return Ok(Err(format!("{what} does not exist")));
    };
    let view = match RemediationTemplateView::from_dynamic(&found) {
        Ok(view) => view,
        Err(error) => return Ok(Err(error.to_string())),
    };
    let found = served
        .resource_of(client, version, remediations.kind())
        .await?;
    Ok(found.map_or_else(
        || {
            Err(format!(
                "{} of {version} is not served",
                remediations.kind()
            ))
        },
        |resource| Ok(Template { view, resource }),
    ))
}

/// The remediation of a Node. It is owned by the Machine where there is one, as that of a health check.
pub(super) fn remediation(
    subject: &Subject,
    template: &Template,
    machine: Option<&Entry<MachineView>>,
    watch_filter: Option<&str>,
) -> DynamicObject {
    let trigger = &subject.trigger;
    let mut body = template.view.template.clone();
    let map = |field: &str| -> Map<String, Value> {
        let found = body.get("metadata").and_then(|m| m.get(field));
        found
            .and_then(Value::as_object)
            .cloned()
            .unwrap_or_default()
    };
    let (mut annotations, mut labels) = (map("annotations"), map("labels"));
    // CAPM3's template schema has no fields for them.
    for key in [
        NODE_ACTION_ANNOTATION,
        POD_DELETION_ANNOTATION,
        EVIDENCE_TIMEOUT_ANNOTATION,
        DIAGNOSTIC_INTERRUPT_ANNOTATION,
    ] {
        if let Some(value) = template.view.meta.annotations.get(key) {
            let of_template = annotations.entry(key);
            of_template.or_insert_with(|| value.clone().into());
        }
    }
    let spec = &trigger.spec;
    let cause = format!("the Node has the label {}={}", spec.label, spec.value);
    for (key, value) in [
        (MADE_BY_ANNOTATION, trigger.made_by()),
        (CAUSE_ANNOTATION, cause),
        (NODE_UID_ANNOTATION, subject.uid.clone()),
        (MEDIK8S_NODE_NAME_ANNOTATION, subject.node.clone()),
    ] {
        annotations.insert(key.to_owned(), value.into());
    }
    if let Some(filter) = watch_filter {
        labels.insert(WATCH_FILTER_LABEL.to_owned(), filter.into());
    }
    if let Some(cluster) = &spec.cluster_name {
        labels.insert(CLUSTER_NAME_LABEL.to_owned(), cluster.clone().into());
    }
    let owners: Vec<Value> = machine
        .map(|entry| {
            let (meta, types) = (&entry.object.metadata, entry.object.types.as_ref());
            json!({
                "apiVersion": types.map(|types| types.api_version.as_str()),
                "kind": kinds::MACHINE,
                "name": meta.name,
                "uid": meta.uid,
            })
        })
        .into_iter()
        .collect();
    let metadata = json!({
        "name": subject.id.key.name,
        "namespace": subject.id.key.namespace,
        "annotations": annotations,
        "labels": labels,
        "ownerReferences": owners,
    });
    for field in ["apiVersion", "kind", "metadata"] {
        body.remove(field);
    }
    DynamicObject {
        types: Some(TypeMeta {
            api_version: template.resource.api_version.clone(),
            kind: template.resource.kind.clone(),
        }),
        metadata: serde_json::from_value(metadata).unwrap_or_default(),
        data: Value::Object(body),
    }
}
