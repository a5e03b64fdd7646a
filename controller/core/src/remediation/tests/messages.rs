//! Tests of the messages of all reasons.

use strum::IntoEnumIterator;

use super::{super::*, build::*};

/// Every reason, with a detail where it has one.
fn all() -> Vec<Reason> {
    let filled = |reason| {
        let mut stored = serde_json::to_value(reason).unwrap();
        match stored.get_mut("detail") {
            Some(detail) if detail.is_number() => *detail = 2.into(),
            Some(detail) => *detail = "metal/host-7".into(),
            None => {}
        }
        serde_json::from_value(stored).unwrap()
    };
    Reason::iter().map(filled).collect()
}

#[test]
fn every_reason_is_one_line_and_survives_serialization() {
    for reason in all() {
        let text = reason.to_string();
        assert!(
            !text.contains('\n') && !text.contains("  ") && !text.ends_with('.'),
            "{text}"
        );
        assert!(
            reason.label().chars().all(char::is_alphanumeric),
            "{}",
            reason.label()
        );
        let stored = serde_json::to_string(&reason).unwrap();
        assert_eq!(
            serde_json::from_str::<Reason>(&stored).unwrap(),
            reason,
            "{stored}"
        );
        assert!(
            stored.contains(&format!("\"{}\"", reason.label())),
            "{stored}"
        );
    }
}

#[test]
fn f8_fence_unconfirmed_message_names_the_confirmation_annotation() {
    let text = Reason::FenceUnconfirmed("no answer from 10.0.0.7".into()).to_string();
    assert_eq!(
        text,
        "the host is not confirmed off, so no workload is moved: no answer from 10.0.0.7. Retrying; \
         or verify yourself that it is off and annotate this object with \
         rackhand.dev/confirm-fenced=<its UID>"
    );
}

#[test]
fn attempt_count_uses_singular_and_plural() {
    let text = |attempts| Reason::ExhaustedTold(attempts).to_string();
    assert!(text(1).starts_with("not healthy after 1 attempt; "));
    assert!(text(2).starts_with("not healthy after 2 attempts; "));
}

#[test]
fn a_webhook_that_is_away_names_its_owner() {
    let why = "failed calling webhook \"baremetalhost.metal3.io\": connection refused";
    let text = Reason::ActionFailed(why.into()).to_string();
    assert!(text.contains("start baremetal-operator"), "{text}");
    let other = Reason::ActionFailed("no answer".into()).to_string();
    assert!(!other.contains("webhook"), "{other}");
}

/// The message of the reason where words of persons are ignored, in the decision and in its Event.
fn where_words_are_ignored(reason: Reason) -> String {
    let policy = Policy {
        words_of_persons: WordsOfPersons::Ignored,
        ..Policy::default()
    };
    let note = Note {
        warning: true,
        reason: reason.label(),
        step: None,
        message: reason.to_string(),
    };
    let decision = Decision {
        state: mk_state(Step::Pending),
        next: Next::Write,
        reason,
        notes: vec![note],
        begins: false,
    };
    let decision = decision.explained(&policy);
    let text = decision.reason.to_string();
    for note in &decision.notes {
        assert_eq!(note.message, text);
    }
    text
}

#[test]
fn f15_ignored_words_of_persons_are_said_with_another_way_out() {
    let held = |what: &str| format!("PowerPolicy p: {what}: kubectl rackhand approve");
    let more = [
        Reason::HeldByPolicy(held("it requires the approval of a person")),
        Reason::HeldBySharedCause(held("3 of 4 hosts failed")),
        Reason::PolicyLimitReached(held("4 attempts on this host")),
    ];
    let asks = |text: &str| {
        ["rackhand.dev/override-", "rackhand.dev/confirm-", "approve"]
            .iter()
            .any(|word| text.contains(word))
    };
    let mut asking = 0;
    for reason in all().into_iter().chain(more) {
        let before = reason.to_string();
        let told = where_words_are_ignored(reason);
        if !asks(&before) {
            assert!(!told.contains("words"), "{told}");
            continue;
        }
        asking += 1;
        assert!(told.contains("(--words-of-persons=ignored)"), "{told}");
        assert!(
            told.contains("delete this object") || told.contains("--words-of-persons=accepted"),
            "{told}"
        );
    }
    assert_eq!(asking, 11);
}
