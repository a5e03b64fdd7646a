//! An API server of its own, with the CRD and the webhook that a test asks for.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use kube::Client;
use rackhand_tests::{
    cluster::{ControlPlane, Parts, apply, parse_yaml},
    pki::{CertFiles, CertSpec, Pki},
    process::{Process, free_port},
    stage::{LONG, binaries, wait_until},
};
use serde_json::{Value, json};

use crate::{
    cases::{cases, stricter},
    judges::judged,
};

pub const CRD: &str = "machinehealthchecks.cluster.x-k8s.io";

pub const VALIDATE: &str = "validate-cluster-x-k8s-io-v1beta2-machinehealthcheck";

/// How long our webhook may take until it has seen a new certificate, on a busy machine.
pub const RELOADED: Duration = Duration::from_secs(120);

fn render(folder: &str) -> Result<Vec<Value>> {
    let path = format!(
        "{}/../deploy/kustomize/{folder}",
        env!("CARGO_MANIFEST_DIR")
    );
    let rendered = Command::new("kubectl")
        .args(["kustomize", &path])
        .output()
        .context("kubectl is missing; run hack/setup")?;
    ensure!(
        rendered.status.success(),
        "{path}: {}",
        String::from_utf8_lossy(&rendered.stderr)
    );
    parse_yaml(&String::from_utf8(rendered.stdout)?)
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

pub struct World {
    pub plane: ControlPlane,
    pub client: Client,
    pub pki: Pki,
    pub dir: PathBuf,
}

pub fn put(files: &CertFiles, dir: &Path) -> Result<()> {
    std::fs::create_dir_all(dir)?;
    std::fs::copy(&files.ca, dir.join("ca.crt"))?;
    std::fs::copy(&files.key, dir.join("tls.key"))?;
    std::fs::copy(&files.cert, dir.join("tls.crt"))?;
    Ok(())
}

impl World {
    pub async fn start(dir: &Path) -> Result<Self> {
        let plane = ControlPlane::start(&dir.join("control-plane"), Parts::ApiOnly).await?;
        let client = plane.client().await?;
        for object in render("standalone")? {
            if object["kind"] != "Deployment" {
                apply(&client, object).await?;
            }
        }
        Ok(Self {
            client,
            plane,
            pki: Pki::new(dir.join("pki"))?,
            dir: dir.to_owned(),
        })
    }

    /// Our controller with its webhook.
    pub async fn controller(&self, port: u16) -> Result<Process> {
        let (agents, web) = (self.dir.join("agents"), self.web());
        put(
            &self.pki.issue(&CertSpec::peer(
                "controller",
                "spiffe://rackhand/controller",
            ))?,
            &agents,
        )?;
        put(&self.pki.issue(&CertSpec::server("webhook"))?, &web)?;
        let admin = free_port()?;
        let command = vec![
            binaries()?
                .join("rackhand-controller")
                .display()
                .to_string(),
            format!("--kubeconfig={}", self.plane.kubeconfig().display()),
            format!("--agent-tls-dir={}", agents.display()),
            format!("--admin-address=127.0.0.1:{admin}"),
            // On a busy machine nobody is to lose a Lease.
            "--lease-duration=10m".to_owned(),
            format!("--webhook-address=127.0.0.1:{port}"),
            format!("--webhook-tls-dir={}", web.display()),
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

    pub fn web(&self) -> PathBuf {
        self.dir.join("webhook")
    }

    /// Our webhook configurations, as we ship them, but for where they point.
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

    /// Replaces the CRD of the checks by one that refuses nothing.
    pub async fn disarm(&self) -> Result<()> {
        let found = render("standalone")?
            .into_iter()
            .find(|object| object["metadata"]["name"] == CRD);
        let mut crd = found.context("no CRD")?;
        lenient(&mut crd["spec"]["versions"]);
        apply(&self.client, crd).await?;
        wait_until("the CRD refuses nothing", LONG, || async {
            let all = cases().into_iter().chain(stricter()).collect::<Vec<_>>();
            let refused: Vec<_> = judged(&self.plane.kubeconfig(), &all)?
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
}
