//! Explanations from files, in the text form.

mod cluster_api;
mod nodes;
mod openshift;
mod remediation;

use jiff::Timestamp;
use rackhand_core::explanation::{CheckView, RemediationView};

use super::{CheckGroup, ExplainError, Subject, View, explain_files};
use crate::config::{Config, HealthChecks};

fn check_of(
    files: &[(String, String)],
    subject: &Subject,
    config: &Config,
    now: Timestamp,
) -> Result<CheckView, ExplainError> {
    match explain_files(files, subject, config, now)? {
        View::Check(view) => Ok(*view),
        View::Remediation(view) => Err(ExplainError::Request(view.request)),
    }
}

fn explain_check_files(
    files: &[(String, String)],
    name: Option<&str>,
    namespace: Option<&str>,
    group: Option<CheckGroup>,
    config: &Config,
    now: Timestamp,
) -> Result<CheckView, ExplainError> {
    let subject = Subject::MachineHealthCheck {
        namespace: namespace.map(str::to_owned),
        name: name.map(str::to_owned),
        group,
    };
    check_of(files, &subject, config, now)
}

fn explain_nodes_files(
    files: &[(String, String)],
    name: Option<&str>,
    health_checks: HealthChecks,
    now: Timestamp,
) -> Result<CheckView, ExplainError> {
    let subject = Subject::NodeHealthCheck {
        name: name.map(str::to_owned),
    };
    let config = Config {
        health_checks,
        ..Config::default()
    };
    check_of(files, &subject, &config, now)
}

fn explain_file_at(
    text: &str,
    name: Option<&str>,
    config: &Config,
    now: Timestamp,
) -> Result<RemediationView, ExplainError> {
    let subject = Subject::Remediation {
        namespace: None,
        name: name.map(str::to_owned),
        kind: None,
    };
    let files = [("dump.yaml".to_owned(), text.to_owned())];
    match explain_files(&files, &subject, config, now)? {
        View::Remediation(view) => Ok(*view),
        View::Check(view) => Err(ExplainError::Request(view.check)),
    }
}

/// JSON and YAML of a check.
fn texts(view: &CheckView) -> (String, String) {
    let view = View::Check(Box::new(view.clone()));
    (view.to_json(), view.to_yaml())
}
