//! What the workload on real hosts reports to the test, past Kubernetes: who and where it is.

use std::{sync::Arc, time::Instant};

use anyhow::Result;
use parking_lot::Mutex;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

/// One line of a running Pod.
#[derive(Debug, Clone)]
pub struct Report {
    /// When it arrived.
    pub at: Instant,
    /// Name of the Pod.
    pub pod: String,
    /// Name of the host.
    pub host: String,
    /// Boot ID of the kernel.
    pub boot: String,
}

/// All reports since the start.
pub struct Reports {
    port: u16,
    list: Arc<Mutex<Vec<Report>>>,
    _tasks: JoinSet<()>,
}

impl Reports {
    pub(super) async fn start() -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        let list = Arc::<Mutex<Vec<Report>>>::default();
        let mut tasks = JoinSet::new();
        let all = list.clone();
        tasks.spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(read(stream, all.clone()));
            }
        });
        Ok(Self {
            port,
            list,
            _tasks: tasks,
        })
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Every report, in the order of arrival.
    #[must_use]
    pub fn all(&self) -> Vec<Report> {
        self.list.lock().clone()
    }

    /// The last report of a Pod.
    #[must_use]
    pub fn last(&self, pod: &str) -> Option<Report> {
        let list = self.list.lock();
        list.iter().rfind(|report| report.pod == pod).cloned()
    }
}

async fn read(stream: TcpStream, all: Arc<Mutex<Vec<Report>>>) {
    let mut lines = BufReader::new(stream).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let mut words = line.split(' ').map(str::to_owned);
        if let (Some(pod), Some(host), Some(boot)) = (words.next(), words.next(), words.next()) {
            let at = Instant::now();
            all.lock().push(Report {
                at,
                pod,
                host,
                boot,
            });
        }
    }
}
