//! Validation of the decoded files: a configuration, or the list of all mistakes.

mod bmc;
mod outlets;
mod pdu;

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use rackhand_agent_core::{
    host_key::HostKey,
    watch_schedule::{self, SHORTEST_INTERVAL},
};
use rackhand_bmc::Trust;
use rackhand_identity::SystemUuid;
use rackhand_transport::{identity::is_name, otlp::OtlpEndpoint};

use super::{
    Config, Fingerprint, HostEntry, Inventory, Networks, Remote, StaggerSettings, Times, host_key,
    location::{Diagnostics, KeyPath},
    schema,
};
use bmc::BmcContext;

/// Value of `system_uuid` for a BMC whose system UUID identifies nothing.
pub(super) const NO_SYSTEM_UUID: &str = "none";
/// The longest plausible interval of a PDU.
const LONGEST_INTERVAL: Duration = Duration::from_secs(60);
/// Selectors of the command line, which cannot be label names.
const RESERVED_LABELS: [&str; 5] = ["name", "node", "rack", "position", "pdu"];

pub(super) struct Validator<'a> {
    pub(super) path: &'a Path,
    pub(super) beside: &'a Path,
    pub(super) credentials: Option<&'a Path>,
    pub(super) root: KeyPath,
    pub(super) diagnostics: &'a mut Diagnostics,
    /// Files and directories that were read.
    pub(super) sources: &'a mut Vec<PathBuf>,
    /// Whether every inventory file was read completely.
    pub(super) all_hosts_read: bool,
}

