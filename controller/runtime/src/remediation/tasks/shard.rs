//! Which remediations are of this controller, where several share a management cluster by `--watch-filter`.

use std::collections::BTreeSet;

use kube::{ResourceExt, api::DynamicObject};
use rackhand_api::names::WATCH_FILTER_LABEL;

use crate::leader::events::Events;

/// Whether this controller works on a remediation, where several share a management cluster by
/// `--watch-filter`.
pub(super) fn is_of_shard(filter: Option<&str>, object: &DynamicObject) -> bool {
    filter.is_none_or(|filter| shard(object) == Some(filter))
}

fn shard(object: &DynamicObject) -> Option<&str> {
    object.labels().get(WATCH_FILTER_LABEL).map(String::as_str)
}

/// Says of a remediation that every shard ignores what its maker has to do (L1).
pub(super) fn report_unclaimed(
    events: &Events,
    filter: Option<&str>,
    object: &DynamicObject,
    told: &mut BTreeSet<String>,
) {
    if filter.is_some() && shard(object).is_none() && told.insert(object.uid().unwrap_or_default())
    {
        let message = format!(
            "no controller with --watch-filter works on this remediation, because it does not carry the \
             label {WATCH_FILTER_LABEL}; set it to the value of the shard that is to carry it out"
        );
        events.send(object, true, "NoShard", &message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f6_a_remediation_is_of_one_shard() {
        let labelled = |labels: serde_json::Value| -> DynamicObject {
            serde_json::from_value(serde_json::json!({ "metadata": { "labels": labels } })).unwrap()
        };
        let blue = labelled(serde_json::json!({ WATCH_FILTER_LABEL: "blue" }));
        let plain = labelled(serde_json::json!({}));
        for (filter, of_blue, of_plain) in [
            (None, true, true),
            (Some("blue"), true, false),
            (Some("red"), false, false),
        ] {
            assert_eq!(is_of_shard(filter, &blue), of_blue, "{filter:?}");
            assert_eq!(is_of_shard(filter, &plain), of_plain, "{filter:?}");
        }
    }
}
