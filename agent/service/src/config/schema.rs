//! The schema of the configuration files; see `Config` for the validated form.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use rackhand_bmc::{
    AuthPolicy,
    ipmi::{self, SuiteChoice},
};
use secrecy::SecretString;

use super::{
    decode::Fields,
    location::{Diagnostics, KeyPath},
};

/// The configuration file. Missing required values are `None`, and reported.
#[derive(Debug)]
pub(super) struct File {
    pub(super) rack: Option<String>,
    pub(super) listen: Option<String>,
    pub(super) tls: Option<PathBuf>,
    pub(super) socket: Option<PathBuf>,
    pub(super) state: Option<PathBuf>,
    pub(super) admin_listen: Option<String>,
    pub(super) allowed_bmc_networks: Option<Vec<String>>,
    pub(super) accept_endpoints_from_controller: bool,
    pub(super) accept_insecure_endpoints_from_controller: bool,
    pub(super) inventory: Vec<PathBuf>,
    pub(super) defaults: Defaults,
    pub(super) pdus: Vec<Pdu>,
    pub(super) hosts: Vec<Host>,
}

#[derive(Debug, Default)]
pub(super) struct Defaults {
    pub(super) trust: Option<Trust>,
    /// By the names of their keys.
    pub(super) times: Vec<(&'static str, Duration)>,
}

/// The keys of `defaults` that are times.
pub(super) const TIMES: [&str; 7] = [
    "connect_timeout",
    "call_timeout",
    "operation_deadline",
    "poll_max",
    "resend_after",
    "shutdown_grace",
    "power_on_interval",
];

#[derive(Debug)]
pub(super) struct Pdu {
    pub(super) key_path: KeyPath,
    pub(super) name: String,
    pub(super) power_on_interval: Option<Duration>,
}

#[derive(Debug)]
pub(super) struct Host {
    pub(super) key_path: KeyPath,
    pub(super) name: Option<String>,
    pub(super) node_name: Option<String>,
    pub(super) provider_id: Option<String>,
    pub(super) system_uuid: Option<String>,
    pub(super) serial: Option<String>,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) position: Option<String>,
    pub(super) pdu: Option<String>,
    /// Its drivers in their order.
    pub(super) bmcs: Vec<Bmc>,
}

#[derive(Debug)]
pub(super) struct Bmc {
    pub(super) key_path: KeyPath,
    pub(super) address: Option<String>,
    pub(super) username: Option<String>,
    pub(super) password: Option<Source>,
    pub(super) trust: Option<Trust>,
    pub(super) auth: Option<AuthPolicy>,
    pub(super) keep_alive: Option<bool>,
    pub(super) soft_off_by_button: Option<bool>,
    pub(super) cipher_suite: Option<SuiteChoice>,
    pub(super) kg: Option<Source>,
    pub(super) min_interval: Option<Duration>,
}

/// The source of a secret, and the key that names it.
#[derive(Debug, Clone)]
pub(super) struct Source {
    pub(super) key_path: KeyPath,
    pub(super) kind: Kind,
}

#[derive(Debug, Clone)]
pub(super) enum Kind {
    Inline(SecretString),
    File(PathBuf),
    Credential(String),
    Command(Vec<String>),
}

#[derive(Debug, Clone)]
pub(super) struct Trust {
    pub(super) key_path: KeyPath,
    pub(super) ca_file: Option<PathBuf>,
    pub(super) sha256: Option<String>,
    pub(super) insecure: bool,
}

impl File {
    pub(super) fn read(fields: &mut Fields<'_, '_>, diagnostics: &mut Diagnostics) -> Self {
        let path = |text: Option<String>| text.map(PathBuf::from);
        let rack = fields.needed("rack", diagnostics);
        let socket = path(fields.needed("socket", diagnostics));
        let state = path(fields.needed("state", diagnostics));
        let networks = fields.texts("allowed_bmc_networks", diagnostics);
        let inventory = fields.texts("inventory", diagnostics).unwrap_or_default();
        let accept = fields.flag("accept_endpoints_from_controller", diagnostics);
        let insecure = fields.flag("accept_insecure_endpoints_from_controller", diagnostics);
        let mut defaults = Defaults::default();
        if let Some(mut table) = fields.table("defaults", diagnostics) {
            for key in TIMES {
                if let Some(time) = table.time(key, diagnostics) {
                    defaults.times.push((key, time));
                }
            }
            defaults.trust = Trust::read(&mut table, diagnostics);
            table.end(diagnostics);
        }
        let mut pdus = Vec::new();
        if let Some(mut table) = fields.table("pdus", diagnostics) {
            for (name, mut table) in table.named(diagnostics) {
                pdus.push(Pdu {
                    key_path: table.key_path().clone(),
                    name,
                    power_on_interval: table.time("power_on_interval", diagnostics),
                });
                table.end(diagnostics);
            }
        }
        Self {
            rack,
            listen: fields.text("listen", diagnostics),
            tls: path(fields.text("tls", diagnostics)),
            socket,
            state,
            admin_listen: fields.text("admin_listen", diagnostics),
            allowed_bmc_networks: networks,
            accept_endpoints_from_controller: accept.unwrap_or(false),
            accept_insecure_endpoints_from_controller: insecure.unwrap_or(false),
            inventory: inventory.into_iter().map(PathBuf::from).collect(),
            defaults,
            pdus,
            hosts: hosts(fields, diagnostics),
        }
    }
}

/// The hosts of a configuration file or of an inventory file.
pub(super) fn hosts(fields: &mut Fields<'_, '_>, diagnostics: &mut Diagnostics) -> Vec<Host> {
    let tables = fields.tables("hosts", diagnostics);
    tables
        .into_iter()
        .map(|mut table| {
            let host = Host::read(&mut table, diagnostics);
            table.end(diagnostics);
            host
        })
        .collect()
}

