//! A check of Nodes from files.
//!
//! Must never take a part that does not read for one that is not there.

use jiff::Timestamp;

use super::{
    ExplainError,
    file::documents,
    nodes::{NodesExplanation, explain_nodes},
    nodes_scene::{Surroundings, checks, scene},
};
use crate::config::HealthChecks;

/// Explains a check of Nodes from the texts of files, each with a name for people: YAML documents, or
/// Lists as `kubectl get -o yaml` prints them, with the check and whatever of Nodes, remediations, their
/// templates, Leases, OpenShift's own kinds and the CRD is there.
///
/// # Errors
/// A text does not read, or they do not hold exactly one check that fits.
pub fn explain_nodes_files(
    files: &[(String, String)],
    name: Option<&str>,
    mode: HealthChecks,
    now: Timestamp,
) -> Result<NodesExplanation, ExplainError> {
    let mut around = Surroundings {
        from_files: true,
        ..Surroundings::default()
    };
    for (file, text) in files {
        let found =
            documents(text).map_err(|error| ExplainError::File(format!("{file}: {error}")))?;
        around.objects.extend(found);
    }
    let all = checks(&around);
    let fits: Vec<&String> = all
        .iter()
        .filter(|n| name.is_none_or(|name| name == *n))
        .collect();
    let known = match all.is_empty() {
        true => "there are none".to_owned(),
        false => format!("there are: {}", all.join(", ")),
    };
    let name = match (fits.as_slice(), name) {
        ([only], _) => (*only).clone(),
        ([], Some(name)) => {
            return Err(ExplainError::Request(format!(
                "the files hold no NodeHealthCheck {name}; {known}"
            )));
        }
        ([], None) => {
            return Err(ExplainError::Request(
                "the files hold no NodeHealthCheck of remediation.medik8s.io".into(),
            ));
        }
        _ => {
            return Err(ExplainError::Request(format!(
                "the files hold several checks, name one; {known}"
            )));
        }
    };
    Ok(explain_nodes(&scene(&name, &around, mode, now)?, now))
}