impl Validator<'_> {
    fn problem(&mut self, key_path: &KeyPath, what: impl std::fmt::Display) {
        self.diagnostics.problem(key_path, what);
    }

    /// `None`: a value is invalid, and reported.
    pub(super) fn config(
        &mut self,
        file: schema::File,
        hosts: &[(KeyPath, schema::Host)],
    ) -> Option<Config> {
        let root = self.root.clone();
        if !is_name(&file.rack) {
            let what = "a rack's name is 1 to 63 letters, digits, '.', '-' or '_'";
            self.problem(&root.key("rack"), format_args!("{:?}: {what}", file.rack));
        }
        let remote = self.remote(&file);
        let admin = self.socket_address("admin_listen", file.admin_listen.as_deref());
        let otlp_endpoint = self.otlp_endpoint(file.otlp_endpoint.as_deref());
        let networks = self.networks(&file.allowed_bmc_networks);
        let times = self.times(&file.defaults);
        let default_trust = match &file.defaults.trust {
            Some(trust) => self.trust(&root.key("defaults").key("trust"), trust),
            None => Some(Trust::System),
        };
        let context = BmcContext {
            networks: networks.clone(),
            trust: default_trust.clone().unwrap_or_default(),
            call: times.call,
        };
        let pdus = self.pdus(&file.pdus, &context);
        let entries: Vec<Option<HostEntry>> = hosts
            .iter()
            .map(|(key_path, host)| self.host(key_path, host, &context))
            .collect();
        self.duplicates(hosts, &entries);
        self.check_outlets(&file, &pdus, hosts, &entries);
        let staging = self.staging(&file, hosts);
        Some(Config {
            path: self.path.to_owned(),
            sources: Fingerprint::of(Vec::new()),
            rack: file.rack,
            remote,
            admin,
            otlp_endpoint,
            socket: self.beside.join(file.socket),
            state: self.beside.join(file.state),
            times,
            staging,
            inventory: Inventory {
                hosts: entries
                    .into_iter()
                    .map(|host| host.map(Arc::new))
                    .collect::<Option<_>>()?,
                pdus,
                networks,
                accept_endpoints: file.accept_endpoints_from_controller,
                accept_insecure_endpoints: file.accept_insecure_endpoints_from_controller,
                default_trust: default_trust?,
            },
        })
    }

    fn remote(&mut self, file: &schema::File) -> Option<Remote> {
        let root = self.root.clone();
        match (&file.listen, &file.tls) {
            (None, None) => None,
            (Some(_), None) => {
                self.problem(
                    &root.key("tls"),
                    "missing: `listen` needs the directory of a certificate",
                );
                None
            }
            (None, Some(_)) => {
                self.problem(
                    &root.key("listen"),
                    "missing: `tls` is given, but no address to listen on",
                );
                None
            }
            (Some(listen), Some(tls)) => Some(Remote {
                listen: self.socket_address("listen", Some(listen))?,
                tls: self.beside.join(tls),
            }),
        }
    }

    fn socket_address(&mut self, key: &str, text: Option<&str>) -> Option<SocketAddr> {
        let text = text?;
        let address = text.parse().ok();
        if address.is_none() {
            let what = "not an IP address and port, such as 0.0.0.0:7443 or [::]:7443";
            let key_path = self.root.key(key);
            self.problem(&key_path, format_args!("{text:?}: {what}"));
        }
        address
    }

    fn otlp_endpoint(&mut self, text: Option<&str>) -> Option<OtlpEndpoint> {
        let parsed = text?.parse();
        if let Err(why) = &parsed {
            let key_path = self.root.key("otlp_endpoint");
            self.problem(&key_path, why);
        }
        parsed.ok()
    }

    fn networks(&mut self, networks: &[String]) -> Networks {
        let key_path = self.root.key("allowed_bmc_networks");
        if networks.is_empty() {
            self.problem(&key_path, "empty: the agent could connect to no BMC");
        }
        let mut valid = Vec::new();
        for (index, text) in networks.iter().enumerate() {
            match text.parse() {
                Ok(network) => valid.push(network),
                Err(_) => self.problem(
                    &key_path.item(index),
                    format_args!("{text:?}: not a network, such as 10.1.0.0/16 or fd00::/64"),
                ),
            }
        }
        Networks(valid)
    }

    fn times(&mut self, defaults: &schema::Defaults) -> Times {
        let mut times = Times::default();
        for (key, given, time) in [
            (
                "connect_timeout",
                defaults.connect_timeout,
                &mut times.connect,
            ),
            ("call_timeout", defaults.call_timeout, &mut times.call),
            (
                "operation_deadline",
                defaults.operation_deadline,
                &mut times.operation,
            ),
            ("poll_max", defaults.poll_max, &mut times.poll_max),
            (
                "resend_after",
                defaults.resend_after,
                &mut times.resend_after,
            ),
        ] {
            let Some(given) = given else { continue };
            *time = given;
            if given.is_zero() {
                let key_path = self.root.key("defaults").key(key);
                self.problem(&key_path, "must be longer than zero");
            }
        }
        if let Some(interval) = defaults.watch_interval {
            let table = self.root.key("defaults");
            times.watch = interval;
            self.watch_interval(&table, interval);
        }
        if let Some(grace) = defaults.shutdown_grace {
            times.shutdown_grace = grace;
        }
        times
    }

    /// Checks the interval of watched hosts.
    fn watch_interval(&mut self, table: &KeyPath, interval: Duration) {
        if !(SHORTEST_INTERVAL..=watch_schedule::LONGEST_INTERVAL).contains(&interval) {
            let longest = watch_schedule::LONGEST_INTERVAL;
            let what = format_args!("not between {SHORTEST_INTERVAL:?} and {longest:?}");
            self.problem(&table.key("watch_interval"), what);
        }
    }

    fn staging(
        &mut self,
        file: &schema::File,
        hosts: &[(KeyPath, schema::Host)],
    ) -> StaggerSettings {
        let mut staging = StaggerSettings::default();
        if let Some(interval) = file.defaults.power_on_interval {
            staging.interval = interval;
            self.interval(&self.root.key("defaults"), interval);
        }
        for (name, pdu) in &file.pdus {
            let key_path = self.root.key("pdus").key(name);
            let is_used = hosts.iter().any(|(_, host)| {
                host.pdu.as_ref() == Some(name)
                    || host.outlets.iter().any(|outlet| outlet.pdu == *name)
            });
            if self.all_hosts_read && !is_used {
                self.problem(&key_path, "no host of the inventory has this pdu");
            }
            if let Some(interval) = pdu.power_on_interval {
                self.interval(&key_path, interval);
                staging.pdus.insert(name.clone(), interval);
            }
        }
        staging
    }

    fn interval(&mut self, table: &KeyPath, interval: Duration) {
        if interval > LONGEST_INTERVAL {
            let key_path = table.key("power_on_interval");
            self.problem(&key_path, format_args!("longer than {LONGEST_INTERVAL:?}"));
        }
    }

    fn trust(&mut self, key_path: &KeyPath, trust: &schema::Trust) -> Option<Trust> {
        match (&trust.ca_file, &trust.sha256, trust.insecure) {
            (Some(path), None, false) => {
                let path = key_path.directory().join(path);
                let pem = std::fs::read(&path);
                if let Err(error) = &pem {
                    let what = format!("{}: {error}", path.display());
                    self.problem(&key_path.key("ca_file"), what);
                }
                if !self.sources.contains(&path) {
                    self.sources.push(path);
                }
                pem.ok().map(|pem| Trust::CaBundle(pem.into()))
            }
            (None, Some(pin), false) => Trust::pin(pin)
                .map_err(|error| self.problem(&key_path.key("sha256"), error))
                .ok(),
            (None, None, true) => Some(Trust::Insecure),
            _ => {
                let what = "give exactly one of ca_file, sha256 and insecure = true";
                self.problem(key_path, what);
                None
            }
        }
    }

    fn host(
        &mut self,
        key_path: &KeyPath,
        host: &schema::Host,
        context: &BmcContext,
    ) -> Option<HostEntry> {
        if !is_name(&host.name) {
            let what = "1 to 63 letters, digits, '.', '-' or '_'";
            self.problem(&key_path.key("name"), format_args!("must be {what}"));
        }
        let no_system_uuid = host.system_uuid.as_deref() == Some(NO_SYSTEM_UUID);
        if let Some(uuid) = host.system_uuid.as_deref().filter(|_| !no_system_uuid) {
            self.uuid(&key_path.key("system_uuid"), uuid);
        }
        for (field, value) in [
            ("node_name", &host.node_name),
            ("provider_id", &host.provider_id),
            ("serial", &host.serial),
            ("position", &host.position),
            ("pdu", &host.pdu),
        ] {
            if value
                .as_deref()
                .is_some_and(|value| value.trim().is_empty())
            {
                self.problem(&key_path.key(field), "is empty");
            }
        }
        if let Some(interval) = host.watch_interval {
            self.watch_interval(key_path, interval);
        }
        if let Some(cluster) = host
            .cluster
            .as_deref()
            .filter(|cluster| !is_cluster(cluster))
        {
            let what = "want namespace/name of a Cluster, or local for the management cluster";
            self.problem(
                &key_path.key("cluster"),
                format_args!("{cluster:?}: {what}"),
            );
        }
        self.labels(key_path, &host.labels);
        let outlets = self.outlets(key_path, &host.outlets);
        let mut bmcs = self.bmcs(key_path, &host.bmc, context)?.into_iter();
        Some(HostEntry {
            name: host.name.clone(),
            node_name: host.node_name.clone(),
            cluster: host.cluster.clone(),
            provider_id: host.provider_id.clone(),
            system_uuid: host.system_uuid.clone().filter(|_| !no_system_uuid),
            no_system_uuid,
            serial: host.serial.clone(),
            labels: host.labels.clone(),
            position: host.position.clone(),
            pdu: host.pdu.clone(),
            outlets,
            standby_watts: self.host_standby_watts(key_path, host),
            watch_interval: host.watch_interval,
            bmc: bmcs.next()?,
            fallbacks: bmcs.collect(),
        })
    }

    /// Labels select hosts on the command line, so they must be usable there unquoted.
    fn labels(&mut self, host: &KeyPath, labels: &BTreeMap<String, String>) {
        for (key, value) in labels {
            let key_path = host.key("labels").key(key);
            if !is_name(key) || RESERVED_LABELS.contains(&key.as_str()) {
                let what = "a label is 1 to 63 letters, digits, '.', '-' or '_', and not one of";
                let taken = RESERVED_LABELS.join(", ");
                self.problem(&key_path, format_args!("{key:?}: {what} {taken}"));
            } else if !is_name(value) {
                let what = "a value is 1 to 63 letters, digits, '.', '-' or '_'";
                self.problem(&key_path, format_args!("{value:?}: {what}"));
            }
        }
    }

    fn uuid(&mut self, key_path: &KeyPath, text: &str) {
        if uuid::Uuid::try_parse(text.trim()).is_err() {
            let what = "not a UUID, such as 4c4c4544-0042-3510-8054-c2c04f4e4e32, and not \"none\"";
            self.problem(key_path, format_args!("{text:?}: {what}"));
        } else if SystemUuid::parse(text).is_none() {
            let what = "a placeholder of the firmware: it identifies nothing; leave it out";
            self.problem(key_path, format_args!("{text:?}: {what}"));
        }
    }

    fn duplicates(&mut self, hosts: &[(KeyPath, schema::Host)], entries: &[Option<HostEntry>]) {
        // Several boards may have one system UUID, so it may be repeated.
        type InCluster<'a> = (Option<&'a str>, &'a KeyPath);
        let mut seen: BTreeMap<(&str, &str), Vec<InCluster<'_>>> = BTreeMap::new();
        for (key_path, host) in hosts {
            let cluster = host.cluster.as_deref();
            for (field, value, cluster) in [
                ("name", Some(&host.name), None),
                ("node_name", host.node_name.as_ref(), cluster),
                ("provider_id", host.provider_id.as_ref(), None),
            ] {
                let Some(value) = value else { continue };
                let others = seen.entry((field, value.as_str())).or_default();
                // Nodes of two clusters may have one name.
                let first = others
                    .iter()
                    .find(|(other, _)| cluster.is_none() || other.is_none() || *other == cluster);
                if let Some((_, first)) = first {
                    let what = format!("is also that of {}", other_entry(first, key_path));
                    self.problem(&key_path.key(field), what);
                }
                others.push((cluster, key_path));
            }
        }
        let mut by_endpoint: BTreeMap<String, Vec<(&KeyPath, HostKey)>> = BTreeMap::new();
        for ((key_path, _), entry) in hosts.iter().zip(entries) {
            let bmcs = entry.iter().flat_map(HostEntry::bmcs);
            for (index, bmc) in bmcs.enumerate() {
                let endpoint = bmc.address.endpoint();
                let key = host_key(&bmc.address);
                let others = by_endpoint.entry(endpoint.clone()).or_default();
                let clash = others.iter().find(|(_, other)| other.matches(&key));
                if let Some((first, _)) = clash {
                    let first = other_entry(first, key_path);
                    let what = format!(
                        "{endpoint} is also the BMC of {first}; where one BMC has several \
                         systems, name a different one in each address"
                    );
                    self.problem(&self.bmc_path(key_path, index).key("address"), what);
                }
                others.push((key_path, key));
            }
        }
    }

    /// The path of a driver of a host: the only one may be a table instead of a list of tables.
    fn bmc_path(&self, host: &KeyPath, index: usize) -> KeyPath {
        let list = host.key("bmc");
        let item = list.item(index);
        if self.diagnostics.contains(&item) {
            item
        } else {
            list
        }
    }
}

/// How another entry is named in a message.
fn other_entry(key_path: &KeyPath, at: &KeyPath) -> String {
    if key_path.file() == at.file() {
        return key_path.to_string();
    }
    format!("{key_path} in {}", key_path.file().display())
}

/// Whether a text names a cluster as the controller does.
fn is_cluster(text: &str) -> bool {
    let is_part = |part: &str| !part.is_empty() && !part.contains(['/', ' ']);
    let parts = text.split_once('/');
    text == "local" || parts.is_some_and(|(namespace, name)| is_part(namespace) && is_part(name))
}
