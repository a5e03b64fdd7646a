//! Features that an agent must support before any command is sent through it.
//!
//! Agents and controllers of neighbouring minor versions work together. An earlier version omits the fields
//! that a later version added; where a fencing rule depends on such a field, the agent must be upgraded first.

use rackhand_proto::v1;

use super::clock::AgentClock;

/// An agent that is too old.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "upgrade this agent: it {lacks}. Nothing is commanded through it before that, and hosts that it holds \
     off stay off"
)]
pub(crate) struct UpgradeRequired {
    lacks: &'static str,
}

/// The clock of an agent that supports all required features.
///
/// # Errors
/// The agent lacks a required feature.
pub(super) fn clock(claimed: &v1::ClaimTermResponse) -> Result<AgentClock, UpgradeRequired> {
    let journal = claimed.journal.as_ref();
    if journal.is_none_or(|journal| journal.instance.is_empty()) {
        let lacks = "does not name its journal, so that an operation which it does not know might have been \
                     begun (F12)";
        return Err(UpgradeRequired { lacks });
    }
    let lacks = "does not tell its clock, so that it could begin an operation too late (F6)";
    AgentClock::of(claimed).ok_or(UpgradeRequired { lacks })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rackhand_proto::convert::duration_to_proto;

    use super::*;

    #[test]
    fn f6_f12_an_agent_without_clock_or_journal_must_be_upgraded() {
        let whole = v1::ClaimTermResponse {
            accepted: true,
            instance: "start-1".into(),
            journal: Some(v1::Journal {
                instance: "journal-1".into(),
                ..v1::Journal::default()
            }),
            since_start: Some(duration_to_proto(Duration::from_secs(1))),
            ..v1::ClaimTermResponse::default()
        };
        assert!(clock(&whole).is_ok());
        let silent = v1::ClaimTermResponse {
            since_start: None,
            ..whole.clone()
        };
        let nameless = v1::ClaimTermResponse {
            journal: Some(v1::Journal::default()),
            ..whole.clone()
        };
        let without = v1::ClaimTermResponse {
            journal: None,
            ..whole
        };
        for (old, word) in [
            (silent, "clock"),
            (nameless, "journal"),
            (without, "journal"),
        ] {
            let why = clock(&old).unwrap_err().to_string();
            assert!(
                why.starts_with("upgrade this agent: ") && why.contains(word),
                "{why}"
            );
        }
    }
}
