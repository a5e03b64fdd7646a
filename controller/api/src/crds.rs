//! The CRDs that we ship, put together from the types in [`crate::kinds`].
//!
//! Owns what an API server gets: labels, versions, printer columns of second
//! versions, and a schema without generator artefacts. It must never reach an
//! API server itself; `hack/codegen` writes the files under `deploy/crds`.

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceConversion, CustomResourceDefinition,
    JSONSchemaProps, JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use kube::CustomResourceExt;

use crate::kinds::foreign::{BareMetalHost, Cluster, Machine, Metal3Machine};
use crate::kinds::host_history::HostHistory;
use crate::kinds::host_maintenance::HostMaintenance;
use crate::kinds::machine_health_check::MachineHealthCheck;
use crate::kinds::metal3_remediation::{Metal3Remediation, Metal3RemediationTemplate};
use crate::kinds::node_health_check::NodeHealthCheck;
use crate::kinds::power_policy::PowerPolicy;
use crate::kinds::power_remediation::PowerRemediation;
use crate::kinds::power_remediation_template::PowerRemediationTemplate;
use crate::kinds::rack_agent::RackAgent;
use crate::kinds::remediation_state::RemediationState;
use crate::kinds::remediation_trigger::RemediationTrigger;
use crate::names;

/// The second version of the kinds that we stand in for.
const V1BETA2: &str = "v1beta2";

/// The CRDs of our own kinds. Every installation needs them.
#[must_use]
pub fn own() -> Vec<CustomResourceDefinition> {
    let mut remediations = [PowerRemediation::crd(), PowerRemediationTemplate::crd()];
    for crd in &mut remediations {
        let labels = crd.metadata.labels.get_or_insert_default();
        // `clusterctl move` then moves a remediation with its Machine, which owns it. One of a Node of this very
        // cluster has no such owner, and stays: another cluster may have another Node of that name.
        labels.insert(names::CLUSTERCTL_LABEL.to_owned(), String::new());
        // Nothing owns a template.
        if crd.spec.names.kind == names::kinds::POWER_REMEDIATION_TEMPLATE {
            labels.insert(names::CLUSTERCTL_MOVE_LABEL.to_owned(), String::new());
        }
        // Cluster API's health check then takes the template by reference.
        labels.insert(
            names::CONTRACT_V1BETA1_LABEL.to_owned(),
            names::VERSION.to_owned(),
        );
        labels.insert(
            names::CONTRACT_V1BETA2_LABEL.to_owned(),
            names::VERSION.to_owned(),
        );
    }
    let [remediation, template] = remediations;
    let mut trigger = RemediationTrigger::crd();
    // Nothing owns a trigger. It moves with the templates and remediations, which name it.
    let labels = trigger.metadata.labels.get_or_insert_default();
    labels.insert(names::CLUSTERCTL_LABEL.to_owned(), String::new());
    labels.insert(names::CLUSTERCTL_MOVE_LABEL.to_owned(), String::new());
    [
        RackAgent::crd(),
        PowerPolicy::crd(),
        remediation,
        template,
        HostHistory::crd(),
        HostMaintenance::crd(),
        RemediationState::crd(),
        trigger,
    ]
    .into_iter()
    .map(finished)
    .collect()
}

/// The CRDs of other projects' kinds, for clusters without those projects.
/// They must never be installed over the real ones.
#[must_use]
pub fn standalone() -> Vec<CustomResourceDefinition> {
    let both = |crd, columns| finished(with_contract(with_v1beta2(crd, columns)));
    vec![
        spec_optional(both(Cluster::crd(), cluster_columns())),
        spec_optional(both(Machine::crd(), machine_columns())),
        both(MachineHealthCheck::crd(), health_check_columns()),
        spec_optional(both(Metal3Machine::crd(), None)),
        spec_optional(both(Metal3Remediation::crd(), None)),
        both(Metal3RemediationTemplate::crd(), None),
        spec_optional(finished(BareMetalHost::crd())),
    ]
}

/// The CRD of medik8s' NodeHealthCheck, for clusters without its operator. It
/// must never be installed over the real one.
#[must_use]
pub fn nodes() -> Vec<CustomResourceDefinition> {
    vec![finished(NodeHealthCheck::crd())]
}

/// Every CRD that we ship, sorted by name.
#[must_use]
pub fn all() -> Vec<CustomResourceDefinition> {
    let mut crds = own();
    crds.extend(standalone());
    crds.extend(nodes());
    crds.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    crds
}

/// The name of the file that a CRD is written to.
#[must_use]
pub fn file_name(crd: &CustomResourceDefinition) -> String {
    format!("{}_{}.yaml", crd.spec.group, crd.spec.names.plural)
}

type Columns = Option<Vec<CustomResourceColumnDefinition>>;

/// Serves `v1beta2` beside the first version, with the same schema and, unless
/// others are given, the same columns. Objects are stored in the first version.
fn with_v1beta2(mut crd: CustomResourceDefinition, columns: Columns) -> CustomResourceDefinition {
    if let Some(mut second) = crd.spec.versions.first().cloned() {
        V1BETA2.clone_into(&mut second.name);
        second.storage = false;
        if columns.is_some() {
            second.additional_printer_columns = columns;
        }
        crd.spec.versions.push(second);
    }
    crd.spec.conversion = Some(CustomResourceConversion {
        strategy: "None".to_owned(),
        webhook: None,
    });
    crd
}

