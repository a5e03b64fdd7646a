//! Cluster API's CRDs, first with its own webhooks, then with Rackhand's policies in their place.

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingAdmissionPolicy, ValidatingWebhookConfiguration,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, ListParams},
};
use rackhand_tests::{
    admission::apply_policies,
    cluster::{apply, shipped},
    stage::{LONG, Stage, StageConfig, wait_until},
};

use super::{
    cases::{Case, all_cases, cases, only_webhooks, schema_cases, stricter},
    verdicts::{agrees, keeps_its_cluster, wait_for},
};

#[tokio::test(flavor = "multi_thread")]
async fn cluster_api_webhook_and_own_policy_decide_alike_on_upstream_crd() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = StageConfig::fast(Vec::new());
    config.cluster_api = true;
    let stage = Stage::start(dir.path(), config).await.unwrap();
    if let Err(error) = scenario(&stage).await {
        panic!("{error:#}\n{}", stage.logs());
    }
}

async fn scenario(stage: &Stage) -> Result<()> {
    let kubeconfig = stage.plane().kubeconfig();
    agrees("Cluster API's webhook", &kubeconfig, &cases(), false)?;
    agrees("Cluster API's schema", &kubeconfig, &schema_cases(), false)?;
    let accepted: Vec<Case> = stricter()
        .into_iter()
        .filter(|(name, ..)| *name == "startup-split-second")
        .map(|(name, version, spec, _)| (name, version, spec, None))
        .collect();
    let who = "Cluster API's webhook, which is less strict than we are";
    agrees(who, &kubeconfig, &accepted, false)?;
    keeps_its_cluster("Cluster API's webhook", &kubeconfig)?;

    let client = stage.plane().client().await?;
    remove_webhooks(&client).await?;
    wait_for("no webhook refuses", &kubeconfig, &only_webhooks(), false).await?;
    for object in shipped("crds/nodes")? {
        apply(&client, object).await?;
    }
    apply_policies(&client).await?;
    wait_for("our policy refuses", &kubeconfig, &only_webhooks(), true).await?;
    let mut cases = all_cases();
    // The CRD drops the fields of the other version, and refuses the empty object that the webhook fills.
    cases.retain(|(name, ..)| !name.starts_with("mixed") && *name != "checks-empty");
    agrees("our policy on Cluster API's CRD", &kubeconfig, &cases, true)?;
    keeps_its_cluster("our policy on Cluster API's CRD", &kubeconfig)?;
    type_checked(&client).await
}

async fn remove_webhooks(client: &Client) -> Result<()> {
    let (list, delete) = (ListParams::default(), DeleteParams::default());
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    for found in validating.list(&list).await? {
        validating.delete(&found.name_any(), &delete).await?;
    }
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    for found in mutating.list(&list).await? {
        mutating.delete(&found.name_any(), &delete).await?;
    }
    Ok(())
}

/// Waits for the type check of the policies' expressions, which must report no warning.
async fn type_checked(client: &Client) -> Result<()> {
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(client.clone());
    wait_until("the policies are type-checked", LONG, || async {
        let found = policies.list(&ListParams::default()).await?;
        ensure!(found.items.len() >= 5, "{} policies", found.items.len());
        for policy in found {
            let name = policy.name_any();
            let status = policy.status.unwrap_or_default();
            let Some(checked) = status.type_checking else {
                return Ok(Err(format!("{name} is not type-checked")));
            };
            let mut warnings = checked.expression_warnings.unwrap_or_default();
            // The type check of the API server does not know the authorizer.
            warnings.retain(|w| !w.warning.contains("kubernetes.authorization.Authorizer"));
            ensure!(warnings.is_empty(), "{name}: {warnings:?}");
        }
        Ok(Ok(()))
    })
    .await
    .context("type checking")
}
