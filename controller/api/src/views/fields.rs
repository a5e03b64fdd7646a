//! Reads fields of an object, with errors that name the field.
//!
//! Owns the conversion of JSON to typed values. It must never decide which of
//! two fields counts: the views do.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use kube::api::DynamicObject;
use serde_json::Value;

use crate::GoDuration;
use crate::IntOrPercent;

/// A field of an object that has the wrong form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{kind} {}: {field} {problem}", self.object())]
pub struct ViewError {
    /// The kind of the object.
    pub kind: &'static str,
    /// The namespace of the object, if it has one.
    pub namespace: Option<String>,
    /// Name of the object.
    pub name: String,
    /// The path of the field, such as `spec.unhealthyConditions[0].timeout`.
    pub field: String,
    /// What is wrong with the value, as the end of a sentence that begins with
    /// the field.
    pub problem: String,
}

impl ViewError {
    /// The object as `namespace/name`, or its name alone.
    #[must_use]
    pub fn object(&self) -> String {
        match &self.namespace {
            Some(namespace) => format!("{namespace}/{}", self.name),
            None => self.name.clone(),
        }
    }
}

/// An object, or an item of a list in it, whose fields are read by path.
pub(super) struct Fields<'a> {
    kind: &'static str,
    object: &'a DynamicObject,
    value: &'a Value,
    /// The list that this is an item of, for the paths in errors.
    parent: Option<(&'a Fields<'a>, &'static str, usize)>,
}

impl<'a> Fields<'a> {
    pub(super) fn of(kind: &'static str, object: &'a DynamicObject) -> Self {
        Self {
            kind,
            object,
            value: &object.data,
            parent: None,
        }
    }

    /// The value at a path such as `spec.selector`. Null counts as absent.
    pub(super) fn get(&self, path: &str) -> Option<&'a Value> {
        path.split('.')
            .try_fold(self.value, |value, key| value.get(key))
            .filter(|value| !value.is_null())
    }

    pub(super) fn has(&self, path: &str) -> bool {
        self.get(path).is_some()
    }

    fn path(&self, field: &str) -> String {
        match self.parent {
            Some((list, name, index)) => {
                let item = format!("{name}[{index}]");
                let item = if field.is_empty() {
                    item
                } else {
                    format!("{item}.{field}")
                };
                list.path(&item)
            }
            None => field.to_owned(),
        }
    }

    pub(super) fn error(&self, field: &str, problem: impl fmt::Display) -> ViewError {
        ViewError {
            kind: self.kind,
            namespace: self.object.metadata.namespace.clone(),
            name: self.object.metadata.name.clone().unwrap_or_default(),
            field: self.path(field),
            problem: problem.to_string(),
        }
    }

    /// The value at `path`, converted to a `T`, or an error that states the
    /// expected form.
    fn read<T>(
        &self,
        path: &str,
        want: &str,
        convert: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, ViewError> {
        self.get(path)
            .map(|value| {
                convert(value)
                    .ok_or_else(|| self.error(path, format!("is {}, want {want}", shown(value))))
            })
            .transpose()
    }

    fn text(&self, path: &str) -> Result<Option<&'a str>, ViewError> {
        Ok(self
            .read(path, "a string", Value::as_str)?
            .filter(|text| !text.is_empty()))
    }

    pub(super) fn string(&self, path: &str) -> Result<Option<String>, ViewError> {
        Ok(self.text(path)?.map(str::to_owned))
    }

    /// A string that must be present.
    pub(super) fn required_string(&self, path: &str) -> Result<String, ViewError> {
        self.string(path)?
            .ok_or_else(|| self.error(path, "is missing"))
    }

    pub(super) fn boolean(&self, path: &str) -> Result<Option<bool>, ViewError> {
        self.read(path, "true or false", Value::as_bool)
    }

    pub(super) fn int32(&self, path: &str) -> Result<Option<i32>, ViewError> {
        self.read(path, "an integer of 32 bits", |value| {
            value.as_i64().and_then(|wide| i32::try_from(wide).ok())
        })
    }

    pub(super) fn int64(&self, path: &str) -> Result<Option<i64>, ViewError> {
        self.read(path, "an integer", Value::as_i64)
    }

    pub(super) fn timestamp(&self, path: &str) -> Result<Option<Timestamp>, ViewError> {
        self.text(path)?
            .map(|text| {
                text.parse().map_err(|_| {
                    self.error(path, format!("is {text:?}, want a time as in RFC 3339"))
                })
            })
            .transpose()
    }

    /// A duration in Go's form.
    pub(super) fn duration(&self, path: &str) -> Result<Option<Duration>, ViewError> {
        self.text(path)?
            .map(|text| {
                text.parse::<GoDuration>()
                    .and_then(GoDuration::to_std)
                    .map_err(|problem| self.error(path, problem))
            })
            .transpose()
    }

    /// A duration in whole seconds.
    pub(super) fn seconds(&self, path: &str) -> Result<Option<Duration>, ViewError> {
        self.read(path, "a number of seconds, zero or more", |value| {
            value.as_u64().map(Duration::from_secs)
        })
    }

    pub(super) fn int_or_percent(&self, path: &str) -> Result<Option<IntOrPercent>, ViewError> {
        self.get(path)
            .map(|value| {
                IntOrPercent::from_json(value).map_err(|problem| self.error(path, problem))
            })
            .transpose()
    }

    /// The items of a list; an absent list is empty.
    pub(super) fn items<'b>(&'b self, path: &'static str) -> Result<Vec<Fields<'b>>, ViewError> {
        let list = self
            .read(path, "a list", Value::as_array)?
            .map_or(&[][..], Vec::as_slice);
        Ok(list
            .iter()
            .enumerate()
            .map(|(index, value)| Fields {
                kind: self.kind,
                object: self.object,
                value,
                parent: Some((self, path, index)),
            })
            .collect())
    }

    /// A list of strings; an absent list is empty.
    pub(super) fn strings(&self, path: &'static str) -> Result<Vec<String>, ViewError> {
        self.items(path)?
            .iter()
            .map(|item| match item.value.as_str() {
                Some(text) => Ok(text.to_owned()),
                None => Err(item.error("", format!("is {}, want a string", shown(item.value)))),
            })
            .collect()
    }

    /// A map of strings; an absent map is empty.
    pub(super) fn string_map(
        &self,
        path: &str,
    ) -> Result<std::collections::BTreeMap<String, String>, ViewError> {
        let Some(map) = self.read(path, "a map of strings", Value::as_object)? else {
            return Ok(std::collections::BTreeMap::new());
        };
        map.iter()
            .map(|(key, value)| match value.as_str() {
                Some(text) => Ok((key.clone(), text.to_owned())),
                None => Err(self.error(
                    path,
                    format!("has {} at {key:?}, want a string", shown(value)),
                )),
            })
            .collect()
    }
}

/// A value as errors show it, shortened.
fn shown(value: &Value) -> String {
    match value {
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        Value::String(text) if text.chars().count() > 64 => {
            format!("{:?}...", text.chars().take(64).collect::<String>())
        }
        other => other.to_string(),
    }
}
