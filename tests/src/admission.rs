//! An API server with the shipped CRDs, for tests of admission.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use kube::Client;
use serde_json::Value;

use crate::{
    cluster::{ControlPlane, Parts, apply, shipped},
    pki::{CertSpec, Pki},
    process::{Process, free_port},
    stage::{LONG, binaries, tls_dir, wait_until},
};

/// An API server without Kubernetes controllers.
pub struct AdmissionServer {
    /// The API server.
    pub plane: ControlPlane,
    /// A client with all rights.
    pub client: Client,
    dir: PathBuf,
}

// === impl AdmissionServer ===

impl AdmissionServer {
    /// Starts a server with the objects of `deploy/kustomize/standalone` and `deploy/crds/nodes`.
    ///
    /// # Errors
    /// The server does not start.
    pub async fn start(dir: &Path) -> Result<Self> {
        let plane = ControlPlane::start(&dir.join("control-plane"), Parts::ApiOnly).await?;
        let client = plane.client().await?;
        for folder in ["kustomize/standalone", "crds/nodes"] {
            for object in shipped(folder)? {
                apply(&client, object).await?;
            }
        }
        Ok(Self {
            client,
            plane,
            dir: dir.to_owned(),
        })
    }

    /// Starts the controller, and waits until it is ready.
    ///
    /// # Errors
    /// The controller does not become ready.
    pub async fn controller(&self) -> Result<Process> {
        let agents = self.dir.join("agents");
        let peer = CertSpec::peer("controller", "spiffe://rackhand/controller");
        let pki = Pki::new(self.dir.join("pki"))?;
        tls_dir(&pki.issue(&peer)?, &agents)?;
        let admin = free_port()?;
        let binary = binaries()?.join("rackhand-controller");
        let command = vec![
            binary.display().to_string(),
            format!("--kubeconfig={}", self.plane.kubeconfig().display()),
            format!("--agent-tls-dir={}", agents.display()),
            format!("--admin-address=127.0.0.1:{admin}"),
            // Long, so that the controller does not lose the Lease on a busy machine.
            "--lease-duration=10m".to_owned(),
        ];
        let process = Process::start("controller", &command, &[], &self.dir)?;
        wait_until("the controller is ready", LONG, || async {
            let url = format!("http://127.0.0.1:{admin}/readyz");
            let ready = reqwest::get(&url).await;
            Ok(
                match ready.is_ok_and(|answer| answer.status().is_success()) {
                    true => Ok(()),
                    false => Err(process.log_tail()),
                },
            )
        })
        .await?;
        Ok(process)
    }

    /// Replaces a CRD of a folder of `deploy/` by one that only has the types of fields, like the CRD of
    /// another project.
    ///
    /// # Errors
    /// There is no CRD of this name.
    pub async fn remove_rules(&self, folder: &str, crd: &str) -> Result<()> {
        let mut found = shipped(folder)?.into_iter();
        let found = found.find(|object| object["metadata"]["name"] == crd);
        let mut crd = found.context("no CRD")?;
        types_only(&mut crd["spec"]["versions"]);
        apply(&self.client, crd).await.map(drop)
    }
}

/// Applies the shipped admission policies, which take effect a moment later.
///
/// # Errors
/// The API server rejects a policy.
pub async fn apply_policies(client: &Client) -> Result<()> {
    for object in shipped("kustomize/admission")? {
        apply(client, object).await?;
    }
    Ok(())
}

/// Removes all constraints from a schema except the types of fields.
fn types_only(schema: &mut Value) {
    const CONSTRAINTS: [&str; 12] = [
        "x-kubernetes-validations",
        "x-kubernetes-list-type",
        "x-kubernetes-list-map-keys",
        "required",
        "pattern",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "minimum",
        "minProperties",
        "enum",
    ];
    match schema {
        Value::Object(fields) => {
            // A field may have the name of a constraint.
            fields.retain(|name, value| !CONSTRAINTS.contains(&name.as_str()) || value.is_object());
            fields.values_mut().for_each(types_only);
        }
        Value::Array(items) => items.iter_mut().for_each(types_only),
        _ => {}
    }
}
