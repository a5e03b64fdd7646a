//! AdmissionReview bodies and the answers to them.

mod nodes;

use std::sync::Arc;

use proptest::prelude::*;
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_util::sync::CancellationToken;

use super::review::{Hook, answer};
use crate::config::WebhookConfig;

const LABEL: &str = "cluster.x-k8s.io/cluster-name";

fn spec() -> Value {
    json!({
        "clusterName": "demo",
        "selector": { "matchLabels": { "pool": "a" } },
        "unhealthyConditions": [{ "type": "Ready", "status": "Unknown", "timeout": "300s" }],
    })
}

fn nested() -> Value {
    json!({
        "clusterName": "demo",
        "selector": { "matchExpressions": [{ "key": "pool", "operator": "In", "values": ["a"] }] },
        "checks": { "nodeStartupTimeoutSeconds": 600 },
        "remediation": { "triggerIf": { "unhealthyLessThanOrEqualTo": "40%" } },
    })
}

fn check(version: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": format!("cluster.x-k8s.io/{version}"), "kind": "MachineHealthCheck",
        "metadata": { "name": "workers", "namespace": "metal3" },
        "spec": spec,
    })
}

fn review(operation: &str, object: &Value, old: &Value) -> Vec<u8> {
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "request": {
            "uid": "r-1", "operation": operation, "object": object, "oldObject": old,
            "kind": { "group": "cluster.x-k8s.io", "version": "v1beta1", "kind": "MachineHealthCheck" },
        },
    })
    .to_string()
    .into_bytes()
}

fn asked(hook: Hook, operation: &str, object: &Value, old: &Value) -> Value {
    let answer = answer(hook, &review(operation, object, old)).unwrap();
    assert_eq!(answer["apiVersion"], "admission.k8s.io/v1");
    assert_eq!(answer["response"]["uid"], "r-1");
    answer["response"].clone()
}

fn created(object: &Value) -> Value {
    asked(Hook::Validate, "CREATE", object, &Value::Null)
}

/// A spec with one field set to another value.
fn with(mut spec: Value, pointer: &str, value: Value) -> Value {
    let (parent, field) = pointer.rsplit_once('/').unwrap();
    let place = match parent {
        "" => &mut spec,
        parent => spec.pointer_mut(parent).unwrap(),
    };
    place[field] = value;
    spec
}

#[test]
fn what_cluster_apis_webhook_takes_is_taken() {
    for spec in [
        spec(),
        nested(),
        with(spec(), "/nodeStartupTimeout", json!("0s")),
        with(spec(), "/nodeStartupTimeout", json!("30s")),
        with(spec(), "/maxUnhealthy", json!(-1)),
        with(spec(), "/maxUnhealthy", json!("-40%")),
        with(spec(), "/maxUnhealthy", json!(7)),
        with(spec(), "/selector/matchLabels", json!({ "a.b/c": "" })),
        with(nested(), "/checks/nodeStartupTimeoutSeconds", json!(0)),
    ] {
        let response = created(&check("v1beta1", &spec));
        assert_eq!(response["allowed"], true, "{spec} {response}");
    }
}

