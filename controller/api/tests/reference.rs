//! The reference page of the CRDs, from their schemas.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, CustomResourceDefinitionVersion, JSONSchemaProps,
    JSONSchemaPropsOrArray, JSONSchemaPropsOrBool,
};
use rackhand_api::crds;
use rackhand_reference::cell;

const INTRODUCTION: &str = "\
# CRDs

Every field of the CRDs in `deploy/crds`. `kubectl explain` shows the same in a cluster. A field \
without *required* may be left out. `[]` stands for each item of a list, `.*` for each key of a map.
";

const OWN: &str = "\
## Rackhand's own kinds

Every installation has them.
";

const FOREIGN: &str = "\
## Kinds of other projects

Rackhand's CRDs for clusters without those projects: `deploy/crds/standalone` and \
`deploy/crds/nodes`. They keep fields that they do not list. Beside the real projects they are not \
installed, and the fields are those of the projects. Both versions of a kind have one schema, with \
the fields of both.
";

fn write_kind(page: &mut String, crd: &CustomResourceDefinition) {
    let names = &crd.spec.names;
    let versions = crd.spec.versions.iter();
    let versions: Vec<&str> = versions.map(|version| version.name.as_str()).collect();
    let short = names.short_names.as_deref().unwrap_or_default();
    page.push_str(&format!("\n### {}\n\n", names.kind));
    let first = crd.spec.versions.first().unwrap();
    let root = schema(first);
    if let Some(description) = &root.description {
        page.push_str(&format!("{description}\n\n"));
    }
    page.push_str(&format!(
        "`{}/{}`, {}",
        crd.spec.group,
        versions.join("`, `"),
        match crd.spec.scope.as_str() {
            "Cluster" => "for the whole cluster",
            _ => "in a namespace",
        }
    ));
    if !short.is_empty() {
        page.push_str(&format!("; short `{}`", short.join("`, `")));
    }
    page.push_str(".\n\n");
    for version in &crd.spec.versions {
        let columns = version.additional_printer_columns.iter().flatten();
        let columns: Vec<&str> = columns.map(|column| column.name.as_str()).collect();
        if !columns.is_empty() {
            page.push_str(&format!(
                "Columns of `kubectl get` in {}: {}.\n\n",
                version.name,
                columns.join(", ")
            ));
        }
    }
    page.push_str("| Field | Type | Rules | Meaning |\n|---|---|---|---|\n");
    for part in ["spec", "status"] {
        if let Some(schema) = root.properties.as_ref().and_then(|p| p.get(part)) {
            write_fields(page, part, schema);
        }
    }
}

fn schema(version: &CustomResourceDefinitionVersion) -> &JSONSchemaProps {
    let schema = version.schema.as_ref().unwrap();
    schema.open_api_v3_schema.as_ref().unwrap()
}

/// A row for each field below one.
fn write_fields(page: &mut String, path: &str, schema: &JSONSchemaProps) {
    let own = rules(schema, false);
    if !own.is_empty() && !path.contains('.') {
        page.push_str(&format!("| `{path}` | {} | {own} | |\n", type_of(schema)));
    }
    let required = schema.required.as_deref().unwrap_or_default();
    for (name, field) in schema.properties.iter().flatten() {
        let path = format!("{path}.{name}");
        page.push_str(&format!(
            "| `{path}` | {} | {} | {} |\n",
            type_of(field),
            rules(field, required.contains(name)),
            cell(field.description.as_deref().unwrap_or_default())
        ));
        write_inner(page, &path, field);
    }
}

fn write_inner(page: &mut String, path: &str, schema: &JSONSchemaProps) {
    write_fields(page, path, schema);
    if let Some(JSONSchemaPropsOrArray::Schema(item)) = &schema.items {
        write_inner(page, &format!("{path}[]"), item);
    }
    if let Some(JSONSchemaPropsOrBool::Schema(item)) = &schema.additional_properties {
        write_inner(page, &format!("{path}.*"), item);
    }
}

fn type_of(schema: &JSONSchemaProps) -> String {
    if schema.x_kubernetes_int_or_string == Some(true) {
        return "integer or string".to_owned();
    }
    if let Some(JSONSchemaPropsOrArray::Schema(item)) = &schema.items {
        return format!("list of {}", type_of(item));
    }
    if let Some(JSONSchemaPropsOrBool::Schema(item)) = &schema.additional_properties {
        return format!("map of {}", type_of(item));
    }
    let name = schema.type_.as_deref().unwrap_or("any");
    match schema.format.as_deref() {
        Some(format) if name == "string" => format.to_owned(),
        _ => name.to_owned(),
    }
}

fn rules(schema: &JSONSchemaProps, required: bool) -> String {
    let mut rules = Vec::new();
    if required {
        rules.push("*required*".to_owned());
    }
    if let Some(default) = &schema.default {
        rules.push(format!("default `{}`", default.0));
    }
    if let Some(values) = &schema.enum_ {
        let values: Vec<String> = values.iter().map(|value| value.0.to_string()).collect();
        rules.push(format!("one of `{}`", values.join("`, `").replace('"', "")));
    }
    let bounds = [("at least", schema.minimum), ("at most", schema.maximum)];
    for (words, bound) in bounds {
        rules.extend(bound.map(|bound| format!("{words} {bound}")));
    }
    let lengths = [
        ("at least", "characters", schema.min_length),
        ("at most", "characters", schema.max_length),
        ("at least", "items", schema.min_items),
        ("at most", "items", schema.max_items),
    ];
    for (words, of, length) in lengths {
        rules.extend(length.map(|length| format!("{words} {length} {of}")));
    }
    if let Some(pattern) = &schema.pattern {
        rules.push(format!("matches `{}`", pattern.replace('|', "\\|")));
    }
    for rule in schema.x_kubernetes_validations.iter().flatten() {
        let words = rule.message.as_ref().unwrap_or(&rule.rule);
        rules.push(cell(words));
    }
    rules.join("; ")
}

#[test]
fn reference_page_is_current() {
    let mut page = format!("{INTRODUCTION}\n{OWN}");
    for crd in crds::own() {
        write_kind(&mut page, &crd);
    }
    page.push_str(&format!("\n{FOREIGN}"));
    for crd in crds::standalone().into_iter().chain(crds::nodes()) {
        write_kind(&mut page, &crd);
    }
    rackhand_reference::assert_current("crds.md", "controller/api/src/kinds", &page).unwrap();
}
