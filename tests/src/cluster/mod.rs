//! A real Kubernetes control plane on loopback.
//!
//! Dropping it ends its processes. It uses only its own ports and files.

mod assets;
mod audit;
mod kustomize;
mod manifests;

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::ServiceAccount,
};
use kube::{Api, Client, Config, api::PostParams, config::Kubeconfig};
use nix::sys::signal::Signal;
use parking_lot::Mutex;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, SanType,
};
use serde_json::{Value, json};

pub use assets::Assets;
pub use audit::{Audit, Right, shipped_rights};
pub use kustomize::{rendered, rendered_whole, shipped};
pub use manifests::{apply, apply_file, apply_yaml, parse_yaml};

use crate::process::{Process, free_port};

/// Timeout of the start on a busy machine.
const PATIENCE: Duration = Duration::from_secs(150);
/// Where etcd keeps its data.
const ETCD_DATA: &str = "etcd";
const ADMIN_TOKEN: &str = "test-admin";

/// The parts that run besides etcd and the API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parts {
    /// No further part: objects stay as written.
    ApiOnly,
    /// Scheduler and controller-manager. A Node whose Lease is not renewed becomes Unknown after 4 s.
    Whole,
    /// The same for real kubelets, with these periods.
    WholeForReal(Periods),
}

/// The periods of Kubernetes in a cluster with real kubelets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Periods {
    /// Short ones: a Node becomes Unknown after [`REAL_GRACE`].
    #[default]
    Short,
    /// Those that the kubelet and the controller-manager have by themselves: nothing is set.
    Default,
}

impl Periods {
    /// Periods of this run: `RACKHAND_REAL_PERIODS` is `default`, or absent for short ones.
    ///
    /// # Errors
    /// It is something else.
    pub fn of_environment() -> Result<Self> {
        match std::env::var("RACKHAND_REAL_PERIODS").as_deref() {
            Ok("default") => Ok(Self::Default),
            Ok("") | Err(_) => Ok(Self::Short),
            Ok(other) => anyhow::bail!("RACKHAND_REAL_PERIODS: {other:?} is not \"default\""),
        }
    }
}

impl Parts {
    /// The settings of the controller-manager about Nodes; `None`: none runs.
    fn node_monitor(self) -> Option<Vec<String>> {
        let grace = match self {
            Self::ApiOnly => return None,
            Self::WholeForReal(Periods::Default) => return Some(Vec::new()),
            Self::Whole => Duration::from_secs(4),
            Self::WholeForReal(Periods::Short) => REAL_GRACE,
        };
        Some(vec![
            "--node-monitor-period=1s".to_owned(),
            format!("--node-monitor-grace-period={}s", grace.as_secs()),
        ])
    }
}

/// How long a real kubelet may be silent until its Node becomes Unknown. An emulated processor is slow.
pub const REAL_GRACE: Duration = Duration::from_secs(16);

/// A server that tests stop, kill and start again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Server {
    /// etcd.
    Etcd,
    /// kube-apiserver.
    ApiServer,
}

/// A running control plane.
#[derive(Debug)]
pub struct ControlPlane {
    // Dropped in this order: writers end before the storage.
    scheduler: Option<Process>,
    controller_manager: Option<Process>,
    api_server: Mutex<Process>,
    etcd: Mutex<Process>,
    url: String,
    ca: String,
    dir: PathBuf,
}

impl ControlPlane {
    /// Starts a control plane with all files in `dir`, and waits until it is ready.
    ///
    /// # Errors
    /// A binary is missing, or a part does not become ready.
    pub async fn start(dir: &Path, parts: Parts) -> Result<Self> {
        Self::start_with(dir, parts, &[]).await
    }