#[test]
fn each_verdict_names_its_field() {
    let machine_rule = json!([{ "type": "Ready", "status": "False", "timeout": "1m" }]);
    for (spec, field) in [
        (
            with(spec(), "/clusterName", json!("")),
            "spec.clusterName: must have",
        ),
        (
            with(spec(), "/clusterName", json!("x".repeat(64))),
            "spec.clusterName: must have",
        ),
        (
            with(spec(), "/selector", json!({})),
            "spec.selector: must not be empty",
        ),
        (
            with(spec(), "/selector/matchLabels", json!({})),
            "spec.selector: must not be empty",
        ),
        (
            with(spec(), "/selector/matchLabels", json!({ LABEL: "other" })),
            "spec.selector: its label",
        ),
        (
            with(spec(), "/selector/matchLabels", json!({ "a b": "c" })),
            "spec.selector.matchLabels: \"a b\"",
        ),
        (
            with(spec(), "/selector/matchLabels", json!({ "a": "b c" })),
            "spec.selector.matchLabels: \"b c\" at",
        ),
        (
            with(
                nested(),
                "/selector/matchExpressions",
                json!([{ "key": "a", "operator": "In" }]),
            ),
            "spec.selector.matchExpressions[0].values: is empty",
        ),
        (
            with(
                nested(),
                "/selector/matchExpressions",
                json!([{ "key": "-", "operator": "Exists" }]),
            ),
            "spec.selector.matchExpressions: \"-\"",
        ),
        (
            with(spec(), "/nodeStartupTimeout", json!("29.9s")),
            "spec.nodeStartupTimeout: must be 0",
        ),
        (
            with(spec(), "/nodeStartupTimeout", json!("soon")),
            "spec.nodeStartupTimeout: ",
        ),
        (
            with(nested(), "/checks/nodeStartupTimeoutSeconds", json!(29)),
            "spec.checks.nodeStartupTimeoutSeconds: must be 0",
        ),
        (
            with(spec(), "/maxUnhealthy", json!("3")),
            "spec.maxUnhealthy: is \"3\"",
        ),
        (
            with(
                nested(),
                "/remediation/triggerIf/unhealthyLessThanOrEqualTo",
                json!("many"),
            ),
            "spec.remediation.triggerIf.unhealthyLessThanOrEqualTo: is \"many\"",
        ),
        (
            with(spec(), "/unhealthyRange", json!("3-5")),
            "spec.unhealthyRange: is \"3-5\"",
        ),
        (
            with(spec(), "/checks", json!({})),
            "spec.checks: is of v1beta2, unhealthyConditions",
        ),
        (
            with(nested(), "/maxUnhealthy", json!(1)),
            "spec.remediation: is of v1beta2",
        ),
        (
            with(spec(), "/unhealthyMachineConditions", machine_rule),
            "spec.unhealthyMachineConditions: Ready follows from the verdict",
        ),
        (
            with(spec(), "/remediationTemplate", json!({ "name": "a" })),
            "spec.remediationTemplate.",
        ),
    ] {
        let response = created(&check("v1beta1", &spec));
        assert_eq!(response["allowed"], false, "{spec}");
        assert_eq!(response["status"]["code"], 422);
        let message = response["status"]["message"].as_str().unwrap();
        assert!(
            message.starts_with("MachineHealthCheck \"workers\" is invalid: "),
            "{message}"
        );
        assert!(message.contains(field), "{field:?} is missing in {message}");
    }
}

#[test]
fn everything_that_is_wrong_is_told_at_once() {
    let spec = json!({ "clusterName": "demo", "selector": {}, "maxUnhealthy": "x", "nodeStartupTimeout": "1s" });
    let response = created(&check("v1beta1", &spec));
    let message = response["status"]["message"].as_str().unwrap();
    for field in [
        "spec.selector:",
        "spec.maxUnhealthy:",
        "spec.nodeStartupTimeout:",
    ] {
        assert_eq!(message.matches(field).count(), 1, "{field} in {message}");
    }
}

#[test]
fn a_check_stays_with_its_cluster_and_one_that_stands_there_is_not_judged_again() {
    let old = check("v1beta1", &spec());
    let moved = check("v1beta1", &with(spec(), "/clusterName", json!("other")));
    let response = asked(Hook::Validate, "UPDATE", &moved, &old);
    assert!(
        response["status"]["message"]
            .as_str()
            .unwrap()
            .contains("spec.clusterName: cannot be changed")
    );
    let bad = check("v1beta1", &with(spec(), "/nodeStartupTimeout", json!("1s")));
    let mut labelled = bad.clone();
    labelled["metadata"]["labels"] = json!({ "a": "b" });
    assert_eq!(
        asked(Hook::Validate, "UPDATE", &labelled, &bad)["allowed"],
        true
    );
    assert_eq!(
        asked(Hook::Validate, "UPDATE", &bad, &old)["allowed"],
        false
    );
    let mut going = bad.clone();
    going["metadata"]["deletionTimestamp"] = json!("2026-08-01T02:00:00Z");
    assert_eq!(
        asked(Hook::Validate, "UPDATE", &going, &old)["allowed"],
        true
    );
    assert_eq!(
        asked(Hook::Validate, "DELETE", &Value::Null, &bad)["allowed"],
        true
    );
}

