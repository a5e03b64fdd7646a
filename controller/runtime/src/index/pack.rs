//! Objects kept small: tens of thousands of them that differ only in names and times.
//!
//! Owns the split of an object into a frame, which it shares with all that look alike, and what is
//! its own. Must give back exactly what it was given.

use std::{collections::HashSet, sync::Arc};

use serde::de::DeserializeOwned;
use serde_json::Value;

/// Stands in a frame for a text of the object's own; JSON never holds it unescaped.
const HOLE: char = '\0';
/// Between the texts of the object's own; JSON never holds it unescaped in a string.
const BETWEEN: char = '\n';
/// Fields whose values are an object's own. Not in a map of labels, which selectors look at.
const OWN: [&str; 8] = [
    "name",
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "lastTransitionTime",
    "providerID",
    "systemUUID",
];
const LABELS: &str = "labels";
/// Frames that nobody has any more are dropped at this number, and whenever it has doubled.
const FIRST_SWEEP: usize = 1024;

/// An object, packed. Two are equal if the objects are, within one [`Frames`].
#[derive(Debug, Clone)]
pub(crate) struct Packed {
    frame: Arc<str>,
    own: Box<str>,
}

/// The frames in use.
pub(crate) struct Frames {
    known: HashSet<Arc<str>>,
    sweep_at: usize,
}

// === impl Frames ===

impl Default for Frames {
    fn default() -> Self {
        Self {
            known: HashSet::new(),
            sweep_at: FIRST_SWEEP,
        }
    }
}

impl Frames {
    pub(crate) fn pack(&mut self, object: &Value) -> Packed {
        let (mut frame, mut own) = (String::new(), String::new());
        split(object, true, &mut frame, &mut own);
        Packed {
            frame: self.known(&frame),
            own: own.into(),
        }
    }

    fn known(&mut self, frame: &str) -> Arc<str> {
        if let Some(known) = self.known.get(frame) {
            return known.clone();
        }
        if self.known.len() >= self.sweep_at {
            self.known.retain(|frame| Arc::strong_count(frame) > 1);
            self.sweep_at = (self.known.len() * 2).max(FIRST_SWEEP);
        }
        let new: Arc<str> = frame.into();
        self.known.insert(new.clone());
        new
    }
}

// === impl Packed ===

impl PartialEq for Packed {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.frame, &other.frame) && self.own == other.own
    }
}

impl Packed {
    /// The object again, read as `T`.
    pub(crate) fn unpack<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.text())
    }

    fn text(&self) -> String {
        let mut text = String::with_capacity(self.frame.len() + self.own.len());
        let mut own = self.own.split(BETWEEN);
        let mut parts = self.frame.split(HOLE);
        text.push_str(parts.next().unwrap_or_default());
        for part in parts {
            text.push_str(own.next().unwrap_or("null"));
            text.push_str(part);
        }
        text
    }

    /// Whether this is the object's JSON, to the letter, with fields in alphabetical order. It may
    /// say no where another spelling means the same.
    pub(crate) fn is(&self, json: &[u8]) -> bool {
        let mut rest = json;
        let mut own = self.own.split(BETWEEN);
        let mut first = true;
        for part in self.frame.split(HOLE) {
            if !std::mem::take(&mut first) {
                match rest.strip_prefix(own.next().unwrap_or("null").as_bytes()) {
                    Some(left) => rest = left,
                    None => return false,
                }
            }
            match rest.strip_prefix(part.as_bytes()) {
                Some(left) => rest = left,
                None => return false,
            }
        }
        rest.is_empty()
    }

    /// What it shares with all that look alike: labels, condition types and statuses among it.
    pub(crate) fn frame(&self) -> &Arc<str> {
        &self.frame
    }

    /// Whether this text stands in it as a whole JSON string that is not its own, such as a
    /// condition's type or a label.
    pub(crate) fn mentions(&self, text: &str) -> bool {
        self.frame.contains(&format!("\"{text}\""))
    }
}

