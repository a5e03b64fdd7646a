//! Validation of PDUs and chassis managers.
//!
//! Must never: accept a setting that has no meaning for the protocol.

use std::{collections::BTreeMap, time::Duration};

use rackhand_bmc::pdu::{NO_WATTS, PduAddress, PduProtocol, PduTable};

use secrecy::ExposeSecret;

use super::{
    super::{
        Password, PduEntry, PduLogin,
        location::KeyPath,
        pdu::{AUTH_PROTOCOLS, PRIVACY_PROTOCOLS},
        schema::{self, Source},
    },
    LONGEST_INTERVAL, Validator,
    bmc::BmcContext,
};

/// Least length of an SNMP v3 password (RFC 3414, 11.2).
const SHORTEST_SNMP_PASSWORD: usize = 8;
/// Largest standby power of a chassis: less than the draw of one of its servers under load, and many times that of
/// fans and management.
pub(super) const MOST_STANDBY_WATTS: f64 = 1000.0;

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
            let mut earlier = entries.values();
            if let Some(other) = earlier.find(|other| other.address == entry.address) {
                let what = format!("{} is also the PDU {}", entry.address, other.name);
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
        let address = match address.parse::<PduAddress>() {
            Ok(address) => address,
            Err(error) => {
                self.problem(&key_path.key("address"), error);
                return None;
            }
        };
        let networks = &context.networks;
        self.check_network(&key_path.key("address"), &address.host(), networks);
        let chassis_standby_watts = self.chassis(key_path, pdu, &address);
        let login = match address.protocol() {
            PduProtocol::Redfish => self.redfish(key_path, pdu, context),
            PduProtocol::Snmp => self.snmp(key_path, pdu),
        };
        Some(PduEntry {
            name: name.to_owned(),
            address,
            login: login?,
            outlet_delay: pdu.outlet_delay.unwrap_or(Duration::ZERO),
            chassis_standby_watts,
        })
    }

    /// The standby power of the chassis of a chassis manager; `None`: it is a PDU.
    fn chassis(
        &mut self,
        key_path: &KeyPath,
        pdu: &schema::Pdu,
        address: &PduAddress,
    ) -> Option<f64> {
        let is_chassis = match pdu.kind.as_deref() {
            None | Some("pdu") => false,
            Some("chassis") => true,
            Some(other) => {
                let what = format!("{other:?}: must be pdu or chassis");
                self.problem(&key_path.key("type"), what);
                return None;
            }
        };
        if !is_chassis {
            self.refuse(
                key_path,
                "a PDU",
                &[("standby_watts", pdu.standby_watts.is_some())],
            );
            return None;
        }
        if address.protocol() != PduProtocol::Redfish {
            let what = "a chassis manager is reached by redfish:// only";
            self.problem(&key_path.key("address"), what);
        } else if address.has_path() {
            let what = "has a path; leave it out, the chassis are named as outlets of the hosts";
            self.problem(&key_path.key("address"), what);
        }
        let watts = pdu.standby_watts.unwrap_or(NO_WATTS);
        if !(0.0..=MOST_STANDBY_WATTS).contains(&watts) {
            let what = format!("must be from 0 to {MOST_STANDBY_WATTS}");
            self.problem(&key_path.key("standby_watts"), what);
        }
        Some(watts)
    }

    fn redfish(
        &mut self,
        key_path: &KeyPath,
        pdu: &schema::Pdu,
        context: &BmcContext,
    ) -> Option<PduLogin> {
        self.refuse(key_path, "Redfish", &snmp_keys(pdu));
        let trust = match &pdu.trust {
            Some(trust) => self.trust(&key_path.key("trust"), trust),
            None => Some(context.trust.clone()),
        };
        let username = self.username(key_path, pdu);
        let passwords = pdu.password_sources();
        let password = self.required_secret(key_path, "password", &passwords);
        Some(PduLogin::Redfish {
            username: username?,
            password: password?,
            trust: trust?,
        })
    }

    fn snmp(&mut self, key_path: &KeyPath, pdu: &schema::Pdu) -> Option<PduLogin> {
        self.refuse(key_path, "SNMP", &[("trust", pdu.trust.is_some())]);
        let table = self.table(key_path, pdu.table.as_deref());
        match (pdu.version.as_deref(), &pdu.username) {
            (Some("v2c"), _) | (None, None) => self.v2c(key_path, pdu, table),
            (Some("v3"), _) | (None, Some(_)) => self.v3(key_path, pdu, table),
            (Some(other), _) => {
                let what = format!("{other:?}: must be v2c or v3");
                self.problem(&key_path.key("version"), what);
                None
            }
        }
    }

    fn table(&mut self, key_path: &KeyPath, table: Option<&str>) -> Option<PduTable> {
        let names = PduTable::ALL.map(PduTable::as_str).join(", ");
        let key_path = key_path.key("table");
        let Some(table) = table else {
            let what = format!("missing: give the table of the PDU's make, one of {names}");
            self.problem(&key_path, what);
            return None;
        };
        let found = table.parse().ok();
        if found.is_none() {
            self.problem(&key_path, format!("{table:?}: must be one of {names}"));
        }
        found
    }

    fn v2c(
        &mut self,
        key_path: &KeyPath,
        pdu: &schema::Pdu,
        table: Option<PduTable>,
    ) -> Option<PduLogin> {
        let mut other = password_keys(pdu);
        other.extend(v3_keys(pdu));
        self.refuse(key_path, "SNMP v2c", &other);
        let communities = pdu.community_sources();
        let community = self.required_secret(key_path, "community", &communities);
        let communities = pdu.write_community_sources();
        let write = self.secret(key_path, key_path.file(), &communities);
        if write.is_none() && !communities.is_empty() {
            return None;
        }
        Some(PduLogin::SnmpV2c {
            table: table?,
            community: community?,
            write_community: write.map(|(_, community)| community),
        })
    }

    fn v3(
        &mut self,
        key_path: &KeyPath,
        pdu: &schema::Pdu,
        table: Option<PduTable>,
    ) -> Option<PduLogin> {
        self.refuse(key_path, "SNMP v3", &community_keys(pdu));
        let username = self.username(key_path, pdu);
        let passwords = pdu.password_sources();
        let password = self.required_secret(key_path, "password", &passwords);
        let auth = self.choice(
            &key_path.key("auth_protocol"),
            pdu.auth_protocol.as_deref(),
            &AUTH_PROTOCOLS,
        );
        let privacies = pdu.privacy_sources();
        let privacy_password = self.secret(key_path, key_path.file(), &privacies);
        let privacy_protocol = self.choice(
            &key_path.key("privacy_protocol"),
            pdu.privacy_protocol.as_deref(),
            &PRIVACY_PROTOCOLS,
        );
        if privacies.is_empty() && pdu.privacy_protocol.is_some() {
            let what = "missing: privacy_protocol needs a password";
            self.problem(&key_path.key("privacy_password_file"), what);
        }
        self.check_length(key_path, "password", password.as_ref());
        let privacy_password = privacy_password.map(|(_, password)| password);
        self.check_length(key_path, "privacy_password", privacy_password.as_ref());
        Some(PduLogin::SnmpV3 {
            table: table?,
            username: username?,
            auth: auth?,
            password: password?,
            privacy: match privacy_password {
                Some(password) => Some((privacy_protocol?, password)),
                None if privacies.is_empty() => None,
                None => return None,
            },
        })
    }

    /// Reports a password that SNMP v3 does not accept. A password that is unreadable now is checked when the PDU
    /// is called.
    fn check_length(&mut self, key_path: &KeyPath, what: &str, password: Option<&Password>) {
        if let Some(Ok(secret)) = password.and_then(Password::read_now)
            && secret.expose_secret().len() < SHORTEST_SNMP_PASSWORD
        {
            let what = format!(
                "the {what} is shorter than the {SHORTEST_SNMP_PASSWORD} bytes that SNMP v3 needs"
            );
            self.problem(key_path, what);
        }
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
    ) -> Option<Password> {
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
        keys.push(("type", pdu.kind.is_some()));
        keys.push(("standby_watts", pdu.standby_watts.is_some()));
        if let Some((key, _)) = keys.into_iter().find(|(_, given)| *given) {
            let what = format!("missing: {key} is given, but no address");
            self.problem(&key_path.key("address"), what);
        }
    }
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

fn community_keys(pdu: &schema::Pdu) -> Vec<(&'static str, bool)> {
    let mut keys = given(pdu.community_sources());
    keys.extend(given(pdu.write_community_sources()));
    keys
}

/// The keys of SNMP alone.
fn snmp_keys(pdu: &schema::Pdu) -> Vec<(&'static str, bool)> {
    let mut keys = community_keys(pdu);
    keys.extend(given(pdu.privacy_sources()));
    keys.push(("table", pdu.table.is_some()));
    keys.push(("version", pdu.version.is_some()));
    keys.push(("auth_protocol", pdu.auth_protocol.is_some()));
    keys.push(("privacy_protocol", pdu.privacy_protocol.is_some()));
    keys
}
