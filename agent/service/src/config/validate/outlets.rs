//! Validation of the outlets that feed hosts.
//!
//! Must never: accept an outlet of two hosts that is not declared as shared by both, since switching one host would
//! switch the other.

use std::collections::BTreeMap;

use rackhand_bmc::pdu::{HostOutlet, OutletId};

use super::{
    super::{HostEntry, PduEntry, location::KeyPath, schema},
    Validator, other_entry,
    pdu::MOST_STANDBY_WATTS,
};

impl Validator<'_> {
    /// The outlets of a host; invalid ones are reported.
    pub(super) fn outlets(
        &mut self,
        host: &KeyPath,
        outlets: &[schema::Outlet],
    ) -> Vec<HostOutlet> {
        let mut valid = Vec::new();
        for (index, outlet) in outlets.iter().enumerate() {
            let key_path = host.key("outlets").item(index);
            let is_empty = |text: &str| text.trim().is_empty();
            for (key, value) in [("pdu", &outlet.pdu), ("outlet", &outlet.outlet)] {
                if is_empty(value) || value.trim() != value {
                    self.problem(&key_path.key(key), "is empty, or has spaces at an end");
                }
            }
            valid.push(HostOutlet {
                pdu: outlet.pdu.clone(),
                outlet: OutletId(outlet.outlet.clone()),
            });
        }
        valid
    }

    /// The standby power of a host; it has a meaning only for one with outlets.
    pub(super) fn host_standby_watts(
        &mut self,
        host_path: &KeyPath,
        host: &schema::Host,
    ) -> Option<f64> {
        let key_path = host_path.key("standby_watts");
        let watts = host.standby_watts?;
        if host.outlets.is_empty() {
            self.problem(&key_path, "has no meaning without outlets; remove it");
        } else if !(0.0..=MOST_STANDBY_WATTS).contains(&watts) {
            let what = format!("must be from 0 to {MOST_STANDBY_WATTS}");
            self.problem(&key_path, what);
        }
        Some(watts)
    }

    /// Checks the outlets of all hosts: each PDU has an address, and each outlet has one host, or several that all
    /// declare it as shared.
    pub(super) fn check_outlets(
        &mut self,
        file: &schema::File,
        pdus: &BTreeMap<String, PduEntry>,
        hosts: &[(KeyPath, schema::Host)],
        entries: &[Option<HostEntry>],
    ) {
        let mut seen: BTreeMap<&HostOutlet, OutletUse<'_>> = BTreeMap::new();
        for ((host_path, host), entry) in hosts.iter().zip(entries) {
            let outlets = entry.iter().flat_map(|entry| &entry.outlets);
            for (index, outlet) in outlets.enumerate() {
                let key_path = host_path.key("outlets").item(index);
                let pdu = match (file.pdus.get(&outlet.pdu), pdus.get(&outlet.pdu)) {
                    (None, _) => {
                        let what = format!("{:?}: there is no such PDU in [pdus]", outlet.pdu);
                        self.problem(&key_path.key("pdu"), what);
                        continue;
                    }
                    (Some(pdu), _) if pdu.address.is_none() => {
                        let what = format!("the PDU {} has no address", outlet.pdu);
                        self.problem(&key_path.key("pdu"), what);
                        continue;
                    }
                    // It is invalid, which is reported.
                    (Some(_), None) => continue,
                    (Some(_), Some(pdu)) => pdu,
                };
                if let Some(table) = pdu.table()
                    && let Err(what) = table.check_outlet(&outlet.outlet)
                {
                    self.problem(&key_path.key("outlet"), what);
                }
                let shared = host.outlets.get(index).is_some_and(|outlet| outlet.shared);
                match seen.get_mut(outlet) {
                    Some(used) if used.host == host_path => {
                        self.problem(&key_path, format_args!("outlet {outlet} is listed twice"));
                    }
                    Some(used) if !(used.shared && shared) => {
                        let first = other_entry(used.host, host_path);
                        self.problem(
                            &key_path,
                            format_args!(
                                "outlet {outlet} also feeds {first}; if it does, such as the enclosure of several \
                                 sleds, write shared = true at every host that it feeds"
                            ),
                        );
                    }
                    Some(used) => used.hosts += 1,
                    None => {
                        let used = OutletUse {
                            host: host_path,
                            key_path,
                            shared,
                            hosts: 1,
                        };
                        seen.insert(outlet, used);
                    }
                }
            }
        }
        for (outlet, used) in seen {
            if self.all_hosts_read && used.shared && used.hosts == 1 {
                let what = format!(
                    "outlet {outlet} is shared, but no other host lists it: list every host that it feeds, or \
                     remove shared"
                );
                self.problem(&used.key_path.key("shared"), what);
            }
        }
    }
}

/// The hosts that list an outlet.
struct OutletUse<'a> {
    /// Place of the first host that names the outlet.
    host: &'a KeyPath,
    /// Place of the outlet in the entry of that host.
    key_path: KeyPath,
    /// Whether the first one declares it as shared.
    shared: bool,
    hosts: usize,
}
