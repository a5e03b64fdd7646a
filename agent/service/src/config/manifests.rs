//! Inventories from Kubernetes: manifests of Metal3's BareMetalHosts and of the Secrets that they name.
//!
//! Other kinds, and the fields of a BareMetalHost that do not concern its BMC, are ignored. Must never: repeat a
//! value of a Secret.

use std::{collections::BTreeMap, fmt, path::Path, sync::Arc};

use base64::{Engine, prelude::BASE64_STANDARD};
use rackhand_transport::identity::is_name;
use secrecy::{ExposeSecret, SecretString, zeroize::Zeroizing};
use serde::{Deserialize, Deserializer, de};
use serde_saphyr::Spanned;

use super::{
    location::{Diagnostics, KeyPath},
    schema::{Bmc, Host, Trust},
    validate::NO_SYSTEM_UUID,
};

/// Annotation or label of a BareMetalHost: the position of the host in its rack.
const POSITION: &str = "rackhand.dev/position";
/// Annotation or label of a BareMetalHost: the power distribution unit of the host.
const PDU: &str = "rackhand.dev/pdu";
/// Annotation of a BareMetalHost: with `none` the system UUID of its BMC identifies nothing.
const SYSTEM_UUID: &str = "rackhand.dev/bmc-system-uuid";
/// Placeholder for credentials that are missing, which is reported, so that the rest of the host is validated too.
const MISSING: &str = "missing";

/// BareMetalHosts and Secrets of all files; a host and its Secret may be in different files.
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
    data: SecretValue,
    #[serde(default)]
    string_data: SecretValue,
    /// The objects of a List, as `kubectl get -o yaml` prints it.
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

/// Values that may be secret. Decoding them never fails, so that no error message repeats them.
#[derive(Default)]
enum SecretValue {
    Text(SecretString),
    Map(BTreeMap<String, SecretValue>),
    #[default]
    Other,
}

