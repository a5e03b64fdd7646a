//! The alert rules: each names metrics that are documented, and has an entry in the runbook.

use std::{collections::BTreeSet, fs, path::PathBuf};

use rackhand_tests::cluster::parse_yaml;
use serde_json::Value;

use super::observability::prometheus::{deployed, promtool};

fn read(path: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn alerts() -> Vec<Value> {
    let files = parse_yaml(&read("deploy/prometheus/alerts.yaml")).unwrap();
    let groups = files
        .iter()
        .flat_map(|file| file["groups"].as_array().unwrap());
    let rules = groups.flat_map(|group| group["rules"].as_array().unwrap().clone());
    rules.collect()
}

/// The metrics of this project in an expression.
pub fn metrics(expression: &str) -> impl Iterator<Item = &str> {
    expression
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .filter(|word| word.starts_with("rackhand_"))
}

#[test]
fn prometheus_accepts_alert_rules_and_each_alert_fires() {
    let rules = deployed("alerts.yaml").display().to_string();
    promtool(
        &["check", "rules", "--lint=all", "--lint-fatal", &rules],
        "",
    )
    .unwrap();
    let dir = env!("CARGO_MANIFEST_DIR");
    let tests = format!("{dir}/tests/controller/operators/alerts/firing.yaml");
    promtool(&["test", "rules", &tests], "").unwrap();
    // Every alert has a test.
    let tested = fs::read_to_string(tests).unwrap();
    let fires = |name: &str| tested.contains(&format!("- alertname: {name}\n"));
    for alert in alerts() {
        let name = alert["alert"].as_str().unwrap();
        assert!(fires(name), "no test in which {name} fires");
    }
}

#[test]
fn every_alert_metric_is_documented() {
    let pages = read("docs/metrics.md") + &read("docs/agent.md");
    let mut seen = BTreeSet::new();
    for alert in alerts() {
        let expression = alert["expr"].as_str().unwrap().to_owned();
        assert!(metrics(&expression).count() > 0, "{alert}");
        for metric in metrics(&expression) {
            assert!(pages.contains(&format!("`{metric}`")), "{alert}: {metric}");
            seen.insert(metric.to_owned());
        }
    }
    assert!(seen.len() > 8, "{seen:?}");
}

#[test]
fn every_alert_has_severity_summary_and_runbook_entry() {
    let runbook = read("docs/runbook.md");
    let alerts = alerts();
    let mut names = BTreeSet::new();
    for alert in &alerts {
        let name = alert["alert"].as_str().unwrap();
        assert!(names.insert(name), "{name} twice");
        let severity = alert["labels"]["severity"].as_str();
        assert!(matches!(severity, Some("critical" | "warning")), "{alert}");
        assert!(alert["annotations"]["summary"].is_string(), "{alert}");
        assert!(runbook.contains(&format!("\n### {name}\n")), "{name}");
    }
    let entries = runbook
        .lines()
        .filter_map(|line| line.strip_prefix("### Rackhand"));
    assert_eq!(entries.count(), names.len(), "an entry without an alert");
}
