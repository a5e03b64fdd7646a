//! Fields that the API server itself sets or removes.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::Value;

/// Removes a field.
pub(super) fn remove(object: &mut Value, field: &str) {
    if let Some(fields) = object.as_object_mut() {
        fields.remove(field);
    }
}

/// `stringData` becomes `data`, and the type is set.
pub(super) fn complete_secret(object: &mut Value) {
    if object["type"].is_null() {
        object["type"] = "Opaque".into();
    }
    let Some(Value::Object(plain)) = object.get("stringData").cloned() else {
        return;
    };
    remove(object, "stringData");
    for (name, value) in plain {
        let text = value.as_str().unwrap_or_default();
        object["data"][name] = STANDARD.encode(text).into();
    }
}
