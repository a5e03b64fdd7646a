//! Contracts by their descriptors: frozen ones, today's, and what breaks one.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use prost::Message;
use prost_reflect::{DescriptorPool, FieldDescriptor, MessageDescriptor, MethodDescriptor};
use prost_types::{DescriptorProto, FileDescriptorSet};

use super::SERVICE;

/// The contract of version 0.1. It is never changed.
const V0_1: &str = include_str!("../../skew/power-0.1.proto");
/// The name under which it is compiled.
const FILE: &str = "power.proto";

/// A field by its message's name in the package and its own name.
pub type Field = (&'static str, &'static str);

/// The fields of version 0.1 by which a late call is refused. A program without them is the oldest that
/// a contract can be made of.
const LATE_CALLS: [Field; 3] = [
    ("ClaimTermRequest", "sequence"),
    ("ClaimTermResponse", "since_start"),
    ("BeginRequest", "latest"),
];

/// What two programs can say to each other.
#[derive(Debug, Clone)]
pub struct Contract(DescriptorPool);

impl Contract {
    /// Today's.
    ///
    /// # Errors
    /// Never, unless the build is broken.
    pub fn today() -> Result<Self> {
        let pool = DescriptorPool::decode(rackhand_proto::FILE_DESCRIPTOR_SET)?;
        Ok(Self(pool))
    }

    /// That of version 0.1.
    ///
    /// # Errors
    /// The frozen file does not compile.
    pub fn v0_1() -> Result<Self> {
        Self::compiled(&frozen()?)
    }

    /// That of a program from before version 0.1, which does not tell its clock.
    ///
    /// # Errors
    /// As [`Self::v0_1`], or it has no such fields.
    pub fn without_clock() -> Result<Self> {
        let mut files = frozen()?;
        for (message, field) in LATE_CALLS {
            let found = messages(&mut files).find(|one| one.name() == message);
            let fields = &mut found.with_context(|| message.to_owned())?.field;
            let before = fields.len();
            fields.retain(|one| one.name() != field);
            anyhow::ensure!(fields.len() + 1 == before, "{message} has no {field}");
        }
        Self::compiled(&files)
    }

    fn compiled(files: &FileDescriptorSet) -> Result<Self> {
        let mut pool = DescriptorPool::new();
        pool.decode_file_descriptor_set(files.encode_to_vec().as_slice())?;
        Ok(Self(pool))
    }

    /// A method by name.
    ///
    /// # Errors
    /// The contract does not have it.
    pub fn method(&self, name: &str) -> Result<MethodDescriptor> {
        let service = self.0.get_service_by_name(SERVICE).context(SERVICE)?;
        let found = service.methods().find(|method| method.name() == name);
        found.with_context(|| format!("{SERVICE} has no {name}"))
    }

    /// A message by its name in the package.
    ///
    /// # Errors
    /// The contract does not have it.
    pub fn message(&self, name: &str) -> Result<MessageDescriptor> {
        let found = self
            .0
            .get_message_by_name(&format!("rackhand.power.v1.{name}"));
        found.with_context(|| format!("no message {name}"))
    }

    /// What of this contract a newer one breaks: a program of this one would misunderstand it.
    #[must_use]
    pub fn broken_by(&self, newer: &Self) -> Vec<String> {
        let (old, new) = (self.parts(), newer.parts());
        let mut broken = Vec::new();
        for (part, before) in &old {
            match new.get(part) {
                Some(now) if now == before => {}
                Some(now) => broken.push(format!("{part} was {before} and is {now}")),
                None => broken.push(format!("{part} ({before}) is gone")),
            }
        }
        broken
    }

    /// Everything that must stay: fields by number, values of enumerations by number, methods by name.
    fn parts(&self) -> BTreeMap<String, String> {
        let mut parts = BTreeMap::new();
        for message in self.0.all_messages() {
            for field in message.fields() {
                parts.insert(
                    format!("field {} of {}", field.number(), message.full_name()),
                    described(&field),
                );
            }
        }
        for list in self.0.all_enums() {
            for value in list.values() {
                parts.insert(
                    format!("value {} of {}", value.number(), list.full_name()),
                    value.name().to_owned(),
                );
            }
        }
        for service in self.0.services() {
            for method in service.methods() {
                let stream = if method.is_server_streaming() {
                    "stream of "
                } else {
                    ""
                };
                let text = format!(
                    "{} to {stream}{}",
                    method.input().full_name(),
                    method.output().full_name()
                );
                parts.insert(format!("method {}", method.full_name()), text);
            }
        }
        parts
    }
}

/// Name, type, and whether it is repeated, optional or one of several.
fn described(field: &FieldDescriptor) -> String {
    let oneof = field.containing_oneof();
    let oneof = oneof.map(|oneof| format!(" of {}", oneof.name()));
    format!(
        "{:?} {:?} {}{}{}",
        field.cardinality(),
        field.kind(),
        field.name(),
        if field.supports_presence() {
            " with presence"
        } else {
            ""
        },
        oneof.unwrap_or_default()
    )
}

fn frozen() -> Result<FileDescriptorSet> {
    let dir = tempfile::tempdir()?;
    std::fs::write(dir.path().join(FILE), V0_1)?;
    Ok(protox::compile([FILE], [dir.path()])?)
}

fn messages(files: &mut FileDescriptorSet) -> impl Iterator<Item = &mut DescriptorProto> {
    let ours = files.file.iter_mut().filter(|file| file.name() == FILE);
    ours.flat_map(|file| file.message_type.iter_mut())
}
