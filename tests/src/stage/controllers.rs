//! Controllers of a stage: start, end, log, admin address.

use std::{
    path::{Path, PathBuf},
    process::ExitStatus,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use nix::sys::signal::Signal;

use super::{END, SYSTEM, Stage, Usage, faults};
use crate::{
    cluster::{ControlPlane, Server},
    pki::CertSpec,
    process::{Process, free_port},
};

/// The ServiceAccount of controllers in [`SYSTEM`].
const ACCOUNT: &str = "rackhand-controller";

/// The argument of a controller for the address of its HTTPS server.
const HTTPS: &str = "--metrics-address=";

impl Stage {
    /// Starts a controller under exactly the rights of its ServiceAccount.
    ///
    /// # Errors
    /// The controller does not start, or is not ready in time.
    pub async fn start_controller(&self, name: &str) -> Result<()> {
        let more = self.started.lock().get(name).cloned();
        self.start_controller_as(name, more.unwrap_or_default())
            .await
    }

    /// Starts a controller with further arguments, which also apply to later starts under this name.
    ///
    /// # Errors
    /// As [`Self::start_controller`].
    pub async fn start_controller_as(&self, name: &str, more: Vec<String>) -> Result<()> {
        let tls = self.controller_tls()?;
        self.started.lock().insert(name.to_owned(), more.clone());
        self.start_controller_with(name, &tls, &more).await
    }

    /// Starts a controller with another directory of certificate, key and CA, and with further arguments.
    ///
    /// # Errors
    /// As [`Self::start_controller`].
    pub async fn start_controller_with(
        &self,
        name: &str,
        tls: &Path,
        more: &[String],
    ) -> Result<()> {
        let way = self.way.lock().clone();
        let kubeconfig = match way {
            Some(way) => way,
            None => self.plane.kubeconfig_of(SYSTEM, ACCOUNT).await?,
        };
        self.run_controller(name, &kubeconfig, tls, more).await
    }

    /// Starts a controller of another management cluster, for the same agents.
    ///
    /// # Errors
    /// As [`Self::start_controller`].
    pub async fn start_controller_of(&self, plane: &ControlPlane, name: &str) -> Result<()> {
        let kubeconfig = plane.kubeconfig_of(SYSTEM, ACCOUNT).await?;
        let tls = self.controller_tls()?;
        self.run_controller(name, &kubeconfig, &tls, &[]).await
    }

    fn controller_tls(&self) -> Result<PathBuf> {
        let spec = CertSpec::peer("controller", "spiffe://rackhand/controller");
        self.issue(&spec)
    }

    async fn run_controller(
        &self,
        name: &str,
        kubeconfig: &Path,
        tls: &Path,
        more: &[String],
    ) -> Result<()> {
        let admin = free_port()?;
        self.endpoints.lock().insert(name.to_owned(), admin);
        let mut command = vec![
            self.binary("rackhand-controller").display().to_string(),
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--lease-namespace={SYSTEM}"),
            format!("--replica={name}"),
            format!("--agent-tls-dir={}", tls.display()),
            format!("--admin-address=127.0.0.1:{admin}"),
        ];
        if self.config.json_logs {
            command.push("--log-format=json".to_owned());
        }
        command.extend(self.config.controller_args.iter().chain(more).cloned());
        let given = command.iter().find_map(|arg| arg.strip_prefix(HTTPS));
        let https = match given {
            Some(address) => address.rsplit(':').next().unwrap_or_default().parse()?,
            None => {
                let port = free_port()?;
                command.push(format!("{HTTPS}127.0.0.1:{port}"));
                port
            }
        };
        self.https.lock().insert(name.to_owned(), https);
        let mut env = vec![
            ("RUST_LOG".to_owned(), self.config.log.clone()),
            ("NO_COLOR".to_owned(), "1".to_owned()),
        ];
        if let Some(otlp) = &self.config.otlp {
            command.push(format!("--otlp-endpoint={}", otlp.endpoint));
            env.extend(otlp.variables());
        }
        if self.config.faults.clocks {
            env.extend(faults::clock_variables(&self.clock_file(name))?);
        }
        let mut process = Process::start(name, &command, &env, &self.dir)?;
        let url = format!("http://127.0.0.1:{admin}/readyz");
        let deadline = Instant::now() + END;
        while !reqwest::get(&url)
            .await
            .is_ok_and(|a| a.status().is_success())
        {
            if process.ended().is_some() || Instant::now() > deadline {
                bail!("{name} does not become ready:\n{}", process.log_tail());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        self.controllers.lock().insert(name.to_owned(), process);
        Ok(())
    }

    /// `kill -9` of a controller.
    ///
    /// # Errors
    /// The process does not run.
    pub fn kill_controller(&self, name: &str) -> Result<()> {
        self.take_controller(name)?.kill()
    }

    fn take_controller(&self, name: &str) -> Result<Process> {
        let process = self.controllers.lock().remove(name);
        process.with_context(|| format!("no controller {name}"))
    }

    /// Stops a controller with SIGTERM; returns its exit status.
    ///
    /// # Errors
    /// The controller does not run or does not end.
    pub fn stop_controller(&self, name: &str) -> Result<ExitStatus> {
        self.take_controller(name)?.stop(END)
    }

    /// Sends a signal to a controller, for example to stop or continue it.
    ///
    /// # Errors
    /// The process does not run.
    pub fn signal_controller(&self, name: &str, signal: Signal) -> Result<()> {
        let controllers = self.controllers.lock();
        let process = controllers.get(name).context("no such controller")?;
        process.signal(signal)
    }

    /// Whether a controller was started and has not ended.
    pub fn controller_runs(&self, name: &str) -> bool {
        let mut controllers = self.controllers.lock();
        controllers
            .get_mut(name)
            .is_some_and(|p| p.ended().is_none())
    }

    /// Resource usage of a controller so far.
    ///
    /// # Errors
    /// The process does not run.
    pub fn usage_of_controller(&self, name: &str) -> Result<Usage> {
        let controllers = self.controllers.lock();
        Usage::of(controllers.get(name).context("no such controller")?)
    }

    /// Resource usage of the agents so far: CPU of all, memory of the largest.
    ///
    /// # Errors
    /// An agent does not run.
    pub fn usage_of_agents(&self) -> Result<Usage> {
        let mut all = Usage::default();
        for agent in self.agents.lock().values() {
            let one = Usage::of(agent)?;
            all.cpu += one.cpu;
            all.peak_kib = all.peak_kib.max(one.peak_kib);
            all.now_kib = all.now_kib.max(one.now_kib);
        }
        Ok(all)
    }

    /// Resource usage of the API server so far.
    ///
    /// # Errors
    /// It does not run.
    pub fn usage_of_api_server(&self) -> Result<Usage> {
        Usage::of(&self.plane.server(Server::ApiServer).lock())
    }

    /// Exit status of a controller; `None` if it has not ended.
    pub fn controller_ended(&self, name: &str) -> Option<ExitStatus> {
        self.controllers.lock().get_mut(name)?.ended()
    }

    /// The log of all processes of this name since the start of the stage.
    ///
    /// # Errors
    /// The log does not exist.
    pub fn log_of(&self, name: &str) -> Result<String> {
        let path = self.dir.join(format!("{name}.log"));
        std::fs::read_to_string(&path).with_context(|| path.display().to_string())
    }

    /// Restarts a controller whenever it ends, like a kubelet: a controller that cannot renew its Lease in
    /// time on an overloaded machine ends. Runs until it is dropped.
    ///
    /// # Errors
    /// The controller does not start again.
    pub async fn supervise(&self, name: &str) -> Result<()> {
        loop {
            tokio::time::sleep(Duration::from_millis(100)).await;
            if let Some(status) = self.controller_ended(name) {
                println!("    {name} ended ({status}) and is started again");
                drop(self.take_controller(name)?);
                self.start_controller(name).await?;
            }
        }
    }

    /// Status and body of a path on the admin address of a controller.
    ///
    /// # Errors
    /// The controller does not answer.
    pub async fn admin(&self, name: &str, path: &str) -> Result<(u16, String)> {
        let found = self.endpoints.lock().get(name).copied();
        let port = found.context("no such controller")?;
        let answer = reqwest::get(format!("http://127.0.0.1:{port}{path}")).await?;
        let status = answer.status().as_u16();
        Ok((status, answer.text().await?))
    }
}
