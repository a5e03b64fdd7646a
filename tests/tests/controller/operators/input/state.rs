//! States of remediations that were removed, damaged or forged.

use anyhow::{Result, ensure};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams},
};
use rackhand_core::remediation::{State, Step};
use rackhand_tests::{
    cluster::apply,
    stage::{CLUSTER, LONG, NAMESPACE, wait_until},
};
use serde_json::{Value, json};

use super::world::World;

const STATE: &str = "rackhand.dev/state";
const FINALIZER: &str = "metal3remediation.infrastructure.cluster.x-k8s.io";

impl World {
    /// Creates a remediation as an earlier controller has left it: with its finalizer, and the copy of a state that
    /// is recorded nowhere.
    async fn begun_before(&self, machine: &str) -> Result<()> {
        let mut state = State::new(Timestamp::now());
        (state.step, state.finalizer) = (Step::Draining, true);
        let copy = json!({ "state": state, "reason": "Draining", "message": "" });
        let copy = json!({ STATE: copy.to_string() });
        self.made_with(machine, copy, json!([FINALIZER])).await
    }

    async fn not_ready(&self, node: &str) -> Result<()> {
        wait_until(&format!("{node} is not Ready"), LONG, || async {
            let status = self.stage.node(node).await?.status.unwrap_or_default();
            let mut conditions = status.conditions.into_iter().flatten();
            let ready = conditions.find(|c| c.type_ == "Ready").map(|c| c.status);
            Ok(match ready.as_deref() {
                Some("True") => Err("it is Ready".to_owned()),
                _ => Ok(()),
            })
        })
        .await
    }

    async fn touch(&self, machine: &str) -> Result<()> {
        let objects = self.stage.remediations();
        let now = Timestamp::now().to_string();
        self.stage
            .annotate(&objects, machine, "touched", Some(&now))
            .await
    }

    async fn recorded_step(&self, machine: &str, step: &str) -> Result<()> {
        wait_until(&format!("{machine}: {step} is recorded"), LONG, || async {
            let found = self.stage.recorded(machine).await;
            let state = found.map(|object| object.data["spec"]["state"]["step"].clone());
            Ok(match state {
                Ok(found) if found == *step => Ok(()),
                other => Err(format!("{other:?}")),
            })
        })
        .await
    }

    async fn made_with(&self, machine: &str, annotations: Value, finalizers: Value) -> Result<()> {
        let owner = self.stage.machines().get(machine).await?;
        let object = json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1",
            "kind": "Metal3Remediation",
            "metadata": {
                "name": machine,
                "namespace": NAMESPACE,
                "labels": { "cluster.x-k8s.io/cluster-name": CLUSTER },
                "annotations": annotations,
                "finalizers": finalizers,
                "ownerReferences": [{
                    "apiVersion": "cluster.x-k8s.io/v1beta1",
                    "kind": "Machine",
                    "name": machine,
                    "uid": owner.uid(),
                }],
            },
            "spec": { "strategy": { "type": "Reboot", "retryLimit": 1, "timeout": "100s" } },
        });
        apply(&self.stage.client, object).await.map(drop)
    }

    async fn failed(&self, machine: &str) -> Result<()> {
        wait_until(&format!("{machine}: phase Failed"), LONG, || async {
            let seen = self.stage.remediation(machine).await?;
            let phase = seen.map(|s| s.phase).unwrap_or_default();
            Ok(if phase == "Failed" {
                Ok(())
            } else {
                Err(phase)
            })
        })
        .await?;
        self.stage.untouched(machine)
    }

    async fn succeeds(&self, machine: &str) -> Result<()> {
        self.stage.wait_step(machine, "Succeeded").await?;
        self.stage.withdraw(machine).await?;
        self.stage.wait_back(machine).await?;
        self.stage.one_cycle(machine)
    }
}

/// The running controller restores the state that it has written, and its copy. A copy in another object
/// decides nothing.
pub async fn removed(w: &World) -> Result<()> {
    w.stage.bind_pod("cut-1", true).await?;
    let host = w.stage.host("cut-1")?;
    host.wait_for(LONG, "runs its pod", |view| !view.pods.is_empty())
        .await?;
    ensure!(host.hang(), "cut-1 was not up");
    w.stage.remediate("cut-1").await?;
    w.stage.wait_step("cut-1", "Draining").await?;
    let objects = w.stage.remediations();
    let copy = objects.get("cut-1").await?.annotations()[STATE].clone();
    w.stage.annotate(&objects, "cut-1", STATE, None).await?;
    w.stage.wait_warning("cut-1", "StateRestored").await?;
    w.stage.wait_step("cut-1", "Draining").await?;

    let record = w.stage.recorded("cut-1").await?;
    let managers = record.metadata.managed_fields.as_deref();
    ensure!(
        managers.unwrap_or_default().is_empty(),
        "{managers:?} are tracked"
    );
    let damaged = json!({ "step": "Levitating" });
    w.stage.replace_recorded("cut-1", damaged).await?;
    w.touch("cut-1").await?;
    w.recorded_step("cut-1", "Draining").await?;
    let states = w.stage.remediation_states();
    let params = DeleteParams::default();
    states.delete(&record.name_any(), &params).await?;
    w.touch("cut-1").await?;
    w.recorded_step("cut-1", "Draining").await?;

    // F15: who may make a remediation cannot make a state.
    ensure!(w.stage.host("cut-3")?.hang(), "cut-3 was not up");
    w.not_ready("cut-3").await?;
    w.made_with("cut-3", json!({ STATE: copy }), json!([]))
        .await?;
    w.succeeds("cut-3").await?;
    w.stage.tainted_only_while_off(&w.recorder, "cut-3").await?;

    w.stage.let_pod_go("cut-1").await?;
    w.succeeds("cut-1").await?;
    w.recorder.catch_up("cut-1").await?;
    let taints = w.recorder.taints("cut-1");
    ensure!(
        taints.len() == 2,
        "the taint was set and removed: {taints:?}"
    );
    let name = record.name_any();
    wait_until("the record goes with its remediation", LONG, || async {
        let left = states.get_opt(&name).await?;
        Ok(left.map_or(Ok(()), |left| Err(format!("{left:?}"))))
    })
    .await
}

/// A new controller cannot know who has set the taint.
pub async fn lost(w: &World) -> Result<()> {
    let nodes: Api<Node> = Api::all(w.stage.client.clone());
    let taint = |taints: Value| Patch::Merge(json!({ "spec": { "taints": taints } }));
    let ours = json!([{
        "key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute",
    }]);
    let params = PatchParams::default();
    nodes.patch("cut-2", &params, &taint(ours)).await?;
    w.begun_before("cut-2").await?;
    w.stage.wait_blocked("cut-2", "StateLost").await?;
    w.failed("cut-2").await?;
    ensure!(w.stage.tainted("cut-2").await?, "it may be a person's");
    nodes.patch("cut-2", &params, &taint(json!(null))).await?;
    // F11: its Node is Ready, so that there is nothing left to do.
    w.stage.wait_step("cut-2", "Succeeded").await?;
    w.stage.withdraw("cut-2").await?;
    w.stage.untouched("cut-2")
}
