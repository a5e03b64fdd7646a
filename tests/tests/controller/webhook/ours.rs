//! Our CRD and our webhook, and a controller beside them.

use anyhow::{Context as _, Result, ensure};
use kube::{
    Api,
    api::{ApiResource, DynamicObject},
    core::GroupVersionKind,
};
use rackhand_tests::{
    pki::CertSpec,
    process::free_port,
    stage::{LONG, wait_until},
    webhook::{Court, tls_dir},
};
use serde_json::json;

use super::{
    cases::{Case, cases, flat, schema_cases, selector, stricter},
    judges::{agrees, documents, judged, keeps_its_cluster, kubectl},
    kept_up::{explained, kept_up},
    world::{RELOADED, VALIDATE, disarm},
};

#[tokio::test(flavor = "multi_thread")]
async fn our_crd_and_our_webhook_refuse_what_cluster_apis_webhook_refuses() {
    let dir = tempfile::tempdir().unwrap();
    let world = Court::start(dir.path()).await.unwrap();
    if let Err(error) = scenario(&world).await {
        panic!("{error:#}");
    }
}

async fn scenario(w: &Court) -> Result<()> {
    let kubeconfig = w.plane.kubeconfig();
    let all: Vec<Case> = cases().into_iter().chain(stricter()).collect();
    agrees("our CRD", &kubeconfig, &all, true)?;
    agrees("our CRD's schema", &kubeconfig, &schema_cases(), true)?;
    keeps_its_cluster("our CRD", &kubeconfig)?;
    // The storage of a CRD is still being set up for a moment after it is served.
    wait_until("a check is explained", LONG, || async {
        Ok(explained(w).map_err(|error| format!("{error:#}")))
    })
    .await?;

    disarm(w).await?;
    let port = free_port()?;
    let controller = w.controller(port, &[]).await?;
    w.point(port, &w.pki).await?;
    let result = webhook(w, port, &all).await;
    result.with_context(|| controller.log_tail())
}

pub async fn webhook(w: &Court, port: u16, all: &[Case]) -> Result<()> {
    let kubeconfig = w.plane.kubeconfig();
    wait_until("the webhook is asked", LONG, || async {
        let refused = judged(&kubeconfig, &stricter())?;
        Ok(match refused.iter().all(|(_, said)| said.is_some()) {
            true => Ok(()),
            false => Err(format!("{refused:?}")),
        })
    })
    .await?;
    agrees("our webhook", &kubeconfig, all, true)?;
    keeps_its_cluster("our webhook", &kubeconfig)?;
    filled_in(w).await?;
    kept_up(w).await?;

    let answer = reqwest_to(w, port, "nonsense").await?;
    ensure!(answer.starts_with("400 "), "{answer}");

    // Another authority signs a new certificate: both ends change over without a restart.
    let other = w.pki.other("next")?;
    tls_dir(&other.issue(&CertSpec::server("webhook"))?, &w.web())?;
    w.point(port, &other).await?;
    wait_until("the new certificate is in use", RELOADED, || async {
        let spec = json!({ "clusterName": "demo", "selector": selector() });
        let document = documents(&[("after", "v1beta1", spec, None)]);
        let output = kubectl(&kubeconfig, &["apply", "-f", "-"], &document)?;
        Ok(match output.status.success() {
            true => Ok(()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        })
    })
    .await?;
    agrees(
        "our webhook, with a new certificate",
        &kubeconfig,
        all,
        true,
    )
}

/// Label and startup timeout, in either shape; and a warning for what is odd.
async fn filled_in(w: &Court) -> Result<()> {
    let bare = json!({ "clusterName": "demo", "selector": selector() });
    let odd = flat("unhealthyRange", json!("[3-1]"));
    let document = documents(&[
        ("old", "v1beta1", bare.clone(), None),
        ("new", "v1beta2", bare, None),
        ("odd", "v1beta1", odd, None),
    ]);
    let output = kubectl(&w.plane.kubeconfig(), &["apply", "-f", "-"], &document)?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(output.status.success(), "{said}");
    ensure!(
        said.contains("Warning: ") && said.contains("ends before it begins"),
        "{said}"
    );
    let gvk = GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta1", "MachineHealthCheck");
    let checks: Api<DynamicObject> =
        Api::namespaced_with(w.client.clone(), "default", &ApiResource::from_gvk(&gvk));
    for (name, pointer, value) in [
        ("old", "/spec/nodeStartupTimeout", json!("10m0s")),
        ("new", "/spec/checks/nodeStartupTimeoutSeconds", json!(600)),
    ] {
        let check = checks.get(name).await?;
        ensure!(
            check.data.pointer(pointer) == Some(&value),
            "{name}: {:?}",
            check.data
        );
        let labels = check.metadata.labels.unwrap_or_default();
        ensure!(
            labels["cluster.x-k8s.io/cluster-name"] == "demo",
            "{labels:?}"
        );
    }
    Ok(())
}

/// Status and text of what the webhook answers to a body.
async fn reqwest_to(w: &Court, port: u16, body: &'static str) -> Result<String> {
    let ca = reqwest::Certificate::from_pem(&std::fs::read(w.pki.ca_file())?)?;
    let client = reqwest::Client::builder()
        .tls_certs_only([ca])
        .timeout(LONG)
        .build()?;
    let url = format!("https://127.0.0.1:{port}/{VALIDATE}");
    let answer = client.post(url).body(body).send().await?;
    let status = answer.status();
    Ok(format!("{} {}", status.as_u16(), answer.text().await?))
}
