//! Objects that the API server rejects.

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::world::{World, template};

pub(crate) async fn refused(w: &World) -> Result<()> {
    let ours = || template("group-x");
    let step = |order: i64, timeout: &str| {
        json!({
            "remediationTemplate": ours(), "order": order, "timeout": timeout,
        })
    };
    let deletion = json!({
        "apiVersion": "machine-deletion-remediation.medik8s.io/v1alpha1",
        "kind": "MachineDeletionRemediationTemplate", "namespace": "default", "name": "t",
    });
    for (spec, why) in [
        (
            json!({ "minHealthy": 1 }),
            "exactly one of remediationTemplate",
        ),
        (
            json!({ "minHealthy": 1, "maxUnhealthy": 1, "remediationTemplate": ours() }),
            "only one of minHealthy",
        ),
        (
            json!({ "minHealthy": 1, "escalatingRemediations": [step(1, "60s"), step(1, "60s")] }),
            "the order of each step must be unique",
        ),
        (
            json!({ "minHealthy": 1, "escalatingRemediations": [step(1, "59s")] }),
            "60s or more",
        ),
        (
            json!({ "maxUnhealthy": 1, "remediationTemplate": deletion }),
            "MachineDeletion",
        ),
        (
            json!({ "minHealthy": "101%", "remediationTemplate": ours() }),
            "minHealthy",
        ),
        (
            json!({ "minHealthy": 1, "remediationTemplate": ours(), "selector": {} }),
            "must not be empty",
        ),
        (
            json!({ "minHealthy": 1, "remediationTemplate": ours(), "healthyDelay": "soon" }),
            "healthyDelay",
        ),
    ] {
        let refused = w.make_check("refused", spec.clone()).await;
        let error = format!(
            "{:#}",
            refused.err().with_context(|| format!("taken: {spec}"))?
        );
        ensure!(error.contains(why), "{spec}: {error}");
    }
    Ok(())
}
