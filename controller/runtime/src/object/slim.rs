//! An object from a list or a watch, without what its managers say of its fields.
//!
//! Reads it in one pass: a list of 500 Machines is large otherwise.

use std::{borrow::Cow, fmt};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    api::DynamicObject,
    core::{ApiResource, DynamicResourceScope, TypeMeta},
};
use serde::{
    Deserialize, Deserializer,
    de::{
        DeserializeSeed, IgnoredAny, IntoDeserializer, MapAccess, Visitor,
        value::{MapAccessDeserializer, StringDeserializer},
    },
};
use serde_json::{Map, Value};

const MANAGED_FIELDS: &str = "managedFields";

/// The object.
#[derive(Debug, Clone)]
pub(crate) struct Slim(pub(crate) DynamicObject);

impl<'de> Deserialize<'de> for Slim {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(Object)
    }
}

struct Object;

impl<'de> Visitor<'de> for Object {
    type Value = Slim;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a Kubernetes object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Slim, A::Error> {
        let (mut api_version, mut kind, mut metadata) = (None, None, ObjectMeta::default());
        let mut data = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "apiVersion" => api_version = map.next_value::<Option<String>>()?,
                "kind" => kind = map.next_value::<Option<String>>()?,
                "metadata" => metadata = map.next_value::<Metadata>()?.0,
                _ => {
                    data.insert(key, map.next_value()?);
                }
            }
        }
        let types = match (api_version, kind) {
            (None, None) => None,
            (api_version, kind) => Some(TypeMeta {
                api_version: api_version.unwrap_or_default(),
                kind: kind.unwrap_or_default(),
            }),
        };
        Ok(Slim(DynamicObject {
            types,
            metadata,
            data: Value::Object(data),
        }))
    }
}

struct Metadata(ObjectMeta);

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(MetadataVisitor)
    }
}

struct MetadataVisitor;

impl<'de> Visitor<'de> for MetadataVisitor {
    type Value = Metadata;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the metadata of a Kubernetes object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Metadata, A::Error> {
        let others = MapAccessDeserializer::new(Others(map));
        ObjectMeta::deserialize(others).map(Metadata)
    }
}

/// All fields but the one that is left out.
struct Others<A>(A);

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Others<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        while let Some(key) = self.0.next_key::<String>()? {
            if key == MANAGED_FIELDS {
                self.0.next_value::<IgnoredAny>()?;
            } else {
                let key: StringDeserializer<A::Error> = key.into_deserializer();
                return seed.deserialize(key).map(Some);
            }
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.0.next_value_seed(seed)
    }
}

impl kube::Resource for Slim {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        resource.kind.as_str().into()
    }

    fn group(resource: &ApiResource) -> Cow<'_, str> {
        resource.group.as_str().into()
    }

    fn version(resource: &ApiResource) -> Cow<'_, str> {
        resource.version.as_str().into()
    }

    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        resource.plural.as_str().into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.0.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.0.metadata
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn it_reads_as_a_dynamic_object_does_but_for_its_managers() {
        for mut value in [
            json!({}),
            json!({ "apiVersion": "v1", "kind": "K", "metadata": { "name": "n" }, "spec": 1 }),
            json!({
                "metadata": {
                    "name": "n", "uid": "u", "labels": { "a": "b" }, "generation": 3,
                    "managedFields": [{ "manager": "m", "fieldsV1": { "f:spec": {} } }],
                    "creationTimestamp": "2026-01-01T00:00:00Z", "annotations": null,
                },
                "status": { "conditions": [null, 1.5] }, "managedFields": "kept here",
            }),
        ] {
            let slim: Slim = serde_json::from_str(&value.to_string()).unwrap();
            if value.get("metadata").is_none() {
                value["metadata"] = json!({});
            }
            let mut whole: DynamicObject = serde_json::from_value(value).unwrap();
            whole.metadata.managed_fields = None;
            assert_eq!(slim.0, whole);
        }
    }
}
