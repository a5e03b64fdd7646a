//! Nodes that have just joined (F12).

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use anyhow::{Result, ensure};
use futures::StreamExt;
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, DynamicObject},
    runtime::watcher::{self, Event, watcher},
};
use parking_lot::Mutex;
use rackhand_tests::stage::{Stage, wait_until};

use super::{fleet::*, mode::Mode};

/// Threads that keep every core busy until this is dropped.
struct Load(Arc<AtomicBool>);

impl Load {
    fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        for _ in 0..cores {
            let stop = stop.clone();
            std::thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        Self(stop)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Records each version of a Machine with an unhealthy verdict.
async fn recorder(machines: Api<DynamicObject>, against: Arc<Mutex<Vec<String>>>) {
    let mut events = pin!(watcher(machines, watcher::Config::default()));
    while let Some(event) = events.next().await {
        if let Ok(Event::Apply(object) | Event::InitApply(object)) = event
            && (is(&object, "HealthCheckSucceeded", "False")
                || is(&object, "OwnerRemediated", "False"))
        {
            let conditions = &object.data["status"]["conditions"];
            let words = format!("{}: {conditions}", object.name_any());
            against.lock().push(words);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn f12_new_nodes_get_no_unhealthy_verdict_under_load() {
    let dir = tempfile::tempdir().unwrap();
    let stage = begin(dir.path()).await.unwrap();
    if let Err(error) = fresh_nodes(&stage).await {
        panic!("{error:#}\n{}", stage.logs());
    }
}

async fn fresh_nodes(stage: &Stage) -> Result<()> {
    let count = number("RACKHAND_FRESH_NODES", 60);
    let against = Arc::<Mutex<Vec<String>>>::default();
    let watching = tokio::spawn(recorder(stage.machines(), against.clone()));
    stage.start_controller(CONTROLLER).await?;
    for mode in Mode::ALL {
        mode.make_check(stage, "100%").await?;
    }
    let load = Load::start();
    each(count, |i| async move {
        for mode in Mode::ALL {
            let name = mode.fresh(i);
            mode.make_machine(stage, &name).await?;
            make_node(stage, &name, mode).await?;
            mode.join(stage, &name, &name).await?;
        }
        Ok(())
    })
    .await?;
    for mode in Mode::ALL {
        judged(stage, mode, count, count).await?;
    }
    drop(load);
    let against = against.lock().clone();
    watching.abort();
    ensure!(
        against.is_empty(),
        "unhealthy verdicts on new Nodes: {against:#?}"
    );
    for mode in Mode::ALL {
        let handed = mode.handed_over(stage).await?;
        ensure!(
            handed.is_empty(),
            "{mode:?}: new Nodes were remediated: {handed:?}"
        );
    }
    // The check evaluates nevertheless: it reports a deleted Node.
    let nodes: Api<Node> = Api::all(stage.client.clone());
    let gone = Mode::Template.fresh(0);
    nodes.delete(&gone, &DeleteParams::default()).await?;
    wait_until("the deleted Node is reported", PATIENCE, || async {
        let machine = stage.machines().get(&gone).await?;
        let conditions = &machine.data["status"];
        Ok(if conditions.to_string().contains("has been deleted") {
            Ok(())
        } else {
            Err(conditions.to_string())
        })
    })
    .await
}
