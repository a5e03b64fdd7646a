//! An agent with its directory, its certificates and its callers.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        mpsc::{self, RecvTimeoutError},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use hyper_util::rt::TokioIo;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use rackhand_proto::v1::{self, power_client::PowerClient};
use rackhand_tests::{
    pki::{CertFiles, CertSpec, Pki},
    process::{Process, free_port},
    stage::{binaries, memory_kib},
};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tonic::transport::{Channel, Endpoint};

pub type Client = PowerClient<Channel>;

/// Far longer than any step takes on an idle machine.
pub const PATIENCE: Duration = Duration::from_secs(180);
pub const PASSWORD: &str = "s3cret-0f-a-bmc";

pub struct Site {
    pub dir: TempDir,
    pub pki: Pki,
    pub port: u16,
    pub admin: u16,
    agent: Option<Process>,
}

impl Site {
    /// A directory with the configuration of rack `r1` and these hosts; nothing is started.
    pub fn new(hosts: &Value) -> Self {
        rustls::crypto::ring::default_provider()
            .install_default()
            .ok();
        let dir = TempDir::new().unwrap();
        let pki = Pki::new(dir.path().join("pki")).unwrap();
        let (port, admin) = (free_port().unwrap(), free_port().unwrap());
        let site = Self {
            dir,
            pki,
            port,
            admin,
            agent: None,
        };
        let ours = site.certificate("spiffe://rackhand/rack/r1");
        let tls = site.dir.path().join("tls");
        std::fs::create_dir(&tls).unwrap();
        for (from, to) in [
            (&ours.cert, "tls.crt"),
            (&ours.key, "tls.key"),
            (&ours.ca, "ca.crt"),
        ] {
            std::fs::copy(from, tls.join(to)).unwrap();
        }
        std::fs::write(site.dir.path().join("password"), PASSWORD).unwrap();
        let config = json!({
            "rack": "r1",
            "listen": format!("127.0.0.1:{port}"),
            "admin_listen": format!("127.0.0.1:{admin}"),
            "tls": "tls",
            "socket": "agent.sock",
            "state": "state",
            "allowed_bmc_networks": ["127.0.0.0/8"],
            "accept_endpoints_from_controller": true,
            "accept_insecure_endpoints_from_controller": true,
            "defaults": {
                "trust": {"ca_file": site.pki.ca_file()},
                "call_timeout": "60s",
                "connect_timeout": "30s",
                "shutdown_grace": "0s",
                "resend_after": "10m",
            },
            "hosts": hosts,
        });
        let text = toml::to_string(&config).unwrap();
        std::fs::write(site.config(), text).unwrap();
        site
    }

    pub fn config(&self) -> PathBuf {
        self.dir.path().join("agent.toml")
    }

    /// Starts the agent and waits until it is ready.
    pub async fn start(&mut self) {
        self.start_under(&[]).await;
    }

