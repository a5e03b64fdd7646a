//! Random specs: every accepted spec can be parsed by the controller.

use anyhow::{Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, PostParams},
    core::GroupVersionKind,
};
use proptest::{collection::vec, prelude::*, strategy::ValueTree as _, test_runner::TestRunner};
use rackhand_api::views::{MachineHealthCheckView, NodeHealthCheckView};
use serde_json::{Map, Value, json};

use super::{node_health_checks, verdicts::document};

/// Number of random specs.
const SPECS: usize = 400;

fn text(pattern: &'static str) -> impl Strategy<Value = Value> {
    proptest::string::string_regex(pattern)
        .unwrap()
        .prop_map(Value::from)
}

fn one_of(values: &'static [&'static str]) -> impl Strategy<Value = Value> {
    proptest::sample::select(values).prop_map(Value::from)
}

fn mostly(usual: &'static str, others: &'static [&'static str]) -> BoxedStrategy<Value> {
    prop_oneof![30 => Just(json!(usual)), 1 => one_of(others)].boxed()
}

/// A strategy that contains most of these fields.
fn some(fields: Vec<(&'static str, BoxedStrategy<Value>)>) -> BoxedStrategy<Value> {
    let fields: Vec<_> = fields
        .into_iter()
        .map(|(name, value)| proptest::option::weighted(0.95, value.prop_map(move |v| (name, v))))
        .collect();
    fields
        .prop_map(|found| {
            let found = found.into_iter().flatten();
            Value::Object(found.map(|(name, v)| (name.to_owned(), v)).collect())
        })
        .boxed()
}

fn list(item: BoxedStrategy<Value>) -> BoxedStrategy<Value> {
    vec(item, 1..3).prop_map(Value::from).boxed()
}

fn duration() -> BoxedStrategy<Value> {
    prop_oneof![
        20 => one_of(&["60s", "30s", "5m"]),
        3 => one_of(&["0", "0s", "30s", "60s", "5m0s", "1.5h", "+5s", ".5s", "1h2m3.5s"]),
        2 => text("[-+]?[.0-9]{0,3}(ns|us|µs|μs|ms|s|m|h|d)?[0-9]{0,9}(s|m|h)"),
        1 => text("[-+.0-9nuµmsh ]{0,8}"),
    ]
    .boxed()
}

fn limit() -> BoxedStrategy<Value> {
    prop_oneof![
        12 => (0..200_i64).prop_map(Value::from),
        1 => Just(json!(-1)),
        1 => (4_294_967_295_i64..4_294_967_299).prop_map(Value::from),
        4 => text("[0-9]{1,2}%"),
        1 => text("[-+]?[0-9]{0,11}%?"),
    ]
    .boxed()
}

fn selector() -> BoxedStrategy<Value> {
    let key = || {
        prop_oneof![
            30 => one_of(&["pool", "a.b/c", "A_b.c-1"]),
            1 => text("[-a-zA-Z0-9_./ ]{0,6}"),
        ]
    };
    let value = || prop_oneof![30 => one_of(&["", "a", "v1.2_3-x"]), 1 => text("[-a-z_./ ]{0,4}")];
    let labels = vec((key(), value()), 0..3).prop_map(|found| {
        let named =
            |(key, value): (Value, Value)| (key.as_str().unwrap_or_default().to_owned(), value);
        Value::Object(found.into_iter().map(named).collect::<Map<_, _>>())
    });
    let operator = one_of(&["In", "NotIn", "Exists", "DoesNotExist", "Is"]);
    let any_expression = some(vec![
        ("key", key().boxed()),
        ("operator", operator.boxed()),
        ("values", list(value().boxed())),
    ]);
    let expression = prop_oneof![
        5 => Just(json!({ "key": "pool", "operator": "Exists" })),
        5 => Just(json!({ "key": "pool", "operator": "In", "values": ["a"] })),
        1 => any_expression,
    ]
    .boxed();
    some(vec![
        ("matchLabels", labels.boxed()),
        ("matchExpressions", list(expression)),
    ])
}

fn template() -> BoxedStrategy<Value> {
    some(vec![
        (
            "kind",
            mostly(
                "XTemplate",
                &["MachineDeletionRemediationTemplate", "X", ""],
            ),
        ),
        ("name", mostly("t", &[""])),
        (
            "apiVersion",
            mostly("x.y/v1", &["rackhand.dev/v1alpha1", "v1", ""]),
        ),
    ])
}

fn rule(time: &'static str, value: BoxedStrategy<Value>) -> BoxedStrategy<Value> {
    some(vec![
        ("type", mostly("A", &["NodeReady", "Ready", ""])),
        ("status", mostly("True", &["False", "Unknown", "Maybe", ""])),
        (time, value),
    ])
}

fn seconds() -> BoxedStrategy<Value> {
    prop_oneof![20 => 30..90_i64, 1 => -2..30_i64]
        .prop_map(Value::from)
        .boxed()
}

fn machine_spec() -> BoxedStrategy<Value> {
    let range = || {
        prop_oneof![
            12 => text(r"\[[0-9]{1,2}-[0-9]{2,3}\]"),
            1 => text(r"\[?[0-9]{0,2}-?[0-9]{1,11}\]?"),
        ]
        .boxed()
    };
    let name = || prop_oneof![9 => Just(json!("demo")), 1 => Just(json!(""))].boxed();
    let old = some(vec![
        ("clusterName", name()),
        ("selector", selector()),
        ("nodeStartupTimeout", duration()),
        ("maxUnhealthy", limit()),
        ("unhealthyRange", range()),
        ("unhealthyConditions", list(rule("timeout", duration()))),
        (
            "unhealthyMachineConditions",
            list(rule("timeout", duration())),
        ),
        ("remediationTemplate", template()),
    ]);
    let checks = some(vec![
        ("nodeStartupTimeoutSeconds", seconds()),
        (
            "unhealthyNodeConditions",
            list(rule("timeoutSeconds", seconds())),
        ),
        (
            "unhealthyMachineConditions",
            list(rule("timeoutSeconds", seconds())),
        ),
    ]);
    let trigger = some(vec![
        ("unhealthyLessThanOrEqualTo", limit()),
        ("unhealthyInRange", range()),
    ]);
    let remediation = some(vec![("triggerIf", trigger), ("templateRef", template())]);
    let new = some(vec![
        ("clusterName", name()),
        ("selector", selector()),
        ("checks", checks),
        ("remediation", remediation),
    ]);
    prop_oneof![old, new].boxed()
}

fn node_spec() -> BoxedStrategy<Value> {
    let step = some(vec![
        ("remediationTemplate", template()),
        ("order", (0..3_i64).prop_map(Value::from).boxed()),
        ("timeout", duration()),
    ]);
    let limited = |limited: &'static str, name: &'static str, how: BoxedStrategy<Value>| {
        some(vec![
            ("selector", selector()),
            (limited, limit()),
            (name, how),
            ("unhealthyConditions", list(rule("duration", duration()))),
            ("stormCooldownDuration", duration()),
            ("healthyDelay", duration()),
        ])
    };
    prop_oneof![
        limited("minHealthy", "remediationTemplate", template()),
        limited("maxUnhealthy", "remediationTemplate", template()),
        limited("maxUnhealthy", "escalatingRemediations", list(step)),
    ]
    .boxed()
}

/// Creates an object from each random spec as a dry run, and parses the accepted ones.
async fn accepted_is_readable(
    checks: &Api<DynamicObject>,
    specs: BoxedStrategy<Value>,
    object: fn(&Value) -> Value,
    read: fn(&DynamicObject) -> std::result::Result<(), String>,
) -> Result<()> {
    let mut runner = TestRunner::deterministic();
    let mut objects = Vec::new();
    for _ in 0..SPECS {
        let spec = specs.new_tree(&mut runner).map_err(anyhow::Error::msg)?;
        objects.push(object(&spec.current()));
    }
    let accepted: Vec<DynamicObject> = stream::iter(objects)
        .map(async |object| -> Result<Option<DynamicObject>> {
            let params = PostParams {
                dry_run: true,
                ..PostParams::default()
            };
            let object: DynamicObject = serde_json::from_value(object)?;
            match checks.create(&params, &object).await {
                Ok(created) => Ok(Some(created)),
                Err(kube::Error::Api(status)) if (400..500).contains(&status.code) => Ok(None),
                Err(error) => Err(error.into()),
            }
        })
        .buffer_unordered(8)
        .try_filter_map(async |found| Ok(found))
        .try_collect()
        .await?;
    let share = accepted.len();
    ensure!(
        (SPECS / 40..SPECS).contains(&share),
        "{share} of {SPECS} are accepted"
    );
    for object in accepted {
        if let Err(error) = read(&object) {
            anyhow::bail!("{}: {error}", object.data);
        }
    }
    Ok(())
}

pub async fn machine_health_checks(client: &Client) -> Result<()> {
    let gvk = GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta1", "MachineHealthCheck");
    let checks = Api::namespaced_with(client.clone(), "default", &ApiResource::from_gvk(&gvk));
    let object = |spec: &Value| document("random", "v1beta1", spec);
    accepted_is_readable(&checks, machine_spec(), object, |object| {
        match MachineHealthCheckView::from_dynamic(object) {
            // Cluster API and Rackhand accept such a range with a warning.
            Err(error) if !error.problem.ends_with("ends before it begins") => {
                Err(error.to_string())
            }
            _ => Ok(()),
        }
    })
    .await
}

pub async fn node_health_checks(client: &Client) -> Result<()> {
    let checks = node_health_checks::checks(client);
    let object = |spec: &Value| node_health_checks::check("random", spec);
    accepted_is_readable(&checks, node_spec(), object, |object| {
        let read = NodeHealthCheckView::from_dynamic(object);
        read.map(drop).map_err(|error| error.to_string())
    })
    .await
}
