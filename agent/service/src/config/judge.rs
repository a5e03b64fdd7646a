//! From the file as written to a configuration, or to the list of everything wrong with it.

mod bmc;

use std::{collections::BTreeMap, path::Path};

use rackhand_bmc::{Trust, UuidMatch, same_system_uuid};
use rackhand_proto::identity::is_name;

use super::{Config, HostEntry, Inventory, Networks, Remote, Times, file};
use bmc::Around;

/// An error of the YAML itself or of its shape, with line and column.
pub(super) fn yaml_problem(error: &serde_saphyr::Error) -> String {
    let text = error.to_string();
    let first = text.lines().next().unwrap_or_default().to_owned();
    match error.location() {
        Some(at) if !first.contains("line") => {
            format!("line {}, column {}: {first}", at.line(), at.column())
        }
        _ => first,
    }
}

/// What selects hosts without being a label.
const SPOKEN_FOR: [&str; 5] = ["name", "node", "rack", "position", "pdu"];

struct Judge<'a> {
    beside: &'a Path,
    credentials: Option<&'a Path>,
    problems: Vec<String>,
}

pub(super) fn judge(
    path: &Path,
    file: file::File,
    credentials: Option<&Path>,
) -> Result<Config, Vec<String>> {
    let mut judge = Judge {
        beside: path.parent().unwrap_or(Path::new("")),
        credentials,
        problems: Vec::new(),
    };
    let config = judge.config(path, file);
    match config {
        Some(config) if judge.problems.is_empty() => Ok(config),
        _ => Err(judge.problems),
    }
}

