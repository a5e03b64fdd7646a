//! Remediation templates of any kind, and references to them.
//!
//! Owns reading what a health check needs to make a remediation from a template.
//! It must never depend on the kind of a template: a health check works with any.

use kube::api::DynamicObject;
use serde_json::{Map, Value};

use super::fields::{Fields, ViewError};
use super::meta::Meta;
use crate::names;

/// A reference to a template. It has no namespace: a template is in the
/// namespace of the check that refers to it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TemplateRef {
    /// Group and version of the template, used as they are written.
    pub api_version: String,
    /// The kind of the template.
    pub kind: String,
    /// The name of the template.
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

    /// The kind of the remediations that are made from the template.
    #[must_use]
    pub fn remediation_kind(&self) -> &str {
        names::remediation_kind(&self.kind)
    }
}

/// The fields of a remediation template of any kind that Rackhand uses.
#[derive(Clone, Debug, PartialEq)]
pub struct RemediationTemplateView {
    /// Metadata of the object.
    pub meta: Meta,
    /// The value of `spec.template`, which is copied into a remediation; empty if absent.
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
