//! Every change of a host or an operation is journalled with its caller.

use crate::kit::*;
use rackhand_proto::v1::{self, OutcomeCode};
use rackhand_transport::Refusal;

/// The journal records of a host, oldest first.
async fn listed(client: &mut Client, host: &str) -> Vec<v1::OperationInfo> {
    let request = v1::ListOperationsRequest {
        host: host.into(),
        ..v1::ListOperationsRequest::default()
    };
    let response = client.list_operations(request).await.unwrap().into_inner();
    response.operations.into_iter().rev().collect()
}

fn cancel(id: &str, force: bool) -> v1::CancelRequest {
    v1::CancelRequest {
        operation_id: id.into(),
        force,
        term: None,
    }
}

#[tokio::test]
async fn operator_needs_force_to_cancel_a_remediation_operation() {
    let site = Site::new(1);
    let agent = site.start().await;
    let mut controller = site.controller(&agent).await;
    let mut operator = site.operator(&agent).await;
    claim(&mut controller, 1).await;
    *site.bmcs.of(1).stubborn.lock().unwrap() = true;
    let fence = by_leader(off("fence", "node-1"), 1, 1);
    begin(&mut controller, fence).await.unwrap();
    site.bmcs.of(1).commanded_times(1).await;

    let refused = operator.cancel(cancel("fence", false)).await.unwrap_err();
    assert_eq!(Refusal::of(&refused), Some(Refusal::Held));
    assert_eq!(
        refused.message(),
        "operation fence on host node-1 was begun by controller pod-1 (term 1 of prod/rackhand) \
         for rem-1; cancelling it stops a remediation half way. Wait for it, or use force \
         (--force) to cancel it all the same"
    );
    let running = listed(&mut operator, "node-1").await;
    assert!(running[0].outcome.is_none(), "the operation was cancelled");
    assert_eq!(running[0].cancelled_by, "");

    operator.cancel(cancel("fence", true)).await.unwrap();
    let ended = outcome(&mut controller, "fence").await;
    assert_eq!(ended.code(), OutcomeCode::Cancelled);
    let told = listed(&mut operator, "node-1").await;
    assert_eq!(told[0].cancelled_by, "operator ann");
    // The operation has ended, so nothing is protected.
    operator.cancel(cancel("fence", false)).await.unwrap();
    agent.shutdown().await;
    let agent = site.start().await;
    let mut operator = site.operator(&agent).await;
    let kept = listed(&mut operator, "node-1").await;
    assert_eq!(kept[0].cancelled_by, "operator ann", "after a restart too");
    agent.shutdown().await;
}

#[tokio::test]
async fn own_operation_is_cancelled_without_force() {
    let site = Site::new(1);
    let agent = site.start().await;
    let mut operator = site.operator(&agent).await;
    *site.bmcs.of(1).stubborn.lock().unwrap() = true;
    begin(&mut operator, off("a", "node-1")).await.unwrap();
    site.bmcs.of(1).commanded_times(1).await;
    operator.cancel(cancel("a", false)).await.unwrap();
    let ended = outcome(&mut operator, "a").await;
    assert_eq!(ended.code(), OutcomeCode::Cancelled);
    agent.shutdown().await;
}

#[tokio::test]
async fn other_changes_are_journalled_with_caller_and_outcome() {
    let site = Site::new(1);
    let agent = site.start().await;
    let mut controller = site.controller(&agent).await;
    let mut operator = site.operator(&agent).await;
    claim(&mut controller, 1).await;
    let fence = by_leader(off("fence", "node-1"), 1, 1);
    begin(&mut controller, fence).await.unwrap();
    outcome(&mut controller, "fence").await;

    let boot = |force| v1::SetBootRequest {
        target: target("node-1"),
        timeout: None,
        boot: Some(v1::BootOverride {
            device: v1::BootDevice::Pxe.into(),
            persistent: false,
            mode: v1::BootMode::Uefi.into(),
        }),
        force,
        call: None,
    };
    operator.set_boot(boot(false)).await.unwrap_err();
    operator.set_boot(boot(true)).await.unwrap();
    let identify = v1::IdentifyRequest {
        target: target("node-1"),
        lit: true,
        ..v1::IdentifyRequest::default()
    };
    operator.identify(identify).await.unwrap();
    let clear = v1::ClearEventsRequest {
        target: target("node-1"),
        timeout: None,
        force: true,
        call: None,
    };
    operator.clear_events(clear).await.unwrap();
    let reset = |force| v1::ResetBmcRequest {
        target: target("node-1"),
        timeout: None,
        force,
        call: None,
        during_firmware_update: false,
    };
    let refused = operator.reset_bmc(reset(false)).await.unwrap_err();
    assert_eq!(Refusal::of(&refused), Some(Refusal::Held));
    let not_an_operator = controller.reset_bmc(reset(true)).await.unwrap_err();
    assert_eq!(not_an_operator.code(), tonic::Code::PermissionDenied);
    operator.reset_bmc(reset(true)).await.unwrap();
    let release = v1::ReleaseRequest {
        target: target("node-1"),
        force: true,
        ..v1::ReleaseRequest::default()
    };
    assert!(
        operator
            .release(release)
            .await
            .unwrap()
            .into_inner()
            .released
    );
    // A forced power operation on a host without a hold.
    let forced = v1::BeginRequest {
        force: true,
        ..on("on", "node-1")
    };
    begin(&mut operator, forced).await.unwrap();
    outcome(&mut operator, "on").await;

    let told = listed(&mut operator, "node-1").await;
    let told: Vec<_> = told
        .iter()
        .skip(1)
        .map(|one| {
            let code = one.outcome.as_ref().unwrap().code();
            assert_eq!(one.by, "operator ann", "{one:?}");
            assert_eq!(code, OutcomeCode::Confirmed, "{one:?}");
            (one.action.as_str(), one.force, one.overrode.as_str())
        })
        .collect();
    assert_eq!(
        told,
        [
            ("boot-device", true, "rem-1"),
            ("identify", false, ""),
            ("clear-events", true, "rem-1"),
            ("bmc-reset", true, "rem-1"),
            ("release", true, "rem-1"),
            ("on", true, ""),
        ],
        "the refused change is not among them"
    );
    agent.shutdown().await;
}

#[tokio::test]
async fn failed_changes_are_journalled() {
    let site = Site::new(1);
    let agent = site.start().await;
    let mut operator = site.operator(&agent).await;
    *site.bmcs.of(1).no_timer.lock().unwrap() = true;
    let identify = v1::IdentifyRequest {
        target: target("node-1"),
        lit: true,
        lit_for: Some(rackhand_proto::convert::duration_to_proto(
            std::time::Duration::from_secs(3600),
        )),
        ..v1::IdentifyRequest::default()
    };
    operator.identify(identify).await.unwrap();
    let told = listed(&mut operator, "node-1").await;
    let codes: Vec<_> = told
        .iter()
        .map(|one| one.outcome.as_ref().unwrap().code())
        .collect();
    assert_eq!(
        codes,
        [OutcomeCode::Failed, OutcomeCode::Confirmed],
        "first with a timer, then without"
    );
    agent.shutdown().await;
}
