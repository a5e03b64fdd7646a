//! The files under `deploy/crds` match the types, and the schemas contain what
//! the documentation of their kinds promises.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceDefinition, JSONSchemaProps, JSONSchemaPropsOrArray,
};
use rackhand_api::{crds, names};

mod render;

fn deployed() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/crds")
}

fn files_in(folder: &Path) -> BTreeMap<String, String> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| {
        panic!("{}: {error}: run hack/codegen", folder.display());
    });
    entries
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.file_type().unwrap().is_file())
        .map(|entry| {
            let name = entry.file_name().into_string().unwrap();
            (name, fs::read_to_string(entry.path()).unwrap())
        })
        .collect()
}

fn assert_same(folder: &Path, crds: &[CustomResourceDefinition]) {
    let want = render::folder(crds).unwrap();
    let found = files_in(folder);
    assert_eq!(
        found.keys().collect::<Vec<_>>(),
        want.keys().collect::<Vec<_>>(),
        "the files in {} are not those of the types: run hack/codegen",
        folder.display()
    );
    for (name, text) in want {
        assert!(
            found[&name] == text,
            "{} differs from the types: run hack/codegen",
            folder.join(name).display()
        );
    }
}

fn crd(name: &str) -> CustomResourceDefinition {
    crds::all()
        .into_iter()
        .find(|crd| crd.metadata.name.as_deref() == Some(name))
        .unwrap()
}

/// The schema at a path of properties in a version; `[]` is a list's item.
fn schema_at(crd: &CustomResourceDefinition, version: &str, path: &str) -> JSONSchemaProps {
    let version = crd
        .spec
        .versions
        .iter()
        .find(|v| v.name == version)
        .unwrap();
    let root = version
        .schema
        .as_ref()
        .unwrap()
        .open_api_v3_schema
        .clone()
        .unwrap();
    path.split('.').fold(root, |schema, step| match step {
        "[]" => match schema.items {
            Some(JSONSchemaPropsOrArray::Schema(item)) => *item,
            _ => panic!("{path}: no items"),
        },
        name => schema.properties.unwrap()[name].clone(),
    })
}

fn walk(schema: &JSONSchemaProps, path: &str, see: &mut dyn FnMut(&str, &JSONSchemaProps)) {
    see(path, schema);
    for (name, inner) in schema.properties.iter().flatten() {
        walk(inner, &format!("{path}.{name}"), see);
    }
    if let Some(JSONSchemaPropsOrArray::Schema(item)) = &schema.items {
        walk(item, &format!("{path}[]"), see);
    }
}

#[test]
fn crd_files_match_the_types() {
    assert_same(&deployed(), &crds::own());
    assert_same(&deployed().join("standalone"), &crds::standalone());
    assert_same(&deployed().join("nodes"), &crds::nodes());
}

#[test]
fn every_crd_has_our_labels_and_one_storage_version() {
    for crd in crds::all() {
        let labels = crd.metadata.labels.unwrap();
        assert_eq!(labels[names::MANAGED_BY_LABEL], names::MANAGED_BY);
        assert_eq!(labels[names::CRD_LABEL], names::CRD_LABEL_VALUE);
        assert_eq!(
            crd.spec
                .versions
                .iter()
                .filter(|version| version.storage)
                .count(),
            1
        );
    }
}

#[test]
fn every_field_has_a_type_and_a_description() {
    for crd in crds::all() {
        for version in &crd.spec.versions {
            let root = version
                .schema
                .as_ref()
                .unwrap()
                .open_api_v3_schema
                .as_ref()
                .unwrap();
            let name = crd.metadata.name.as_deref().unwrap();
            walk(root, name, &mut |path, schema| {
                assert!(schema.nullable.is_none(), "{path}");
                assert!(
                    schema.type_.is_some() || schema.x_kubernetes_int_or_string == Some(true),
                    "{path} has no type"
                );
                assert!(
                    path.ends_with("[]") || schema.description.is_some(),
                    "{path} has no description"
                );
                assert!(
                    schema.one_of.is_none() && schema.ref_path.is_none(),
                    "{path}"
                );
                let described = schema.description.as_deref().unwrap_or_default();
                assert!(!described.contains("Auto-generated"), "{path}");
            });
        }
    }
}

#[test]
fn both_versions_of_a_kind_have_one_schema() {
    for crd in crds::standalone() {
        let schemas: Vec<_> = crd
            .spec
            .versions
            .iter()
            .map(|version| &version.schema)
            .collect();
        assert!(
            schemas.windows(2).all(|pair| pair[0] == pair[1]),
            "{:?}",
            crd.metadata.name
        );
    }
}