/// Labels a CRD with the versions that implement Cluster API's contracts.
fn with_contract(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    let labels = crd.metadata.labels.get_or_insert_default();
    labels.insert(
        names::CONTRACT_V1BETA1_LABEL.to_owned(),
        "v1beta1".to_owned(),
    );
    labels.insert(names::CONTRACT_V1BETA2_LABEL.to_owned(), V1BETA2.to_owned());
    crd
}

/// Takes objects without a spec, as the real kinds do.
fn spec_optional(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    for schema in schemas(&mut crd) {
        schema.required = None;
    }
    crd
}

/// The schema of each version.
fn schemas(crd: &mut CustomResourceDefinition) -> impl Iterator<Item = &mut JSONSchemaProps> {
    let validations = crd
        .spec
        .versions
        .iter_mut()
        .filter_map(|version| version.schema.as_mut());
    validations.filter_map(|validation| validation.open_api_v3_schema.as_mut())
}

/// Labels a CRD as ours and tidies its schemas.
fn finished(mut crd: CustomResourceDefinition) -> CustomResourceDefinition {
    let labels: &mut BTreeMap<_, _> = crd.metadata.labels.get_or_insert_default();
    labels.insert(
        names::MANAGED_BY_LABEL.to_owned(),
        names::MANAGED_BY.to_owned(),
    );
    labels.insert(
        names::CRD_LABEL.to_owned(),
        names::CRD_LABEL_VALUE.to_owned(),
    );
    crd.spec.names.list_kind = Some(format!("{}List", crd.spec.names.kind));
    schemas(&mut crd).for_each(tidy);
    crd
}

/// Removes the artefacts of the generator from a schema and from every schema inside it.
fn tidy(schema: &mut JSONSchemaProps) {
    // A field that may be absent may not be null as well: the API server then
    // drops a null instead of storing it, as it does for Cluster API's kinds.
    schema.nullable = None;
    schema.title = None;
    if schema.x_kubernetes_int_or_string == Some(true) {
        // This extension alone describes the type; the branches of anyOf are empty.
        schema.any_of = None;
    }
    if let Some(text) = &mut schema.description {
        *text = unwrapped(text);
    }
    let properties = schema.properties.iter_mut().flat_map(BTreeMap::values_mut);
    let branches = [&mut schema.any_of, &mut schema.one_of, &mut schema.all_of];
    for inner in properties.chain(branches.into_iter().flatten().flatten()) {
        tidy(inner);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(inner)) = &mut schema.additional_properties {
        tidy(inner);
    }
    match &mut schema.items {
        Some(JSONSchemaPropsOrArray::Schema(inner)) => tidy(inner),
        Some(JSONSchemaPropsOrArray::Schemas(inner)) => inner.iter_mut().for_each(tidy),
        None => {}
    }
}

/// A doc comment without the line breaks that only its source file needs.
fn unwrapped(text: &str) -> String {
    let paragraphs = text
        .split("\n\n")
        .map(|paragraph| paragraph.replace('\n', " "));
    paragraphs.collect::<Vec<_>>().join("\n\n")
}

fn column(
    name: &str,
    type_: &str,
    json_path: &str,
    description: &str,
    priority: Option<i32>,
) -> CustomResourceColumnDefinition {
    CustomResourceColumnDefinition {
        name: name.to_owned(),
        type_: type_.to_owned(),
        json_path: json_path.to_owned(),
        description: Some(description.to_owned()),
        priority,
        format: None,
    }
}

fn condition_column(
    name: &str,
    condition: &str,
    description: &str,
    priority: Option<i32>,
) -> CustomResourceColumnDefinition {
    let path = format!(r#".status.conditions[?(@.type=="{condition}")].status"#);
    column(name, "string", &path, description, priority)
}

fn age_column() -> CustomResourceColumnDefinition {
    column(
        "Age",
        "date",
        ".metadata.creationTimestamp",
        "Time since creation",
        None,
    )
}

fn paused_column() -> CustomResourceColumnDefinition {
    condition_column("Paused", "Paused", "Whether it is left alone", Some(10))
}

fn health_check_columns() -> Columns {
    Some(vec![
        column("Cluster", "string", ".spec.clusterName", "Cluster", None),
        column(
            "Replicas",
            "integer",
            ".status.expectedMachines",
            "Number of machines that are checked",
            None,
        ),
        column(
            "Healthy",
            "integer",
            ".status.currentHealthy",
            "Number of machines that are healthy",
            None,
        ),
        paused_column(),
        age_column(),
    ])
}

fn machine_columns() -> Columns {
    Some(vec![
        column("Cluster", "string", ".spec.clusterName", "Cluster", None),
        column(
            "Node Name",
            "string",
            ".status.nodeRef.name",
            "The machine's Node",
            None,
        ),
        column(
            "Provider ID",
            "string",
            ".spec.providerID",
            "How its provider names the machine",
            Some(10),
        ),
        condition_column("Ready", "Ready", "Whether the machine is in order", None),
        condition_column(
            "Available",
            "Available",
            "Whether it has been for long enough",
            None,
        ),
        paused_column(),
        column(
            "Phase",
            "string",
            ".status.phase",
            "How far the machine is",
            None,
        ),
        age_column(),
        column(
            "Version",
            "string",
            ".spec.version",
            "Its version of Kubernetes",
            None,
        ),
    ])
}

fn cluster_columns() -> Columns {
    Some(vec![
        condition_column(
            "Available",
            "Available",
            "Whether the cluster is in order",
            None,
        ),
        paused_column(),
        column(
            "Phase",
            "string",
            ".status.phase",
            "How far the cluster is",
            None,
        ),
        age_column(),
    ])
}