impl<'de> Deserialize<'de> for SecretValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = SecretValue;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("anything")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<SecretValue, E> {
                Ok(SecretValue::Text(text.into()))
            }

            fn visit_bool<E: de::Error>(self, value: bool) -> Result<SecretValue, E> {
                Ok(SecretValue::Text(value.to_string().into()))
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<SecretValue, E> {
                Ok(SecretValue::Text(value.to_string().into()))
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<SecretValue, E> {
                Ok(SecretValue::Text(value.to_string().into()))
            }

            fn visit_f64<E: de::Error>(self, _: f64) -> Result<SecretValue, E> {
                Ok(SecretValue::Other)
            }

            fn visit_unit<E: de::Error>(self) -> Result<SecretValue, E> {
                Ok(SecretValue::Other)
            }

            fn visit_none<E: de::Error>(self) -> Result<SecretValue, E> {
                Ok(SecretValue::Other)
            }

            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<SecretValue, A::Error> {
                let mut found = BTreeMap::new();
                while let Some((key, value)) = map.next_entry()? {
                    found.insert(key, value);
                }
                Ok(SecretValue::Map(found))
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, mut seq: A) -> Result<SecretValue, A::Error> {
                while seq.next_element::<SecretValue>()?.is_some() {}
                Ok(SecretValue::Other)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl SecretValue {
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
    /// Reads one file, up to its first syntax error.
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
                let at = error.location().map(|at| position(&at));
                let message = error.to_string();
                let first_line = message.lines().next().unwrap_or("not YAML");
                diagnostics.problem_at(&root, at, first_line);
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
        diagnostics.mark(key_path, position(&kind.referenced));
        let name = document.metadata.name.as_ref();
        let name = name.map_or_else(String::new, |name| name.value.clone());
        let key_path = key_path.clone().called(&format!("{} {name}", kind.value));
        match kind.value.as_str() {
            "BareMetalHost" => self.hosts.push((key_path, document)),
            "Secret" => {
                let key = (document.namespace(), name);
                let credentials = document.credentials(key_path.clone(), diagnostics);
                if self.secrets.insert(key, credentials).is_some() {
                    diagnostics.problem(&key_path, "this Secret is defined twice");
                }
            }
            _ => {}
        }
    }

    /// The complete hosts, each with the credentials from its Secret. Others are reported.
    pub(super) fn hosts(self, diagnostics: &mut Diagnostics) -> Vec<(KeyPath, Host)> {
        let Self { hosts, secrets } = self;
        hosts
            .into_iter()
            .filter_map(|(key_path, document)| {
                let host = document.host(&key_path, &secrets, diagnostics)?;
                Some((key_path, host))
            })
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

    /// `None`: the name or the BMC's address is missing, and reported.
    fn host(
        self,
        key_path: &KeyPath,
        secrets: &BTreeMap<(String, String), Credentials>,
        diagnostics: &mut Diagnostics,
    ) -> Option<Host> {
        let namespace = self.namespace();
        match &self.metadata.name {
            Some(name) => diagnostics.mark(&key_path.key("name"), position(&name.referenced)),
            None => diagnostics.problem(&key_path.key("name"), "missing in metadata"),
        }
        let metadata = |key: &str| {
            let get = |map: &Option<BTreeMap<String, String>>| map.as_ref()?.get(key).cloned();
            get(&self.metadata.annotations).or_else(|| get(&self.metadata.labels))
        };
        let (position, pdu) = (metadata(POSITION), metadata(PDU));
        let system_uuid = metadata(SYSTEM_UUID).filter(|value| value == NO_SYSTEM_UUID);
        // A label with a domain, as Kubernetes has them, cannot be a selector on the command line.
        let labels = self.metadata.labels.unwrap_or_default().into_iter();
        let labels = labels.filter(|(key, value)| is_name(key) && is_name(value));
        let hardware = self.status.and_then(|status| status.hardware);
        let vendor = hardware.and_then(|hardware| hardware.system_vendor);
        let serial = vendor.and_then(|vendor| vendor.serial_number);
        let spec = self.spec.and_then(|spec| spec.bmc);
        if spec.is_none() {
            diagnostics.problem(&key_path.key("bmc"), "missing in spec");
        }
        let bmc = spec?.bmc(&key_path.key("bmc"), &namespace, secrets, diagnostics);
        Some(Host {
            name: self.metadata.name?.value,
            system_uuid,
            serial: serial.filter(|serial| !serial.trim().is_empty()),
            labels: labels.collect(),
            position,
            pdu,
            bmc: vec![bmc?],
            ..Host::default()
        })
    }
}

impl BmcSpec {
    fn bmc(
        self,
        key_path: &KeyPath,
        namespace: &str,
        secrets: &BTreeMap<(String, String), Credentials>,
        diagnostics: &mut Diagnostics,
    ) -> Option<Bmc> {
        match &self.address {
            Some(address) => {
                diagnostics.mark(&key_path.key("address"), position(&address.referenced));
            }
            None => diagnostics.problem(&key_path.key("address"), "missing"),
        }
        let name_path = key_path.key("credentialsName");
        let credentials = match &self.credentials_name {
            None => {
                diagnostics.problem(&name_path, "missing");
                None
            }
            Some(name) => {
                for path in [
                    &name_path,
                    &key_path.key("username"),
                    &key_path.key("password"),
                ] {
                    diagnostics.mark(path, position(&name.referenced));
                }
                let found = secrets.get(&(namespace.to_owned(), name.value.clone()));
                if found.is_none() {
                    let what = format!("Secret {namespace}/{} is in no inventory file", name.value);
                    diagnostics.problem(&name_path, what);
                }
                found
            }
        };
        let mut value = |key: &str, get: fn(&Credentials) -> Option<&SecretString>| {
            let found = credentials.and_then(get).cloned();
            if let (None, Some(credentials)) = (&found, credentials) {
                diagnostics.problem(&credentials.key_path.key(key), "missing in the Secret");
            }
            found.unwrap_or_else(|| MISSING.into())
        };
        let username = value("username", |credentials| credentials.username.as_ref());
        let password = value("password", |credentials| credentials.password.as_ref());
        let address = self.address?.value;
        let insecure =
            self.disable_certificate_verification.unwrap_or(false) && !address.starts_with("ipmi");
        Some(Bmc {
            address,
            username: username.expose_secret().to_owned(),
            password: Some(password),
            password_in: credentials.map(|credentials| credentials.key_path.file().clone()),
            trust: insecure.then(|| Trust {
                insecure,
                ..Trust::default()
            }),
            ..Bmc::default()
        })
    }
}

fn position(at: &serde_saphyr::Location) -> (usize, usize) {
    let number = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
    (number(at.line()), number(at.column()))
}

/// Decodes a value, without the newline that `echo` appends.
fn decoded(encoded: &str) -> Option<SecretString> {
    let bytes = Zeroizing::new(BASE64_STANDARD.decode(encoded.trim()).ok()?);
    let text = std::str::from_utf8(&bytes).ok()?;
    Some(text.strip_suffix('\n').unwrap_or(text).into())
}
