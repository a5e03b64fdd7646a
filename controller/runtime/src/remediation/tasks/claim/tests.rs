use std::sync::Arc;

use http::StatusCode;
use kube::ResourceExt;
use rackhand_core::remediation::Step;
use serde_json::{Value, json};

use super::*;
use crate::{
    remediation::fixture::{Fixture, IDENTITY, REMEDIATION, STATE, state},
    store::fake_api::{self, failure},
};

fn claim_of(fixture: &Fixture) -> Option<String> {
    let object = fixture.objects.get(STATE)?;
    Some(object.pointer("/spec/claimedBy")?.as_str()?.to_owned())
}

fn remediation(fixture: &Fixture) -> DynamicObject {
    serde_json::from_value(fixture.objects.get(REMEDIATION).unwrap()).unwrap()
}

fn recorded(fixture: &Fixture) -> DynamicObject {
    serde_json::from_value(fixture.objects.get(STATE).unwrap()).unwrap()
}

/// What a leader writes to let the remediation begin, on what it has read.
async fn begin(fixture: &Fixture, read: Option<&DynamicObject>) -> Result<(), ApiError> {
    let id = RemediationId::new(Kind::PowerRemediation, Key::new("ns", "m1"));
    let begun = serde_json::to_value(state(Step::Holding)).unwrap();
    let change = move || Ok(vec![("state", begun)]);
    let of = (&id, "uid-r1");
    let records = &fixture.context.claims.records;
    let read = read.cloned().map(Arc::new);
    records.put(of, read, change).await?;
    Ok(())
}

#[tokio::test]
async fn f6_late_beginning_of_an_earlier_leader_is_refused() {
    for step in [Step::Pending, Step::Retrying] {
        let fixture = Fixture::new(&state(step)).await;
        let seen_by_earlier = recorded(&fixture);
        fixture.context.claims.claim_remediations().await.unwrap();
        assert_eq!(claim_of(&fixture).as_deref(), Some(IDENTITY));
        // The index has the claimed version, so that the writes of this leader are taken.
        let indexed = fixture.index.remediation_state("uid-r1").unwrap();
        let claimed = recorded(&fixture);
        assert_eq!(indexed.resource_version(), claimed.resource_version());
        assert_eq!(claimed.data["spec"]["state"]["step"], step.label());
        let late = begin(&fixture, Some(&seen_by_earlier)).await;
        assert!(late.as_ref().is_err_and(ApiError::is_conflict), "{late:?}");
        begin(&fixture, Some(&claimed)).await.unwrap();
    }
}

#[tokio::test]
async fn f6_first_state_of_an_earlier_leader_is_refused() {
    let fixture = Fixture::new(&state(Step::Pending)).await;
    fixture.objects.remove(STATE);
    fixture
        .index
        .delete(Kind::RemediationState, &Key::new("", "uid-r1"));
    fixture.context.claims.claim_remediations().await.unwrap();
    assert_eq!(claim_of(&fixture).as_deref(), Some(IDENTITY));
    let late = begin(&fixture, None).await;
    assert!(late.as_ref().is_err_and(ApiError::is_conflict), "{late:?}");
}

#[tokio::test]
async fn f6_remediation_that_has_begun_is_listed_and_not_claimed() {
    let fixture = Fixture::new(&state(Step::Holding)).await;
    // The watch lags: it has shown neither the latest version nor that it has begun.
    let pending = serde_json::to_value(state(Step::Pending)).unwrap();
    let mut lagging = recorded(&fixture);
    lagging.data["spec"]["state"] = pending;
    fixture.index.apply(Kind::RemediationState, lagging);
    let latest = json!({ "metadata": { "labels": { "latest": "yes" } } });
    fixture.objects.change(REMEDIATION, &latest);
    fixture.objects.change(STATE, &latest);
    fixture.context.claims.claim_remediations().await.unwrap();
    let id = RemediationId::new(Kind::PowerRemediation, Key::new("ns", "m1"));
    let indexed = fixture.index.remediation(&id).unwrap();
    assert!(indexed.object.labels().contains_key("latest"));
    assert_eq!(claim_of(&fixture), None);
}

#[tokio::test]
async fn f6_remediation_that_changes_meanwhile_is_claimed_in_its_new_version() {
    let fixture = Fixture::new(&state(Step::Pending)).await;
    let touched = json!({ "metadata": { "labels": { "latest": "yes" } } });
    fixture.objects.change(STATE, &touched);
    let listed = remediation(&fixture);
    let error = fixture.context.claims.claim(Kind::PowerRemediation, listed);
    let error = error.await.unwrap_err();
    assert!(error.is_conflict(), "{error}");
    fixture.context.claims.claim_remediations().await.unwrap();
    assert_eq!(claim_of(&fixture).as_deref(), Some(IDENTITY));
    // A claim that stands is not written again.
    let object: Option<Value> = fixture.objects.get(STATE);
    fixture.context.claims.claim_remediations().await.unwrap();
    assert_eq!(fixture.objects.get(STATE), object);
}

#[tokio::test]
async fn l1_remediation_whose_state_cannot_be_written_does_not_stop_the_others() {
    for (code, is_claimed) in [
        (StatusCode::UNPROCESSABLE_ENTITY, true),
        (StatusCode::NOT_FOUND, false),
        (StatusCode::SERVICE_UNAVAILABLE, false),
    ] {
        let mut fixture = Fixture::new(&state(Step::Pending)).await;
        let listed = remediation(&fixture);
        let context = Arc::get_mut(&mut fixture.context).unwrap();
        let client = fake_api::client(move |_| async move { failure(code) });
        let (served, index) = (fixture.served.clone(), fixture.index.clone());
        let records = RecordStore::new(client, served, index, fixture.writer.clone());
        context.claims.records = Arc::new(records);
        let claimed = context.claims.claim(Kind::PowerRemediation, listed).await;
        assert_eq!(claimed.is_ok(), is_claimed, "{code}");
    }
}
