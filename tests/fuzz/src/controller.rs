//! Inputs of the controller: objects of every kind that it reads, with their annotations, and kubeconfigs.

use jiff::Timestamp;
use rackhand_runtime::{CheckSubject, Config, explain_files, fuzzing::remediations};

fn checks() -> [CheckSubject; 2] {
    [
        CheckSubject::Machines {
            namespace: None,
            name: None,
            group: None,
        },
        CheckSubject::Nodes { name: None },
    ]
}

fn explain(text: &str, check: &CheckSubject) -> Result<String, String> {
    let files = [("objects.yaml".to_owned(), text.to_owned())];
    let now = Timestamp::constant(1_800_000_600, 0);
    match explain_files(&files, check, &Config::default(), now) {
        Ok(view) => Ok(view.to_string()),
        Err(error) => Err(error.to_string()),
    }
}

/// Documents as `kubectl get -o yaml` prints them. The objects in them are read as from a cluster: checks are
/// explained, and what a remediation depends on is resolved.
pub(crate) fn objects(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    for check in checks() {
        let (Ok(printed) | Err(printed)) = explain(text, &check);
        assert!(!printed.is_empty());
    }
    if let Err(error) = remediations(text) {
        assert!(!error.is_empty());
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

/// Whether the documents contain a check that can be explained, or a remediation that can be read.
///
/// # Errors
/// The error for each kind, if none can.
pub fn explains(text: &str) -> Result<(), Vec<String>> {
    let mut refused = Vec::new();
    match remediations(text) {
        Ok(0) => refused.push("there is no remediation".to_owned()),
        Ok(_) => return Ok(()),
        Err(error) => refused.push(error),
    }
    for check in checks() {
        match explain(text, &check) {
            Ok(_) => return Ok(()),
            Err(error) => refused.push(error),
        }
    }
    Err(refused)
}
