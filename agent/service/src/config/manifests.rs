//! An inventory out of Kubernetes: BareMetalHosts of Metal3 and the Secrets that they name.
//!
//! Other kinds are passed over, and what a BareMetalHost says beyond its BMC is not ours. Must
//! never: repeat what stands in a Secret.

use std::{collections::BTreeMap, fmt, path::Path, sync::Arc};

use base64::{Engine, prelude::BASE64_STANDARD};
use rackhand_proto::identity::is_name;
use secrecy::{ExposeSecret, SecretString, zeroize::Zeroizing};
use serde::{Deserialize, Deserializer, de};
use serde_saphyr::Spanned;

use super::{
    location::{Diagnostics, KeyPath},
    schema::{Bmc, Host, Kind, Source, Trust},
};

/// Labels and annotations of a BareMetalHost that say what an inventory says.
const POSITION: &str = "rackhand.dev/position";
const PDU: &str = "rackhand.dev/pdu";

/// Hosts and Secrets of all files; a Secret may stand in another file than its host.
#[derive(Default)]
pub(super) struct Manifests {
    hosts: Vec<(KeyPath, Document)>,
    secrets: BTreeMap<(String, String), Credentials>,
}

struct Credentials {
    key_path: KeyPath,
    username: Option<SecretString>,
    password: Option<SecretString>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    #[serde(default)]
    kind: Option<Spanned<String>>,
    #[serde(default)]
    metadata: Metadata,
    #[serde(default)]
    spec: Option<Spec>,
    #[serde(default)]
    status: Option<Status>,
    #[serde(default)]
    data: Hidden,
    #[serde(default)]
    string_data: Hidden,
    /// Of a List, as kubectl writes it.
    #[serde(default)]
    items: Vec<Document>,
}

