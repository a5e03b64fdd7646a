//! The BMC entries of a host: each whole, and only with what its protocol knows.

use std::{net::IpAddr, time::Duration};

use rackhand_bmc::{
    BmcAddress, Protocol, Trust,
    ipmi::{MAX_KEY, MAX_USER, is_kg},
};
use secrecy::{ExposeSecret, SecretString};

use super::{
    super::{BmcEntry, BmcOptions, Networks, PasswordFile, file},
    Judge,
};

/// What of the rest of the file a BMC entry is judged by.
pub(super) struct Around {
    pub(super) networks: Networks,
    pub(super) trust: Trust,
    pub(super) call: Duration,
}

impl Judge<'_> {
    /// The drivers of one host, in their order; all of them good.
    pub(super) fn bmcs(
        &mut self,
        host: &str,
        bmcs: &file::Bmcs,
        around: &Around,
    ) -> Option<Vec<BmcEntry>> {
        let places = bmcs.places();
        if places.is_empty() {
            let what = "empty: give the BMC, or its drivers in the order in which they are asked";
            self.problem(&format!("{host}.bmc"), what);
            return None;
        }
        // The drivers of a host share the time of one call.
        let share = u32::try_from(places.len()).unwrap_or(u32::MAX);
        let around = Around {
            networks: around.networks.clone(),
            trust: around.trust.clone(),
            call: around.call / share,
        };
        let entries: Vec<Option<BmcEntry>> = places
            .iter()
            .map(|(place, bmc)| self.bmc(&format!("{host}.{place}"), bmc, &around))
            .collect();
        let entries: Vec<BmcEntry> = entries.into_iter().collect::<Option<_>>()?;
        for (index, entry) in entries.iter().enumerate() {
            let endpoint = entry.address.endpoint();
            let mut before = entries.iter().take(index);
            if before.any(|other| other.address.endpoint() == endpoint) {
                let what = format!("{endpoint} stands there already: one driver, one entry");
                self.problem(&format!("{host}.bmc[{index}].address"), what);
                return None;
            }
        }
        Some(entries)
    }

    fn bmc(&mut self, place: &str, bmc: &file::Bmc, around: &Around) -> Option<BmcEntry> {
        if bmc.username.trim().is_empty() {
            self.problem(&format!("{place}.username"), "is empty");
        }
        let address = self.address(&format!("{place}.address"), &bmc.address, &around.networks);
        let trust = match &bmc.trust {
            Some(trust) => self.trust(&format!("{place}.trust"), trust),
            None => Some(around.trust.clone()),
        };
        let address = address?;
        self.of_its_protocol(place, bmc, address.protocol());
        let file = |path| PasswordFile::new(path, self.credentials, self.beside);
        let password = file(&bmc.password_file);
        let kg = bmc.kg_file.as_deref().map(file);
        if address.protocol() == Protocol::Ipmi {
            self.ipmi_limits(place, bmc, &password, kg.as_ref());
        }
        let min_interval = bmc.min_interval.map(|file::Seconds(interval)| interval);
        if min_interval.is_some_and(|interval| interval >= around.call) {
            let what = format!(
                "must be shorter than the time of one call, which is {:?} here",
                around.call
            );
            self.problem(&format!("{place}.min_interval"), what);
        }
        let default = BmcOptions::default();
        Some(BmcEntry {
            address,
            username: bmc.username.clone(),
            password,
            trust: trust?,
            kg,
            options: BmcOptions {
                auth: bmc.auth.map_or(default.auth, Into::into),
                keep_alive: bmc.keep_alive.unwrap_or(default.keep_alive),
                soft_off_by_button: bmc.soft_off_by_button.unwrap_or(default.soft_off_by_button),
                cipher_suite: bmc
                    .cipher_suite
                    .map_or(default.cipher_suite, |file::Suite(suite)| suite),
                min_interval,
            },
        })
    }

    /// A key that means nothing here was meant to mean something.
    fn of_its_protocol(&mut self, place: &str, bmc: &file::Bmc, protocol: Protocol) {
        let redfish = [
            ("trust", bmc.trust.is_some()),
            ("auth", bmc.auth.is_some()),
            ("keep_alive", bmc.keep_alive.is_some()),
            ("soft_off_by_button", bmc.soft_off_by_button.is_some()),
        ];
        let ipmi = [
            ("cipher_suite", bmc.cipher_suite.is_some()),
            ("kg_file", bmc.kg_file.is_some()),
            ("min_interval", bmc.min_interval.is_some()),
        ];
        let (other, name): (&[(&str, bool)], _) = match protocol {
            Protocol::Redfish => (&ipmi, "Redfish"),
            Protocol::Ipmi => (&redfish, "IPMI"),
        };
        for (key, _) in other.iter().filter(|(_, given)| *given) {
            let what = format!("means nothing to {name}; take it out");
            self.problem(&format!("{place}.{key}"), what);
        }
    }

    /// What IPMI has no room for. A file that cannot be read now is warned of, and judged when
    /// the BMC is called.
    fn ipmi_limits(
        &mut self,
        place: &str,
        bmc: &file::Bmc,
        password: &PasswordFile,
        kg: Option<&PasswordFile>,
    ) {
        if bmc.username.len() > MAX_USER {
            let what = format!(
                "{} bytes long; IPMI has room for {MAX_USER}",
                bmc.username.len()
            );
            self.problem(&format!("{place}.username"), what);
        }
        let is_long = |password: SecretString| password.expose_secret().len() > MAX_KEY;
        if password.read().is_ok_and(is_long) {
            let what = format!("what is in it is longer than IPMI's {MAX_KEY} bytes");
            self.problem(&format!("{place}.password_file"), what);
        }
        let is_no_kg = |kg: SecretString| !is_kg(kg.expose_secret());
        if kg.is_some_and(|kg| kg.read().is_ok_and(is_no_kg)) {
            let what = "what is in it is neither 20 bytes at most nor 0x and 40 hexadecimal digits";
            self.problem(&format!("{place}.kg_file"), what);
        }
    }

    fn address(&mut self, place: &str, text: &str, networks: &Networks) -> Option<BmcAddress> {
        let address: BmcAddress = match text.parse() {
            Ok(address) => address,
            Err(error) => {
                self.problem(place, error);
                return None;
            }
        };
        // A name is looked up, and judged, when the BMC is called.
        if let Ok(ip) = address.host().parse::<IpAddr>()
            && !networks.allow(ip)
        {
            let what = format!("{ip} is not in allowed_bmc_networks ({networks})");
            self.problem(place, what);
        }
        Some(address)
    }
}