#[test]
fn what_is_taken_but_hardly_meant_is_warned_of() {
    let warned = |spec: &Value| {
        let response = created(&check("v1beta1", spec));
        assert_eq!(response["allowed"], true, "{response}");
        response["warnings"][0]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    assert_eq!(warned(&spec()), "");
    let range = warned(&with(spec(), "/unhealthyRange", json!("[5-3]")));
    assert!(range.contains("ends before it begins"), "{range}");
    let zero = warned(&with(spec(), "/maxUnhealthy", json!(0)));
    assert!(zero.contains("only observes"), "{zero}");
    let never = json!({
        "clusterName": "demo", "selector": { "matchLabels": { "a": "b" } }, "nodeStartupTimeout": "0s",
    });
    assert!(warned(&never).contains("only a deleted Node"));
}

fn patched(object: &Value) -> Vec<Value> {
    let response = asked(Hook::Mutate, "CREATE", object, &Value::Null);
    assert_eq!(response["allowed"], true);
    let Some(patch) = response.get("patch") else {
        return Vec::new();
    };
    assert_eq!(response["patchType"], "JSONPatch");
    let bytes: k8s_openapi::ByteString = serde_json::from_value(patch.clone()).unwrap();
    serde_json::from_slice(&bytes.0).unwrap()
}

#[test]
fn label_and_startup_timeout_are_filled_in_in_the_shape_of_the_check() {
    let label = json!({
        "op": "add", "path": "/metadata/labels/cluster.x-k8s.io~1cluster-name", "value": "demo",
    });
    let labels = json!({ "op": "add", "path": "/metadata/labels", "value": {} });
    let flat = json!({ "op": "add", "path": "/spec/nodeStartupTimeout", "value": "10m0s" });
    assert_eq!(
        patched(&check("v1beta1", &spec())),
        [labels, label.clone(), flat.clone()]
    );
    // Old fields are taken in the new version too, and keep their shape.
    assert_eq!(patched(&check("v1beta2", &spec()))[2], flat);
    let mut labelled = check("v1beta2", &json!({ "clusterName": "demo", "selector": {} }));
    labelled["metadata"]["labels"] = json!({ "a": "b" });
    assert_eq!(
        patched(&labelled),
        [
            label,
            json!({
                "op": "add", "path": "/spec/checks", "value": { "nodeStartupTimeoutSeconds": 600 },
            })
        ]
    );
    let empty = with(nested(), "/checks", json!({}));
    assert_eq!(
        patched(&check("v1beta1", &empty))[2],
        json!({ "op": "add", "path": "/spec/checks/nodeStartupTimeoutSeconds", "value": 600 })
    );
    let mut whole = check("v1beta1", &with(spec(), "/nodeStartupTimeout", json!("0s")));
    whole["metadata"]["labels"] = json!({ LABEL: "demo" });
    assert!(patched(&whole).is_empty());
}

#[test]
fn a_body_that_is_no_request_is_refused_in_words() {
    let refused = |body: &str| {
        answer(Hook::Validate, body.as_bytes())
            .unwrap_err()
            .to_string()
    };
    assert!(refused("").contains("not an AdmissionReview"));
    assert!(refused("{}").contains("want an AdmissionReview of admission.k8s.io/v1"));
    let old = r#"{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview"}"#;
    assert!(refused(old).contains("v1beta1"));
    let empty = r#"{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}"#;
    assert!(refused(empty).contains("no request"));
    let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p" } });
    let response = created(&pod);
    assert_eq!(
        (&response["allowed"], &response["status"]["code"]),
        (&json!(false), &json!(400))
    );
    assert_eq!(created(&Value::Null)["allowed"], false, "no object, no yes");
    assert_eq!(created(&json!({ "metadata": 7 }))["allowed"], false);
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[-a-z0-9.%\\[\\]/ é]{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map("[a-zA-Z]{1,10}", inner, 0..4)
                .prop_map(|map| map.into_iter().collect::<serde_json::Map<_, _>>().into()),
        ]
    })
}

