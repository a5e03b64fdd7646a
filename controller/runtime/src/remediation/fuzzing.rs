//! Entry point for fuzzing: what the controller reads of a remediation and of the objects around it.

use std::collections::BTreeSet;

use kube::api::DynamicObject;
use rackhand_core::hosts::Racks;

use super::{
    observe::facts::{bmh_facts, machine_facts, object_facts, wanted_node_action},
    record::displayed_state,
};
use crate::{
    config::Config,
    hosts::{find_machine, host, target},
    store::{
        index::Index,
        object::{Key, Kind},
    },
};

/// Reads every remediation among the objects; returns the number of them.
///
/// # Errors
/// A remediation, the copy of its state, or a Node cannot be parsed.
pub(crate) fn remediations(objects: Vec<DynamicObject>) -> Result<usize, String> {
    let index = Index::new(Vec::new());
    for object in objects {
        let types = object.types.clone().unwrap_or_default();
        if (types.api_version.as_str(), types.kind.as_str()) == ("v1", "Node") {
            let node = object.try_parse().map_err(|error| error.to_string())?;
            index.apply_node(&Key::local(), node);
            continue;
        }
        let mut kinds = Kind::ALL.into_iter();
        if let Some(kind) = kinds.find(|kind| kind.kind() == types.kind) {
            index.apply(kind, object);
        }
    }
    let config = Config::default();
    let racks: Racks = [].into_iter().collect();
    let remediations = index.remediations();
    for (id, entry) in &remediations {
        let view = entry.view.as_ref().map_err(ToString::to_string)?;
        let state = displayed_state::displayed_state(id.kind, &entry.object)?;
        let mut target = target(&index, &id.key, view, state.as_ref());
        find_machine(&index, &mut target);
        object_facts(&index, &config, id, view, &target);
        machine_facts(&index, &target);
        wanted_node_action(&index, &config, view, &target);
        let found = host(&index, &racks, &target, None, state.as_ref());
        if let Some(key) = found.bmh
            && let Some(Ok(view)) = index.host(&key).map(|entry| entry.view)
        {
            bmh_facts(&view, &key, &id.key.name, &BTreeSet::new());
        }
    }
    Ok(remediations.len())
}
