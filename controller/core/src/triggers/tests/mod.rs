//! The rule about one Node, case by case. The world `triggers` of the model has every order of events.

use std::time::Duration;

use jiff::Timestamp;

use super::*;

const COOLDOWN: Duration = Duration::from_secs(60);

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn own(stage: Stage, answered: Option<i64>) -> Found {
    Found::Remediation(OwnRemediation {
        stage,
        deleting: false,
        answered: answered.map(at),
    })
}

fn node(label: NodeLabel, found: Found) -> TriggeredNode {
    TriggeredNode {
        name: "n".into(),
        label,
        ready: true,
        deleting: false,
        found,
        obstacle: None,
    }
}

fn decided(label: NodeLabel, found: Found) -> Decision {
    decide(&node(label, found), COOLDOWN, at(100))
}

const SET: NodeLabel = NodeLabel::Set;

const LABELS: [NodeLabel; 4] = [
    NodeLabel::Absent,
    NodeLabel::Set,
    NodeLabel::Failed,
    NodeLabel::Other,
];

#[test]
fn label_makes_one_remediation_and_other_values_make_none() {
    for label in LABELS {
        let expected = match label {
            NodeLabel::Set => Decision::Create,
            _ => Decision::Nothing,
        };
        assert_eq!(decided(label, Found::Nothing), expected, "{label:?}");
    }
    let mut gone = node(SET, Found::Nothing);
    gone.deleting = true;
    assert_eq!(decide(&gone, COOLDOWN, at(100)), Decision::Nothing);
}

#[test]
fn label_goes_once_the_node_is_back_and_not_before() {
    for stage in [Stage::NotBegun, Stage::Begun] {
        assert_eq!(
            decided(SET, own(stage, None)),
            Decision::Wait(Wait::Remediation)
        );
    }
    let mut back = node(SET, own(Stage::Succeeded, None));
    assert_eq!(
        decide(&back, COOLDOWN, at(100)),
        Decision::Answer(Answer::Remove)
    );
    back.ready = false;
    assert_eq!(
        decide(&back, COOLDOWN, at(100)),
        Decision::Wait(Wait::NodeNotReady)
    );
}

#[test]
fn failure_is_never_answered_by_removal() {
    for stage in [Stage::Failed, Stage::FailedOff] {
        for label in LABELS {
            let decision = decided(label, own(stage, None));
            let expected = match label {
                NodeLabel::Set | NodeLabel::Absent => Decision::Answer(Answer::Fail),
                NodeLabel::Failed | NodeLabel::Other => Decision::Record,
            };
            assert_eq!(decision, expected, "{stage:?} {label:?}");
        }
    }
    assert_eq!(decided(SET, Found::Lost), Decision::Answer(Answer::Fail));
    assert_eq!(decided(NodeLabel::Failed, Found::Lost), Decision::Nothing);
}

#[test]
fn label_taken_away_withdraws_only_what_has_not_begun() {
    let absent = |stage| decided(NodeLabel::Absent, own(stage, None));
    assert_eq!(absent(Stage::NotBegun), Decision::Record);
    assert_eq!(absent(Stage::Begun), Decision::Wait(Wait::Remediation));
    assert_eq!(absent(Stage::Succeeded), Decision::Record);
    let recorded = decided(NodeLabel::Absent, own(Stage::NotBegun, Some(100)));
    assert_eq!(recorded, Decision::Delete);
}

#[test]
fn kept_off_host_comes_back_when_the_label_is_taken_away() {
    assert_eq!(
        decided(SET, own(Stage::KeptOff, None)),
        Decision::Wait(Wait::KeptOff)
    );
    assert_eq!(
        decided(NodeLabel::Absent, own(Stage::KeptOff, None)),
        Decision::Record
    );
    assert_eq!(
        decided(NodeLabel::Absent, own(Stage::KeptOff, Some(100))),
        Decision::Delete
    );
}

#[test]
fn new_label_waits_for_the_end_of_the_cooldown() {
    let found = own(Stage::Succeeded, Some(50));
    let until = at(110);
    assert_eq!(decided(SET, found), Decision::Wait(Wait::Cooldown(until)));
    assert_eq!(
        decided(NodeLabel::Absent, found),
        Decision::Wait(Wait::Remembered(until))
    );
    let waits = [Decision::Wait(Wait::Cooldown(until)), Decision::Nothing];
    assert_eq!(next_time(&waits), Some(until));
    // Then it is made anew, because the first one is gone.
    let over = decide(&node(SET, found), COOLDOWN, until);
    assert_eq!(over, Decision::Delete);
}

#[test]
fn failed_host_stays_as_it_is_until_a_person_decides() {
    for stage in [Stage::Failed, Stage::FailedOff] {
        let failed = decided(NodeLabel::Failed, own(stage, Some(0)));
        assert_eq!(failed, Decision::Wait(Wait::Failed));
    }
    let cleared = |stage, answered| decided(NodeLabel::Absent, own(stage, Some(answered)));
    assert_eq!(cleared(Stage::FailedOff, 99), Decision::Delete);
    assert_eq!(
        cleared(Stage::Failed, 99),
        Decision::Wait(Wait::Remembered(at(159)))
    );
    assert_eq!(cleared(Stage::Failed, 0), Decision::Delete);
}