/// A field that the webhook reads.
fn any_field() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(vec![
        "clusterName",
        "selector",
        "checks",
        "remediation",
        "nodeStartupTimeout",
        "unhealthyConditions",
        "unhealthyMachineConditions",
        "maxUnhealthy",
        "unhealthyRange",
        "remediationTemplate",
    ])
}

proptest! {
    #[test]
    fn any_bytes_are_answered(body in proptest::collection::vec(any::<u8>(), 0..200)) {
        for hook in [Hook::Validate, Hook::Mutate, Hook::ValidateNodes] {
            prop_assert!(answer(hook, &body).is_err());
        }
    }

    #[test]
    fn any_spec_is_answered_and_what_is_allowed_reads(
        spec in proptest::collection::btree_map(any_field(), any_json(), 0..6),
        old in any_json(),
        nested: bool,
    ) {
        let spec: serde_json::Map<String, Value> =
            spec.into_iter().map(|(field, value)| (field.to_owned(), value)).collect();
        let object = check(if nested { "v1beta2" } else { "v1beta1" }, &Value::Object(spec));
        let response = created(&object);
        if response["allowed"] == true && response.get("warnings").is_none() {
            let read = rackhand_api::views::MachineHealthCheckView::from_dynamic(
                &serde_json::from_value(object.clone()).unwrap(),
            );
            prop_assert!(read.is_ok(), "{object} {:?}", read.err());
        }
        patched(&object);
        asked(Hook::Validate, "UPDATE", &object, &old);
    }
}

#[tokio::test]
async fn it_is_asked_over_tls_and_ends_when_told() {
    rustls::crypto::ring::default_provider()
        .install_default()
        .ok();
    let dir = tempfile::tempdir().unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["webhook".to_owned()]).unwrap();
    let cert = params.self_signed(&key).unwrap();
    std::fs::write(dir.path().join("tls.crt"), cert.pem()).unwrap();
    std::fs::write(dir.path().join("tls.key"), key.serialize_pem()).unwrap();
    let config = WebhookConfig {
        address: "127.0.0.1:0".parse().unwrap(),
        tls_dir: dir.path().to_owned(),
    };
    let hook = super::bind(&config).await.unwrap();
    let address = hook.address().unwrap();
    let cancel = CancellationToken::new();
    let serving = tokio::spawn(hook.run(cancel.clone()));

    let mut roots = rustls::RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(cert.pem().as_bytes()).unwrap())
        .unwrap();
    let config = rustls::ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let ask = |request: String| {
        let connector = connector.clone();
        async move {
            let stream = tokio::net::TcpStream::connect(address).await.unwrap();
            let name = ServerName::try_from("webhook").unwrap();
            let mut stream = connector.connect(name, stream).await.unwrap();
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            answer
        }
    };
    let post = |path: &str, body: &str| {
        format!(
            "POST {path} HTTP/1.1\r\nhost: webhook\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        )
    };
    let body =
        String::from_utf8(review("CREATE", &check("v1beta1", &spec()), &Value::Null)).unwrap();
    let path = "/validate-cluster-x-k8s-io-v1beta2-machinehealthcheck";
    let yes = ask(post(path, &body)).await;
    assert!(
        yes.starts_with("HTTP/1.1 200") && yes.contains("\"allowed\":true"),
        "{yes}"
    );
    let path = "/mutate-cluster-x-k8s-io-v1beta2-machinehealthcheck?timeout=5s";
    let filled = ask(post(path, &body)).await;
    assert!(filled.contains("JSONPatch"), "{filled}");
    let odd = ask(post(path, "{")).await;
    assert!(odd.starts_with("HTTP/1.1 400"), "{odd}");
    let other = ask(post("/elsewhere", &body)).await;
    assert!(other.starts_with("HTTP/1.1 404"), "{other}");
    cancel.cancel();
    serving.await.unwrap();
}