impl Judge<'_> {
    fn problem(&mut self, place: &str, what: impl std::fmt::Display) {
        self.problems.push(format!("{place}: {what}"));
    }

    fn config(&mut self, path: &Path, file: file::File) -> Option<Config> {
        if !is_name(&file.rack) {
            let what = "a rack's name is 1 to 63 letters, digits, '.', '-' or '_'";
            self.problem("rack", format_args!("{:?}: {what}", file.rack));
        }
        let remote = self.remote(&file);
        let networks = self.networks(&file.allowed_bmc_networks);
        let times = self.times(&file.defaults);
        let default_trust = match &file.defaults.trust {
            Some(trust) => self.trust("defaults.trust", trust),
            None => Some(Trust::System),
        };
        let around = Around {
            networks: networks.clone(),
            trust: default_trust.clone().unwrap_or_default(),
            call: times.call,
        };
        let hosts: Vec<Option<HostEntry>> = file
            .hosts
            .iter()
            .enumerate()
            .map(|(index, host)| self.host(index, host, &around))
            .collect();
        self.duplicates(&file.hosts, &hosts);
        Some(Config {
            path: path.to_owned(),
            rack: file.rack,
            remote,
            socket: self.beside.join(file.socket),
            state: self.beside.join(file.state),
            times,
            inventory: Inventory {
                hosts: hosts.into_iter().collect::<Option<_>>()?,
                networks,
                accept_endpoints: file.accept_endpoints_from_controller,
                default_trust: default_trust?,
            },
        })
    }

    fn remote(&mut self, file: &file::File) -> Option<Remote> {
        match (&file.listen, &file.tls) {
            (None, None) => None,
            (Some(_), None) => {
                self.problem(
                    "tls",
                    "missing: `listen` needs the directory of a certificate",
                );
                None
            }
            (None, Some(_)) => {
                self.problem(
                    "listen",
                    "missing: `tls` is given, but no address to listen on",
                );
                None
            }
            (Some(listen), Some(tls)) => match listen.parse() {
                Ok(listen) => Some(Remote {
                    listen,
                    tls: self.beside.join(tls),
                }),
                Err(_) => {
                    let what = "not an IP address and port, such as 0.0.0.0:7443 or [::]:7443";
                    self.problem("listen", format_args!("{listen:?}: {what}"));
                    None
                }
            },
        }
    }

    fn networks(&mut self, networks: &[String]) -> Networks {
        if networks.is_empty() {
            self.problem(
                "allowed_bmc_networks",
                "empty: the agent could touch no BMC at all",
            );
        }
        let mut good = Vec::new();
        for (index, text) in networks.iter().enumerate() {
            match text.parse() {
                Ok(net) => good.push(net),
                Err(_) => self.problem(
                    &format!("allowed_bmc_networks[{index}]"),
                    format_args!("{text:?}: not a network, such as 10.1.0.0/16 or fd00::/64"),
                ),
            }
        }
        Networks(good)
    }

    fn times(&mut self, defaults: &file::Defaults) -> Times {
        let mut times = Times::default();
        for (name, given, time) in [
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
            (
                "shutdown_grace",
                defaults.shutdown_grace,
                &mut times.shutdown_grace,
            ),
        ] {
            let Some(file::Seconds(given)) = given else {
                continue;
            };
            if given.is_zero() && name != "shutdown_grace" {
                self.problem(&format!("defaults.{name}"), "must be longer than zero");
            }
            *time = given;
        }
        times
    }

    fn trust(&mut self, place: &str, trust: &file::Trust) -> Option<Trust> {
        match (&trust.ca_file, &trust.sha256, trust.insecure) {
            (Some(path), None, false) => {
                let path = self.beside.join(path);
                match std::fs::read(&path) {
                    Ok(pem) => Some(Trust::CaBundle(pem)),
                    Err(error) => {
                        let what = format!("{}: {error}", path.display());
                        self.problem(&format!("{place}.ca_file"), what);
                        None
                    }
                }
            }
            (None, Some(pin), false) => Trust::pin(pin)
                .map_err(|error| self.problem(&format!("{place}.sha256"), error))
                .ok(),
            (None, None, true) => Some(Trust::Insecure),
            _ => {
                self.problem(
                    place,
                    "give exactly one of ca_file, sha256 and insecure: true",
                );
                None
            }
        }
    }

    fn host(&mut self, index: usize, host: &file::Host, around: &Around) -> Option<HostEntry> {
        let place = place(index, host);
        if !is_name(&host.name) {
            let what = "1 to 63 letters, digits, '.', '-' or '_'";
            self.problem(&format!("{place}.name"), format_args!("must be {what}"));
        }
        if let Some(uuid) = &host.system_uuid {
            self.uuid(&format!("{place}.system_uuid"), uuid);
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
                self.problem(&format!("{place}.{field}"), "is empty");
            }
        }
        self.labels(&place, &host.labels);
        let mut bmcs = self.bmcs(&place, &host.bmc, around)?.into_iter();
        Some(HostEntry {
            name: host.name.clone(),
            node_name: host.node_name.clone(),
            provider_id: host.provider_id.clone(),
            system_uuid: host.system_uuid.clone(),
            serial: host.serial.clone(),
            labels: host.labels.clone(),
            position: host.position.clone(),
            pdu: host.pdu.clone(),
            bmc: bmcs.next()?,
            fallbacks: bmcs.collect(),
        })
    }

    /// Labels select hosts on a command line, so they must read there as they are written here.
    fn labels(&mut self, place: &str, labels: &BTreeMap<String, String>) {
        for (key, value) in labels {
            if !is_name(key) || SPOKEN_FOR.contains(&key.as_str()) {
                let what = "a label is 1 to 63 letters, digits, '.', '-' or '_', and not one of";
                let taken = SPOKEN_FOR.join(", ");
                self.problem(
                    &format!("{place}.labels"),
                    format_args!("{key:?}: {what} {taken}"),
                );
            } else if !is_name(value) {
                let what = "a value is 1 to 63 letters, digits, '.', '-' or '_'";
                self.problem(
                    &format!("{place}.labels.{key}"),
                    format_args!("{value:?}: {what}"),
                );
            }
        }
    }

    fn uuid(&mut self, place: &str, text: &str) {
        if uuid::Uuid::try_parse(text.trim()).is_err() {
            let what = "not a UUID, such as 4c4c4544-0042-3510-8054-c2c04f4e4e32";
            self.problem(place, format_args!("{text:?}: {what}"));
        } else if same_system_uuid(text, text) == UuidMatch::Unknown {
            let what = "a placeholder of the firmware: it identifies nothing; leave it out";
            self.problem(place, format_args!("{text:?}: {what}"));
        }
    }

    fn duplicates(&mut self, hosts: &[file::Host], entries: &[Option<HostEntry>]) {
        let mut seen: BTreeMap<(&str, String), usize> = BTreeMap::new();
        let mut clash = Vec::new();
        for (index, host) in hosts.iter().enumerate() {
            let uuid = host.system_uuid.as_deref().and_then(canonical_uuid);
            for (field, value) in [
                ("name", Some(host.name.clone())),
                ("node_name", host.node_name.clone()),
                ("provider_id", host.provider_id.clone()),
                ("system_uuid", uuid),
            ] {
                let Some(value) = value else { continue };
                if let Some(first) = seen.insert((field, value), index) {
                    clash.push((index, first, field));
                }
            }
        }
        for (index, first, field) in clash {
            let other = place(first, &hosts[first]);
            let place = place(index, &hosts[index]);
            self.problem(
                &format!("{place}.{field}"),
                format_args!("is also that of {other}"),
            );
        }
        self.same_bmc(hosts, entries);
    }

    fn same_bmc(&mut self, hosts: &[file::Host], entries: &[Option<HostEntry>]) {
        let mut by_endpoint: BTreeMap<String, Vec<(usize, Option<&str>)>> = BTreeMap::new();
        for (index, entry) in entries.iter().enumerate() {
            let Some(entry) = entry else { continue };
            let places = hosts.get(index).map(|host| host.bmc.places());
            let places = places.unwrap_or_default().into_iter();
            for (bmc, (at, _)) in entry.bmcs().zip(places) {
                let endpoint = bmc.address.endpoint();
                let system = bmc.address.system();
                let others = by_endpoint.entry(endpoint.clone()).or_default();
                let clash = others
                    .iter()
                    .find(|(_, other)| other.is_none() || system.is_none() || *other == system);
                if let Some((first, _)) = clash {
                    let place = format!("{}.{at}.address", place(index, &hosts[index]));
                    let other = self::place(*first, &hosts[*first]);
                    self.problems.push(format!(
                        "{place}: {endpoint} is also the BMC of {other}; where one BMC has \
                         several systems, name a different one in each address"
                    ));
                }
                others.push((index, system));
            }
        }
    }
}

/// The same text for both byte orders.
fn canonical_uuid(text: &str) -> Option<String> {
    let uuid = uuid::Uuid::try_parse(text.trim()).ok()?;
    let turned = uuid::Uuid::from_bytes(uuid.to_bytes_le());
    Some(uuid.min(turned).to_string())
}

fn place(index: usize, host: &file::Host) -> String {
    format!("hosts[{index}] ({})", host.name)
}
