//! What the commands of a page run against: an API server of the page's world, a rack with a
//! simulated BMC, and folders in place of those of the system.

use std::{
    fs,
    net::TcpListener,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail};
use parking_lot::Mutex;
use rackhand_tests::{
    cluster::{ControlPlane, Parts},
    pki::Pki,
    process::{Process, free_port},
    rack::{PowerTimings, Rack, RackConfig},
    repository::root,
    stage::binaries,
};
use secrecy::SecretString;

use super::{
    objects::{self, World},
    placeholders::{replace_word, with_placeholders},
};

/// The host of the examples.
pub const HOST: &str = "node-7";
const PASSWORD: &str = "PASSWORD";
/// How long a command may take, and a program to be ready.
pub const LONG: Duration = Duration::from_secs(150);
/// How often a socket is looked for.
const POLL: Duration = Duration::from_millis(50);
/// Where systemd puts what its unit for the agent loads.
const CREDENTIALS: &str = "/run/credentials/rackhand-agent.service";
/// The folder in which a page's commands run, as a reader would be in this repository.
const REPOSITORY: [&str; 3] = ["deploy", "hack", "proto"];

/// An API server, a rack and folders, in which the commands of pages run.
pub struct PageFixture {
    processes: Mutex<Vec<Process>>,
    rack: Rack,
    plane: ControlPlane,
    pki: Pki,
    world: World,
    agent_port: u16,
    /// Keeps the port from others until the agent is started, minutes after the page was told of it.
    reserved: Mutex<Option<TcpListener>>,
    pub(super) dir: PathBuf,
}

impl PageFixture {
    /// Starts it in a directory of its own.
    ///
    /// # Errors
    /// A part does not start.
    pub async fn start(dir: &Path, world: World) -> Result<Self> {
        let plane = ControlPlane::start(&dir.join("control-plane"), Parts::ApiOnly).await?;
        let pki = Pki::new(dir.join("bmc-pki"))?;
        let config = RackConfig::new("rack-a", [HOST]).each(|host| {
            host.bmc.username = "rackhand".to_owned();
            host.bmc.password = SecretString::from(PASSWORD);
            host.timings = PowerTimings {
                off_takes: Duration::from_millis(200),
                on_takes: Duration::from_millis(200),
                ..PowerTimings::default()
            };
        });
        let rack = Rack::bare(config, Some(&pki)).await?;
        let agent_port = free_port()?;
        let fixture = Self {
            processes: Mutex::default(),
            rack,
            plane,
            pki,
            world,
            agent_port,
            reserved: Mutex::new(Some(TcpListener::bind(("0.0.0.0", agent_port))?)),
            dir: dir.to_owned(),
        };
        fixture.make_folders()?;
        let client = fixture.plane.client().await?;
        let kubeconfig = fs::read_to_string(fixture.plane.kubeconfig())?;
        objects::install(&client, world, &fixture.bmc_address()?, &kubeconfig).await?;
        Ok(fixture)
    }

    fn make_folders(&self) -> Result<()> {
        for folder in [
            "bin",
            "etc/rackhand/secrets",
            "run",
            "state",
            "tmp",
            "pages",
        ] {
            fs::create_dir_all(self.dir.join(folder))?;
        }
        let bins = binaries()?;
        for (name, program) in [
            ("rackhand-agent", "rackhand-agent"),
            ("fence_rackhand", "rackhand-agent"),
            ("rackhand-controller", "rackhand-controller"),
            ("kubectl-rackhand", "rackhand-controller"),
        ] {
            symlink(bins.join(program), self.dir.join("bin").join(name))?;
        }
        let helm = std::env::var_os("RACKHAND_HELM");
        let helm = helm.context("RACKHAND_HELM is not set, as hack/test does")?;
        symlink(helm, self.dir.join("bin/helm"))?;
        fs::copy(self.pki.ca_file(), self.dir.join("etc/rackhand/bmc-ca.pem"))?;
        Ok(())
    }

