use super::*;

type Members = super::Members<&'static str>;

const NOW: Duration = Duration::from_secs(100);
const ACTS: Role = Role {
    yields: false,
    dry_run: false,
};

fn item() -> Item<&'static str> {
    Item::new(&"check", &"m".into())
}

fn create() -> Wanted<&'static str> {
    Wanted {
        effect: Some("create"),
        hands_over: true,
    }
}

fn nothing() -> Wanted<&'static str> {
    Wanted {
        effect: None,
        hands_over: false,
    }
}

fn delete() -> Wanted<&'static str> {
    Wanted {
        effect: Some("delete"),
        hands_over: false,
    }
}

/// A check with a member that was cleared and whose remediation is being created.
fn mk_creating() -> Members {
    let mut members = Members::default();
    members.begin_check(&"check");
    members.reconsider(&item(), &create(), false);
    assert_eq!(members.pop(), Some(item()));
    assert_eq!(members.turn(&item(), create(), ACTS, NOW), Turn::AwaitRead);
    let reads = members.begin_reads(|_| false, NOW);
    let cleared = members.read_ended(&reads[0], Ok(()), NOW).unwrap();
    assert_eq!(cleared, BTreeSet::from([item().member]));
    let turn = members.turn(&item(), create(), ACTS, NOW);
    assert_eq!(turn, Turn::Begin("create"));
    members.begin(&item(), true);
    members
}

#[test]
fn f10_remediation_counts_from_its_creation_until_the_index_shows_it() {
    let mut members = mk_creating();
    let counts = |members: &Members| members.counted(&item(), MachineRemediation::None);
    assert_eq!(counts(&members), MachineRemediation::Open);
    let created = Ok(EffectOutcome::RemediationCreated);
    assert!(members.effect_ended(&item(), created, false, false, NOW));
    assert_eq!(counts(&members), MachineRemediation::Open);
    assert_eq!(members.next_due(), Some(NOW + SEE_AGAIN));
    assert_eq!(members.due(NOW + SEE_AGAIN), [item()]);
    assert_eq!(counts(&members), MachineRemediation::None);
}

#[test]
fn f10_remediation_counts_after_an_unanswered_creation() {
    let mut members = mk_creating();
    assert!(members.effect_ended(&item(), Err(()), false, false, NOW));
    let counted = members.counted(&item(), MachineRemediation::None);
    assert_eq!(counted, MachineRemediation::Open);
    members.reconsider(&item(), &create(), false);
    assert_eq!(members.pop(), None, "it waits for its retry");
    let retry = members.next_due().unwrap();
    assert_eq!(members.due(retry), [item()]);
    members.reconsider(&item(), &create(), false);
    assert_eq!(members.pop(), Some(item()));
}

#[test]
fn f10_remediation_that_may_exist_outlives_its_check() {
    let mut members = mk_creating();
    members.end_check(&"check");
    members.begin_check(&"check");
    assert_eq!(members.resume_remediations(&"check", NOW), [item()]);
    assert_eq!(members.next_due(), Some(NOW + SEE_AGAIN));
    members.end_check(&"check");
    let created = Ok(EffectOutcome::RemediationCreated);
    assert!(!members.effect_ended(&item(), created, false, true, NOW));
    let counted = members.counted(&item(), MachineRemediation::None);
    assert_eq!(
        counted,
        MachineRemediation::None,
        "nobody counts it any more"
    );
}

#[test]
fn f13_member_that_recovers_waits_for_no_read() {
    let mut members = Members::default();
    members.begin_check(&"check");
    assert!(!members.is_cleared(&item(), NOW));
    members.reconsider(&item(), &nothing(), false);
    assert!(members.begin_reads(|_| false, NOW).is_empty());
    assert_eq!(members.pop(), None);
}

#[test]
fn member_in_flight_is_reconsidered_once_its_conditions_are_written() {
    let mut members = Members::default();
    members.begin_check(&"check");
    members.begin(&item(), false);
    members.reconsider(&item(), &delete(), false);
    assert_eq!(members.pop(), None);
    assert!(members.conditions_ended(&item(), None, NOW));
    members.begin(&item(), false);
    assert!(!members.conditions_ended(&item(), None, NOW));
}

