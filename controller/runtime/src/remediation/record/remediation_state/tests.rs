use kube::ResourceExt;
use rackhand_core::remediation::{Reason, Step};
use serde_json::{Value, json};

use crate::{
    remediation::{
        engine::RemediationLoop,
        fixture::{Fixture, REMEDIATION, STATE, state},
    },
    store::{
        clock,
        object::{Key, Kind},
    },
};

fn step_recorded(fixture: &Fixture) -> Option<String> {
    let object = fixture.objects.get(STATE)?;
    Some(object.pointer("/spec/state/step")?.as_str()?.to_owned())
}

fn forget(fixture: &Fixture) {
    fixture.objects.remove(STATE);
    let key = Key::new("", "uid-r1");
    fixture.index.delete(Kind::RemediationState, &key);
}

fn of_step(step: Step) -> Value {
    serde_json::to_value(state(step)).unwrap()
}

async fn turn(engine: &mut RemediationLoop) {
    assert!(Box::pin(engine.run_once()).await.is_ok());
}

/// An engine whose remediation has no record, and a copy that says this.
async fn forged(step: Step) -> (Fixture, RemediationLoop) {
    let fixture = Fixture::new(&state(step)).await;
    forget(&fixture);
    let bare = json!({ "metadata": { "finalizers": null } });
    fixture.objects.change(REMEDIATION, &bare);
    fixture.watch(Kind::PowerRemediation, REMEDIATION);
    let engine = fixture.engine();
    (fixture, engine)
}

#[tokio::test]
async fn f15_state_that_stands_in_the_remediation_alone_decides_nothing() {
    for step in [
        Step::ConfirmingOff,
        Step::Tainting,
        Step::Draining,
        Step::PoweringOn,
    ] {
        let (fixture, mut engine) = forged(step).await;
        turn(&mut engine).await;
        assert_eq!(
            step_recorded(&fixture).as_deref(),
            Some("Pending"),
            "{step:?}"
        );
        let shown = fixture.objects.get(REMEDIATION).unwrap();
        assert_eq!(shown["status"]["cursor"]["step"], "Pending", "{step:?}");
        assert!(shown["status"]["cursor"].get("off").is_none());
    }
}

#[tokio::test]
async fn f15_remediation_that_ended_by_its_copy_alone_does_not_begin() {
    for (step, stays) in [(Step::Succeeded, "Succeeded"), (Step::Escalated, "Blocked")] {
        let (fixture, mut engine) = forged(step).await;
        turn(&mut engine).await;
        assert_eq!(step_recorded(&fixture).as_deref(), Some(stays));
    }
}

#[tokio::test]
async fn f15_forged_copy_is_written_again_and_changes_nothing() {
    let fixture = Fixture::new(&state(Step::PoweringOff)).await;
    let mut engine = fixture.engine();
    turn(&mut engine).await;
    let forged = json!({ "status": { "cursor": of_step(Step::Tainting) } });
    fixture.objects.change(REMEDIATION, &forged);
    fixture.watch(Kind::PowerRemediation, REMEDIATION);
    turn(&mut engine).await;
    let shown = fixture.objects.get(REMEDIATION).unwrap();
    assert_eq!(shown["status"]["cursor"]["step"], "PoweringOff");
    assert_eq!(step_recorded(&fixture).as_deref(), Some("PoweringOff"));
}

#[tokio::test]
async fn f15_earlier_copy_of_the_record_is_replaced_by_what_this_process_wrote() {
    let fixture = Fixture::new(&state(Step::PoweringOff)).await;
    let mut engine = fixture.engine();
    turn(&mut engine).await;
    let earlier = fixture.objects.get(STATE).unwrap();
    let (next, now) = (state(Step::PoweringOn), clock::monotonic_now());
    let written = engine.record(&next, &Reason::PowerOnRunning, now);
    assert!(written.await.is_ok());
    assert_eq!(step_recorded(&fixture).as_deref(), Some("PoweringOn"));
    fixture.objects.put(STATE, earlier);
    fixture.watch(Kind::RemediationState, STATE);
    // The first write conflicts, because the object has changed.
    for _ in 0..2 {
        Box::pin(engine.run_once()).await.ok();
    }
    assert_eq!(step_recorded(&fixture).as_deref(), Some("PoweringOn"));
    let object = fixture.objects.get(STATE).unwrap();
    assert!(object["spec"]["sequence"].as_i64() > Some(2), "{object}");
}

#[tokio::test]
async fn f12_deleted_record_is_written_again() {
    let fixture = Fixture::new(&state(Step::PoweringOff)).await;
    let mut engine = fixture.engine();
    turn(&mut engine).await;
    forget(&fixture);
    for _ in 0..2 {
        Box::pin(engine.run_once()).await.ok();
    }
    assert_eq!(step_recorded(&fixture).as_deref(), Some("PoweringOff"));
}

#[tokio::test]
async fn f12_watch_that_lags_does_not_hide_the_record() {
    let fixture = Fixture::new(&state(Step::Draining)).await;
    let key = Key::new("", "uid-r1");
    fixture.index.delete(Kind::RemediationState, &key);
    let mut engine = fixture.engine();
    turn(&mut engine).await;
    assert_eq!(step_recorded(&fixture).as_deref(), Some("Draining"));
    assert!(fixture.index.remediation_state("uid-r1").is_some());
}

/// A remediation on which nobody seems to have worked. The watch shows no record of it.
async fn unshown(step: Step) -> Fixture {
    let fixture = Fixture::new(&state(step)).await;
    let bare = json!({ "metadata": { "finalizers": null }, "status": null });
    fixture.objects.change(REMEDIATION, &bare);
    fixture.watch(Kind::PowerRemediation, REMEDIATION);
    let key = Key::new("", "uid-r1");
    fixture.index.delete(Kind::RemediationState, &key);
    fixture
}