    /// Starts the agent with a program and its arguments before the agent's command line.
    pub async fn start_under(&mut self, prefix: &[&str]) {
        let mut command: Vec<String> = prefix.iter().map(|&word| word.to_owned()).collect();
        command.extend([
            binaries()
                .unwrap()
                .join("rackhand-agent")
                .display()
                .to_string(),
            "serve".to_owned(),
            format!("--config={}", self.config().display()),
        ]);
        let env = [
            ("RACKHAND_LOG".to_owned(), "debug".to_owned()),
            ("NO_COLOR".to_owned(), "1".to_owned()),
        ];
        std::fs::remove_file(self.dir.path().join("agent.sock")).ok();
        let process = Process::start("agent", &command, &env, self.dir.path()).unwrap();
        self.agent = Some(process);
        let begun = Instant::now();
        while !self
            .try_get("/readyz")
            .await
            .is_some_and(|answer| answer.contains("200 OK"))
        {
            assert!(begun.elapsed() < PATIENCE, "{}", self.agent().log_tail());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub fn agent(&self) -> &Process {
        self.agent.as_ref().unwrap()
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        self.agent.as_mut().unwrap().kill().unwrap();
    }

    pub fn stop(&mut self) {
        let status = self.agent.as_mut().unwrap().stop(PATIENCE).unwrap();
        assert!(status.success(), "{status}: {}", self.agent().log_tail());
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.agent().log()).unwrap()
    }

    pub fn certificate(&self, uri: &str) -> CertFiles {
        self.pki
            .issue(&CertSpec::peer(uri.replace(['/', ':'], "_"), uri))
            .unwrap()
    }

    pub async fn local(&self) -> Client {
        let socket = self.dir.path().join("agent.sock");
        PowerClient::new(rackhand_transport::connect_local(&socket).await.unwrap())
    }

    /// A caller with this certificate, or without one.
    pub fn remote(&self, files: Option<&CertFiles>) -> Client {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_file(self.pki.ca_file()).unwrap())
            .unwrap();
        let builder = ClientConfig::builder().with_root_certificates(roots);
        let mut config = match files {
            None => builder.with_no_client_auth(),
            Some(files) => {
                let chain = CertificateDer::pem_file_iter(&files.cert).unwrap();
                let key = PrivateKeyDer::from_pem_file(&files.key).unwrap();
                builder
                    .with_client_auth_cert(chain.map(Result::unwrap).collect(), key)
                    .unwrap()
            }
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        let tls = tokio_rustls::TlsConnector::from(Arc::new(config));
        let port = self.port;
        let connector = tower::service_fn(move |_: http::Uri| {
            let tls = tls.clone();
            async move {
                let stream = TcpStream::connect(("127.0.0.1", port)).await?;
                let name = ServerName::try_from("127.0.0.1").unwrap();
                Ok::<_, std::io::Error>(TokioIo::new(tls.connect(name, stream).await?))
            }
        });
        let endpoint = Endpoint::from_static("http://agent");
        PowerClient::new(endpoint.connect_with_connector_lazy(connector))
    }

    async fn try_get(&self, path: &str) -> Option<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.admin)).await.ok()?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.ok()?;
        Some(answer)
    }

    pub async fn metrics(&self) -> String {
        self.try_get("/metrics").await.unwrap()
    }

    /// Value of a metric by its name and labels; 0 if it does not exist yet.
    pub async fn metric(&self, name: &str) -> i64 {
        let text = self.metrics().await;
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.map_or(0, |value| value.trim().parse().unwrap())
    }

    /// Samples the agent's anonymous memory from now on.
    pub fn sample_memory(&self) -> MemorySampler {
        let pid = self.agent().pid();
        let (stop, stopped) = mpsc::channel();
        let thread = thread::spawn(move || {
            let mut peak = 0;
            loop {
                peak = u64::max(peak, memory_kib(pid, "RssAnon:").unwrap());
                let stop = stopped.recv_timeout(Duration::from_millis(10));
                if stop != Err(RecvTimeoutError::Timeout) {
                    return peak;
                }
            }
        });
        MemorySampler { stop, thread }
    }
}

/// Finds the peak of an agent's anonymous memory. That of the resident set (VmHWM) includes code: a debug build
/// has several times as much as a release build, and the system loads and drops parts of it at any time.
pub struct MemorySampler {
    stop: mpsc::Sender<()>,
    thread: JoinHandle<u64>,
}

impl MemorySampler {
    /// The peak until now, in KiB.
    pub fn end(self) -> u64 {
        drop(self.stop);
        self.thread.join().unwrap()
    }
}

/// Raises the limit of file descriptors to the maximum, and returns it.
pub fn many_descriptors() -> usize {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    let wanted = hard.min(32_768);
    setrlimit(Resource::RLIMIT_NOFILE, wanted, hard).unwrap();
    usize::try_from(wanted).unwrap()
}

pub fn target(host: &str) -> Option<v1::Target> {
    Some(v1::Target {
        host: host.into(),
        endpoint: None,
    })
}

pub fn term(number: u64) -> Option<v1::Term> {
    Some(v1::Term {
        election: "prod/rackhand".into(),
        number,
        holder: format!("pod-{number}"),
    })
}
