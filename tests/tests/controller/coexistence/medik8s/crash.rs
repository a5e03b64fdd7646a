//! A controller that is killed during an escalation.

use anyhow::{Context, Result, ensure};
use jiff::{SignedDuration, Timestamp};
use kube::{ResourceExt, api::DynamicObject};
use rackhand_tests::stage::{LONG, NAMESPACE, wait_until};
use serde_json::{Value, json};

use super::world::{TIMED_OUT, World};

pub(super) async fn crash(w: &World) -> Result<()> {
    let node = "crash-1";
    for name in [node, "crash-2"] {
        w.make_node(name, "crash", json!({})).await?;
    }
    let mut steps = Vec::new();
    for (place, name) in ["one", "two"].into_iter().enumerate() {
        steps.push(json!({
            "remediationTemplate": w.idle_template(name).await?, "order": place, "timeout": "60s",
        }));
    }
    w.our_check("crash", json!({ "escalatingRemediations": steps }))
        .await?;
    w.sick(node, true).await?;
    let first = w.wait_idle(node, 1).await?.remove(0);
    let has = |count: usize| {
        move |s: &Value| {
            let list = s["unhealthyNodes"][0]["remediations"].as_array();
            list.is_some_and(|list| list.len() == count)
        }
    };
    let begun = w.wait_check("crash", "the first is shown", has(1)).await?;
    let started = begun["unhealthyNodes"][0]["remediations"][0]["started"].clone();
    let told = w.explain(&["crash"]).await?;
    let step = &told["targets"][0]["remediations"][0];
    ensure!(
        told["targets"][0]["node"] == node
            && step["state"] == "running"
            && step["step"] == "1 of 2",
        "{told}"
    );

    w.stage.kill_controller("controller-0")?;
    w.stage.start_controller("controller-1").await?;
    let both = w.wait_idle(node, 2).await?;
    ensure!(
        both[0].uid() == first.uid(),
        "the remediation was created again"
    );
    let made = |o: &DynamicObject| o.creation_timestamp().map(|t| t.0).context("no time");
    let waited = made(&both[1])?.duration_since(made(&both[0])?);
    ensure!(
        waited >= SignedDuration::from_secs(60),
        "too early: {waited}"
    );

    // The controller is killed again right after the next remediation was created.
    w.stage.kill_controller("controller-1")?;
    w.stage.start_controller("controller-2").await?;
    let status = w
        .wait_check("crash", "both are shown", |s| {
            let list = &s["unhealthyNodes"][0]["remediations"];
            has(2)(s) && list[0]["timedOut"].is_string()
        })
        .await?;
    let list = &status["unhealthyNodes"][0]["remediations"];
    ensure!(list[0]["started"] == started, "{status}");
    ensure!(list[1]["timedOut"].is_null(), "{status}");
    let told = wait_until("the first remediation is stopped", LONG, || async {
        let list = w.idle_of(node).await?;
        let told = list
            .first()
            .is_some_and(|r| r.annotations().contains_key(TIMED_OUT));
        Ok(if told {
            Ok(list)
        } else {
            Err("not yet".to_owned())
        })
    })
    .await?;
    ensure!(told.len() == 2, "a second object was made: {told:?}");
    // An explanation from files, for a time after the end of the second step.
    let mut files = String::new();
    for kinds in ["nhc,nodes", "idleremediations,idleremediationtemplates"] {
        let dump = w
            .stage
            .kubectl(&["get", kinds, "-n", NAMESPACE, "-o", "yaml"])
            .await?;
        files = format!("{files}\n---\n{dump}");
    }
    let path = w.stage.dir().join("crash.yaml");
    std::fs::write(&path, files)?;
    let later = (Timestamp::now() + SignedDuration::from_secs(120)).to_string();
    let path = path.display().to_string();
    let told = w.explain(&["crash", "--at", &later, "-f", &path]).await?;
    let does = told["targets"][0]["does"].as_str().unwrap_or_default();
    ensure!(does.contains("no template is left"), "{told}");
    w.sick(node, false).await?;
    w.wait_idle(node, 0).await.map(drop)
}