/// Writes JSON into the frame, and texts of its own beside it.
fn split(value: &Value, own_fields: bool, frame: &mut String, own: &mut String) {
    match value {
        Value::Object(fields) => {
            frame.push('{');
            for (i, (name, value)) in fields.iter().enumerate() {
                if i > 0 {
                    frame.push(',');
                }
                quote(name, frame);
                frame.push(':');
                match value {
                    Value::String(text) if own_fields && OWN.contains(&name.as_str()) => {
                        if !own.is_empty() {
                            own.push(BETWEEN);
                        }
                        frame.push(HOLE);
                        quote(text, own);
                    }
                    value => split(value, own_fields && name != LABELS, frame, own),
                }
            }
            frame.push('}');
        }
        Value::Array(items) => {
            frame.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    frame.push(',');
                }
                split(item, own_fields, frame, own);
            }
            frame.push(']');
        }
        Value::String(text) => quote(text, frame),
        other => frame.push_str(&other.to_string()),
    }
}

/// As JSON writes it; most texts need no escapes.
fn quote(text: &str, into: &mut String) {
    if text.bytes().any(|b| b < b' ' || b == b'"' || b == b'\\') {
        into.push_str(&Value::from(text).to_string());
    } else {
        into.push('"');
        into.push_str(text);
        into.push('"');
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn machine(i: usize) -> Value {
        let condition = |type_: &str| {
            json!({
                "type": type_, "status": "True", "reason": type_, "message": "",
                "lastTransitionTime": format!("2026-01-01T00:00:{:02}Z", i % 60),
            })
        };
        json!({
            "metadata": {
                "name": format!("machine-{i}"), "namespace": "ns", "uid": format!("uid-{i}"),
                "labels": { "name": "a \"label\"", "pool": "workers" },
            },
            "spec": { "clusterName": "c", "providerID": format!("metal3://ns/host-{i}/machine-{i}") },
            "status": { "conditions": [condition("Ready"), condition("NodeReady")], "x": [1, null, true] },
        })
    }

    #[test]
    fn what_is_unpacked_is_what_was_packed() {
        let mut frames = Frames::default();
        let odd = [
            json!({}),
            json!(null),
            json!({ "name": "line\nbreak\u{0}\u{1f}\"\\", "uid": 7, "labels": { "uid": "\n" } }),
            json!({ "name": { "name": "", "labels": [{ "name": "x" }] } }),
            json!({ "name": "" }),
        ];
        for value in odd.into_iter().chain((0..3).map(machine)) {
            let packed = frames.pack(&value);
            assert_eq!(packed.unpack::<Value>().unwrap(), value);
            assert!(packed == frames.pack(&value));
            let mut text = value.to_string();
            assert!(packed.is(text.as_bytes()));
            text.push(' ');
            assert!(!packed.is(text.as_bytes()));
        }
    }

    #[test]
    fn machines_that_look_alike_share_their_frame_and_are_small() {
        let mut frames = Frames::default();
        let packed: Vec<_> = (0..100).map(|i| frames.pack(&machine(i))).collect();
        assert_eq!(frames.known.len(), 1);
        assert!(packed[0] != packed[1]);
        assert!(!packed[0].is(machine(1).to_string().as_bytes()));
        assert!(packed.iter().all(|p| p.own.len() < 150), "{:?}", packed[0]);
    }

    #[test]
    fn a_label_is_never_an_objects_own() {
        let mut frames = Frames::default();
        let mut other = machine(1);
        other["metadata"]["labels"]["name"] = "b".into();
        let (one, other) = (frames.pack(&machine(1)), frames.pack(&other));
        assert!(!Arc::ptr_eq(one.frame(), other.frame()));
        assert!(one.mentions("pool") && one.mentions("NodeReady") && !one.mentions("machine-1"));
    }

    #[test]
    fn frames_that_nobody_has_are_forgotten() {
        let mut frames = Frames::default();
        let kept = frames.pack(&json!({ "kept": true }));
        for i in 0..10 * FIRST_SWEEP {
            frames.pack(&json!({ "i": i }));
        }
        assert!(frames.known.len() <= FIRST_SWEEP, "{}", frames.known.len());
        assert!(kept == frames.pack(&json!({ "kept": true })));
    }
}
