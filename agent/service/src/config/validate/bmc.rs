//! Validation of the BMC entries of a host.

use std::{net::IpAddr, path::Path, time::Duration};

use rackhand_bmc::{
    BmcAddress, Protocol, Trust,
    ipmi::{MAX_KEY, MAX_USER, is_kg},
};
use secrecy::{ExposeSecret, SecretString};

use super::{
    super::{BmcEntry, BmcOptions, Networks, Password, location::KeyPath, schema},
    Validator,
};

/// Settings outside of a BMC entry that its validation needs.
pub(super) struct Around {
    pub(super) networks: Networks,
    pub(super) trust: Trust,
    pub(super) call: Duration,
}

impl Validator<'_> {
    /// The drivers of one host in order, if all are valid.
    pub(super) fn bmcs(&mut self, host: &schema::Host, around: &Around) -> Option<Vec<BmcEntry>> {
        // The drivers of a host share the time of one call.
        let share = u32::try_from(host.bmcs.len()).unwrap_or(u32::MAX).max(1);
        let around = Around {
            networks: around.networks.clone(),
            trust: around.trust.clone(),
            call: around.call / share,
        };
        let entries: Vec<Option<BmcEntry>> =
            host.bmcs.iter().map(|bmc| self.bmc(bmc, &around)).collect();
        let entries: Vec<BmcEntry> = entries.into_iter().collect::<Option<_>>()?;
        for (index, (entry, written)) in entries.iter().zip(&host.bmcs).enumerate() {
            let endpoint = entry.address.endpoint();
            let mut before = entries.iter().take(index);
            if before.any(|other| other.address.endpoint() == endpoint) {
                let what = format!("{endpoint} stands there already: one driver, one entry");
                self.problem(&written.key_path.key("address"), what);
                return None;
            }
        }
        Some(entries)
    }

    fn bmc(&mut self, bmc: &schema::Bmc, around: &Around) -> Option<BmcEntry> {
        let key_path = &bmc.key_path;
        if bmc
            .username
            .as_ref()
            .is_some_and(|name| name.trim().is_empty())
        {
            self.problem(&key_path.key("username"), "is empty");
        }
        let address = bmc.address.as_deref();
        let address =
            address.and_then(|text| self.address(&key_path.key("address"), text, &around.networks));
        let trust = match &bmc.trust {
            Some(trust) => self.trust(trust),
            None => Some(around.trust.clone()),
        };
        let password = bmc
            .password
            .as_ref()
            .and_then(|source| self.password(source));
        let kg = match &bmc.kg {
            Some(source) => Some(self.password(source)?),
            None => None,
        };
        let address = address?;
        self.of_its_protocol(bmc, address.protocol());
        if address.protocol() == Protocol::Ipmi {
            self.ipmi_limits(bmc, password.as_ref(), kg.as_ref());
        }
        if bmc
            .min_interval
            .is_some_and(|interval| interval >= around.call)
        {
            let what = format!(
                "must be shorter than the time of one call, which is {:?} here",
                around.call
            );
            self.problem(&key_path.key("min_interval"), what);
        }
        let default = BmcOptions::default();
        Some(BmcEntry {
            address,
            username: bmc.username.clone()?,
            password: password?,
            trust: trust?,
            kg,
            options: BmcOptions {
                auth: bmc.auth.unwrap_or(default.auth),
                keep_alive: bmc.keep_alive.unwrap_or(default.keep_alive),
                soft_off_by_button: bmc.soft_off_by_button.unwrap_or(default.soft_off_by_button),
                cipher_suite: bmc.cipher_suite.unwrap_or(default.cipher_suite),
                min_interval: bmc.min_interval,
            },
        })
    }

    fn password(&mut self, source: &schema::Source) -> Option<Password> {
        let what = match &source.kind {
            schema::Kind::Inline(secret) if secret.expose_secret().is_empty() => "is empty",
            schema::Kind::Inline(secret) => {
                let file = source.key_path.file().clone();
                return Some(Password::inline(secret.clone(), file));
            }
            schema::Kind::File(path) if path.as_os_str().is_empty() => "is empty",
            // Relative to the file that contains it.
            schema::Kind::File(path) => {
                let beside = source.key_path.file().parent().unwrap_or(Path::new(""));
                return Some(Password::file(beside.join(path)));
            }
            schema::Kind::Credential(name) if name.is_empty() || name.contains('/') => {
                "must be the name of a credential of systemd, without a directory"
            }
            schema::Kind::Credential(name) => {
                return Some(Password::credential(name.clone(), self.credentials));
            }
            schema::Kind::Command(words) => match words.first() {
                Some(program) if Path::new(program).is_absolute() => {
                    return Some(Password::command(words.clone()));
                }
                _ => "must begin with the absolute path of a program",
            },
        };
        self.problem(&source.key_path, what);
        None
    }

    /// Reports keys that have no meaning for the protocol.
    fn of_its_protocol(&mut self, bmc: &schema::Bmc, protocol: Protocol) {
        let redfish = [
            ("trust", bmc.trust.is_some()),
            ("auth", bmc.auth.is_some()),
            ("keep_alive", bmc.keep_alive.is_some()),
            ("soft_off_by_button", bmc.soft_off_by_button.is_some()),
        ];
        let kg = bmc.kg.as_ref().map(|kg| kg.key_path.clone());
        let ipmi = [
            ("cipher_suite", bmc.cipher_suite.is_some()),
            ("min_interval", bmc.min_interval.is_some()),
        ];
        let (other, name): (&[(&str, bool)], _) = match protocol {
            Protocol::Redfish => (&ipmi, "Redfish"),
            Protocol::Ipmi => (&redfish, "IPMI"),
        };
        let mut wrong: Vec<KeyPath> = other
            .iter()
            .filter(|(_, given)| *given)
            .map(|(key, _)| bmc.key_path.key(key))
            .collect();
        wrong.extend(kg.filter(|_| protocol == Protocol::Redfish));
        for key_path in wrong {
            self.problem(
                &key_path,
                format_args!("means nothing to {name}; take it out"),
            );
        }
    }

    /// Reports values that exceed the limits of IPMI. Secrets that are unreadable now are checked
    /// when the BMC is called.
    fn ipmi_limits(
        &mut self,
        bmc: &schema::Bmc,
        password: Option<&Password>,
        kg: Option<&Password>,
    ) {
        if let Some(username) = &bmc.username
            && username.len() > MAX_USER
        {
            let what = format!(
                "{} bytes long; IPMI has room for {MAX_USER}",
                username.len()
            );
            self.problem(&bmc.key_path.key("username"), what);
        }
        let is = |password: Option<&Password>, wrong: fn(&SecretString) -> bool| {
            let read = password.and_then(Password::read_now);
            read.is_some_and(|read| read.is_ok_and(|password| wrong(&password)))
        };
        if let Some(source) = &bmc.password
            && is(password, |password| {
                password.expose_secret().len() > MAX_KEY
            })
        {
            let what = format!("what is in it is longer than IPMI's {MAX_KEY} bytes");
            self.problem(&source.key_path, what);
        }
        if let Some(source) = &bmc.kg
            && is(kg, |kg| !is_kg(kg.expose_secret()))
        {
            let what = "what is in it is neither 20 bytes at most nor 0x and 40 hexadecimal digits";
            self.problem(&source.key_path, what);
        }
    }

    fn address(
        &mut self,
        key_path: &KeyPath,
        text: &str,
        networks: &Networks,
    ) -> Option<BmcAddress> {
        let address: BmcAddress = match text.parse() {
            Ok(address) => address,
            Err(error) => {
                self.problem(key_path, error);
                return None;
            }
        };
        // A name is resolved and checked when the BMC is called.
        if let Ok(ip) = address.host().parse::<IpAddr>()
            && !networks.allow(ip)
        {
            let what = format!("{ip} is not in allowed_bmc_networks ({networks})");
            self.problem(key_path, what);
        }
        Some(address)
    }
}
