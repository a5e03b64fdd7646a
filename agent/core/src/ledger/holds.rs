//! Which holds are on a host, by whatever address it is named.

use std::collections::BTreeMap;

use super::{Change, Hold, Records};
use crate::host_key::{HostKey, HostKeys};

/// A host, as far as it could be told from the others.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Host {
    /// Every address under which it is known.
    pub keys: HostKeys,
    /// Why a name of it has no address; `None`: every name has.
    pub unresolved: Option<String>,
    /// Holds that are known by names only: whether they are on this host. One that is not in here
    /// may be.
    pub compared: BTreeMap<String, bool>,
}

/// The holds that concern a host, by their keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostHolds {
    /// On this host.
    pub on_host: Vec<(String, Hold)>,
    /// On this host or on another one: it cannot be told.
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

/// The hold on a host, of somebody else before one of the owner.
///
/// # Errors
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

/// Lifts all of these.
pub(super) fn lift<R>(holds: &[(String, Hold)]) -> impl Iterator<Item = Change<R>> {
    holds.iter().map(|(key, _)| Change::Hold {
        key: key.clone(),
        hold: None,
    })
}

/// Puts a hold in the place of these, known by their addresses too.
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
