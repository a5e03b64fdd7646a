//! Cluster API's own judges.

use rackhand_tests::stage::{Stage, StageConfig};

use super::{
    cases::{Case, cases, schema_cases, stricter},
    judges::{agrees, keeps_its_cluster},
};

#[tokio::test(flavor = "multi_thread")]
async fn cluster_apis_own_webhook_and_crd_say_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = StageConfig::fast(Vec::new());
    config.cluster_api = true;
    let stage = Stage::start(dir.path(), config).await.unwrap();
    let kubeconfig = stage.plane().kubeconfig();
    let taken: Vec<Case> = stricter()
        .into_iter()
        .filter(|(name, ..)| *name == "startup-split-second")
        .map(|(name, version, spec, _)| (name, version, spec, None))
        .collect();
    let outcome = agrees("Cluster API", &kubeconfig, &cases(), false)
        .and_then(|()| agrees("Cluster API's schema", &kubeconfig, &schema_cases(), false))
        .and_then(|()| {
            agrees(
                "Cluster API, which we are stricter than",
                &kubeconfig,
                &taken,
                false,
            )
        })
        .and_then(|()| keeps_its_cluster("Cluster API", &kubeconfig));
    if let Err(error) = outcome {
        panic!("{error:#}\n{}", stage.logs());
    }
}
