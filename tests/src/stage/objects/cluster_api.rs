//! Cluster API's own manager as a process, with its published CRDs, conversion, admission webhooks and
//! rights.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use anyhow::{Context as _, Result, bail};
use base64::Engine as _;
use kube::core::GroupVersionKind;
use serde_json::{Value, json};

use crate::stage::{END, LONG, Stage, wait_until};
use crate::{
    cluster::{apply, rendered},
    pki::CertSpec,
    process::{Process, free_port},
};

/// Name of the process and its log.
pub const MANAGER: &str = "capi-manager";

/// CAPM3's kinds that only Cluster API uses, reduced to its contract.
const CAPM3S: [(&str, &str); 2] = [
    ("Metal3Cluster", "metal3clusters"),
    ("Metal3MachineTemplate", "metal3machinetemplates"),
];

impl Stage {
    /// Installs Cluster API and starts its manager under exactly the rights of its ServiceAccount.
    pub(in crate::stage) async fn start_manager(&self) -> Result<Process> {
        let dir = cluster_api_release()?;
        let (webhooks, health, diagnostics) = (free_port()?, free_port()?, free_port()?);
        let tls = self.issue(&CertSpec::server(MANAGER))?;
        let ca = std::fs::read(tls.join("ca.crt"))?;
        let ca = base64::engine::general_purpose::STANDARD.encode(ca);
        let (mut hooks, mut kinds) = (Vec::new(), Vec::new());
        for mut object in rendered(&dir.join("config/default").display().to_string())? {
            point(&mut object, webhooks, &ca);
            match object["apiVersion"].as_str().unwrap_or_default() {
                // There is no cert-manager; the test issues the certificate.
                "cert-manager.io/v1" => {}
                "admissionregistration.k8s.io/v1" => hooks.push(object),
                "apiextensions.k8s.io/v1" => {
                    kinds.extend(served(&object));
                    apply(&self.client, object).await?;
                }
                _ => drop(apply(&self.client, object).await?),
            }
        }
        for (kind, plural) in CAPM3S {
            apply(&self.client, open_kind(kind, plural)).await?;
        }
        // The manager ends if a kind is not served yet.
        for kind in kinds {
            wait_until(&format!("{} is served", kind.kind), LONG, || async {
                let found = kube::discovery::pinned_kind(&self.client, &kind).await;
                Ok(found.map(drop).map_err(|error| error.to_string()))
            })
            .await?;
        }
        let account = self.plane.kubeconfig_of("capi-system", MANAGER).await?;
        let command = vec![
            dir.join("manager").display().to_string(),
            format!("--kubeconfig={}", account.display()),
            format!("--webhook-port={webhooks}"),
            format!("--webhook-cert-dir={}", tls.display()),
            format!("--health-addr=127.0.0.1:{health}"),
            format!("--diagnostics-address=127.0.0.1:{diagnostics}"),
            "--insecure-diagnostics".to_owned(),
        ];
        let namespace = ("POD_NAMESPACE".to_owned(), "capi-system".to_owned());
        let mut process = Process::start(MANAGER, &command, &[namespace], &self.dir)?;
        let deadline = Instant::now() + END;
        let url = format!("http://127.0.0.1:{health}/readyz");
        while !reqwest::get(&url)
            .await
            .is_ok_and(|a| a.status().is_success())
        {
            if process.ended().is_some() || Instant::now() > deadline {
                bail!("{MANAGER} does not become ready:\n{}", process.log_tail());
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        // Installed only now, because the start of the manager must not wait for its own webhooks.
        for hook in hooks {
            apply(&self.client, hook).await?;
        }
        Ok(process)
    }
}

/// The kinds of a CRD.
fn served(crd: &Value) -> Vec<GroupVersionKind> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (group, kind) = (
        text(&crd["spec"]["group"]),
        text(&crd["spec"]["names"]["kind"]),
    );
    let versions = crd["spec"]["versions"].as_array().into_iter().flatten();
    versions
        .filter(|version| version["served"] == true)
        .map(|version| GroupVersionKind::gvk(&group, &text(&version["name"]), &kind))
        .collect()
}

/// The CRD of a kind of CAPM3 that accepts any field.
fn open_kind(kind: &str, plural: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("{plural}.infrastructure.cluster.x-k8s.io"),
            "labels": {
                "cluster.x-k8s.io/v1beta1": "v1beta2",
                "cluster.x-k8s.io/v1beta2": "v1beta2",
            },
        },
        "spec": {
            "group": "infrastructure.cluster.x-k8s.io",
            "names": {
                "kind": kind,
                "listKind": format!("{kind}List"),
                "plural": plural,
                "singular": kind.to_lowercase(),
            },
            "scope": "Namespaced",
            "versions": [{
                "name": "v1beta2",
                "served": true,
                "storage": true,
                "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": {
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": true,
                }},
            }],
        },
    })
}

/// The folder with the manager, its manifests and `move`, from `hack/setup`, which builds missing parts.
///
/// # Errors
/// A part cannot be built.
pub fn cluster_api_release() -> Result<PathBuf> {
    prepared("--print-capi")
}

/// The folder that `hack/setup` prints with this option, once it has built what is missing.
pub(super) fn prepared(option: &str) -> Result<PathBuf> {
    let setup = Path::new(env!("CARGO_MANIFEST_DIR")).join("../hack/setup");
    let output = Command::new(&setup)
        .arg(option)
        .output()
        .with_context(|| format!("running {}", setup.display()))?;
    if !output.status.success() {
        bail!("hack/setup: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().into())
}

/// Points every webhook of an object at a local port, in place of a Service.
fn point(object: &mut Value, port: u16, ca: &str) {
    let conversion = object.pointer_mut("/spec/conversion/webhook/clientConfig");
    if let Some(config) = conversion {
        redirect(config, port, ca);
    }
    let hooks = object.get_mut("webhooks").and_then(Value::as_array_mut);
    for hook in hooks.into_iter().flatten() {
        redirect(&mut hook["clientConfig"], port, ca);
    }
}

fn redirect(config: &mut Value, port: u16, ca: &str) {
    let path = config["service"]["path"].as_str().unwrap_or_default();
    let url = format!("https://127.0.0.1:{port}{path}");
    *config = json!({ "url": url, "caBundle": ca });
}