    /// Starts a control plane with an audit log of these accounts.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn start_with(dir: &Path, parts: Parts, audited: &[&str]) -> Result<Self> {
        let assets = Assets::find()?;
        std::fs::create_dir_all(dir)?;
        let (etcd, etcd_url) = start_etcd(&assets, dir)?;
        let port = free_port()?;
        let url = format!("https://127.0.0.1:{port}");
        let ca = write_keys(dir)?;
        let api_server = start_api_server(&assets, dir, &etcd_url, port, audited)?;
        let mut plane = Self {
            scheduler: None,
            controller_manager: None,
            api_server: Mutex::new(api_server),
            etcd: Mutex::new(etcd),
            url,
            ca,
            dir: dir.to_owned(),
        };
        let kubeconfig = plane.write_kubeconfig("admin", ADMIN_TOKEN)?;
        plane.wait_ready().await?;
        if let Some(monitor) = parts.node_monitor() {
            let manager = plane.start_controller_manager(&assets, &kubeconfig, monitor)?;
            plane.controller_manager = Some(manager);
            plane.scheduler = Some(start_plain(
                &assets,
                "kube-scheduler",
                dir,
                &kubeconfig,
                &[],
            )?);
        }
        Ok(plane)
    }

    /// URL of the API server.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Directory of the control plane, including logs.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// A kubeconfig with all rights.
    #[must_use]
    pub fn kubeconfig(&self) -> PathBuf {
        self.dir.join("admin.kubeconfig")
    }

    /// The audit log of the audited accounts so far.
    ///
    /// # Errors
    /// Nothing is audited, or the log cannot be parsed.
    pub fn audit(&self) -> Result<Audit> {
        Audit::read(&self.dir.join("audit.log"))
    }

    /// The process of a server.
    pub(crate) fn server(&self, server: Server) -> &Mutex<Process> {
        match server {
            Server::Etcd => &self.etcd,
            Server::ApiServer => &self.api_server,
        }
    }

    /// Stops or continues a server as a whole.
    ///
    /// # Errors
    /// The server does not run.
    pub fn signal(&self, server: Server, signal: Signal) -> Result<()> {
        self.server(server).lock().signal(signal)
    }

    /// `kill -9` of a server.
    ///
    /// # Errors
    /// The server does not run.
    pub fn kill(&self, server: Server) -> Result<()> {
        self.server(server).lock().kill()
    }

    /// Restarts a killed server with the same data and address. It is not ready at the return.
    ///
    /// # Errors
    /// The server runs already, or does not start.
    pub fn restart(&self, server: Server) -> Result<()> {
        self.server(server).lock().restart()
    }

    /// Copies the data of etcd, which stands still meanwhile, and returns where the copy is.
    ///
    /// # Errors
    /// etcd does not run, or there is no space.
    pub fn back_up(&self) -> Result<PathBuf> {
        let copy = self.dir.join("etcd-backup");
        self.signal(Server::Etcd, Signal::SIGSTOP)?;
        let copied = copy_dir(&self.dir.join(ETCD_DATA), &copy);
        self.signal(Server::Etcd, Signal::SIGCONT)?;
        copied?;
        Ok(copy)
    }

    /// Stops etcd and the API server, replaces the data of etcd, starts both, and waits until they are
    /// ready.
    ///
    /// # Errors
    /// They do not become ready.
    pub async fn restore(&mut self, backup: &Path) -> Result<()> {
        for server in [Server::ApiServer, Server::Etcd] {
            self.kill(server)?;
        }
        let data = self.dir.join(ETCD_DATA);
        std::fs::remove_dir_all(&data)?;
        copy_dir(backup, &data)?;
        for server in [Server::Etcd, Server::ApiServer] {
            self.restart(server)?;
        }
        self.wait_ready().await
    }

    /// A client with all rights.
    ///
    /// # Errors
    /// The kubeconfig does not work.
    pub async fn client(&self) -> Result<Client> {
        client_of(&self.kubeconfig()).await
    }

    /// A kubeconfig with exactly the rights of a ServiceAccount.
    ///
    /// # Errors
    /// The ServiceAccount does not exist.
    pub async fn kubeconfig_of(&self, namespace: &str, name: &str) -> Result<PathBuf> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client().await?, namespace);
        let asked = TokenRequest {
            spec: TokenRequestSpec {
                audiences: vec!["https://kubernetes.default.svc".into()],
                expiration_seconds: Some(24 * 3600),
                bound_object_ref: None,
            },
            ..TokenRequest::default()
        };
        let token = accounts
            .create_token_request(name, &PostParams::default(), &asked)
            .await
            .with_context(|| format!("token of ServiceAccount {namespace}/{name}"))?
            .status
            .context("no token in the answer")?
            .token;
        self.write_kubeconfig(name, &token)
    }

    /// A kubeconfig with all rights, and a client certificate instead of a token, as kubeadm's.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn kubeconfig_by_certificate(&self) -> Result<PathBuf> {
        let file = |name: &str| self.dir.join(name);
        let user = json!({
            "client-certificate": file("person.crt"), "client-key": file("person.key"),
        });
        self.write_kubeconfig_of("kubernetes-admin", &user)
    }

    /// The kubeconfig of a kubelet behind user-mode networking, with a client certificate of its own.
    ///
    /// # Errors
    /// The certificate cannot be issued.
    pub fn kubeconfig_of_kubelet(&self, node: &str, host: &str) -> Result<String> {
        let key = KeyPair::from_pem(&std::fs::read_to_string(self.dir.join("ca.key"))?)?;
        let issuer = Issuer::from_ca_cert_pem(&self.ca, key)?;
        let (organization, name) = ("system:nodes", format!("system:node:{node}"));
        let (certificate, key) = client_certificate(&issuer, organization, &name)?;
        let port = self.url.rsplit(':').next().context("no port")?;
        let text = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "contexts": [{ "name": "test", "context": { "cluster": "test", "user": name } }],
            "clusters": [{ "name": "test", "cluster": {
                "server": format!("https://{host}:{port}"),
                "tls-server-name": "localhost",
                "certificate-authority-data": base64_of(&self.ca),
            }}],
            "users": [{ "name": name, "user": {
                "client-certificate-data": base64_of(&certificate),
                "client-key-data": base64_of(&key),
            }}],
        });
        Ok(serde_json::to_string_pretty(&text)?)
    }

    fn write_kubeconfig(&self, user: &str, token: &str) -> Result<PathBuf> {
        self.write_kubeconfig_of(user, &json!({ "token": token }))
    }

    fn write_kubeconfig_of(&self, user: &str, credentials: &Value) -> Result<PathBuf> {
        let text = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "contexts": [{ "name": "test", "context": { "cluster": "test", "user": user } }],
            "clusters": [{ "name": "test", "cluster": {
                "server": self.url,
                "certificate-authority-data": base64_of(&self.ca),
            }}],
            "users": [{ "name": user, "user": credentials }],
        });
        let path = self.dir.join(format!("{user}.kubeconfig"));
        std::fs::write(&path, serde_json::to_string_pretty(&text)?)?;
        Ok(path)
    }

    async fn wait_ready(&mut self) -> Result<()> {
        let client = self.client().await?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let request = http::Request::get("/readyz").body(Vec::new())?;
            let ready = client.request_text(request).await;
            if ready.is_ok_and(|text| text.trim() == "ok") {
                return Ok(());
            }
            for part in [&mut self.api_server, &mut self.etcd] {
                let part = part.get_mut();
                if part.ended().is_some() {
                    bail!("{} ended:\n{}", part.log().display(), part.log_tail());
                }
            }
            if Instant::now() > deadline {
                bail!(
                    "the API server is not ready:\n{}",
                    self.api_server.get_mut().log_tail()
                );
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    fn start_controller_manager(
        &self,
        assets: &Assets,
        kubeconfig: &Path,
        mut more: Vec<String>,
    ) -> Result<Process> {
        more.extend([
            "--use-service-account-credentials=false".to_owned(),
            format!(
                "--flex-volume-plugin-dir={}",
                self.dir.join("flex").display()
            ),
            format!(
                "--service-account-private-key-file={}",
                self.dir.join("sa.key").display()
            ),
            format!("--root-ca-file={}", self.dir.join("ca.crt").display()),
        ]);
        start_plain(
            assets,
            "kube-controller-manager",
            &self.dir,
            kubeconfig,
            &more,
        )
    }
}

/// A client from a kubeconfig.
///
/// # Errors
/// The kubeconfig cannot be parsed.
pub async fn client_of(kubeconfig: &Path) -> Result<Client> {
    rustls::crypto::ring::default_provider()
        .install_default()
        .ok();
    let file = Kubeconfig::read_from(kubeconfig)?;
    let mut config = Config::from_custom_kubeconfig(file, &Default::default()).await?;
    config.default_retry = false;
    Ok(Client::try_from(config)?)
}

fn copy_dir(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_dir(&entry.path(), &to)?;
        } else {
            std::fs::copy(entry.path(), to)?;
        }
    }
    Ok(())
}