    fn bmc_address(&self) -> Result<String> {
        let host = self.rack.hosts().get(HOST).context("no host")?;
        Ok(host.system_url()?.replacen("https", "redfish", 1))
    }

    /// A script as it is run here: with this fixture's paths and addresses.
    pub(super) fn localised(&self, script: &str) -> Result<String> {
        let bmc = self.bmc_address()?;
        let authority = bmc.split('/').nth(2).unwrap_or_default().to_owned();
        let endpoint = format!("127.0.0.1:{}", self.agent_port);
        let mut script = self.in_own_folders(script);
        for (from, to) in [
            ("redfish://192.0.2.17/redfish/v1/Systems/1", bmc),
            (
                "--ip 10.0.0.17 --username admin",
                format!("--ip {authority} --username rackhand"),
            ),
            ("192.0.2.0/24", "127.0.0.0/8".to_owned()),
            ("0.0.0.0:7443", endpoint.clone()),
            ("rack-a.example.org:7443", endpoint),
        ] {
            script = script.replace(from, &to);
        }
        Ok(script)
    }

    /// A text with this fixture's folders in place of those of the system, and its placeholders.
    pub(super) fn in_own_folders(&self, text: &str) -> String {
        let dir = self.dir.display();
        // The installation has bound the rights in `metal3` already.
        let text = match self.world {
            World::Installed => text.to_owned(),
            _ => replace_word(text, "NAMESPACE", "default"),
        };
        with_placeholders(&text)
            .replace("/etc/rackhand", &format!("{dir}/etc/rackhand"))
            .replace(CREDENTIALS, &format!("{dir}/credentials"))
            .replace("/run/rackhand", &format!("{dir}/run"))
            .replace("/var/lib/rackhand", &format!("{dir}/state"))
    }

    /// The folder of a page.
    pub(super) fn folder(&self, page: &str) -> Result<PathBuf> {
        let folder = self.dir.join("pages").join(page.replace('/', "-"));
        if !folder.exists() {
            fs::create_dir_all(&folder)?;
            for name in REPOSITORY {
                symlink(root().join(name).canonicalize()?, folder.join(name))?;
            }
            // The pages call the kubeconfig of a workload cluster so.
            symlink(self.plane.kubeconfig(), folder.join("workload"))?;
        }
        Ok(folder)
    }

    /// The variables of a command.
    pub(super) fn environment(&self) -> Vec<(String, String)> {
        let path = std::env::var("PATH").unwrap_or_default();
        let at = |name: &str| self.dir.join(name).display().to_string();
        let mut variables = vec![
            ("PATH", format!("{}:{path}", at("bin"))),
            ("HOME", at("")),
            ("TMPDIR", at("tmp")),
            ("KUBECONFIG", self.plane.kubeconfig().display().to_string()),
            ("RACKHAND_SOCKET", at("run/agent.sock")),
            ("RACKHAND_AGENT_CONFIG", at("etc/rackhand/agent.toml")),
            ("SSL_CERT_FILE", self.pki.ca_file().display().to_string()),
            ("NO_COLOR", "1".to_owned()),
        ];
        // That of a simulated rack which the page has started.
        if let Some(socket) = self.simulated_socket() {
            variables.push(("RACKHAND_SOCKET", socket.display().to_string()));
        }
        let variables = variables.into_iter();
        variables
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }

    /// The socket of a simulated rack that the page has started.
    pub(super) fn simulated_socket(&self) -> Option<PathBuf> {
        let folders = fs::read_dir(self.dir.join("tmp")).ok()?;
        let sockets = folders.map_while(|folder| Some(folder.ok()?.path().join("agent.sock")));
        sockets.filter(|socket| socket.exists()).last()
    }

    /// Keeps a process until the fixture ends.
    pub(super) fn keep(&self, process: Process) {
        self.processes.lock().push(process);
    }

