//! Explanations from files, in the text form.

mod cluster_api;
mod nodes;
mod openshift;

use jiff::Timestamp;
use rackhand_core::explanation::CheckView;

use super::{CheckGroup, CheckSubject, ExplainError, View, explain_files};
use crate::config::{Config, HealthChecks};

fn explain_check_files(
    files: &[(String, String)],
    name: Option<&str>,
    namespace: Option<&str>,
    group: Option<CheckGroup>,
    config: &Config,
    now: Timestamp,
) -> Result<CheckView, ExplainError> {
    let check = CheckSubject::Machines {
        namespace: namespace.map(str::to_owned),
        name: name.map(str::to_owned),
        group,
    };
    explain_files(files, &check, config, now)
}

fn explain_nodes_files(
    files: &[(String, String)],
    name: Option<&str>,
    health_checks: HealthChecks,
    now: Timestamp,
) -> Result<CheckView, ExplainError> {
    let check = CheckSubject::Nodes {
        name: name.map(str::to_owned),
    };
    let config = Config {
        health_checks,
        ..Config::default()
    };
    explain_files(files, &check, &config, now)
}

/// JSON and YAML of a check.
fn texts(view: &CheckView) -> (String, String) {
    let view = View::Check(Box::new(view.clone()));
    (view.to_json(), view.to_yaml())
}
