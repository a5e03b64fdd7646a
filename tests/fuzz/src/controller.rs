//! Inputs of the controller: objects of every kind that it reads, with their annotations, and kubeconfigs.

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

/// Shortest secret that a message is searched for. Shorter ones occur in any sentence.
const SECRET: usize = 12;

/// The kubeconfig of a workload cluster, whose Secret a user of the cluster may write: whether its client can
/// be made. A refusal tells no secret of it.
///
/// # Errors
/// The message of the refusal.
pub fn connects(text: &str) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .map_err(|error| error.to_string())?;
    let refused = runtime.block_on(rackhand_runtime::fuzzing::kubeconfig(text));
    refused.map_err(|(message, secrets)| {
        let mut long = secrets.iter().filter(|secret| secret.len() >= SECRET);
        assert!(!message.is_empty(), "a refusal has a reason");
        assert!(!long.any(|secret| message.contains(secret)), "{message}");
        message
    })
}

/// Text as a kubeconfig.
pub(crate) fn kubeconfig(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        connects(text).ok();
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
