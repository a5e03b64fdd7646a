//! Failure traces: a table in CSV with the times at which each node was down.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use kube::api::DynamicObject;
use serde_json::json;

use super::history::{Change, HistoryEvent};

/// First line of a trace.
const HEAD: [&str; 3] = ["node", "down", "up"];

/// A condition of a Node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NodeCondition {
    pub(super) status: String,
    pub(super) since: Timestamp,
}

/// The Node with these conditions, at a moment.
pub(super) fn node_event(
    name: &str,
    conditions: &BTreeMap<&str, NodeCondition>,
    at: Timestamp,
) -> HistoryEvent {
    let conditions = conditions.iter().map(|(name, condition)| {
        json!({
            "type": name, "status": condition.status,
            "lastTransitionTime": condition.since.to_string(),
        })
    });
    let mut node = DynamicObject::new(name, &node_resource());
    node.data = json!({ "status": { "conditions": conditions.collect::<Vec<_>>() } });
    HistoryEvent {
        at,
        change: Change::Put(node),
    }
}

fn node_resource() -> kube::api::ApiResource {
    kube::api::ApiResource::erase::<k8s_openapi::api::core::v1::Node>(&())
}

fn cells(line: &str) -> Vec<&str> {
    line.split(',').map(str::trim).collect()
}

/// Whether a text is a trace.
pub(super) fn is_trace(text: &str) -> bool {
    text.lines().next().is_some_and(|line| cells(line) == HEAD)
}

/// Reads the failures. From the first failure of any node on, every named node is Ready unless it is down;
/// while it is down, its condition Ready is Unknown. A node with an empty `up` stays down.
pub(super) fn read(text: &str) -> Result<Vec<HistoryEvent>, String> {
    let mut failures = Vec::new();
    let mut nodes = BTreeSet::new();
    let lines = text.lines().enumerate();
    for (number, line) in lines.filter(|(_, line)| !line.trim().is_empty()).skip(1) {
        let place = |why: String| format!("line {}: {why}", number + 1);
        let cells = cells(line);
        let &[node, down, up] = cells.as_slice() else {
            return Err(place(format!("{} columns instead of 3", cells.len())));
        };
        if node.is_empty() {
            return Err(place("the node has no name".into()));
        }
        let down = time(down).map_err(place)?;
        let up = (!up.is_empty()).then(|| time(up)).transpose();
        let up = up.map_err(place)?;
        if up.is_some_and(|up| up < down) {
            return Err(place(format!("node {node} is up before it is down")));
        }
        nodes.insert(node);
        failures.push((node, down, up));
    }
    let Some(start) = failures.iter().map(|(_, down, _)| *down).min() else {
        return Ok(Vec::new());
    };
    let event = |node: &str, status: &str, since: Timestamp| {
        let status = status.to_owned();
        node_event(
            node,
            &BTreeMap::from([("Ready", NodeCondition { status, since })]),
            since,
        )
    };
    let mut events: Vec<HistoryEvent> = nodes
        .iter()
        .map(|node| event(node, "True", start))
        .collect();
    for (node, down, up) in failures {
        events.push(event(node, "Unknown", down));
        events.extend(up.map(|up| event(node, "True", up)));
    }
    events.sort_by_key(|event| event.at);
    Ok(events)
}

/// A time as in RFC 3339, or in seconds since 1970.
fn time(text: &str) -> Result<Timestamp, String> {
    let parsed = match text.parse::<i64>() {
        Ok(seconds) => Timestamp::from_second(seconds).ok(),
        Err(_) => text.parse().ok(),
    };
    parsed
        .ok_or_else(|| format!("{text:?} is neither a time as in RFC 3339 nor a number of seconds"))
}

#[cfg(test)]
mod tests {
    use kube::ResourceExt;

    use super::*;

    #[test]
    fn node_is_unknown_while_it_is_down() {
        let text = "node, down, up\nn1,100,200\nn2,1970-01-01T00:02:30Z,\n";
        assert!(is_trace(text));
        let seen: Vec<(i64, String, String)> = read(text)
            .unwrap()
            .iter()
            .map(|event| {
                let object = event.change.object();
                let status = &object.data["status"]["conditions"][0]["status"];
                let status = status.as_str().unwrap().to_owned();
                (event.at.as_second(), object.name_any(), status)
            })
            .collect();
        let expected = [
            (100, "n1", "True"),
            (100, "n2", "True"),
            (100, "n1", "Unknown"),
            (150, "n2", "Unknown"),
            (200, "n1", "True"),
        ];
        assert_eq!(
            seen,
            expected.map(|(at, node, status)| (at, node.to_owned(), status.to_owned()))
        );
    }

    #[test]
    fn mistakes_are_named_with_their_line() {
        for (line, why) in [
            ("n1,100", "2 columns"),
            (",100,200", "no name"),
            ("n1,soon,200", "\"soon\" is neither"),
            ("n1,300,200", "up before it is down"),
        ] {
            let error = read(&format!("node,down,up\n{line}\n")).unwrap_err();
            assert!(
                error.starts_with("line 2: ") && error.contains(why),
                "{error}"
            );
        }
        assert_eq!(read("node,down,up\n").unwrap().len(), 0);
    }
}
