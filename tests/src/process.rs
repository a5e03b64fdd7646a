//! Processes that never outlive the test that starts them.
//!
//! Each process runs under a small shell that holds a pipe to the test: when the test ends in any way, the
//! pipe closes and the shell ends the process by its id, never by name.

use std::{
    fs::File,
    net::{TcpListener, UdpSocket},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

/// Timeout of a start, and of an end by SIGKILL, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Script of the shell: `$0` is the file for the process id, the remaining arguments are the command.
const GUARDIAN: &str = r#"
# A signal to the whole process group (Ctrl-C, timeout) must not end the guardian before its ward.
trap : TERM INT HUP
exec 3<&0 </dev/null
"$@" 3<&- &
pid=$!
echo "$pid" >"$0.new" && mv "$0.new" "$0"
(
    trap : TERM INT HUP
    cat <&3 >/dev/null
    kill -TERM "$pid" 2>/dev/null || exit 0
    i=0
    while [ $i -lt 50 ] && kill -0 "$pid" 2>/dev/null; do sleep 0.1; i=$((i + 1)); done
    kill -KILL "$pid" 2>/dev/null
) &
exec 3<&-
wait "$pid"
code=$?
while kill -0 "$pid" 2>/dev/null; do wait "$pid"; code=$?; done
exit "$code"
"#;

/// A running process with a log file.
#[derive(Debug)]
pub struct Process {
    name: String,
    command: Vec<String>,
    env: Vec<(String, String)>,
    guardian: Child,
    pid: i32,
    log: PathBuf,
}

impl Process {
    /// Starts `command` (program and arguments) with its output in `dir/NAME.log`. `env` is added to the
    /// environment of the test.
    ///
    /// # Errors
    /// The process does not start.
    pub fn start(
        name: &str,
        command: &[String],
        env: &[(String, String)],
        dir: &Path,
    ) -> Result<Self> {
        let log = dir.join(format!("{name}.log"));
        let pid_file = dir.join(format!("{name}.pid"));
        std::fs::remove_file(&pid_file).ok();
        let output = File::options()
            .create(true)
            .append(true)
            .open(&log)
            .with_context(|| format!("log {}", log.display()))?;
        let guardian = Command::new("sh")
            .arg("-c")
            .arg(GUARDIAN)
            .arg(&pid_file)
            .args(command)
            .envs(env.iter().cloned())
            .stdin(Stdio::piped())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .with_context(|| format!("starting {name}"))?;
        let deadline = Instant::now() + PATIENCE;
        let pid = loop {
            let text = std::fs::read_to_string(&pid_file).unwrap_or_default();
            if let Ok(pid) = text.trim().parse() {
                break pid;
            }
            if Instant::now() > deadline {
                bail!("{name} did not start; see {}", log.display());
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        Ok(Self {
            name: name.to_owned(),
            command: command.to_vec(),
            env: env.to_vec(),
            guardian,
            pid,
            log,
        })
    }

    /// Starts the same command again, after it has ended.
    ///
    /// # Errors
    /// The process runs already, or does not start.
    pub fn restart(&mut self) -> Result<()> {
        if self.ended().is_none() {
            bail!("{} (process {}) still runs", self.name, self.pid);
        }
        let dir = self.log.parent().context("the log has no directory")?;
        *self = Self::start(&self.name, &self.command, &self.env, dir)?;
        Ok(())
    }

    /// The process id.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Path of the log file.
    #[must_use]
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// The last lines of the log.
    #[must_use]
    pub fn log_tail(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let from = lines.len().saturating_sub(20);
        lines.get(from..).unwrap_or_default().join("\n")
    }

    /// The exit status, if the process has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.guardian.try_wait().ok().flatten()
    }

    /// Kills the process with SIGKILL.
    ///
    /// # Errors
    /// The process cannot be signalled or does not end.
    pub fn kill(&mut self) -> Result<()> {
        self.signal(Signal::SIGKILL)?;
        self.wait(PATIENCE).map(drop)
    }

    /// Sends SIGTERM, and waits for the end of the process.
    ///
    /// # Errors
    /// The process does not end within `patience`.
    pub fn stop(&mut self, patience: Duration) -> Result<ExitStatus> {
        if self.ended().is_none() {
            self.signal(Signal::SIGTERM)?;
        }
        self.wait(patience)
    }

    /// Sends a signal to the process.
    ///
    /// # Errors
    /// The process has ended.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        kill(Pid::from_raw(self.pid), signal)
            .with_context(|| format!("{signal} to {} (process {})", self.name, self.pid))
    }

    fn wait(&mut self, patience: Duration) -> Result<ExitStatus> {
        let deadline = Instant::now() + patience;
        loop {
            if let Some(status) = self.ended() {
                return Ok(status);
            }
            if Instant::now() > deadline {
                bail!("{} (process {}) does not end", self.name, self.pid);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Closing the pipe makes the shell end the process. Waits for that, so that its ports are free.
        drop(self.guardian.stdin.take());
        if self.wait(Duration::from_secs(7)).is_err() {
            self.signal(Signal::SIGKILL).ok();
        }
    }
}

/// Ports below the ephemeral range of the kernel, from which many connections could take a port between this
/// check and its use.
const PORTS: std::ops::Range<u32> = 12_000..32_000;

/// A port that is free now, of TCP and of UDP, and that no other call of this process returns.
///
/// # Errors
/// No port is free.
pub fn free_port() -> Result<u16> {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    // Test processes run in parallel, so each starts at another port.
    let first = std::process::id().wrapping_mul(7919);
    for _ in PORTS {
        let call = CALLS.fetch_add(1, Ordering::Relaxed);
        let port = PORTS.start + first.wrapping_add(call) % (PORTS.end - PORTS.start);
        let port = u16::try_from(port)?;
        let address = ("127.0.0.1", port);
        if TcpListener::bind(address).is_ok() && UdpSocket::bind(address).is_ok() {
            return Ok(port);
        }
    }
    bail!("no free port in {PORTS:?}")
}
