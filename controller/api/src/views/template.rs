//! Remediation templates of any kind, and references to them.
//!
//! Owns reading what a health check needs to make a request from a template.
//! It must never know a template's kind: a health check works with any.

use kube::api::DynamicObject;
use serde_json::{Map, Value};

use super::fields::{Fields, ViewError};
use super::meta::Meta;
use crate::names;

/// A reference to a template. It names no namespace: a template lies in the
/// namespace of the check that refers to it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TemplateRef {
    /// Group and version, to be used as written.
    pub api_version: String,
    /// The kind of the template.
    pub kind: String,
    /// Name of the object.
    pub name: String,
}

impl TemplateRef {
    pub(super) fn read(fields: &Fields<'_>, path: &str) -> Result<Option<Self>, ViewError> {
        if !fields.has(path) {
            return Ok(None);
        }
        let at = |name: &str| fields.required_string(&format!("{path}.{name}"));
        Ok(Some(Self {
            api_version: at("apiVersion")?,
            kind: at("kind")?,
            name: at("name")?,
        }))
    }

    /// The kind of the requests made from it.
    #[must_use]
    pub fn request_kind(&self) -> &str {
        names::request_kind(&self.kind)
    }
}

/// What we read of a remediation template, whatever its kind.
#[derive(Clone, Debug, PartialEq)]
pub struct RemediationTemplateView {
    /// Metadata of the object.
    pub meta: Meta,
    /// Its `spec.template`: what a request is a copy of. Absent is empty.
    pub template: Map<String, Value>,
}

impl RemediationTemplateView {
    /// Reads a template.
    ///
    /// # Errors
    /// When `spec.template` is not an object.
    pub fn from_dynamic(object: &DynamicObject) -> Result<Self, ViewError> {
        let fields = Fields::of("remediation template", object);
        let template = match fields.get("spec.template") {
            None => Map::new(),
            Some(Value::Object(template)) => template.clone(),
            Some(_) => return Err(fields.error("spec.template", "is not an object")),
        };
        Ok(Self {
            meta: Meta::of(object),
            template,
        })
    }
}
