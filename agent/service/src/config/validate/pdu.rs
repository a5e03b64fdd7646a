//! Validation of PDUs, and of the outlets that feed hosts.
//!
//! Must never: accept an outlet of two hosts, since switching one host would switch the other.

use std::{collections::BTreeMap, time::Duration};

use rackhand_bmc::{
    Protocol,
    pdu::{HostOutlet, OutletId},
};

use super::{
    super::{
        HostEntry, PduAccess, PduEntry, SnmpAuthentication, SnmpLogin, SnmpPrivacy, SnmpTable,
        location::KeyPath,
        schema::{self, Source},
    },
    LONGEST_INTERVAL, Validator,
    bmc::BmcContext,
    other_entry,
};

/// Port of SNMP agents (RFC 3417, 3.2).
const SNMP_PORT: u16 = 161;
/// Least length of an SNMP v3 password (RFC 3414, 11.2).
const SHORTEST_SNMP_PASSWORD: usize = 8;

impl Validator<'_> {
    /// The PDUs that have an address, by name.
    pub(super) fn pdus(
        &mut self,
        pdus: &BTreeMap<String, schema::Pdu>,
        context: &BmcContext,
    ) -> BTreeMap<String, PduEntry> {
        let mut entries: BTreeMap<String, PduEntry> = BTreeMap::new();
        for (name, pdu) in pdus {
            let key_path = self.root.key("pdus").key(name);
            let Some(address) = &pdu.address else {
                self.check_no_settings(&key_path, pdu);
                continue;
            };
            let Some(entry) = self.pdu(&key_path, name, pdu, address, context) else {
                continue;
            };
            let endpoint = entry.access.endpoint();
            let mut earlier = entries.values();
            if let Some(other) = earlier.find(|other| other.access.endpoint() == endpoint) {
                let what = format!("{endpoint} is also the PDU {}", other.name);
                self.problem(&key_path.key("address"), what);
            }
            entries.insert(name.clone(), entry);
        }
        entries
    }

    fn pdu(
        &mut self,
        key_path: &KeyPath,
        name: &str,
        pdu: &schema::Pdu,
        address: &str,
        context: &BmcContext,
    ) -> Option<PduEntry> {
        if pdu
            .outlet_delay
            .is_some_and(|delay| delay > LONGEST_INTERVAL)
        {
            let what = format!("longer than {LONGEST_INTERVAL:?}");
            self.problem(&key_path.key("outlet_delay"), what);
        }
        let access = match address.strip_prefix("snmp://") {
            Some(rest) => self.snmp(key_path, pdu, rest, context),
            None => self.redfish(key_path, pdu, address, context),
        };
        Some(PduEntry {
            name: name.to_owned(),
            access: access?,
            outlet_delay: pdu.outlet_delay.unwrap_or(Duration::ZERO),
        })
    }

    fn redfish(
        &mut self,
        key_path: &KeyPath,
        pdu: &schema::Pdu,
        address: &str,
        context: &BmcContext,
    ) -> Option<PduAccess> {
        let address_path = key_path.key("address");
        if address.starts_with("ipmi://") {
            self.problem(&address_path, "use redfish:// or snmp://");
            return None;
        }
        self.refuse(key_path, "Redfish", &snmp_keys(pdu));
        let address = self.address(&address_path, address, &context.networks);
        let trust = match &pdu.trust {
            Some(trust) => self.trust(&key_path.key("trust"), trust),
            None => Some(context.trust.clone()),
        };
        let username = self.username(key_path, pdu);
        let passwords = pdu.password_sources();
        let password = self.required_secret(key_path, "password", &passwords);
        let address = address?;
        if address.protocol() != Protocol::Redfish {
            self.problem(&address_path, "use redfish:// or snmp://");
            return None;
        }
        Some(PduAccess::Redfish {
            address,
            username: username?,
            password: password?,
            trust: trust?,
        })
    }

    fn snmp(
        &mut self,
        key_path: &KeyPath,
        pdu: &schema::Pdu,
        place: &str,
        context: &BmcContext,
    ) -> Option<PduAccess> {
        self.refuse(key_path, "SNMP", &[("trust", pdu.trust.is_some())]);
        let found = host_and_port(place);
        match &found {
            None => {
                let what = "not an address, such as snmp://10.1.0.5 or snmp://[fd00::5]:161";
                self.problem(&key_path.key("address"), what);
            }
            Some((host, _)) => {
                self.check_network(&key_path.key("address"), host, &context.networks);
            }
        }
        let table = self.table(key_path, pdu.table.as_deref());
        let login = match (pdu.version.as_deref(), &pdu.username) {
            (Some("v2c"), _) | (None, None) => self.v2c(key_path, pdu),
            (Some("v3"), _) | (None, Some(_)) => self.v3(key_path, pdu),
            (Some(other), _) => {
                let what = format!("{other:?}: must be v2c or v3");
                self.problem(&key_path.key("version"), what);
                None
            }
        };
        let (host, port) = found?;
        Some(PduAccess::Snmp {
            host,
            port,
            table: table?,
            login: login?,
        })
    }

    fn table(&mut self, key_path: &KeyPath, table: Option<&str>) -> Option<SnmpTable> {
        let names = SnmpTable::ALL.map(SnmpTable::as_str).join(", ");
        let key_path = key_path.key("table");
        let Some(table) = table else {
            let what = format!("missing: give the vendor of the PDU, one of {names}");
            self.problem(&key_path, what);
            return None;
        };
        let found = SnmpTable::ALL.into_iter().find(|one| one.as_str() == table);
        if found.is_none() {
            self.problem(&key_path, format!("{table:?}: must be one of {names}"));
        }
        found
    }

    fn v2c(&mut self, key_path: &KeyPath, pdu: &schema::Pdu) -> Option<SnmpLogin> {
        let mut other = password_keys(pdu);
        other.extend(v3_keys(pdu));
        self.refuse(key_path, "SNMP v2c", &other);
        let communities = pdu.community_sources();
        let community = self.required_secret(key_path, "community", &communities)?;
        Some(SnmpLogin::V2c { community })
    }

    fn v3(&mut self, key_path: &KeyPath, pdu: &schema::Pdu) -> Option<SnmpLogin> {
        self.refuse(key_path, "SNMP v3", &given(pdu.community_sources()));
        let username = self.username(key_path, pdu);
        let passwords = pdu.password_sources();
        let password = self.required_secret(key_path, "password", &passwords);
        let authentication = self.choice(
            &key_path.key("auth_protocol"),
            pdu.auth_protocol.as_deref(),
            &SnmpAuthentication::NAMES,
        );
        let privacies = pdu.privacy_sources();
        let privacy_password = self.secret(key_path, key_path.file(), &privacies);
        let privacy_protocol = self.choice(
            &key_path.key("privacy_protocol"),
            pdu.privacy_protocol.as_deref(),
            &SnmpPrivacy::NAMES,
        );
        if privacies.is_empty() && pdu.privacy_protocol.is_some() {
            let what = "missing: privacy_protocol needs a password";
            self.problem(&key_path.key("privacy_password_file"), what);
        }
        let secrets = [
            password.as_ref().map(|password| ("password", password)),
            privacy_password
                .as_ref()
                .map(|(_, password)| ("privacy_password", password)),
        ];
        for (what, secret) in secrets.into_iter().flatten() {
            if let Some(Ok(secret)) = secret.read_now()
                && secrecy::ExposeSecret::expose_secret(&secret).len() < SHORTEST_SNMP_PASSWORD
            {
                let what = format!(
                    "the {what} is shorter than the {SHORTEST_SNMP_PASSWORD} bytes that SNMP v3 needs"
                );
                self.problem(key_path, what);
            }
        }
        Some(SnmpLogin::V3 {
            username: username?,
            authentication: authentication?,
            password: password?,
            privacy: match privacy_password {
                Some((_, password)) => Some((privacy_protocol?, password)),
                None => None,
            },
        })
    }

    /// The value of this name, or the default.
    fn choice<T: Copy + Default>(
        &mut self,
        key_path: &KeyPath,
        name: Option<&str>,
        names: &[(&'static str, T)],
    ) -> Option<T> {
        let Some(name) = name else {
            return Some(T::default());
        };
        let found = names.iter().find(|(one, _)| *one == name);
        if found.is_none() {
            let names: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
            let what = format!("{name:?}: must be one of {}", names.join(", "));
            self.problem(key_path, what);
        }
        found.map(|(_, value)| *value)
    }

    fn username(&mut self, key_path: &KeyPath, pdu: &schema::Pdu) -> Option<String> {
        let username = pdu.username.as_ref();
        let username = username.filter(|name| !name.trim().is_empty());
        if username.is_none() {
            self.problem(&key_path.key("username"), "missing, or empty");
        }
        username.cloned()
    }

    fn required_secret(
        &mut self,
        key_path: &KeyPath,
        name: &str,
        sources: &[(&'static str, Source<'_>)],
    ) -> Option<super::super::Password> {
        if sources.is_empty() {
            let what = format!(
                "missing: give one of {name}_file, {name}_credential, {name}_command and {name}"
            );
            self.problem(&key_path.key(&format!("{name}_file")), what);
        }
        let secret = self.secret(key_path, key_path.file(), sources);
        secret.map(|(_, secret)| secret)
    }

    /// Reports keys that have no meaning for the protocol.
    fn refuse(&mut self, key_path: &KeyPath, protocol: &str, keys: &[(&str, bool)]) {
        for (key, _) in keys.iter().filter(|(_, given)| *given) {
            let what = format_args!("has no meaning for {protocol}; remove it");
            self.problem(&key_path.key(key), what);
        }
    }

    /// Reports settings of a PDU that has no address.
    fn check_no_settings(&mut self, key_path: &KeyPath, pdu: &schema::Pdu) {
        let mut keys = password_keys(pdu);
        keys.extend(snmp_keys(pdu));
        keys.push(("trust", pdu.trust.is_some()));
        keys.push(("username", pdu.username.is_some()));
        keys.push(("outlet_delay", pdu.outlet_delay.is_some()));
        if let Some((key, _)) = keys.into_iter().find(|(_, given)| *given) {
            let what = format!("missing: {key} is given, but no address");
            self.problem(&key_path.key("address"), what);
        }
    }

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

    /// Checks the outlets of all hosts: each PDU has an address, and each outlet has one host.
    pub(super) fn check_outlets(
        &mut self,
        file: &schema::File,
        hosts: &[(KeyPath, schema::Host)],
        entries: &[Option<HostEntry>],
    ) {
        let mut seen: BTreeMap<&HostOutlet, &KeyPath> = BTreeMap::new();
        for ((host_path, _), entry) in hosts.iter().zip(entries) {
            let outlets = entry.iter().flat_map(|entry| &entry.outlets);
            for (index, outlet) in outlets.enumerate() {
                let key_path = host_path.key("outlets").item(index);
                let pdu = file.pdus.get(&outlet.pdu);
                let is_snmp = match pdu.map(|pdu| pdu.address.as_deref()) {
                    None => {
                        let what = format!("{:?}: there is no such PDU in [pdus]", outlet.pdu);
                        self.problem(&key_path.key("pdu"), what);
                        continue;
                    }
                    Some(None) => {
                        let what = format!("the PDU {} has no address", outlet.pdu);
                        self.problem(&key_path.key("pdu"), what);
                        continue;
                    }
                    Some(Some(address)) => address.starts_with("snmp://"),
                };
                if is_snmp && !is_index(&outlet.outlet.0) {
                    let what = format!(
                        "{:?}: must be the number in the table, such as 12",
                        outlet.outlet.0
                    );
                    self.problem(&key_path.key("outlet"), what);
                }
                match seen.insert(outlet, host_path) {
                    Some(first) if first == host_path => {
                        self.problem(&key_path, format_args!("outlet {outlet} is listed twice"));
                    }
                    Some(first) => {
                        let first = other_entry(first, host_path);
                        self.problem(
                            &key_path,
                            format_args!("outlet {outlet} also feeds {first}"),
                        );
                    }
                    None => {}
                }
            }
        }
    }
}

/// Whether this is an index in an SNMP table, without leading zeros, so that an outlet has one name only.
fn is_index(text: &str) -> bool {
    text.split('.').all(|part| {
        let number = part.parse::<u32>();
        number.is_ok_and(|number| number.to_string() == part)
    })
}

/// The host and port of an SNMP address; an IPv6 address is in brackets.
fn host_and_port(place: &str) -> Option<(String, u16)> {
    let place = place.strip_suffix('/').unwrap_or(place);
    let (host, port) = match place.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']')?;
            host.parse::<std::net::Ipv6Addr>().ok()?;
            (
                host,
                rest.strip_prefix(':').or(rest.is_empty().then_some("")),
            )
        }
        None => match place.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (place, Some("")),
        },
    };
    let port = match port? {
        "" if !place.ends_with(':') => SNMP_PORT,
        port => port.parse().ok().filter(|port| *port != 0)?,
    };
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | ':');
    let is_host = !host.is_empty() && host.chars().all(is_name);
    is_host.then(|| (host.to_owned(), port))
}

fn given(sources: schema::Sources<'_>) -> Vec<(&'static str, bool)> {
    sources.into_iter().map(|(key, _)| (key, true)).collect()
}

fn password_keys(pdu: &schema::Pdu) -> Vec<(&'static str, bool)> {
    given(pdu.password_sources())
}

fn v3_keys(pdu: &schema::Pdu) -> Vec<(&'static str, bool)> {
    let mut keys = given(pdu.privacy_sources());
    keys.push(("username", pdu.username.is_some()));
    keys.push(("auth_protocol", pdu.auth_protocol.is_some()));
    keys.push(("privacy_protocol", pdu.privacy_protocol.is_some()));
    keys
}

/// The keys of SNMP alone.
fn snmp_keys(pdu: &schema::Pdu) -> Vec<(&'static str, bool)> {
    let mut keys = given(pdu.community_sources());
    keys.extend(given(pdu.privacy_sources()));
    keys.push(("table", pdu.table.is_some()));
    keys.push(("version", pdu.version.is_some()));
    keys.push(("auth_protocol", pdu.auth_protocol.is_some()));
    keys.push(("privacy_protocol", pdu.privacy_protocol.is_some()));
    keys
}
