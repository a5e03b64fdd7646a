//! An API server of its own, with the CRDs that we ship and our webhook, for tests of what is taken
//! and what is refused.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use kube::Client;
use serde_json::{Value, json};

use crate::{
    cluster::{ControlPlane, Parts, apply, parse_yaml, shipped},
    pki::{CertFiles, CertSpec, Pki},
    process::{Process, free_port},
    stage::{LONG, binaries, wait_until},
};

/// The API server, and whoever signs for the webhook.
pub struct Court {
    /// The API server.
    pub plane: ControlPlane,
    /// Its administrator.
    pub client: Client,
    /// The authority.
    pub pki: Pki,
    dir: PathBuf,
}

// === impl Court ===

impl Court {
    /// With what `deploy/kustomize/standalone` installs.
    ///
    /// # Errors
    /// It does not start.
    pub async fn start(dir: &Path) -> Result<Self> {
        let plane = ControlPlane::start(&dir.join("control-plane"), Parts::ApiOnly).await?;
        let client = plane.client().await?;
        for object in shipped("kustomize/standalone")? {
            apply(&client, object).await?;
        }
        Ok(Self {
            client,
            plane,
            pki: Pki::new(dir.join("pki"))?,
            dir: dir.to_owned(),
        })
    }

    /// Our controller with its webhook, once it is ready.
    ///
    /// # Errors
    /// It does not become ready.
    pub async fn controller(&self, port: u16, more: &[&str]) -> Result<Process> {
        let (agents, web) = (self.dir.join("agents"), self.web());
        let peer = CertSpec::peer("controller", "spiffe://rackhand/controller");
        tls_dir(&self.pki.issue(&peer)?, &agents)?;
        tls_dir(&self.pki.issue(&CertSpec::server("webhook"))?, &web)?;
        let admin = free_port()?;
        let binary = binaries()?.join("rackhand-controller");
        let mut command = vec![
            binary.display().to_string(),
            format!("--kubeconfig={}", self.plane.kubeconfig().display()),
            format!("--agent-tls-dir={}", agents.display()),
            format!("--admin-address=127.0.0.1:{admin}"),
            // On a busy machine nobody is to lose a Lease.
            "--lease-duration=10m".to_owned(),
            format!("--webhook-address=127.0.0.1:{port}"),
            format!("--webhook-tls-dir={}", web.display()),
        ];
        command.extend(more.iter().map(ToString::to_string));
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

    /// Where the webhook has its certificate.
    #[must_use]
    pub fn web(&self) -> PathBuf {
        self.dir.join("webhook")
    }

    /// Our webhook configurations, as we ship them, but for where they point.
    ///
    /// # Errors
    /// The API server refuses them.
    pub async fn point(&self, port: u16, pki: &Pki) -> Result<()> {
        let text = std::fs::read_to_string(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../deploy/kustomize/webhook/webhooks.yaml"
        ))?;
        let ca = STANDARD.encode(std::fs::read(pki.ca_file())?);
        for mut object in parse_yaml(&text)? {
            for hook in object["webhooks"].as_array_mut().context("no webhooks")? {
                let path = hook["clientConfig"]["service"]["path"].clone();
                let path = path.as_str().context("no path")?;
                let url = format!("https://127.0.0.1:{port}{path}");
                hook["clientConfig"] = json!({ "url": url, "caBundle": ca });
            }
            apply(&self.client, object).await?;
        }
        Ok(())
    }

    /// Replaces a CRD of a folder of `deploy/` by one that refuses nothing.
    ///
    /// # Errors
    /// There is none of that name.
    pub async fn disarm(&self, folder: &str, crd: &str) -> Result<()> {
        let mut found = shipped(folder)?.into_iter();
        let found = found.find(|object| object["metadata"]["name"] == crd);
        let mut crd = found.context("no CRD")?;
        lenient(&mut crd["spec"]["versions"]);
        apply(&self.client, crd).await.map(drop)
    }
}

/// A schema that says no more than which type a field has.
fn lenient(schema: &mut Value) {
    const RULES: [&str; 8] = [
        "x-kubernetes-validations",
        "pattern",
        "minLength",
        "maxLength",
        "minItems",
        "minimum",
        "minProperties",
        "enum",
    ];
    match schema {
        Value::Object(fields) => {
            fields.retain(|name, value| !RULES.contains(&name.as_str()) || value.is_object());
            fields.values_mut().for_each(lenient);
        }
        Value::Array(items) => items.iter_mut().for_each(lenient),
        _ => {}
    }
}

/// Certificate, key and CA under the names that our programs look for.
///
/// # Errors
/// They cannot be copied.
pub fn tls_dir(files: &CertFiles, dir: &Path) -> Result<()> {
    std::fs::create_dir_all(dir)?;
    for (from, to) in [
        (&files.cert, "tls.crt"),
        (&files.key, "tls.key"),
        (&files.ca, "ca.crt"),
    ] {
        std::fs::copy(from, dir.join(to))?;
    }
    Ok(())
}