    /// Ends what the page has started in the background.
    pub fn end_background(&self) {
        self.processes
            .lock()
            .retain(|process| !process.log().ends_with("background.log"));
    }

    /// Starts the controller, with the certificate that the page has made and the rights that it
    /// has granted, where Kubernetes would start its pods.
    ///
    /// # Errors
    /// It does not start.
    pub async fn start_controller(&self, page: &str) -> Result<()> {
        let kubeconfig = self
            .plane
            .kubeconfig_of("rackhand-system", "rackhand-controller");
        let command = [
            binaries()?
                .join("rackhand-controller")
                .display()
                .to_string(),
            format!("--kubeconfig={}", kubeconfig.await?.display()),
            format!(
                "--agent-tls-dir={}",
                self.folder(page)?.join("pki/controller").display()
            ),
            format!("--admin-address=127.0.0.1:{}", free_port()?),
        ];
        let process = Process::start("controller", &command, &[], &self.dir)?;
        self.keep(process);
        Ok(())
    }

    /// Starts the agent with the configuration that the page has written, where systemd would.
    ///
    /// # Errors
    /// It does not start.
    pub async fn start_agent(&self) -> Result<()> {
        let command = [
            binaries()?.join("rackhand-agent").display().to_string(),
            "serve".to_owned(),
        ];
        let credentials = self.load_credentials()?.display().to_string();
        let mut environment = self.environment();
        environment.push(("CREDENTIALS_DIRECTORY".to_owned(), credentials));
        drop(self.reserved.lock().take());
        let mut process = Process::start("agent", &command, &environment, &self.dir)?;
        let socket = self.dir.join("run/agent.sock");
        let begun = Instant::now();
        // It ends at once if its configuration, a file or its port cannot be used.
        while !socket.exists() {
            let ended = process.ended();
            if ended.is_some() || begun.elapsed() > LONG {
                let log = process.log_tail();
                bail!(
                    "the agent has no socket {}: {ended:?}\n{log}",
                    socket.display()
                );
            }
            tokio::time::sleep(POLL).await;
        }
        self.keep(process);
        Ok(())
    }

    /// What `LoadCredential=` of the unit does.
    fn load_credentials(&self) -> Result<PathBuf> {
        let to = self.dir.join("credentials");
        fs::create_dir_all(&to)?;
        for (folder, prefix) in [("tls", ""), ("bmc", "bmc_")] {
            let folder = self.dir.join("etc/rackhand").join(folder);
            for file in fs::read_dir(folder).into_iter().flatten() {
                let file = file?;
                let name = format!("{prefix}{}", file.file_name().display());
                fs::copy(file.path(), to.join(name))?;
            }
        }
        Ok(to)
    }

    /// Writes what a reader has before the pages about an agent: certificates and a configuration.
    ///
    /// # Errors
    /// It cannot be written.
    pub async fn write_agent_files(&self) -> Result<()> {
        let script = "\
            rackhand-controller pki init --trust-domain example.org\n\
            rackhand-controller pki issue rack rack-a\n\
            mkdir /etc/rackhand/tls\n\
            cp pki/rack-rack-a/* /etc/rackhand/tls/\n\
            (umask 077 && echo PASSWORD > /etc/rackhand/secrets/node-7)\n";
        let script = self.localised(script)?;
        self.succeed(&script, &self.folder("before")?).await?;
        let config = self.localised(objects::AGENT)?;
        let file = self.dir.join("etc/rackhand/agent.toml");
        fs::write(&file, config)?;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600))?;
        Ok(())
    }

    /// The ends of the logs of what runs.
    pub fn logs(&self) -> String {
        let processes = self.processes.lock();
        let logs = processes
            .iter()
            .map(|p| format!("--- {}\n{}\n", p.log().display(), p.log_tail()));
        logs.collect()
    }
}