#[test]
fn field_keeps_its_own_description() {
    let remediation = crd("powerremediations.rackhand.dev");
    for (path, description) in [
        ("status.step", "The current step."),
        (
            "status.attempts.[].failedStep",
            "The step in which the attempt failed.",
        ),
    ] {
        let schema = schema_at(&remediation, "v1alpha1", path);
        assert_eq!(schema.description.as_deref(), Some(description), "{path}");
    }
}

#[test]
fn short_names_and_columns_match_upstream() {
    let columns = |crd: &CustomResourceDefinition, version: &str| -> Vec<String> {
        let version = crd
            .spec
            .versions
            .iter()
            .find(|v| v.name == version)
            .unwrap();
        let columns = version.additional_printer_columns.iter().flatten();
        columns.map(|column| column.name.clone()).collect()
    };
    let remediation = crd("metal3remediations.infrastructure.cluster.x-k8s.io");
    assert_eq!(
        remediation.spec.names.short_names.clone().unwrap(),
        ["m3r", "m3remediation"]
    );
    assert_eq!(
        remediation.spec.names.categories.clone().unwrap(),
        ["cluster-api"]
    );
    for version in ["v1beta1", "v1beta2"] {
        assert_eq!(
            columns(&remediation, version),
            [
                "Retry limit",
                "Retry count",
                "Last Remediated",
                "Strategy",
                "Phase"
            ]
        );
    }
    let template = crd("metal3remediationtemplates.infrastructure.cluster.x-k8s.io");
    assert!(columns(&template, "v1beta1").is_empty());
    let check = crd("machinehealthchecks.cluster.x-k8s.io");
    assert_eq!(
        check.spec.names.short_names.clone().unwrap(),
        ["mhc", "mhcs"]
    );
    assert_eq!(
        columns(&check, "v1beta1"),
        [
            "Cluster",
            "ExpectedMachines",
            "MaxUnhealthy",
            "CurrentHealthy",
            "Age"
        ]
    );
    assert_eq!(
        columns(&check, "v1beta2"),
        ["Cluster", "Replicas", "Healthy", "Paused", "Age"]
    );
    let agent = crd("rackagents.rackhand.dev");
    assert_eq!(agent.spec.scope, "Cluster");
    assert_eq!(
        columns(&agent, "v1alpha1"),
        ["Rack", "Endpoint", "Connected", "Hosts", "Age"]
    );
}

#[test]
fn schema_contains_the_upstream_admission_rules() {
    let rule = |crd: &CustomResourceDefinition, path: &str| -> String {
        let schema = schema_at(crd, "v1beta1", path);
        let rules = schema.x_kubernetes_validations.unwrap_or_default();
        rules
            .iter()
            .map(|rule| rule.rule.clone())
            .collect::<Vec<_>>()
            .join("\n")
    };
    let check = crd("machinehealthchecks.cluster.x-k8s.io");
    assert!(rule(&check, "spec.nodeStartupTimeout").contains("duration('30s')"));
    assert!(rule(&check, "spec.checks.nodeStartupTimeoutSeconds").contains("self >= 30"));
    assert!(rule(&check, "spec.clusterName").contains("oldSelf"));
    assert!(rule(&check, "spec.selector").contains("matchLabels"));
    let required = schema_at(&check, "v1beta2", "spec").required.unwrap();
    assert_eq!(required, ["clusterName", "selector"]);
    let limit = schema_at(&check, "v1beta1", "spec.maxUnhealthy");
    assert_eq!(limit.x_kubernetes_int_or_string, Some(true));
    assert_eq!(limit.pattern.as_deref(), Some("^[+-]?[0-9]{1,9}%$"));

    let remediation = crd("metal3remediations.infrastructure.cluster.x-k8s.io");
    assert!(rule(&remediation, "spec.strategy.timeout").contains("duration('100s')"));
    assert!(rule(&remediation, "spec.strategy.timeoutSeconds").contains("self >= 100"));
    assert_eq!(
        schema_at(&remediation, "v1beta1", "spec.strategy.type")
            .enum_
            .unwrap()
            .len(),
        1
    );
    assert_eq!(
        schema_at(&remediation, "v1beta1", "status.phase")
            .enum_
            .unwrap()
            .len(),
        4,
        "Running, Waiting, Deleting machine, Failed"
    );

    let template = crd("metal3remediationtemplates.infrastructure.cluster.x-k8s.io");
    let strategy = "spec.template.spec.strategy";
    let default = |field: &str| {
        schema_at(&template, "v1beta2", &format!("{strategy}.{field}"))
            .default
            .unwrap()
            .0
    };
    assert_eq!(default("type"), "Reboot");
    assert_eq!(default("retryLimit"), 1);
}
