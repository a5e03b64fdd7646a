//! A health check and its machines from files.
//!
//! Must never take a part that does not read for one that is not there.

use jiff::Timestamp;
use kube::{ResourceExt, api::DynamicObject};
use rackhand_api::names::{groups, kinds};

use super::{
    ExplainError,
    file::documents,
    health::{CheckExplanation, explain_check},
    health_scene::{Surroundings, foreign, scene, which},
};
use crate::{config::HealthChecks, object::Key};

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
    let mut around = Surroundings {
        from_files: true,
        ..Surroundings::default()
    };
    let mut others = Vec::new();
    for (file, text) in files {
        let in_file = |error: ExplainError| ExplainError::File(format!("{file}: {error}"));
        for object in documents(text).map_err(in_file)? {
            if let Some(version) = foreign(&object) {
                others.push(format!("{} of {version}", object.name_any()));
            } else {
                take(&mut around, object).map_err(in_file)?;
            }
        }
    }
    let mut checks: Vec<Key> = around
        .seen
        .of(groups::CLUSTER_API, kinds::MACHINE_HEALTH_CHECK)
        .map(Key::of)
        .collect();
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
    Ok(explain_check(&scene(&key, &around, mode)?, now))
}

/// Sorts an object to where it belongs.
fn take(around: &mut Surroundings, object: DynamicObject) -> Result<(), ExplainError> {
    let types = object.types.clone().unwrap_or_default();
    if types.kind == "Node" && types.api_version == "v1" {
        let name = object.name_any();
        let node = object
            .try_parse()
            .map_err(|error| ExplainError::File(format!("Node {name} does not read: {error}")))?;
        around.seen.nodes.push(node);
    } else {
        around.seen.objects.push(object);
    }
    Ok(())
}
