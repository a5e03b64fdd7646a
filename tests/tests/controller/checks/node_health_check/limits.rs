//! Limits, pauses and other causes that prevent remediation.

use anyhow::{Result, ensure};
use serde_json::json;

use super::world::{World, template, unhealthy};

pub(crate) async fn pause(w: &World) -> Result<()> {
    for node in ["pause-1", "pause-2", "pause-3"] {
        w.make_node(node, "pause").await?;
    }
    let rules = json!({
        "maxUnhealthy": "2", "remediationTemplate": template("group-x"), "pauseRequests": ["upgrade"],
    });
    w.make_check("pause", rules).await?;
    w.sick("pause-1", true).await?;
    let status = w
        .wait_check("pause", "sees it", |s| unhealthy(s) == ["pause-1"])
        .await?;
    ensure!(
        status["phase"] == "Paused" && status["observedNodes"] == 3,
        "{status}"
    );
    w.wait_event("pause", "RemediationSkipped").await?;
    ensure!(w.of_node("pause-1").await?.is_empty(), "it is paused");
    w.patch_check("pause", json!({ "pauseRequests": null }))
        .await?;
    w.wait_remediations("pause-1", 1).await?;
    w.patch_check("pause", json!({ "pauseRequests": ["again"] }))
        .await?;
    w.wait_check("pause", "paused again", |s| s["phase"] == "Paused")
        .await?;
    w.sick("pause-1", false).await?;
    w.wait_remediations("pause-1", 0).await?;
    w.wait_check("pause", "counts the truth", |s| s["healthyNodes"] == 3)
        .await
        .map(drop)
}

pub(crate) async fn limit(w: &World) -> Result<()> {
    for node in ["limit-1", "limit-2", "limit-3"] {
        w.make_node(node, "limit").await?;
        if node != "limit-1" {
            w.sick(node, true).await?;
        }
    }
    // Paused until both were seen: of one alone the limit would permit the remediation.
    let rules = json!({
        "minHealthy": "51%", "remediationTemplate": template("group-x"), "pauseRequests": ["seen"],
    });
    w.make_check("limit", rules).await?;
    w.wait_check("limit", "sees both", |s| {
        unhealthy(s) == ["limit-2", "limit-3"]
    })
    .await?;
    w.patch_check("limit", json!({ "pauseRequests": null }))
        .await?;
    w.wait_check("limit", "is not paused", |s| s["phase"] != "Paused")
        .await?;
    w.wait_warning("limit", "RemediationSkipped").await?;
    for node in ["limit-2", "limit-3"] {
        ensure!(
            w.of_node(node).await?.is_empty(),
            "1 of 3 is healthy, and minHealthy is 2"
        );
    }
    w.sick("limit-3", false).await?;
    w.wait_remediations("limit-2", 1).await?;
    ensure!(w.of_node("limit-3").await?.is_empty(), "it is healthy");
    w.sick("limit-2", false).await?;
    w.wait_remediations("limit-2", 0).await.map(drop)
}
