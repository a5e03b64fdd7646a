//! Validation of the BMC entries of a host.

use std::{net::IpAddr, path::Path, sync::Arc, time::Duration};

use rackhand_bmc::{
    AuthPolicy, BmcAddress, KeepAlive, Protocol, Trust,
    ipmi::{MAX_KEY, MAX_USER, Suite, SuiteChoice, is_kg},
};
use secrecy::ExposeSecret;
use toml::Value;

use super::{
    super::{
        BmcEntry, BmcOptions, Networks, Password,
        location::KeyPath,
        schema::{self, Source},
    },
    Validator,
};

/// Settings outside of a BMC entry that its validation needs.
pub(super) struct BmcContext {
    pub(super) networks: Networks,
    pub(super) trust: Trust,
    pub(super) call: Duration,
}

impl Validator<'_> {
    /// The drivers of one host in order, if all are valid.
    pub(super) fn bmcs(
        &mut self,
        host: &KeyPath,
        bmcs: &[schema::Bmc],
        context: &BmcContext,
    ) -> Option<Vec<BmcEntry>> {
        if bmcs.is_empty() {
            let what = "missing: give the BMC, or a list of its drivers in their order of use";
            self.problem(&host.key("bmc"), what);
        }
        // The drivers of a host share the time of one call.
        let share = u32::try_from(bmcs.len()).unwrap_or(u32::MAX).max(1);
        let call = context.call / share;
        let mut entries: Vec<Option<BmcEntry>> = Vec::new();
        for (index, bmc) in bmcs.iter().enumerate() {
            let key_path = self.bmc_path(host, index);
            let entry = self.bmc(&key_path, bmc, context, call);
            entries.push(entry.filter(|entry| {
                let endpoint = entry.address.endpoint();
                let mut earlier = entries.iter().flatten();
                let is_repeated = earlier.any(|other| other.address.endpoint() == endpoint);
                if is_repeated {
                    let what =
                        format!("{endpoint} has another entry already; give each driver once");
                    self.problem(&key_path.key("address"), what);
                }
                !is_repeated
            }));
        }
        entries.into_iter().collect()
    }

    fn bmc(
        &mut self,
        key_path: &KeyPath,
        bmc: &schema::Bmc,
        context: &BmcContext,
        call: Duration,
    ) -> Option<BmcEntry> {
        if bmc.username.trim().is_empty() {
            self.problem(&key_path.key("username"), "is empty");
        }
        let address = self.address(&key_path.key("address"), &bmc.address, &context.networks);
        let trust = match &bmc.trust {
            Some(trust) => self.trust(&key_path.key("trust"), trust),
            None => Some(context.trust.clone()),
        };
        let auth = self.auth(key_path, bmc.auth.as_deref());
        let cipher_suite = self.cipher_suite(key_path, bmc.cipher_suite.as_ref());
        let passwords = bmc.password_sources();
        if passwords.is_empty() {
            let what = "missing: give one of password_file, password_credential, password_command \
                        and password";
            self.problem(&key_path.key("password_file"), what);
        }
        let file = bmc.password_in.as_ref().unwrap_or(key_path.file());
        let password = self.secret(key_path, file, &passwords);
        let kgs = bmc.kg_sources();
        let kg = self.secret(key_path, key_path.file(), &kgs);
        let address = address?;
        self.check_protocol(key_path, bmc, address.protocol());
        if address.protocol() == Protocol::Ipmi {
            self.check_ipmi_limits(key_path, &bmc.username, password.as_ref(), kg.as_ref());
        }
        if bmc.min_interval.is_some_and(|interval| interval >= call) {
            let what = format!("must be shorter than the time of one call, which is {call:?} here");
            self.problem(&key_path.key("min_interval"), what);
        }
        Some(BmcEntry {
            address,
            username: bmc.username.clone(),
            password: password?.1,
            trust: trust?,
            kg: kg.map(|(_, kg)| kg),
            options: BmcOptions {
                auth: auth?,
                keep_alive: match bmc.keep_alive {
                    None => KeepAlive::Auto,
                    Some(true) => KeepAlive::Always,
                    Some(false) => KeepAlive::Never,
                },
                soft_off_by_button: bmc.soft_off_by_button.unwrap_or(false),
                cipher_suite: cipher_suite?,
                min_interval: bmc.min_interval,
            },
        })
    }

    fn auth(&mut self, key_path: &KeyPath, text: Option<&str>) -> Option<AuthPolicy> {
        match text {
            None => Some(AuthPolicy::default()),
            Some("auto") => Some(AuthPolicy::Auto),
            Some("session") => Some(AuthPolicy::Session),
            Some("basic") => Some(AuthPolicy::Basic),
            Some(other) => {
                let what = format!("{other:?}: must be auto, session or basic");
                self.problem(&key_path.key("auth"), what);
                None
            }
        }
    }

    fn cipher_suite(&mut self, key_path: &KeyPath, value: Option<&Value>) -> Option<SuiteChoice> {
        let text = match value {
            None => return Some(SuiteChoice::default()),
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
        };
        match text.as_str() {
            "auto" => Some(SuiteChoice::Auto),
            "3" => Some(SuiteChoice::Only(Suite::Cipher3)),
            "17" => Some(SuiteChoice::Only(Suite::Cipher17)),
            other => {
                let what = format!("{other}: must be auto, 3 or 17");
                self.problem(&key_path.key("cipher_suite"), what);
                None
            }
        }
    }

    /// The secret of the first of these sources, with its key; others are reported. `file` contains
    /// the secret that is given inline.
    pub(super) fn secret(
        &mut self,
        bmc: &KeyPath,
        file: &Arc<Path>,
        sources: &[(&'static str, Source<'_>)],
    ) -> Option<(KeyPath, Password)> {
        let ((key, source), others) = sources.split_first()?;
        let key_path = bmc.key(key);
        for (other, _) in others {
            let what = format!("{key_path} is given too: one of them is enough");
            self.problem(&bmc.key(other), what);
        }
        let password = match source {
            Source::Inline(secret) if secret.expose_secret().is_empty() => Err("is empty"),
            Source::Inline(secret) => Ok(Password::inline((*secret).clone(), file.clone())),
            Source::File(path) if path.as_os_str().is_empty() => Err("is empty"),
            Source::File(path) => Ok(Password::file(bmc.directory().join(path))),
            Source::Credential(name) if name.is_empty() || name.contains('/') => {
                Err("must be the name of a credential of systemd, without a directory")
            }
            Source::Credential(name) => {
                Ok(Password::credential((*name).to_owned(), self.credentials))
            }
            Source::Command(words @ [program, ..]) if Path::new(program).is_absolute() => {
                Ok(Password::command(words.to_vec()))
            }
            Source::Command(_) => Err("must begin with the absolute path of a program"),
        };
        match password {
            Ok(password) => Some((key_path, password)),
            Err(what) => {
                self.problem(&key_path, what);
                None
            }
        }
    }

    /// Reports keys that have no meaning for the protocol.
    fn check_protocol(&mut self, key_path: &KeyPath, bmc: &schema::Bmc, protocol: Protocol) {
        let redfish = [
            ("trust", bmc.trust.is_some()),
            ("auth", bmc.auth.is_some()),
            ("keep_alive", bmc.keep_alive.is_some()),
            ("soft_off_by_button", bmc.soft_off_by_button.is_some()),
        ];
        let ipmi = [
            ("cipher_suite", bmc.cipher_suite.is_some()),
            ("min_interval", bmc.min_interval.is_some()),
        ];
        let (other, name): (&[(&str, bool)], _) = match protocol {
            Protocol::Redfish => (&ipmi, "Redfish"),
            Protocol::Ipmi => (&redfish, "IPMI"),
        };
        let other = other
            .iter()
            .filter(|(_, given)| *given)
            .map(|(key, _)| *key);
        let kg = bmc.kg_sources().into_iter().map(|(key, _)| key);
        let kg = kg.filter(|_| protocol == Protocol::Redfish);
        for key in other.chain(kg) {
            let what = format_args!("has no meaning for {name}; remove it");
            self.problem(&key_path.key(key), what);
        }
    }

    /// Reports values that exceed the limits of IPMI. Secrets that are unreadable now are checked
    /// when the BMC is called.
    fn check_ipmi_limits(
        &mut self,
        key_path: &KeyPath,
        username: &str,
        password: Option<&(KeyPath, Password)>,
        kg: Option<&(KeyPath, Password)>,
    ) {
        if username.len() > MAX_USER {
            let what = format!("{} bytes long; IPMI allows {MAX_USER}", username.len());
            self.problem(&key_path.key("username"), what);
        }
        let read = |password: &Password| password.read_now()?.ok();
        if let Some((key_path, password)) = password
            && read(password).is_some_and(|password| password.expose_secret().len() > MAX_KEY)
        {
            let what = format!("the password is longer than the {MAX_KEY} bytes that IPMI allows");
            self.problem(key_path, what);
        }
        if let Some((key_path, kg)) = kg
            && read(kg).is_some_and(|kg| !is_kg(kg.expose_secret()))
        {
            let what = "K_g is neither 20 bytes at most nor 0x and 40 hexadecimal digits";
            self.problem(key_path, what);
        }
    }

    pub(super) fn address(
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
        self.check_network(key_path, &address.host(), networks);
        Some(address)
    }

    /// Reports an IP address that is not allowed. A name is resolved and checked at each call.
    pub(super) fn check_network(&mut self, key_path: &KeyPath, host: &str, networks: &Networks) {
        if let Ok(ip) = host.parse::<IpAddr>()
            && !networks.allow(ip)
        {
            let what = format!("{ip} is not in allowed_bmc_networks ({networks})");
            self.problem(key_path, what);
        }
    }
}