impl Host {
    fn read(fields: &mut Fields<'_, '_>, diagnostics: &mut Diagnostics) -> Self {
        let name = fields.needed("name", diagnostics);
        if let Some(name) = &name {
            fields.call(name);
        }
        let mut labels = BTreeMap::new();
        if let Some(mut table) = fields.table("labels", diagnostics) {
            labels = table.pairs(diagnostics).into_iter().collect();
        }
        let tables = fields.tables("bmc", diagnostics);
        if tables.is_empty() {
            let what = "missing: give the BMC, or its drivers in the order in which they are asked";
            diagnostics.problem(&fields.key_path().key("bmc"), what);
        }
        let bmcs = tables.into_iter().map(|mut table| {
            let bmc = Bmc::read(&mut table, diagnostics);
            table.end(diagnostics);
            bmc
        });
        let bmcs = bmcs.collect();
        Self {
            key_path: fields.key_path().clone(),
            name,
            node_name: fields.text("node_name", diagnostics),
            provider_id: fields.text("provider_id", diagnostics),
            system_uuid: fields.text("system_uuid", diagnostics),
            serial: fields.text("serial", diagnostics),
            labels,
            position: fields.text("position", diagnostics),
            pdu: fields.text("pdu", diagnostics),
            bmcs,
        }
    }
}

impl Bmc {
    fn read(fields: &mut Fields<'_, '_>, diagnostics: &mut Diagnostics) -> Self {
        let password = [
            "password",
            "password_file",
            "password_credential",
            "password_command",
        ];
        let kg = ["kg", "kg_file", "kg_credential", "kg_command"];
        let address = fields.needed("address", diagnostics);
        let username = fields.needed("username", diagnostics);
        let password = Source::read(fields, password, diagnostics);
        if password.is_empty() {
            let what = "missing: give one of password_file, password_credential, password_command \
                        and password";
            diagnostics.problem(&fields.key_path().key("password_file"), what);
        }
        let kg = Source::read(fields, kg, diagnostics);
        Self {
            key_path: fields.key_path().clone(),
            address,
            username,
            password: Source::only(password, diagnostics),
            trust: Trust::read(fields, diagnostics),
            auth: auth(fields, diagnostics),
            keep_alive: fields.flag("keep_alive", diagnostics),
            soft_off_by_button: fields.flag("soft_off_by_button", diagnostics),
            cipher_suite: suite(fields, diagnostics),
            kg: Source::only(kg, diagnostics),
            min_interval: fields.time("min_interval", diagnostics),
        }
    }
}

impl Source {
    /// The values of these four keys: inline, file, credential, command.
    fn read(
        fields: &mut Fields<'_, '_>,
        [inline, file, credential, command]: [&'static str; 4],
        diagnostics: &mut Diagnostics,
    ) -> Vec<Self> {
        let kinds = [
            (
                inline,
                fields
                    .text(inline, diagnostics)
                    .map(|text| Kind::Inline(text.into())),
            ),
            (
                file,
                fields
                    .text(file, diagnostics)
                    .map(|text| Kind::File(text.into())),
            ),
            (
                credential,
                fields.text(credential, diagnostics).map(Kind::Credential),
            ),
            (
                command,
                fields.texts(command, diagnostics).map(Kind::Command),
            ),
        ];
        let given = kinds.into_iter().filter_map(|(key, kind)| {
            Some(Self {
                key_path: fields.key_path().key(key),
                kind: kind?,
            })
        });
        given.collect()
    }

    fn only(sources: Vec<Self>, diagnostics: &mut Diagnostics) -> Option<Self> {
        let mut sources = sources.into_iter();
        let first = sources.next()?;
        for other in sources {
            let what = format!("{} is given too: one of them is enough", first.key_path);
            diagnostics.problem(&other.key_path, what);
        }
        Some(first)
    }
}

impl Trust {
    fn read(fields: &mut Fields<'_, '_>, diagnostics: &mut Diagnostics) -> Option<Self> {
        let mut table = fields.table("trust", diagnostics)?;
        let trust = Self {
            key_path: table.key_path().clone(),
            ca_file: table.text("ca_file", diagnostics).map(PathBuf::from),
            sha256: table.text("sha256", diagnostics),
            insecure: table.flag("insecure", diagnostics).unwrap_or(false),
        };
        table.end(diagnostics);
        Some(trust)
    }
}

fn auth(fields: &mut Fields<'_, '_>, diagnostics: &mut Diagnostics) -> Option<AuthPolicy> {
    match fields.text("auth", diagnostics)?.as_str() {
        "auto" => Some(AuthPolicy::Auto),
        "session" => Some(AuthPolicy::Session),
        "basic" => Some(AuthPolicy::Basic),
        other => {
            let what = format!("{other:?}: must be auto, session or basic");
            diagnostics.problem(&fields.key_path().key("auth"), what);
            None
        }
    }
}

fn suite(fields: &mut Fields<'_, '_>, diagnostics: &mut Diagnostics) -> Option<SuiteChoice> {
    match fields.word("cipher_suite", diagnostics)?.as_str() {
        "auto" => Some(SuiteChoice::Auto),
        "3" => Some(SuiteChoice::Only(ipmi::Suite::Cipher3)),
        "17" => Some(SuiteChoice::Only(ipmi::Suite::Cipher17)),
        other => {
            let what = format!("{other}: must be auto, 3 or 17");
            diagnostics.problem(&fields.key_path().key("cipher_suite"), what);
            None
        }
    }
}
