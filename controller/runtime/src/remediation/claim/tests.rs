use std::sync::Arc;

use http::StatusCode;
use rackhand_core::remediation::Step;
use serde_json::Value;

use super::*;
use crate::{
    remediation::fixture::{Fixture, IDENTITY, REQUEST, state},
    store::fake_api::{self, failure},
};

fn claimed_by(object: &Value) -> Option<&str> {
    let annotations = object.pointer("/metadata/annotations")?;
    annotations.get(CLAIMED_BY_ANNOTATION)?.as_str()
}

fn stored(fixture: &Fixture) -> DynamicObject {
    serde_json::from_value(fixture.objects.get(REQUEST).unwrap()).unwrap()
}

#[tokio::test]
async fn f6_late_beginning_of_an_earlier_leader_is_refused() {
    for step in [Step::Pending, Step::Retrying] {
        let fixture = Fixture::new(&state(step)).await;
        let seen_by_earlier = stored(&fixture);

        claim_requests(&fixture.context).await.unwrap();

        let object = fixture.objects.get(REQUEST).unwrap();
        assert_eq!(claimed_by(&object), Some(IDENTITY));
        // The index has the claimed version, so that the writes of this leader are taken.
        let id = RequestId::new(Kind::PowerRemediation, Key::new("ns", "m1"));
        let indexed = fixture.context.index.request(&id).unwrap();
        let version = object["metadata"]["resourceVersion"].as_str();
        assert_eq!(indexed.object.resource_version().as_deref(), version);

        let beginning = json!({ "status": { "phase": "Running" } });
        let beginning = Patch::Merge(only_if_unchanged(beginning, &seen_by_earlier));
        let resource = fixture.context.served.known(Kind::PowerRemediation);
        let objects = api(&fixture.context.client, &resource.unwrap(), "ns");
        let params = PatchParams::default();
        let late = objects.patch_status("m1", &params, &beginning);
        let refused = late.await.unwrap_err();
        assert!(
            matches!(&refused, kube::Error::Api(status) if status.code == 409),
            "{refused}"
        );
    }
}

#[tokio::test]
async fn f6_remediation_that_has_begun_is_listed_and_not_claimed() {
    let fixture = Fixture::new(&state(Step::Holding)).await;
    // The watch lags: it has not shown the latest version.
    let begun = json!({ "metadata": { "labels": { "latest": "yes" } } });
    fixture.objects.change(REQUEST, &begun);
    claim_requests(&fixture.context).await.unwrap();
    let id = RequestId::new(Kind::PowerRemediation, Key::new("ns", "m1"));
    let indexed = fixture.context.index.request(&id).unwrap();
    assert!(indexed.object.labels().contains_key("latest"));
    assert_eq!(claimed_by(&fixture.objects.get(REQUEST).unwrap()), None);
}

#[tokio::test]
async fn f6_remediation_that_changes_meanwhile_is_claimed_in_its_new_version() {
    let fixture = Fixture::new(&state(Step::Pending)).await;
    let (kind, listed) = (Kind::PowerRemediation, stored(&fixture));
    let resource = fixture.context.served.known(kind).unwrap();
    fixture.touch(REQUEST);
    let error = claim(&fixture.context, kind, resource, listed)
        .await
        .unwrap_err();
    assert!(error.is_conflict(), "{error}");
    claim_requests(&fixture.context).await.unwrap();
    let object = fixture.objects.get(REQUEST).unwrap();
    assert_eq!(claimed_by(&object), Some(IDENTITY));
    // A claim that stands is not written again.
    claim_requests(&fixture.context).await.unwrap();
    assert_eq!(fixture.objects.get(REQUEST), Some(object));
}

#[tokio::test]
async fn l1_remediation_that_cannot_be_changed_does_not_stop_the_others() {
    for (code, is_claimed) in [
        (StatusCode::UNPROCESSABLE_ENTITY, true),
        (StatusCode::NOT_FOUND, true),
        (StatusCode::SERVICE_UNAVAILABLE, false),
    ] {
        let mut fixture = Fixture::new(&state(Step::Pending)).await;
        let (kind, listed) = (Kind::PowerRemediation, stored(&fixture));
        let resource = fixture.context.served.known(kind).unwrap();
        let context = Arc::get_mut(&mut fixture.context).unwrap();
        context.client = fake_api::client(move |_| async move { failure(code) });
        let claimed = claim(context, kind, resource, listed).await;
        assert_eq!(claimed.is_ok(), is_claimed, "{code}");
    }
}