fn base64_of(text: &str) -> String {
    use base64::{Engine, engine::general_purpose::STANDARD};
    STANDARD.encode(text)
}

fn start_etcd(assets: &Assets, dir: &Path) -> Result<(Process, String)> {
    let url = format!("http://127.0.0.1:{}", free_port()?);
    let peers = format!("http://127.0.0.1:{}", free_port()?);
    let command = vec![
        assets.path("etcd"),
        format!("--data-dir={}", dir.join(ETCD_DATA).display()),
        format!("--listen-client-urls={url}"),
        format!("--advertise-client-urls={url}"),
        format!("--listen-peer-urls={peers}"),
        format!("--initial-advertise-peer-urls={peers}"),
        format!("--initial-cluster=default={peers}"),
        // The data of a test need not survive a crash of the machine.
        "--unsafe-no-fsync".into(),
        "--log-level=warn".into(),
    ];
    Ok((start_component("etcd", &command, dir)?, url))
}

/// Starts a component of the control plane. With more than one thread it searches for work on processors that many
/// control planes share, and by default it collects garbage for a seventh of its time.
fn start_component(name: &str, command: &[String], dir: &Path) -> Result<Process> {
    let settings = [("GOMAXPROCS", "1"), ("GOGC", "300")];
    let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Process::start(name, command, &settings, dir)
}

