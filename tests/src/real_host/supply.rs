//! The power of a host: its QEMU process, switched by a BMC over a line of text.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use anyhow::{Context, Result};
use nix::sys::signal::Signal;
use parking_lot::Mutex;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

use crate::process::Process;

/// One change of a host's power.
#[derive(Debug, Clone, Copy)]
pub struct PowerChange {
    /// When it was complete.
    pub at: Instant,
    /// Whether the host is on since.
    pub on: bool,
}

/// The power of one host.
#[derive(Clone)]
pub(super) struct Supply(Arc<Mutex<Inner>>);

struct Inner {
    name: String,
    command: Vec<String>,
    dir: PathBuf,
    process: Option<Process>,
    changes: Vec<PowerChange>,
}

impl Supply {
    pub(super) fn new(name: &str, command: Vec<String>, dir: &Path) -> Self {
        Self(Arc::new(Mutex::new(Inner {
            name: name.to_owned(),
            command,
            dir: dir.to_owned(),
            process: None,
            changes: Vec::new(),
        })))
    }

    pub(super) fn is_on(&self) -> bool {
        self.0.lock().is_on()
    }

    pub(super) fn changes(&self) -> Vec<PowerChange> {
        let mut inner = self.0.lock();
        inner.is_on();
        inner.changes.clone()
    }

    pub(super) fn on(&self) -> Result<()> {
        self.0.lock().on()
    }

    pub(super) fn off(&self) -> Result<()> {
        self.0.lock().off()
    }

    pub(super) fn signal(&self, signal: Signal) -> Result<()> {
        let inner = self.0.lock();
        inner
            .process
            .as_ref()
            .context("the host is off")?
            .signal(signal)
    }

    fn obey(&self, word: &str) -> Result<&'static str> {
        let mut inner = self.0.lock();
        match word {
            "get" => {}
            "on" => inner.on()?,
            "off" => inner.off()?,
            "reset" => {
                inner.off()?;
                inner.on()?;
            }
            _ => anyhow::bail!("no command: {word}"),
        }
        Ok(if inner.is_on() { "on" } else { "off" })
    }

    /// Serves BMCs on a port of loopback: each line is `get`, `on`, `off` or `reset`, and its answer the state.
    pub(super) async fn serve(&self, tasks: &mut JoinSet<()>) -> Result<u16> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        let this = self.clone();
        tasks.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(this.clone().serve_one(stream));
            }
        });
        Ok(port)
    }

    async fn serve_one(self, mut stream: TcpStream) {
        let (read, mut write) = stream.split();
        let mut lines = BufReader::new(read).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let this = self.clone();
            let done = tokio::task::spawn_blocking(move || this.obey(&line)).await;
            let answer = match done {
                Ok(Ok(state)) => state.to_owned(),
                Ok(Err(error)) => format!("error {error:#}"),
                Err(error) => format!("error {error}"),
            };
            if write
                .write_all(format!("{answer}\n").as_bytes())
                .await
                .is_err()
            {
                return;
            }
        }
    }
}

impl Inner {
    /// Whether QEMU runs. That it ended by itself is noted when it is seen.
    fn is_on(&mut self) -> bool {
        if self.process.as_mut().is_some_and(|p| p.ended().is_some()) {
            self.process = None;
            self.note(false);
        }
        self.process.is_some()
    }

    fn on(&mut self) -> Result<()> {
        if !self.is_on() {
            let process = Process::start(&self.name, &self.command, &[], &self.dir)?;
            self.process = Some(process);
            self.note(true);
        }
        Ok(())
    }

    fn off(&mut self) -> Result<()> {
        if let Some(mut process) = self.process.take() {
            if process.ended().is_none() {
                process.kill()?;
            }
            self.note(false);
        }
        Ok(())
    }

    fn note(&mut self, on: bool) {
        let at = Instant::now();
        self.changes.push(PowerChange { at, on });
    }
}
