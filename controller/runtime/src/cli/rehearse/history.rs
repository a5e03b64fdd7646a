//! A history: changes of Machines and Nodes in the order of time, from files of several formats.

use jiff::Timestamp;
use kube::api::DynamicObject;
use rackhand_api::names::{groups, kinds};

use super::{audit, prometheus, recording, trace};
use crate::{checks::is_of, serve::explain::ExplainError};

/// A change at a moment.
#[derive(Debug, Clone)]
pub(super) struct HistoryEvent {
    pub(super) at: Timestamp,
    pub(super) change: Change,
}

/// A change of one object.
#[derive(Debug, Clone)]
pub(super) enum Change {
    /// The object as it is from now on.
    Put(DynamicObject),
    /// The object as it was before it was deleted.
    Delete(DynamicObject),
}

/// A history that was read: the changes of its files, in one order.
#[derive(Debug)]
pub(super) struct History {
    /// In the order of time.
    pub(super) events: Vec<HistoryEvent>,
    pub(super) start: Timestamp,
    pub(super) end: Timestamp,
    /// Whether there are Machines of Cluster API. Otherwise each Node counts as one.
    pub(super) has_machines: bool,
    /// Whether there are Machines of OpenShift. Otherwise each Node counts as one.
    pub(super) has_openshift_machines: bool,
}

impl History {
    /// Reads files, each in the format that its beginning shows.
    pub(super) fn read(files: &[(String, String)]) -> Result<Self, ExplainError> {
        let mut events = Vec::new();
        for (file, text) in files {
            let read = read(text);
            events.extend(read.map_err(|why| ExplainError::File(format!("{file}: {why}")))?);
        }
        events.sort_by_key(|event| event.at);
        let (Some(first), Some(last)) = (events.first(), events.last()) else {
            return Err(ExplainError::Request(
                "the history contains no Machine and no Node".into(),
            ));
        };
        let (start, end) = (first.at, last.at);
        let has = |group| {
            let mut events = events.iter();
            events.any(|event| is_of(event.change.object(), group, kinds::MACHINE))
        };
        let (has_machines, has_openshift_machines) =
            (has(groups::CLUSTER_API), has(groups::OPENSHIFT_MACHINE));
        Ok(Self {
            events,
            start,
            end,
            has_machines,
            has_openshift_machines,
        })
    }
}

impl Change {
    pub(super) fn object(&self) -> &DynamicObject {
        match self {
            Self::Put(object) | Self::Delete(object) => object,
        }
    }
}

/// Reads one file.
fn read(text: &str) -> Result<Vec<HistoryEvent>, String> {
    let beginning = text.trim_start();
    if prometheus::is_response(beginning) {
        return prometheus::read(beginning);
    }
    if trace::is_trace(beginning) {
        return trace::read(text);
    }
    let mut events = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let event = match audit::is_event(line) {
            true => audit::read(line),
            false => recording::read(line),
        };
        events.extend(event.map_err(|why| format!("line {}: {why}", number + 1))?);
    }
    Ok(events)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".{0,200}") {
            History::read(&[("f".into(), text)]).ok();
        }

        #[test]
        fn any_cut_of_a_recording_is_read_or_refused(at in 0_usize..400) {
            let line = serde_json::json!({
                "at": "2026-03-01T00:00:00Z", "type": "MODIFIED",
                "object": { "apiVersion": "v1", "kind": "Node", "metadata": { "name": "n" } },
            })
            .to_string();
            let two = format!("{line}\n{line}");
            let cut: String = two.chars().take(at).collect();
            History::read(&[("f".into(), cut)]).ok();
        }
    }

    #[test]
    fn mistake_is_named_with_file_and_line() {
        let text = "\n{\"at\": \"yesterday\"}\n".to_owned();
        let error = History::read(&[("h.jsonl".into(), text)]).unwrap_err();
        assert!(
            error.to_string().starts_with("h.jsonl: line 2: "),
            "{error}"
        );
        let error = History::read(&[("h.jsonl".into(), String::new())]).unwrap_err();
        assert!(
            error.to_string().contains("no Machine and no Node"),
            "{error}"
        );
    }
}
