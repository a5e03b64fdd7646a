//! The reference page of the gRPC service, from the descriptors and their comments.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeMap;

use prost::Message as _;
use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto,
    FileDescriptorSet, ServiceDescriptorProto,
    field_descriptor_proto::{Label, Type},
};
use rackhand_proto::FILE_DESCRIPTOR_SET;
use rackhand_reference::cell;

const PACKAGE: &str = "rackhand.power.v1";
const INTRODUCTION: &str = "\
# gRPC service

The service, its messages and its enumerations, with the comments of \
[power.proto](../../proto/proto/rackhand/power/v1/power.proto). [grpc.md](../grpc.md) explains how \
the service behaves.
";

// Field numbers of descriptor.proto, which form the paths in a file.
const MESSAGES: i32 = 4;
const ENUMS: i32 = 5;
const SERVICES: i32 = 6;
const FIELDS: i32 = 2;
const METHODS: i32 = 2;
const VALUES: i32 = 2;

/// The comments of a file, by the path of the element that they describe.
struct Comments(BTreeMap<Vec<i32>, String>);

impl Comments {
    fn of(file: &FileDescriptorProto) -> Self {
        let locations = file.source_code_info.iter().flat_map(|i| &i.location);
        let comments = locations.filter_map(|location| {
            let comment = location.leading_comments.as_ref();
            let comment = comment.or(location.trailing_comments.as_ref())?;
            Some((location.path.clone(), comment.clone()))
        });
        Self(comments.collect())
    }

    fn at(&self, path: &[i32]) -> &str {
        self.0.get(path).map_or("", String::as_str)
    }

    /// As a paragraph, if there is one.
    fn paragraph(&self, path: &[i32]) -> String {
        let lines: Vec<&str> = self.at(path).lines().map(str::trim).collect();
        match lines.join("\n").trim() {
            "" => String::new(),
            text => format!("{text}\n\n"),
        }
    }
}

fn power_file() -> FileDescriptorProto {
    let set = FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).unwrap();
    let mut files = set.file.into_iter();
    files.find(|file| file.package() == PACKAGE).unwrap()
}

fn index(position: usize) -> i32 {
    i32::try_from(position).unwrap()
}

/// A type of this package as a link to its section, another one by its name.
fn type_link(name: &str) -> String {
    let own = format!(".{PACKAGE}.");
    match name.strip_prefix(&own) {
        Some(name) => format!("[{name}](#{})", name.to_lowercase()),
        None => name.trim_start_matches('.').to_owned(),
    }
}

fn field_type(field: &FieldDescriptorProto, message: &DescriptorProto) -> String {
    let entry = message.nested_type.iter().find(|nested| {
        nested.options.as_ref().is_some_and(|o| o.map_entry())
            && field.type_name().ends_with(&format!(".{}", nested.name()))
    });
    if let Some(entry) = entry {
        let of: Vec<String> = entry.field.iter().map(|f| field_type(f, entry)).collect();
        return format!("map of {}", of.join(" to "));
    }
    let name = match field.r#type() {
        Type::Message | Type::Enum => type_link(field.type_name()),
        scalar => scalar
            .as_str_name()
            .trim_start_matches("TYPE_")
            .to_lowercase(),
    };
    match field.label() {
        Label::Repeated => format!("repeated {name}"),
        _ if field.proto3_optional() => format!("optional {name}"),
        _ => name,
    }
}

fn write_service(
    page: &mut String,
    comments: &Comments,
    at: usize,
    service: &ServiceDescriptorProto,
) {
    let path = [SERVICES, index(at)];
    page.push_str(&format!("\n## {}\n\n", service.name()));
    page.push_str(&comments.paragraph(&path));
    page.push_str("| Call | Request | Response | Meaning |\n|---|---|---|---|\n");
    for (at, method) in service.method.iter().enumerate() {
        let stream = |is: bool| if is { "stream of " } else { "" };
        page.push_str(&format!(
            "| `{}` | {}{} | {}{} | {} |\n",
            method.name(),
            stream(method.client_streaming()),
            type_link(method.input_type()),
            stream(method.server_streaming()),
            type_link(method.output_type()),
            cell(comments.at(&[path[0], path[1], METHODS, index(at)])),
        ));
    }
}

fn write_message(page: &mut String, comments: &Comments, at: usize, message: &DescriptorProto) {
    let path = [MESSAGES, index(at)];
    page.push_str(&format!("\n### {}\n\n", message.name()));
    page.push_str(&comments.paragraph(&path));
    if message.field.is_empty() {
        page.push_str("It has no fields.\n");
        return;
    }
    page.push_str("| Field | Type | Meaning |\n|---|---|---|\n");
    for (at, field) in message.field.iter().enumerate() {
        let comment = cell(comments.at(&[path[0], path[1], FIELDS, index(at)]));
        let choice = field.oneof_index.filter(|_| !field.proto3_optional());
        let choice = choice.and_then(|one| message.oneof_decl.get(usize::try_from(one).unwrap()));
        let meaning = match choice {
            Some(choice) => format!("One of `{}`. {comment}", choice.name()),
            None => comment,
        };
        page.push_str(&format!(
            "| `{}` | {} | {} |\n",
            field.name(),
            field_type(field, message),
            meaning.trim()
        ));
    }
}

fn write_enum(page: &mut String, comments: &Comments, at: usize, values: &EnumDescriptorProto) {
    let path = [ENUMS, index(at)];
    page.push_str(&format!("\n### {}\n\n", values.name()));
    page.push_str(&comments.paragraph(&path));
    page.push_str("| Value | Number | Meaning |\n|---|---|---|\n");
    for (at, value) in values.value.iter().enumerate() {
        page.push_str(&format!(
            "| `{}` | {} | {} |\n",
            value.name(),
            value.number(),
            cell(comments.at(&[path[0], path[1], VALUES, index(at)]))
        ));
    }
}

#[test]
fn reference_page_is_current() {
    let file = power_file();
    let comments = Comments::of(&file);
    let mut page = INTRODUCTION.to_owned();
    for (at, service) in file.service.iter().enumerate() {
        write_service(&mut page, &comments, at, service);
    }
    page.push_str("\n## Messages\n");
    for (at, message) in file.message_type.iter().enumerate() {
        write_message(&mut page, &comments, at, message);
    }
    page.push_str("\n## Enumerations\n");
    for (at, values) in file.enum_type.iter().enumerate() {
        write_enum(&mut page, &comments, at, values);
    }
    let source = "proto/proto/rackhand/power/v1/power.proto";
    rackhand_reference::assert_current("grpc.md", source, &page).unwrap();
}

#[test]
fn no_message_holds_another_one() {
    let file = power_file();
    for message in &file.message_type {
        let entries = message.nested_type.iter();
        let is_entry = |m: &DescriptorProto| m.options.as_ref().is_some_and(|o| o.map_entry());
        assert!(
            entries.clone().all(is_entry) && message.enum_type.is_empty(),
            "the page has no sections for the types inside {}",
            message.name()
        );
    }
}
