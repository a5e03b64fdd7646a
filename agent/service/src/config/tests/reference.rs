//! The reference page of the configuration, from the types that the files are read into.

use std::borrow::Cow;

use rackhand_reference::cell;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema, schema_for};
use serde_json::Value;

use super::super::{StaggerSettings, Times, schema};

const INTRODUCTION: &str = "\
# Configuration of the agent

Every key of `/etc/rackhand/agent.toml` and of the inventory files that it names. \
[agent.md](../agent.md#configuration) has an example and explains how the files are read, and \
[bmc.md](../bmc.md) the settings of a BMC. A duration is text with a unit: `\"250ms\"`, `\"5s\"`, \
`\"1m 30s\"`. A relative path is relative to the directory of the file that contains it.

The controller has no configuration file: its [flags](cli-controller.md) are all there is, and the \
values of its Helm chart are explained in \
[values.yaml](../../deploy/helm/rackhand/values.yaml).
";

/// How a duration is written in a file.
pub(in super::super) struct DurationText;

impl JsonSchema for DurationText {
    fn schema_name() -> Cow<'static, str> {
        "duration".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": ["string"], "format": "duration"})
    }
}

/// The default of a key that has one in code, as it would be written.
fn default_of(key: &str) -> String {
    let times = Times::default();
    let duration = match key {
        "connect_timeout" => times.connect,
        "call_timeout" => times.call,
        "operation_deadline" => times.operation,
        "poll_max" => times.poll_max,
        "resend_after" => times.resend_after,
        "shutdown_grace" => times.shutdown_grace,
        "power_on_interval" => StaggerSettings::default().interval,
        "watch_interval" => times.watch,
        _ => return String::new(),
    };
    format!("`\"{}s\"`", duration.as_secs())
}

/// The type of a value, in TOML's words.
fn type_of(schema: &Value) -> String {
    if let Some(format) = schema["format"].as_str().filter(|f| *f == "duration") {
        return format.to_owned();
    }
    if let Some(choices) = schema["anyOf"].as_array() {
        return type_of(&choices[0]);
    }
    if schema["$ref"].is_string() {
        return "table".to_owned();
    }
    let name = match &schema["type"] {
        Value::Array(names) => names[0].clone(),
        name => name.clone(),
    };
    match name.as_str().unwrap() {
        "array" => format!("list of {}", type_of(&schema["items"])),
        "object" => "table".to_owned(),
        name => name.to_owned(),
    }
}

fn write_table(page: &mut String, title: &str, schema: &Schema, defaults: bool) {
    page.push_str(&format!(
        "\n## {title}\n\n| Key | Type | Default | Meaning |\n|---|---|---|---|\n"
    ));
    let schema = schema.as_value();
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    for (key, value) in schema["properties"].as_object().unwrap() {
        let default = if required.contains(&Value::from(key.as_str())) {
            "*required*".to_owned()
        } else if defaults {
            default_of(key)
        } else {
            match &value["default"] {
                Value::Bool(default) => format!("`{default}`"),
                _ => String::new(),
            }
        };
        let meaning = value["description"].as_str();
        let meaning = meaning.unwrap_or_else(|| panic!("{title}: {key} has no doc comment"));
        page.push_str(&format!(
            "| `{key}` | {} | {default} | {} |\n",
            type_of(value),
            cell(meaning)
        ));
    }
}

#[test]
fn reference_page_is_current() {
    let mut page = INTRODUCTION.to_owned();
    write_table(
        &mut page,
        "Top-level keys",
        &schema_for!(schema::File),
        false,
    );
    write_table(
        &mut page,
        "`[defaults]`",
        &schema_for!(schema::Defaults),
        true,
    );
    write_table(&mut page, "`[pdus.NAME]`", &schema_for!(schema::Pdu), false);
    page.push_str(
        "\nPassword, community and privacy password each come from at most one source, as the password of \
         a BMC.\n",
    );
    write_table(&mut page, "`[[hosts]]`", &schema_for!(schema::Host), false);
    page.push_str("\nAn inventory file in TOML contains `[[hosts]]` and nothing else.\n");
    write_table(
        &mut page,
        "`hosts.outlets`",
        &schema_for!(schema::Outlet),
        false,
    );
    write_table(&mut page, "`[hosts.bmc]`", &schema_for!(schema::Bmc), false);
    page.push_str(
        "\nThe password comes from exactly one of `password_file`, `password_credential`, \
         `password_command` and `password`, and so does K_g, if the BMC has one.\n",
    );
    write_table(&mut page, "`trust`", &schema_for!(schema::Trust), false);
    page.push_str("\nExactly one of the three, in `[defaults]` or for one BMC.\n");
    let source = "agent/service/src/config/schema/mod.rs";
    rackhand_reference::assert_current("configuration.md", source, &page).unwrap();
}

#[test]
fn every_default_that_code_has_is_named() {
    let defaults = schema_for!(schema::Defaults);
    let keys = defaults.as_value()["properties"].as_object().unwrap();
    let without: Vec<&String> = keys
        .keys()
        .filter(|key| default_of(key).is_empty())
        .collect();
    assert_eq!(without, ["trust"]);
}
