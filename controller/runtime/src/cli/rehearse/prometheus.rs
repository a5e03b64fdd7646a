//! Answers of Prometheus to a range query of `kube_node_status_condition` (kube-state-metrics).
//!
//! Each condition has one series for each status; the series with the value 1 shows the status at that moment.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;

use super::{
    history::HistoryEvent,
    trace::{NodeCondition, node_event},
};

#[derive(Deserialize)]
struct Response {
    data: Data,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Data {
    result_type: String,
    result: Vec<Series>,
}

#[derive(Deserialize)]
struct Series {
    metric: Labels,
    #[serde(default)]
    values: Vec<(f64, String)>,
}

#[derive(Deserialize)]
struct Labels {
    node: String,
    condition: String,
    status: String,
}

/// Whether a text is an answer of Prometheus.
pub(super) fn is_response(text: &str) -> bool {
    text.starts_with('{') && text.contains("\"resultType\"")
}

/// Reads the changes of the conditions. Their times are as exact as the step of the query.
pub(super) fn read(text: &str) -> Result<Vec<HistoryEvent>, String> {
    let response: Response = serde_json::from_str(text).map_err(|error| {
        format!("not an answer of Prometheus to a query of kube_node_status_condition: {error}")
    })?;
    if response.data.result_type != "matrix" {
        return Err(format!(
            "a {} of Prometheus is no history; query a range",
            response.data.result_type
        ));
    }
    // By time: Node, condition and status.
    let mut samples: BTreeMap<Timestamp, Vec<(&str, &str, &str)>> = BTreeMap::new();
    for series in &response.data.result {
        let Labels {
            node,
            condition,
            status,
        } = &series.metric;
        for (at, value) in &series.values {
            if value.parse::<f64>() == Ok(1.0) {
                samples
                    .entry(time(*at)?)
                    .or_default()
                    .push((node, condition, status));
            }
        }
    }
    let mut nodes: BTreeMap<&str, BTreeMap<&str, NodeCondition>> = BTreeMap::new();
    let mut events = Vec::new();
    for (at, of_moment) in samples {
        let mut changed = BTreeMap::new();
        for (node, condition, status) in of_moment {
            let status = title_case(status);
            let conditions = nodes.entry(node).or_default();
            if conditions.get(condition).is_none_or(|c| c.status != status) {
                conditions.insert(condition, NodeCondition { status, since: at });
                changed.insert(node, ());
            }
        }
        for node in changed.keys() {
            events.extend(nodes.get(node).map(|c| node_event(node, c, at)));
        }
    }
    Ok(events)
}

/// A time of Prometheus, in seconds.
fn time(seconds: f64) -> Result<Timestamp, String> {
    let time = jiff::SignedDuration::try_from_secs_f64(seconds).ok();
    time.and_then(|time| Timestamp::from_duration(time).ok())
        .ok_or_else(|| format!("{seconds} is not a time"))
}

/// `true` as Kubernetes writes it.
fn title_case(status: &str) -> String {
    let mut letters = status.chars();
    let first = letters.next().map(|c| c.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{super::history::Change, *};

    #[test]
    fn status_with_value_one_counts_and_only_changes_are_events() {
        let series = |status: &str, values: [&str; 4]| {
            let values: Vec<_> = [0, 60, 120, 180].iter().zip(values).collect();
            json!({
                "metric": { "node": "n1", "condition": "Ready", "status": status, "job": "ksm" },
                "values": values,
            })
        };
        let response = json!({ "status": "success", "data": { "resultType": "matrix", "result": [
            series("true", ["1", "0", "0", "1"]),
            series("unknown", ["0", "1", "1", "0"]),
        ] } })
        .to_string();
        assert!(is_response(&response));
        let events = read(&response).unwrap();
        let seen: Vec<(i64, String)> = events
            .iter()
            .map(|event| {
                let Change::Put(object) = &event.change else {
                    panic!("{event:?}");
                };
                let status = &object.data["status"]["conditions"][0]["status"];
                (event.at.as_second(), status.as_str().unwrap().to_owned())
            })
            .collect();
        let expected = [(0, "True"), (60, "Unknown"), (180, "True")];
        assert_eq!(seen, expected.map(|(at, status)| (at, status.to_owned())));
    }

    #[test]
    fn instant_vector_is_refused() {
        let text = json!({ "data": { "resultType": "vector", "result": [] } }).to_string();
        assert!(read(&text).unwrap_err().contains("query a range"));
    }
}