#[test]
fn obstacle_keeps_a_label_waiting_and_a_pause_stops_everything() {
    let mut labelled = node(SET, Found::Nothing);
    for obstacle in [
        Obstacle::Disabled,
        Obstacle::OtherTrigger("ns/a".into()),
        Obstacle::Excluded("Machine m is skipped".into()),
    ] {
        labelled.obstacle = Some(obstacle.clone());
        let expected = Decision::Wait(Wait::Obstacle(obstacle));
        assert_eq!(decide(&labelled, COOLDOWN, at(100)), expected);
    }
    let paused = Obstacle::Paused("Machine m".into());
    for found in [own(Stage::Failed, None), own(Stage::Succeeded, Some(0))] {
        let mut paused_node = node(NodeLabel::Absent, found);
        paused_node.obstacle = Some(paused.clone());
        let expected = Decision::Wait(Wait::Obstacle(paused.clone()));
        assert_eq!(decide(&paused_node, COOLDOWN, at(100)), expected);
    }
    // What was made before the controller was told to make nothing is ended all the same.
    let mut disabled = node(SET, own(Stage::Succeeded, None));
    disabled.obstacle = Some(Obstacle::Disabled);
    assert_eq!(
        decide(&disabled, COOLDOWN, at(100)),
        Decision::Answer(Answer::Remove)
    );
}

#[test]
fn exclusion_withdraws_what_has_not_begun_and_leaves_the_rest() {
    let excluded = |stage| {
        let mut excluded = node(SET, own(stage, None));
        excluded.obstacle = Some(Obstacle::Excluded("skipped".into()));
        decide(&excluded, COOLDOWN, at(100))
    };
    assert_eq!(excluded(Stage::NotBegun), Decision::Record);
    assert_eq!(excluded(Stage::Begun), Decision::Wait(Wait::Remediation));
}

#[test]
fn deletion_by_a_person_is_answered_as_failed() {
    let deleted = |label, answered: Option<i64>| {
        let found = Found::Remediation(OwnRemediation {
            stage: Stage::Begun,
            deleting: true,
            answered: answered.map(at),
        });
        decided(label, found)
    };
    assert_eq!(deleted(SET, None), Decision::Answer(Answer::Fail));
    assert_eq!(
        deleted(NodeLabel::Absent, None),
        Decision::Wait(Wait::Ending)
    );
    // We delete it, and the label is there anew: it makes the next one once this one is gone.
    assert_eq!(deleted(SET, Some(99)), Decision::Wait(Wait::Ending));
}

#[test]
fn remediation_without_node_or_trigger_ends_unless_its_host_is_off() {
    let orphan = |stage| {
        decide_orphan(OwnRemediation {
            stage,
            deleting: false,
            answered: None,
        })
    };
    for stage in [Stage::NotBegun, Stage::Succeeded, Stage::Failed] {
        assert_eq!(orphan(stage), Decision::Delete, "{stage:?}");
    }
    for stage in [Stage::Begun, Stage::KeptOff, Stage::FailedOff] {
        assert_ne!(orphan(stage), Decision::Delete, "{stage:?}");
    }
}

#[test]
fn many_nodes_at_once_are_made_in_limited_passes() {
    let mut nodes: Vec<TriggeredNode> = (0..500).map(|_| node(SET, Found::Nothing)).collect();
    let mut passes = Vec::new();
    while nodes.iter().any(|node| node.found == Found::Nothing) {
        let decisions = plan(&nodes, COOLDOWN, 50, at(100));
        let mut made = 0;
        for (node, decision) in nodes.iter_mut().zip(decisions) {
            match decision {
                Decision::Create => {
                    made += 1;
                    node.found = own(Stage::NotBegun, None);
                }
                Decision::Wait(Wait::Obstacle(Obstacle::PassLimit) | Wait::Remediation) => {}
                other => panic!("{other:?}"),
            }
        }
        passes.push(made);
    }
    assert_eq!(passes, [50; 10]);
}

#[test]
fn stage_follows_the_recorded_state() {
    assert_eq!(Stage::of(None), Stage::NotBegun);
    let state = |step: Step| {
        let mut state = State::new(at(0));
        state.step = step;
        Stage::of(Some(&state))
    };
    for (step, expected) in [
        (Step::Pending, Stage::NotBegun),
        (Step::Holding, Stage::NotBegun),
        (Step::PoweringOff, Stage::Begun),
        (Step::AwaitingConfirmation, Stage::Begun),
        (Step::Booting, Stage::Begun),
        (Step::Retrying, Stage::Begun),
        (Step::Aborting, Stage::Begun),
        (Step::Fenced, Stage::KeptOff),
        (Step::Succeeded, Stage::Succeeded),
        (Step::Escalated, Stage::Failed),
        (Step::Blocked, Stage::Failed),
    ] {
        assert_eq!(state(step), expected, "{step:?}");
    }
    let mut failed = State::new(at(0));
    failed.step = Step::Fenced;
    failed.keep_off = Some(crate::remediation::Reason::Fenced);
    assert_eq!(Stage::of(Some(&failed)), Stage::FailedOff);
}
