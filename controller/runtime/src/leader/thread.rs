//! The election on a thread of its own, so that no computation of this process delays a renewal of the Lease.
//!
//! The thread has its own client, because the threads that compute drive the connections of the other client.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::Leader;
use crate::store::api::management_client;

/// Parameters of an election.
pub(crate) struct Election<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    /// Shows whether this process leads.
    pub(crate) leads: watch::Sender<bool>,
    pub(crate) cancel: CancellationToken,
}

impl Leader {
    /// Takes part in the election on a thread of its own, with a client from this kubeconfig, until leadership is
    /// lost or the election is cancelled. Dropping the future cancels the election, too.
    ///
    /// # Errors
    /// The thread or its client cannot be made, or the election has ended.
    pub(crate) async fn run_on_thread(
        &self,
        kubeconfig: Option<PathBuf>,
        election: Election<'_>,
    ) -> Result<()> {
        let Election {
            namespace,
            name,
            leads,
            cancel,
        } = election;
        let _end = cancel.clone().drop_guard();
        let (leader, namespace, name) = (self.clone(), namespace.to_owned(), name.to_owned());
        let (done, ended) = oneshot::channel();
        let elect = move || {
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            let result = runtime.enable_all().build().map_err(anyhow::Error::from);
            let result = result.and_then(|runtime| {
                runtime.block_on(async {
                    let client = management_client(kubeconfig.as_deref()).await?;
                    let run = leader.run(&client, &namespace, &name, leads, cancel);
                    run.await.map_err(anyhow::Error::from)
                })
            });
            done.send(result).ok();
        };
        let thread = std::thread::Builder::new().name("lease".into());
        thread
            .spawn(elect)
            .context("cannot start the thread that renews the Lease")?;
        ended
            .await
            .context("the thread that renews the Lease has ended")?
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, sync::Arc, time::Duration};

    use axum::{
        Json, Router,
        extract::State,
        http::StatusCode,
        routing::{get, post},
    };
    use parking_lot::Mutex;
    use rackhand_core::lease::LeaseConfig;
    use serde_json::{Value, json};

    use super::*;

    type Stored = Arc<Mutex<(u64, Option<Value>)>>;

    async fn read(State(stored): State<Stored>) -> (StatusCode, Json<Value>) {
        match stored.lock().1.clone() {
            Some(lease) => (StatusCode::OK, Json(lease)),
            None => {
                let details = json!({ "name": "l", "kind": "leases" });
                let status = json!({
                    "kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound", "details": details,
                });
                (StatusCode::NOT_FOUND, Json(status))
            }
        }
    }

    async fn write(State(stored): State<Stored>, Json(mut lease): Json<Value>) -> Json<Value> {
        let mut stored = stored.lock();
        stored.0 += 1;
        lease["metadata"]["resourceVersion"] = stored.0.to_string().into();
        stored.1 = Some(lease.clone());
        Json(lease)
    }

    /// An API server with one Lease, on a thread of its own.
    fn serve() -> (std::net::SocketAddr, Stored) {
        let stored = Stored::default();
        let leases = "/apis/coordination.k8s.io/v1/namespaces/ns/leases";
        let app = Router::new()
            .route(leases, post(write))
            .route(&format!("{leases}/l"), get(read).put(write))
            .with_state(stored.clone());
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            runtime.enable_all().build().unwrap().block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).unwrap();
                axum::serve(listener, app).await.unwrap();
            });
        });
        (address, stored)
    }

    #[tokio::test]
    async fn f7_computation_longer_than_the_lease_does_not_cost_the_leadership() {
        rustls::crypto::ring::default_provider()
            .install_default()
            .ok();
        let (address, stored) = serve();
        let dir = tempfile::tempdir().unwrap();
        let kubeconfig = dir.path().join("kubeconfig");
        let text = format!(
            "current-context: c\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
             clusters: [{{name: c, cluster: {{server: 'http://{address}'}}}}]\nusers: [{{name: u, user: {{}}}}]\n"
        );
        std::fs::write(&kubeconfig, text).unwrap();
        let seconds = Duration::from_secs_f64;
        let config = LeaseConfig::new(seconds(3.0), seconds(2.0), seconds(0.4)).unwrap();
        let leader = Leader::new("me".into(), config, &BTreeMap::new(), None);
        let (leads, mut leading) = watch::channel(false);
        let election = Election {
            namespace: "ns",
            name: "l",
            leads,
            cancel: CancellationToken::new(),
        };
        let run = leader.run_on_thread(Some(kubeconfig), election);
        tokio::pin!(run);
        tokio::select! {
            end = &mut run => panic!("{end:?}"),
            led = leading.wait_for(|leads| *leads) => drop(led.unwrap()),
        }
        // The only thread of this runtime computes for longer than the Lease lasts.
        let before = stored.lock().0;
        std::thread::sleep(Duration::from_secs(4));
        assert!(leader.leads(), "the Lease was not renewed");
        assert!(stored.lock().0 > before + 2);
    }
}