/// Writes the certificate of the API server and the key of ServiceAccount tokens; returns the CA.
fn write_keys(dir: &Path) -> Result<String> {
    let ca_key = KeyPair::generate()?;
    let mut ca = CertificateParams::new(Vec::new())?;
    ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca_cert = ca.self_signed(&ca_key)?;
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(vec!["localhost".to_owned(), "kubernetes".to_owned()])?;
    params
        .subject_alt_names
        .push(SanType::IpAddress(std::net::Ipv4Addr::LOCALHOST.into()));
    std::fs::write(dir.join("ca.key"), ca_key.serialize_pem())?;
    let issuer = Issuer::new(ca, ca_key);
    let cert = params.signed_by(&key, &issuer)?;
    let (person, person_key) = client_certificate(&issuer, "system:masters", "kubernetes-admin")?;
    std::fs::write(dir.join("person.crt"), person)?;
    std::fs::write(dir.join("person.key"), person_key)?;
    std::fs::write(dir.join("ca.crt"), ca_cert.pem())?;
    std::fs::write(dir.join("server.crt"), cert.pem())?;
    std::fs::write(dir.join("server.key"), key.serialize_pem())?;
    let accounts = KeyPair::generate()?;
    std::fs::write(dir.join("sa.key"), accounts.serialize_pem())?;
    std::fs::write(dir.join("sa.pub"), accounts.public_key_pem())?;
    std::fs::write(
        dir.join("tokens.csv"),
        format!("{ADMIN_TOKEN},admin,admin,system:masters\n"),
    )?;
    Ok(ca_cert.pem())
}

/// Certificate and key of a client of the API server.
fn client_certificate(
    issuer: &Issuer<'_, KeyPair>,
    organization: &str,
    name: &str,
) -> Result<(String, String)> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(Vec::new())?;
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params.distinguished_name = DistinguishedName::new();
    let names = [
        (DnType::OrganizationName, organization),
        (DnType::CommonName, name),
    ];
    for (kind, name) in names {
        params.distinguished_name.push(kind, name);
    }
    let certificate = params.signed_by(&key, issuer)?;
    Ok((certificate.pem(), key.serialize_pem()))
}

fn start_api_server(
    assets: &Assets,
    dir: &Path,
    etcd: &str,
    port: u16,
    audited: &[&str],
) -> Result<Process> {
    let file = |name: &str| dir.join(name).display().to_string();
    let mut command = vec![
        assets.path("kube-apiserver"),
        format!("--etcd-servers={etcd}"),
        "--bind-address=127.0.0.1".into(),
        "--advertise-address=127.0.0.1".into(),
        format!("--secure-port={port}"),
        format!("--tls-cert-file={}", file("server.crt")),
        format!("--tls-private-key-file={}", file("server.key")),
        format!("--token-auth-file={}", file("tokens.csv")),
        format!("--client-ca-file={}", file("ca.crt")),
        "--authorization-mode=RBAC".into(),
        // As every installer has it: kubelets may not set labels of this prefix.
        "--enable-admission-plugins=NodeRestriction".into(),
        "--service-cluster-ip-range=10.96.0.0/16".into(),
        "--service-account-issuer=https://kubernetes.default.svc".into(),
        format!("--service-account-key-file={}", file("sa.pub")),
        format!("--service-account-signing-key-file={}", file("sa.key")),
        // Pods need no tokens here, and no controller creates them.
        "--disable-admission-plugins=ServiceAccount".into(),
        "--endpoint-reconciler-type=none".into(),
        "--watch-cache=true".into(),
        "-v=0".into(),
    ];
    if !audited.is_empty() {
        let policy = serde_json::to_string(&audit::policy(audited))?;
        std::fs::write(dir.join("audit-policy.yaml"), policy)?;
        command.push(format!("--audit-policy-file={}", file("audit-policy.yaml")));
        command.push(format!("--audit-log-path={}", file("audit.log")));
    }
    start_component("kube-apiserver", &command, dir)
}

fn start_plain(
    assets: &Assets,
    name: &str,
    dir: &Path,
    kubeconfig: &Path,
    more: &[String],
) -> Result<Process> {
    let mut command = vec![
        assets.path(name),
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--authentication-kubeconfig={}", kubeconfig.display()),
        format!("--authorization-kubeconfig={}", kubeconfig.display()),
        "--leader-elect=false".into(),
        "--bind-address=127.0.0.1".into(),
        format!("--secure-port={}", free_port()?),
        format!("--cert-dir={}", dir.join(format!("{name}-certs")).display()),
        "-v=0".into(),
    ];
    command.extend_from_slice(more);
    start_component(name, &command, dir)
}
