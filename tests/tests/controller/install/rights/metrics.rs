//! Metrics and explanations over HTTPS with tokens of ServiceAccounts.

use anyhow::{Context as _, Result, ensure};
use rackhand_tests::{
    cluster::apply,
    stage::{NAMESPACE, Stage, wait_until},
};
use serde_json::json;

use super::LONG;

/// Creates a ServiceAccount; returns a token.
pub async fn account(stage: &Stage, name: &str) -> Result<String> {
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": { "name": name, "namespace": "default" },
    });
    apply(&stage.client, account).await?;
    let kubeconfig = stage.plane().kubeconfig_of("default", name).await?;
    let text = std::fs::read_to_string(kubeconfig)?;
    let config: serde_json::Value = serde_json::from_str(&text)?;
    let token = config["users"][0]["user"]["token"].as_str();
    Ok(token.context("no token")?.to_owned())
}

pub async fn bind(stage: &Stage, account: &str, role: &str) -> Result<()> {
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": { "name": account },
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role,
        },
        "subjects": [{ "kind": "ServiceAccount", "name": account, "namespace": "default" }],
    });
    apply(&stage.client, binding).await.map(drop)
}

/// The command line shows the leader's view if the account may read it.
pub async fn explained(stage: &Stage, port: u16) -> Result<()> {
    account(stage, "reader").await?;
    let kubeconfig = stage.plane().kubeconfig_of("default", "reader").await?;
    let controller = format!("https://127.0.0.1:{port}");
    let ask = async || {
        let args = [
            "explain",
            "remediation",
            "esc-1",
            "--namespace",
            NAMESPACE,
            "--controller",
            &controller,
        ];
        stage.controller_command_as(&kubeconfig, &args, "").await
    };
    let refused = format!("{:#}", ask().await.unwrap_err());
    ensure!(refused.contains("reader"), "{refused}");
    bind(stage, "reader", "rackhand-explain-reader").await?;
    wait_until("the leader returns the explanation", LONG, || async {
        Ok(match ask().await {
            Ok(text) if text.contains("esc-1") => Ok(()),
            Ok(text) => Err(text),
            Err(error) => Err(format!("{error:#}")),
        })
    })
    .await
}

pub async fn secure(stage: &Stage, port: u16) -> Result<()> {
    let scraper = account(stage, "scraper").await?;
    let stranger = account(stage, "stranger").await?;
    bind(stage, "scraper", "rackhand-metrics-reader").await?;
    // The controller creates a self-signed certificate at each start.
    let client = reqwest::Client::builder()
        .tls_danger_accept_invalid_certs(true)
        .build()?;
    let url = format!("https://127.0.0.1:{port}/metrics");
    let get = |token: Option<String>| {
        let request = client.get(&url);
        let request = match token {
            Some(token) => request.bearer_auth(token),
            None => request,
        };
        async move {
            let answer = request.send().await?;
            anyhow::Ok((answer.status().as_u16(), answer.text().await?))
        }
    };
    for (token, status) in [
        (None, 401),
        (Some("nonsense".to_owned()), 401),
        (Some(stranger), 403),
    ] {
        let answer = get(token).await?;
        ensure!(answer.0 == status, "{answer:?}");
        ensure!(!answer.1.contains("rackhand_"), "{answer:?}");
    }
    // The API server applies the binding a moment later, and a refusal is cached for 10 s.
    wait_until("metrics are served", LONG, || async {
        let (status, text) = get(Some(scraper.clone())).await?;
        let has = status == 200 && text.contains("rackhand_leader");
        Ok(if has {
            Ok(())
        } else {
            Err(format!("{status}: {text}"))
        })
    })
    .await
}
