//! Inputs of the controller: objects of every kind that it reads, with their annotations.

use jiff::Timestamp;
use rackhand_runtime::{Config, ExplainError, Subject, View, explain_files};

fn subjects() -> [Subject; 3] {
    [
        Subject::Remediation {
            namespace: None,
            name: None,
            kind: None,
        },
        Subject::MachineHealthCheck {
            namespace: None,
            name: None,
            group: None,
        },
        Subject::NodeHealthCheck { name: None },
    ]
}

fn explain(text: &str, subject: &Subject) -> Result<View, ExplainError> {
    let files = [("objects.yaml".to_owned(), text.to_owned())];
    let now = Timestamp::constant(1_800_000_600, 0);
    explain_files(&files, subject, &Config::default(), now)
}

/// Documents as `kubectl get -o yaml` prints them. The objects in them are read as from a cluster, and
/// `explain` runs on them.
pub(crate) fn objects(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    for subject in subjects() {
        match explain(text, &subject) {
            Ok(view) => assert!(!view.to_string().is_empty()),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

/// Whether the documents contain something that can be explained.
///
/// # Errors
/// The error for each subject, if none can be explained.
pub fn explains(text: &str) -> Result<(), Vec<String>> {
    let mut refused = Vec::new();
    for subject in subjects() {
        match explain(text, &subject) {
            Ok(_) => return Ok(()),
            Err(error) => refused.push(error.to_string()),
        }
    }
    Err(refused)
}
