//! Processes that a test starts, and that never outlive it.
//!
//! Each runs under a small shell that holds a pipe to us: when we are gone, on whatever way, the
//! pipe closes and the process is ended by its id. Must never end anything by name.

use std::{
    fs::File,
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

/// `$0` is the file for the process id, the rest is the command.
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
    /// Starts `command` (program and arguments) with its output in `dir/NAME.log`. `env` is added
    /// to our own environment.
    ///
    /// # Errors
    /// It does not start.
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
        let deadline = Instant::now() + Duration::from_secs(10);
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
    /// It runs, or does not start.
    pub fn restart(&mut self) -> Result<()> {
        if self.ended().is_none() {
            bail!("{} (process {}) still runs", self.name, self.pid);
        }
        let dir = self.log.parent().context("the log has no directory")?;
        *self = Self::start(&self.name, &self.command, &self.env, dir)?;
        Ok(())
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Where its output goes.
    #[must_use]
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// The end of its output.
    #[must_use]
    pub fn log_tail(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let from = lines.len().saturating_sub(20);
        lines.get(from..).unwrap_or_default().join("\n")
    }

    /// Whether it has ended.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.guardian.try_wait().ok().flatten()
    }

    /// `kill -9`.
    ///
    /// # Errors
    /// It cannot be signalled or does not end.
    pub fn kill(&mut self) -> Result<()> {
        self.signal(Signal::SIGKILL)?;
        self.wait(Duration::from_secs(10)).map(drop)
    }

    /// Asks it to end, and waits for that.
    ///
    /// # Errors
    /// It does not end within `patience`.
    pub fn stop(&mut self, patience: Duration) -> Result<ExitStatus> {
        if self.ended().is_none() {
            self.signal(Signal::SIGTERM)?;
        }
        self.wait(patience)
    }

    /// Stops or continues it as a whole.
    ///
    /// # Errors
    /// It is gone.
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
        // Closing the pipe makes the guardian end it; we wait, so that ports are free again.
        drop(self.guardian.stdin.take());
        if self.wait(Duration::from_secs(7)).is_err() {
            self.signal(Signal::SIGKILL).ok();
        }
    }
}

/// Ports below those that the kernel gives to connections and to whoever listens on any: a thousand
/// of these would take a port between our look and its user's.
const PORTS: std::ops::Range<u32> = 12_000..32_000;

/// A port that is free at this moment, and no other call of this process gets.
///
/// # Errors
/// There is none.
pub fn free_port() -> Result<u16> {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    // Tests run side by side: each process begins elsewhere.
    let first = std::process::id().wrapping_mul(7919);
    for _ in PORTS {
        let call = CALLS.fetch_add(1, Ordering::Relaxed);
        let port = PORTS.start + first.wrapping_add(call) % (PORTS.end - PORTS.start);
        let port = u16::try_from(port)?;
        if std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no free port in {PORTS:?}")
}