#[derive(Default, Deserialize)]
struct Metadata {
    #[serde(default)]
    name: Option<Spanned<String>>,
    #[serde(default)]
    namespace: Option<String>,
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
    #[serde(default)]
    annotations: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
struct Spec {
    #[serde(default)]
    bmc: Option<BmcSpec>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BmcSpec {
    address: Option<Spanned<String>>,
    credentials_name: Option<Spanned<String>>,
    #[serde(default)]
    disable_certificate_verification: Option<bool>,
}

#[derive(Deserialize)]
struct Status {
    #[serde(default)]
    hardware: Option<Hardware>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Hardware {
    #[serde(default)]
    system_vendor: Option<SystemVendor>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SystemVendor {
    #[serde(default)]
    serial_number: Option<String>,
}

/// What may be secret: whatever it is, reading it fails never, so that no error repeats it.
#[derive(Default)]
enum Hidden {
    Text(SecretString),
    Map(BTreeMap<String, Hidden>),
    #[default]
    Other,
}

impl<'de> Deserialize<'de> for Hidden {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Hidden;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("anything")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Hidden, E> {
                Ok(Hidden::Text(text.into()))
            }

            fn visit_bool<E: de::Error>(self, value: bool) -> Result<Hidden, E> {
                Ok(Hidden::Text(value.to_string().into()))
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Hidden, E> {
                Ok(Hidden::Text(value.to_string().into()))
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Hidden, E> {
                Ok(Hidden::Text(value.to_string().into()))
            }

            fn visit_f64<E: de::Error>(self, _: f64) -> Result<Hidden, E> {
                Ok(Hidden::Other)
            }

            fn visit_unit<E: de::Error>(self) -> Result<Hidden, E> {
                Ok(Hidden::Other)
            }

            fn visit_none<E: de::Error>(self) -> Result<Hidden, E> {
                Ok(Hidden::Other)
            }

            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Hidden, A::Error> {
                let mut found = BTreeMap::new();
                while let Some((key, value)) = map.next_entry()? {
                    found.insert(key, value);
                }
                Ok(Hidden::Map(found))
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, mut seq: A) -> Result<Hidden, A::Error> {
                while seq.next_element::<Hidden>()?.is_some() {}
                Ok(Hidden::Other)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl Hidden {
    fn get(&self, key: &str) -> Option<&SecretString> {
        match self {
            Self::Map(map) => match map.get(key) {
                Some(Self::Text(text)) => Some(text),
                _ => None,
            },
            _ => None,
        }
    }
}

impl Manifests {
    /// Reads one file. The rest of a file behind something that is no YAML is not read.
    pub(super) fn add(&mut self, file: &Arc<Path>, text: &str, diagnostics: &mut Diagnostics) {
        let root = KeyPath::root(file);
        diagnostics.mark(&root, (1, 1));
        // A BareMetalHost has hundreds of values, and a rack can have a thousand of them.
        let options = serde_saphyr::options! {
            budget: serde_saphyr::budget! {
                max_documents: 100_000,
                max_nodes: 20_000_000,
                max_events: 50_000_000,
            },
        };
        let read = serde_saphyr::from_multiple_with_options(text, options);
        let documents: Vec<Document> = match read {
            Ok(documents) => documents,
            Err(error) => {
                let at = error.location().map(|at| place(&at));
                let said = error.to_string();
                let first = said.lines().next().unwrap_or("not YAML").to_owned();
                diagnostics.problem_at(&root, at, first);
                return;
            }
        };
        for (index, document) in documents.into_iter().enumerate() {
            self.document(&root.key("documents").item(index), document, diagnostics);
        }
    }

    fn document(
        &mut self,
        key_path: &KeyPath,
        mut document: Document,
        diagnostics: &mut Diagnostics,
    ) {
        for (index, item) in std::mem::take(&mut document.items).into_iter().enumerate() {
            self.document(&key_path.key("items").item(index), item, diagnostics);
        }
        let Some(kind) = &document.kind else { return };
        diagnostics.mark(key_path, place(&kind.referenced));
        let name = document.metadata.name.as_ref();
        let name = name.map_or_else(String::new, |name| name.value.clone());
        let key_path = key_path.clone().called(&format!("{} {name}", kind.value));
        match kind.value.as_str() {
            "BareMetalHost" => self.hosts.push((key_path, document)),
            "Secret" => {
                let key = (document.namespace(), name);
                let credentials = document.credentials(key_path.clone(), diagnostics);
                if self.secrets.insert(key, credentials).is_some() {
                    diagnostics.problem(&key_path, "this Secret stands there twice");
                }
            }
            _ => {}
        }
    }

    /// The hosts, each with what its Secret says.
    pub(super) fn hosts(self, diagnostics: &mut Diagnostics) -> Vec<Host> {
        let Self { hosts, secrets } = self;
        hosts
            .into_iter()
            .map(|(key_path, document)| document.host(key_path, &secrets, diagnostics))
            .collect()
    }
}

impl Document {
    fn namespace(&self) -> String {
        let namespace = self.metadata.namespace.clone();
        namespace.unwrap_or_else(|| "default".to_owned())
    }

    fn credentials(&self, key_path: KeyPath, diagnostics: &mut Diagnostics) -> Credentials {
        let mut value = |key: &str| {
            if let Some(text) = self.string_data.get(key) {
                return Some(text.clone());
            }
            let encoded = self.data.get(key)?;
            let text = decoded(encoded.expose_secret());
            if text.is_none() {
                diagnostics.problem(&key_path.key("data").key(key), "must be text in base64");
            }
            text
        };
        let (username, password) = (value("username"), value("password"));
        Credentials {
            key_path,
            username,
            password,
        }
    }

    fn host(
        self,
        key_path: KeyPath,
        secrets: &BTreeMap<(String, String), Credentials>,
        diagnostics: &mut Diagnostics,
    ) -> Host {
        let namespace = self.namespace();
        if let Some(name) = &self.metadata.name {
            diagnostics.mark(&key_path.key("name"), place(&name.referenced));
        } else {
            diagnostics.problem(&key_path.key("name"), "missing in metadata");
        }
        let said = |key: &str| {
            let of = |map: &Option<BTreeMap<String, String>>| map.as_ref()?.get(key).cloned();
            of(&self.metadata.annotations).or_else(|| of(&self.metadata.labels))
        };
        let (position, pdu) = (said(POSITION), said(PDU));
        let labels = self.metadata.labels.unwrap_or_default();
        // Those of Kubernetes with a domain do not read on a command line.
        let labels = labels.into_iter();
        let labels = labels.filter(|(key, value)| is_name(key) && is_name(value));
        let hardware = self.status.and_then(|status| status.hardware);
        let vendor = hardware.and_then(|hardware| hardware.system_vendor);
        let serial = vendor.and_then(|vendor| vendor.serial_number);
        let bmc = self.spec.and_then(|spec| spec.bmc);
        let bmcs = match bmc {
            Some(bmc) => vec![bmc.entry(&key_path, &namespace, secrets, diagnostics)],
            None => {
                diagnostics.problem(&key_path.key("bmc"), "missing in spec");
                Vec::new()
            }
        };
        Host {
            name: self.metadata.name.map(|name| name.value),
            node_name: None,
            provider_id: None,
            system_uuid: None,
            serial: serial.filter(|serial| !serial.trim().is_empty()),
            labels: labels.collect(),
            position,
            pdu,
            bmcs,
            key_path,
        }
    }
}

impl BmcSpec {
    fn entry(
        self,
        host: &KeyPath,
        namespace: &str,
        secrets: &BTreeMap<(String, String), Credentials>,
        diagnostics: &mut Diagnostics,
    ) -> Bmc {
        let key_path = host.key("bmc");
        match &self.address {
            Some(address) => diagnostics.mark(&key_path.key("address"), place(&address.referenced)),
            None => diagnostics.problem(&key_path.key("address"), "missing"),
        }
        let by_name = key_path.key("credentialsName");
        let credentials = match &self.credentials_name {
            None => {
                diagnostics.problem(&by_name, "missing");
                None
            }
            Some(name) => {
                diagnostics.mark(&by_name, place(&name.referenced));
                let found = secrets.get(&(namespace.to_owned(), name.value.clone()));
                if found.is_none() {
                    let what = format!("Secret {namespace}/{} is in no inventory file", name.value);
                    diagnostics.problem(&by_name, what);
                }
                found
            }
        };
        let mut part = |key: &str, value: Option<&SecretString>| {
            let credentials = credentials?;
            if value.is_none() {
                diagnostics.problem(&credentials.key_path.key(key), "missing in the Secret");
            }
            value.cloned()
        };
        let username = part("username", credentials.and_then(|c| c.username.as_ref()));
        let password = part("password", credentials.and_then(|c| c.password.as_ref()));
        let is_redfish = self
            .address
            .as_ref()
            .is_some_and(|address| !address.value.starts_with("ipmi"));
        let insecure = self.disable_certificate_verification.unwrap_or(false) && is_redfish;
        Bmc {
            address: self.address.map(|address| address.value),
            username: username.map(|name| name.expose_secret().to_owned()),
            password: password.map(|password| Source {
                key_path: credentials
                    .map_or_else(|| key_path.clone(), |c| c.key_path.key("password")),
                kind: Kind::Inline(password),
            }),
            trust: insecure.then(|| Trust {
                key_path: key_path.key("disableCertificateVerification"),
                ca_file: None,
                sha256: None,
                insecure,
            }),
            auth: None,
            keep_alive: None,
            soft_off_by_button: None,
            cipher_suite: None,
            kg: None,
            min_interval: None,
            key_path,
        }
    }
}

fn place(at: &serde_saphyr::Location) -> (usize, usize) {
    let number = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    (number(at.line()), number(at.column()))
}

/// One newline at the end is not meant: `echo` writes it.
fn decoded(encoded: &str) -> Option<SecretString> {
    let bytes = Zeroizing::new(BASE64_STANDARD.decode(encoded.trim()).ok()?);
    let text = std::str::from_utf8(&bytes).ok()?;
    Some(text.strip_suffix('\n').unwrap_or(text).into())
}
