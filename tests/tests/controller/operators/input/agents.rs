//! Misconfigured rack agents.

use anyhow::{Result, bail, ensure};
use rackhand_tests::{cluster::apply, pki::CertSpec};
use serde_json::json;
use tokio::process::Command;

use super::world::World;

fn agents(w: &World) -> kube::Api<kube::api::DynamicObject> {
    kube::Api::all_with(
        w.stage.client.clone(),
        &kube::core::ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk(
            "rackhand.dev",
            "v1alpha1",
            "RackAgent",
        )),
    )
}

async fn agent_connected(w: &World, agent: &str, status: &str, words: &[&str]) -> Result<()> {
    w.condition(&agents(w), agent, "Connected", |c| {
        let message = c["message"].as_str().unwrap_or_default();
        c["status"] == status && words.iter().all(|word| message.contains(word))
    })
    .await
}

pub async fn rogue_agent(w: &World) -> Result<()> {
    ensure!(w.stage.host("rogue-1")?.hang(), "up");
    agent_connected(w, "rogue", "False", &["not trusted", "rogue", "ca.crt"]).await?;
    w.stage.wait_blocked("rogue-1", "AgentUnreachable").await?;
    w.stage.untouched("rogue-1")?;
    // A certificate of the right CA in its place is used without a restart.
    let spec = CertSpec::peer("agent-rogue", "spiffe://rackhand/rack/rogue");
    w.stage.issue_from(w.stage.pki(), "rogue", &spec)?;
    agent_connected(w, "rogue", "True", &[]).await?;
    w.back("rogue-1").await
}

pub async fn other_rack(w: &World) -> Result<()> {
    let endpoint = w.stage.agent_endpoint("good")?;
    apply(
        &w.stage.client,
        json!({
            "apiVersion": "rackhand.dev/v1alpha1",
            "kind": "RackAgent",
            "metadata": { "name": "elsewhere" },
            "spec": { "rack": "elsewhere", "endpoint": endpoint },
        }),
    )
    .await?;
    agent_connected(w, "elsewhere", "False", &["elsewhere", "good"]).await?;
    // An unknown host may belong to this agent while the agent exists and is silent.
    agents(w).delete("elsewhere", &Default::default()).await?;
    Ok(())
}

pub async fn broken_inventory(w: &World) -> Result<()> {
    let path = w.stage.dir().join("broken.toml");
    std::fs::write(
        &path,
        r#"
rack = "a rack"
listen = "everywhere"
tls = "/nowhere"
socket = "agent.sock"
state = "state"
allowed_bmc_networks = ["all"]

[[hosts]]
name = "one"
bmc = { address = "gopher://192.0.2.1", username = "u", password_file = "p" }

[[hosts]]
name = "one"
bmc = { address = "redfish+https://192.0.2.2/redfish/v1/Systems/1", username = "u", password_file = "p" }
"#,
    )?;
    let output = Command::new(w.stage.binary("rackhand-agent"))
        .arg("serve")
        .arg("--config")
        .arg(&path)
        .output()
        .await?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(!output.status.success(), "it started");
    for word in [
        "broken.toml",
        "a rack",
        "everywhere",
        "all",
        "gopher",
        "one",
    ] {
        ensure!(said.contains(word), "{word} is missing: {said}");
    }
    Ok(())
}

/// The controller ends at once and names the expired file.
pub async fn expired(w: &World) -> Result<()> {
    let spec = CertSpec::peer("expired", "spiffe://rackhand/controller").expired();
    let tls = w.stage.issue(&spec)?;
    let started = w.stage.start_controller_with("expired", &tls, &[]).await;
    let said = match started {
        Ok(()) => bail!("it started"),
        Err(error) => format!("{error:#}"),
    };
    let file = tls.join("tls.crt").display().to_string();
    for word in ["expired on", "renew it", &file] {
        ensure!(said.contains(word), "{word} is missing: {said}");
    }
    Ok(())
}
