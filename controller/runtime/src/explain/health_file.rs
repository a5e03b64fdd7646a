//! A health check and its machines from files.
//!
//! Must never take a part that does not read for one that is not there.

use jiff::Timestamp;
use kube::{ResourceExt, api::DynamicObject};

use super::{
    ExplainError,
    file::documents,
    health::{CheckExplanation, explain_check},
    health_scene::{Surroundings, foreign, is_crd, scene, which},
};
use crate::{
    config::HealthChecks,
    index::Index,
    object::{Key, Kind},
};

/// Explains a health check from the texts of files, each with a name for people: YAML documents, or
/// Lists as `kubectl get -o yaml` prints them, with the check and whatever of Cluster, Machines, Nodes,
/// remediation requests and the CRD is there.
///
/// # Errors
/// A text does not read, or they do not hold exactly one check that fits.
pub fn explain_check_files(
    files: &[(String, String)],
    name: Option<&str>,
    namespace: Option<&str>,
    mode: HealthChecks,
    now: Timestamp,
) -> Result<CheckExplanation, ExplainError> {
    let index = Index::new(Vec::new());
    let mut around = Surroundings {
        from_files: true,
        ..Surroundings::default()
    };
    let (mut checks, mut others) = (Vec::new(), Vec::new());
    for (file, text) in files {
        let in_file = |error: ExplainError| ExplainError::File(format!("{file}: {error}"));
        for object in documents(text).map_err(in_file)? {
            if let Some(version) = foreign(&object) {
                others.push(format!("{} of {version}", object.name_any()));
            } else if let Some(key) = take(&index, &mut around, object).map_err(in_file)? {
                checks.push(key);
            }
        }
    }
    checks.sort();
    checks.dedup();
    let fits: Vec<&Key> = checks
        .iter()
        .filter(|key| name.is_none_or(|name| name == key.name))
        .filter(|key| namespace.is_none_or(|namespace| namespace == key.namespace))
        .collect();
    let key = match fits.as_slice() {
        [key] => (*key).clone(),
        [] => {
            let mut why = match name {
                Some(name) => format!("the files hold no MachineHealthCheck {name}; "),
                None => {
                    "the files hold no MachineHealthCheck of cluster.x-k8s.io that fits; ".into()
                }
            };
            why.push_str(&which(&checks));
            if !others.is_empty() {
                why.push_str(&format!(
                    "; not explained here: MachineHealthCheck {}",
                    others.join(", ")
                ));
            }
            return Err(ExplainError::Request(why));
        }
        _ => {
            let several = fits.iter().map(|k| (*k).clone()).collect::<Vec<_>>();
            return Err(ExplainError::Request(format!(
                "the files hold several checks, name one, and its namespace by -n; {}",
                which(&several)
            )));
        }
    };
    Ok(explain_check(&scene(&index, &key, around, mode)?, now))
}

/// Sorts an object to where it belongs; says the name of a check.
fn take(
    index: &Index,
    around: &mut Surroundings,
    object: DynamicObject,
) -> Result<Option<Key>, ExplainError> {
    let types = object.types.clone().unwrap_or_default();
    let group = types.api_version.split_once('/').map_or("", |(g, _)| g);
    let known = Kind::ALL
        .into_iter()
        .find(|k| k.kind() == types.kind && k.group() == group);
    if let Some(kind) = known {
        let key = Key::of(&object);
        index.apply(kind, object);
        return Ok((kind == Kind::MachineHealthCheck).then_some(key));
    }
    if is_crd(&object) {
        around.crd = Some(object);
    } else if types.kind == "Node" && types.api_version == "v1" {
        let name = object.name_any();
        let node = object
            .try_parse()
            .map_err(|error| ExplainError::File(format!("Node {name} does not read: {error}")))?;
        around.nodes.push(node);
    } else {
        around.requests.push(object);
    }
    Ok(None)
}
