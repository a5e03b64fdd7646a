//! A health check and its machines from files.
//!
//! Must never take a part that does not read for one that is not there.

use jiff::Timestamp;
use kube::{ResourceExt, api::DynamicObject};
use rackhand_api::names::kinds;

use super::{
    ExplainError,
    file::documents,
    group::CheckGroup,
    health::CheckExplanation,
    health_scene::{Surroundings, explain_in, several, which},
};
use crate::{config::Config, object::Key};

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
    group: Option<CheckGroup>,
    config: &Config,
    now: Timestamp,
) -> Result<CheckExplanation, ExplainError> {
    let mut around = Surroundings {
        from_files: true,
        ..Surroundings::default()
    };
    for (file, text) in files {
        let in_file = |error: ExplainError| ExplainError::File(format!("{file}: {error}"));
        for object in documents(text).map_err(in_file)? {
            take(&mut around, object).map_err(in_file)?;
        }
    }
    let of = |group: CheckGroup| {
        let found = around.seen.of(group.name(), kinds::MACHINE_HEALTH_CHECK);
        found.map(move |object| (group, Key::of(object)))
    };
    let mut checks: Vec<(CheckGroup, Key)> = CheckGroup::ALL.into_iter().flat_map(of).collect();
    checks.sort();
    checks.dedup();
    let fits: Vec<(CheckGroup, Key)> = checks
        .iter()
        .filter(|(of, _)| group.is_none_or(|group| group == *of))
        .filter(|(_, key)| name.is_none_or(|name| name == key.name))
        .filter(|(_, key)| namespace.is_none_or(|namespace| namespace == key.namespace))
        .cloned()
        .collect();
    match fits.as_slice() {
        [(group, key)] => explain_in(*group, key, &around, config, now),
        [] => {
            let name = name.map(|name| format!(" {name}")).unwrap_or_default();
            let group = group.map(|group| format!(" of {}", group.name()));
            Err(ExplainError::Request(format!(
                "the files hold no MachineHealthCheck{name}{} that fits; {}",
                group.unwrap_or_default(),
                which(&checks)
            )))
        }
        [(_, one), (_, other)] if one == other => Err(several(one)),
        _ => Err(ExplainError::Request(format!(
            "the files hold several checks, name one, and its namespace by -n; {}",
            which(&fits)
        ))),
    }
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
