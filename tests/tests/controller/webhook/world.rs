//! An API server of its own, with the CRD and the webhook that a test asks for.

use std::time::Duration;

use anyhow::Result;
use rackhand_tests::{
    stage::{LONG, wait_until},
    webhook::Court,
};

use super::{
    cases::{cases, stricter},
    judges::judged,
};

pub const CRD: &str = "machinehealthchecks.cluster.x-k8s.io";

pub const VALIDATE: &str = "validate-cluster-x-k8s-io-v1beta2-machinehealthcheck";

/// How long our webhook may take until it has seen a new certificate, on a busy machine.
pub const RELOADED: Duration = Duration::from_secs(120);

/// Replaces the CRD of the checks by one that refuses nothing.
pub async fn disarm(w: &Court) -> Result<()> {
    w.disarm("kustomize/standalone", CRD).await?;
    wait_until("the CRD refuses nothing", LONG, || async {
        let all = cases().into_iter().chain(stricter()).collect::<Vec<_>>();
        let refused: Vec<_> = judged(&w.plane.kubeconfig(), &all)?
            .into_iter()
            .filter(|(_, said)| said.is_some())
            .collect();
        Ok(match refused.is_empty() {
            true => Ok(()),
            false => Err(format!("{refused:?}")),
        })
    })
    .await
}
