//! A wire to the API server that can be cut: the way to a workload cluster.
//!
//! Owns its port and its connections. Cut, it takes connections and drops them at once, as a broken
//! load balancer does.

use std::sync::Arc;

use anyhow::{Context as _, Result};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};

use super::Stage;

/// The wire. Dropping it ends it.
pub struct Wire {
    whole: watch::Sender<bool>,
    /// A kubeconfig that leads over it.
    pub kubeconfig: String,
    _task: JoinSet<()>,
}

impl Wire {
    /// Cuts every connection, and every new one.
    pub fn cut(&self) {
        self.whole.send_replace(false);
    }

    /// Connections hold again.
    pub fn mend(&self) {
        self.whole.send_replace(true);
    }
}

impl Stage {
    /// A wire to the API server, with the rights that the controller has in a workload cluster.
    ///
    /// # Errors
    /// There is no free port.
    pub async fn wire(&self) -> Result<Wire> {
        let rights = self.plane.kubeconfig_of("kube-system", "rackhand").await?;
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let here = format!("https://{}", listener.local_addr()?);
        let kubeconfig = std::fs::read_to_string(rights)?.replace(self.plane.url(), &here);
        let there = self.plane.url().strip_prefix("https://");
        let there: Arc<str> = there.context("the API server's address")?.into();
        let (whole, _) = watch::channel(true);
        let mut task = JoinSet::new();
        task.spawn(serve(listener, there, whole.clone()));
        Ok(Wire {
            whole,
            kubeconfig,
            _task: task,
        })
    }
}

async fn serve(listener: TcpListener, there: Arc<str>, whole: watch::Sender<bool>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((mut near, _)) = listener.accept().await else {
            return;
        };
        while connections.try_join_next().is_some() {}
        let (there, mut whole) = (there.clone(), whole.subscribe());
        connections.spawn(async move {
            let carried = async {
                let mut far = TcpStream::connect(&*there).await?;
                copy_bidirectional(&mut near, &mut far).await
            };
            tokio::select! {
                _ = whole.wait_for(|whole| !whole) => {}
                _ = carried => {}
            }
        });
    }
}
