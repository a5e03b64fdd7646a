//! Names in annotations of the PDUs and switches that hosts share.

use std::collections::{BTreeMap, BTreeSet};

use rackhand_api::names::{PDUS_ANNOTATION, SWITCHES_ANNOTATION};

/// The PDUs and switches that annotations of a Node or BareMetalHost name.
pub(crate) fn shared_names<'a>(
    annotations: impl Iterator<Item = &'a BTreeMap<String, String>>,
) -> (BTreeSet<String>, BTreeSet<String>) {
    let (mut pdus, mut switches) = (BTreeSet::new(), BTreeSet::new());
    for all in annotations {
        pdus.extend(
            all.get(PDUS_ANNOTATION)
                .into_iter()
                .flat_map(|l| names_in_list(l)),
        );
        let named = all.get(SWITCHES_ANNOTATION).into_iter();
        switches.extend(named.flat_map(|list| names_in_list(list)));
    }
    (pdus, switches)
}

/// Names that are separated by commas.
fn names_in_list(list: &str) -> BTreeSet<String> {
    let names = list.split(',').map(str::trim);
    names.filter(|n| !n.is_empty()).map(str::to_owned).collect()
}
