//! Selection of the holds on a host, under all of its addresses.

use std::collections::BTreeMap;

use super::{Change, Hold, Records};
use crate::host_key::{HostKey, HostKeys};

/// A host, and its comparison with held hosts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Host {
    /// Every address under which it is known.
    pub keys: HostKeys,
    /// Error of an unresolved name of the host; `None`: all names are resolved.
    pub unresolved: Option<String>,
    /// Result for holds that are known by names only: whether they belong to this host. A hold that
    /// is missing here may belong to it.
    pub compared: BTreeMap<String, bool>,
}

/// The holds that concern a host, with their keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostHolds {
    /// Holds on this host.
    pub on_host: Vec<(String, Hold)>,
    /// Holds that may be on this host or on another one.
    pub doubtful: Vec<(String, Hold)>,
}

impl HostHolds {
    /// Selects the holds of a host.
    pub fn new(holds: Vec<(String, Hold)>, host: &Host) -> Self {
        let mut found = Self::default();
        for (key, hold) in holds {
            let keys = hold.keys(&key);
            let compared = host.compared.get(&key).copied();
            if keys.matches(&host.keys) || compared == Some(true) {
                found.on_host.push((key, hold));
            } else if compared.is_none() && !keys.has_ip() {
                found.doubtful.push((key, hold));
            }
        }
        found
    }
}

/// The hold on a host; a hold of another owner takes precedence over one of `owner`.
///
/// # Errors
///
/// The stored records cannot be read.
pub fn hold_on<V: Records>(
    records: &V,
    host: &Host,
    owner: &str,
) -> Result<Option<Hold>, V::Error> {
    let found = HostHolds::new(records.holds()?, host).on_host;
    let holds = found.into_iter().map(|(_, hold)| hold);
    Ok(holds.min_by_key(|hold| hold.owner == owner))
}

/// Changes that release each of these holds.
pub(super) fn lift<R>(holds: &[(String, Hold)]) -> impl Iterator<Item = Change<R>> {
    holds.iter().map(|(key, _)| Change::Hold {
        key: key.clone(),
        hold: None,
    })
}

/// Replaces these holds by one with all of their addresses.
pub(super) fn replace<R>(
    before: &[(String, Hold)],
    key: &str,
    host: &Host,
    hold: Hold,
) -> Vec<Change<R>> {
    let mut keys = host.keys.clone();
    for (key, hold) in before {
        keys.extend(&hold.keys(key));
    }
    let hold = Hold {
        addresses: keys.iter().map(HostKey::to_string).collect(),
        ..hold
    };
    let put = Change::Hold {
        key: key.to_owned(),
        hold: Some(hold),
    };
    lift(before).chain([put]).collect()
}