#[test]
fn unwritten_outcome_is_kept_unless_it_follows_from_the_next_verdict() {
    for (outcome, is_kept) in [
        (EffectOutcome::RemediationCreated, true),
        (EffectOutcome::OwnerMarked, false),
    ] {
        let mut members = Members::default();
        members.begin_check(&"check");
        members.begin(&item(), false);
        let unwritten = Unwritten {
            outcome: Some(outcome.clone()),
            retries: false,
        };
        members.conditions_ended(&item(), Some(unwritten), NOW);
        assert_eq!(members.next_due(), None);
        let kept = members.take_unreported(&item());
        assert_eq!(kept, Some(outcome).filter(|_| is_kept));
    }
}

#[test]
fn member_of_another_check_shows_no_outcome() {
    let mut members = Members::default();
    members.begin_check(&"check");
    members.begin(&item(), false);
    let deleted = Ok(EffectOutcome::RemediationDeleted);
    assert!(members.effect_ended(&item(), deleted, false, true, NOW));
    members.reconsider(&item(), &nothing(), false);
    assert_eq!(members.pop(), Some(item()), "the outcome is to be shown");
    let yields = Role {
        yields: true,
        ..ACTS
    };
    assert_eq!(members.turn(&item(), nothing(), yields, NOW), Turn::Yield);
    assert_eq!(members.take_unreported(&item()), None);
}

#[test]
fn members_wait_for_one_read_of_the_template() {
    for is_read in [true, false] {
        let mut members = Members::default();
        members.begin_check(&"check");
        members.await_template(&item());
        assert_eq!(members.template_read(&"check", is_read, NOW), [item()]);
        members.reconsider(&item(), &create(), false);
        assert_eq!(members.pop().is_some(), is_read);
        assert_eq!(members.next_due().is_none(), is_read);
    }
}

#[test]
fn reason_why_no_remediation_was_created_is_a_change_once() {
    let mut members = Members::default();
    let why = Unusable::foreign("Machine other");
    assert!(!members.set_not_created(&item(), None));
    assert!(members.set_not_created(&item(), Some(&why)));
    assert!(!members.set_not_created(&item(), Some(&why)));
    assert_eq!(members.not_created(&"check"), Some(why));
    assert!(members.set_not_created(&item(), None));
}

#[test]
fn batch_that_failed_holds_the_member_and_frees_it_for_other_checks() {
    let mut members = mk_creating();
    assert_eq!(members.creating().count(), 1);
    assert!(members.batch_ended(&item(), false, NOW));
    assert_eq!(members.creating().count(), 0);
    members.enqueue(item());
    assert_eq!(members.pop(), None);
    let retry = members.next_due().unwrap();
    assert_eq!(members.due(retry), [item()]);
    members.enqueue(item());
    assert_eq!(members.pop(), Some(item()));
    members.begin(&item(), false);
    assert!(!members.batch_ended(&item(), true, NOW));
}

#[test]
fn conditions_of_members_that_wait_for_a_read_leave_room_for_remediations() {
    let mut members = Members::default();
    members.begin_check(&"check");
    let item = |i: usize| Item::new(&"check", &format!("m{i:03}").into());
    let mut waiting = 0;
    for i in 0..100 {
        members.reconsider(&item(i), &create(), true);
    }
    let mut shown = Vec::new();
    while let Some(item) = members.pop() {
        assert_eq!(members.turn(&item, create(), ACTS, NOW), Turn::AwaitRead);
        waiting += 1;
        if members.may_show(&item) {
            members.begin(&item, false);
            shown.push(item);
        }
    }
    let half = Window::default().now / 2;
    assert_eq!((waiting, shown.len()), (100, half));
    let reads = members.begin_reads(|_| false, NOW);
    members.read_ended(&reads[0], Ok(()), NOW).unwrap();
    members.reconsider(&item(99), &create(), true);
    assert_eq!(
        members.pop(),
        Some(item(99)),
        "it is cleared, and there is room"
    );
    let turn = members.turn(&item(99), create(), ACTS, NOW);
    assert_eq!(turn, Turn::Begin("create"));
    members.begin(&item(99), true);
    for item in &shown {
        members.conditions_ended(item, None, NOW);
    }
    assert_eq!(members.pop(), Some(item(half)), "none is forgotten");
}
