//! Metrics of the remediations that cannot go on by themselves: how many for each reason, and which.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{family::Family, gauge::Gauge},
    registry::Registry,
};

use crate::store::metrics::{ReasonLabels, register};

/// How many blocked remediations have a series of their own. A failure that blocks more of them is told by
/// their number.
const NAMED: usize = 200;

/// A blocked remediation, by the labels of its series.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(in crate::remediation) struct BlockedRemediation {
    pub(in crate::remediation) kind: &'static str,
    pub(in crate::remediation) namespace: String,
    pub(in crate::remediation) name: String,
    /// Empty if no Node is known.
    pub(in crate::remediation) node: String,
    pub(in crate::remediation) reason: &'static str,
}

/// The blocked remediations, by UID, and whether each has a series.
type Current = BTreeMap<String, (BlockedRemediation, bool)>;

pub(super) struct BlockedMetrics {
    counts: Family<ReasonLabels, Gauge>,
    names: Family<BlockedRemediation, Gauge>,
    current: Mutex<Current>,
}

impl BlockedMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        Self {
            counts: register(
                registry,
                "remediations_blocked",
                "Remediations that cannot go on by themselves now, by reason",
                Family::default(),
            ),
            names: register(
                registry,
                "remediation_blocked_info",
                "A remediation that cannot go on by itself now, and its Node",
                Family::default(),
            ),
            current: Mutex::default(),
        }
    }

    /// Records why a remediation is blocked; `None` if it is not blocked or has ended.
    pub(super) fn set(&self, uid: &str, blocked: Option<BlockedRemediation>) {
        let mut current = self.current.lock();
        if current.get(uid).map(|(blocked, _)| blocked) == blocked.as_ref() {
            return;
        }
        let reason = blocked.as_ref().map(|blocked| blocked.reason);
        let before = match blocked {
            Some(blocked) => current.insert(uid.to_owned(), (blocked, false)),
            None => current.remove(uid),
        };
        if let Some((before, true)) = &before {
            self.names.remove(before);
        }
        self.name_more(&mut current);
        let before = before.map(|(before, _)| before.reason);
        for reason in [before, reason].into_iter().flatten() {
            let of_reason = current.values().filter(|(b, _)| b.reason == reason);
            let count = i64::try_from(of_reason.count()).unwrap_or(i64::MAX);
            self.counts
                .get_or_create(&ReasonLabels { reason })
                .set(count);
        }
    }

    fn name_more(&self, current: &mut Current) {
        let named = current.values().filter(|(_, named)| *named).count();
        let unnamed = current.values_mut().filter(|(_, named)| !named);
        for (blocked, named) in unnamed.take(NAMED.saturating_sub(named)) {
            self.names.get_or_create(blocked).set(1);
            *named = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::metrics::render;

    fn blocked(name: &str, reason: &'static str) -> BlockedRemediation {
        BlockedRemediation {
            kind: "Metal3Remediation",
            namespace: "metal3".into(),
            name: name.into(),
            node: format!("{name}-node"),
            reason,
        }
    }

    #[test]
    fn blocked_remediations_are_counted_and_named_by_current_reason() {
        let mut registry = Registry::default();
        let metrics = BlockedMetrics::register(&mut registry);
        metrics.set("a", Some(blocked("a", "Paused")));
        metrics.set("b", Some(blocked("b", "Paused")));
        metrics.set("b", Some(blocked("b", "Paused")));
        let has = |line: &str| render(&registry).lines().any(|l| l == line);
        let series = |name: &str, reason: &str| {
            format!(
                "remediation_blocked_info{{kind=\"Metal3Remediation\",namespace=\"metal3\",name=\"{name}\",\
                 node=\"{name}-node\",reason=\"{reason}\"}} 1"
            )
        };
        assert!(has("remediations_blocked{reason=\"Paused\"} 2"));
        assert!(has(&series("b", "Paused")));
        metrics.set("b", Some(blocked("b", "HostPaused")));
        metrics.set("a", None);
        metrics.set("never", None);
        assert!(has("remediations_blocked{reason=\"Paused\"} 0"));
        assert!(has("remediations_blocked{reason=\"HostPaused\"} 1"));
        assert!(has(&series("b", "HostPaused")));
        let text = render(&registry);
        assert_eq!(text.matches("remediation_blocked_info{").count(), 1);
    }

    #[test]
    fn number_of_named_remediations_is_bounded() {
        let mut registry = Registry::default();
        let metrics = BlockedMetrics::register(&mut registry);
        for n in 0..NAMED + 2 {
            let name = format!("{n:03}");
            metrics.set(&name, Some(blocked(&name, "Paused")));
        }
        let named = || render(&registry).matches("blocked_info{").count();
        assert_eq!(named(), NAMED);
        let has = |name: &str| render(&registry).contains(&format!("name=\"{name}\""));
        assert!(!has("200"));
        // The place of one that ends is given to another.
        metrics.set("000", None);
        assert_eq!(named(), NAMED);
        assert!(has("200") && !has("000"));
        let count = format!("remediations_blocked{{reason=\"Paused\"}} {}", NAMED + 1);
        assert!(render(&registry).contains(&count));
    }
}