fn reads_of_record(fixture: &Fixture) -> usize {
    let reads = fixture.objects.reads.lock();
    reads.iter().filter(|path| path.as_str() == STATE).count()
}

#[tokio::test]
async fn record_of_a_new_remediation_is_created_without_being_read() {
    let fixture = unshown(Step::Pending).await;
    fixture.objects.remove(STATE);
    let mut engine = fixture.engine();
    turn(&mut engine).await;
    assert_eq!(step_recorded(&fixture).as_deref(), Some("Pending"));
    assert_eq!(reads_of_record(&fixture), 0);
}

#[tokio::test]
async fn f12_record_that_only_the_api_server_has_is_read_once_its_creation_fails() {
    let fixture = unshown(Step::Draining).await;
    let mut engine = fixture.engine();
    let created = Box::pin(engine.run_once()).await;
    assert!(created.is_err(), "there is one");
    assert_eq!(step_recorded(&fixture).as_deref(), Some("Draining"));
    assert_eq!(reads_of_record(&fixture), 0);
    turn(&mut engine).await;
    assert_eq!(reads_of_record(&fixture), 1);
    assert_eq!(step_recorded(&fixture).as_deref(), Some("Draining"));
    let copy = fixture.objects.get(REMEDIATION).unwrap();
    let step = copy.pointer("/status/step");
    assert_eq!(
        step,
        Some(&json!("Draining")),
        "the copy is that of the record: {copy}"
    );
}

#[tokio::test]
async fn f12_deleted_remediation_without_a_shown_record_reads_it_before_it_ends() {
    let fixture = unshown(Step::Draining).await;
    let deleted = json!({ "metadata": {
        "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["somebody/else"],
    }});
    fixture.objects.change(REMEDIATION, &deleted);
    fixture.watch(Kind::PowerRemediation, REMEDIATION);
    let mut engine = fixture.engine();
    turn(&mut engine).await;
    turn(&mut engine).await;
    assert_eq!(reads_of_record(&fixture), 1);
    assert_eq!(
        engine.memory.shell.state.map(|s| s.step),
        Some(Step::Draining)
    );
}

#[tokio::test]
async fn f7_record_of_a_deposed_leader_is_refused() {
    let fixture = Fixture::new(&state(Step::Draining)).await;
    let (mut former, mut leader) = (fixture.engine(), fixture.engine());
    for engine in [&mut former, &mut leader] {
        assert!(engine.loaded().await);
    }
    assert!(leader.write_record(&state(Step::PoweringOn)).await.is_ok());
    // Its index has not shown that yet.
    let mut lagging = fixture.objects.get(STATE).unwrap();
    lagging["spec"]["state"] = of_step(Step::Draining);
    let lagging = serde_json::from_value(lagging).unwrap();
    former
        .scope
        .context
        .index
        .apply(Kind::RemediationState, lagging);
    assert!(former.write_record(&state(Step::Aborting)).await.is_err());
    assert_eq!(step_recorded(&fixture).as_deref(), Some("PoweringOn"));
}

#[tokio::test]
async fn record_goes_with_its_remediation_and_not_before() {
    let fixture = Fixture::new(&state(Step::Succeeded)).await;
    let index = &fixture.index;
    let record = index.remediation_state("uid-r1").unwrap();
    assert!(index.unneeded_states().is_empty());
    let id = super::remediation(&record).unwrap();
    // F12: the watch does not show it, and it exists.
    index.delete(Kind::PowerRemediation, &id.key);
    assert_eq!(index.unneeded_states().len(), 1);
    let swept = fixture.context.claims.records.delete_unneeded(&id, &record);
    swept.await.unwrap();
    assert!(step_recorded(&fixture).is_some());
    // Another object has its name now.
    let other = json!({ "metadata": { "uid": "uid-r2" } });
    fixture.objects.change(REMEDIATION, &other);
    let swept = fixture.context.claims.records.delete_unneeded(&id, &record);
    swept.await.unwrap();
    assert!(step_recorded(&fixture).is_none());
    assert!(index.unneeded_states().is_empty());
}

#[tokio::test]
async fn record_says_what_it_belongs_to_and_is_not_backed_up() {
    let (fixture, mut engine) = forged(Step::Draining).await;
    turn(&mut engine).await;
    let object: kube::api::DynamicObject =
        serde_json::from_value(fixture.objects.get(STATE).unwrap()).unwrap();
    let of = super::remediation(&object).unwrap();
    assert_eq!(
        (of.kind, of.key),
        (Kind::PowerRemediation, Key::new("ns", "m1"))
    );
    let label = object.labels().get("velero.io/exclude-from-backup");
    assert_eq!(label.map(String::as_str), Some("true"));
}

#[tokio::test]
async fn rewritten_record_asks_for_no_tracking_of_its_fields() {
    let fixture = Fixture::new(&state(Step::Draining)).await;
    let tracked =
        json!({ "metadata": { "managedFields": [{ "manager": "rackhand-controller" }] } });
    fixture.objects.change(STATE, &tracked);
    let mut engine = fixture.engine();
    turn(&mut engine).await;
    let (on, now) = (state(Step::PoweringOn), clock::monotonic_now());
    let recorded = engine.record(&on, &Reason::PowerOnRunning, now);
    assert!(recorded.await.is_ok());
    // One empty entry is what the API server takes for this.
    let written = fixture.objects.get(STATE).unwrap();
    assert_eq!(written["metadata"]["managedFields"], json!([{}]));
    assert_eq!(written["spec"]["state"]["step"], "PoweringOn");
}
