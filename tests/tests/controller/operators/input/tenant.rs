//! F15: a user who may only write Metal3Remediations in a namespace of his own displays a state there that names the
//! host of another namespace.

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use rackhand_core::remediation::{HostRef, Mode, State, Step};
use rackhand_tests::{
    bmo::Settings,
    cluster::apply,
    stage::{HostLink, LONG, NAMESPACE, RackSpec, Recorder, Stage, StageConfig, wait_until},
};
use serde_json::{Value, json};

const USER: &str = "tenant";
const HOST: &str = "t-1";
const HOLD: &str = "reboot.metal3.io/rackhand-";
const STATE: &str = "rackhand.dev/state";
const FINALIZER: &str = "metal3remediation.infrastructure.cluster.x-k8s.io";

#[tokio::test(flavor = "multi_thread")]
async fn f15_displayed_state_of_a_tenant_switches_no_host_of_another_namespace() {
    let dir = tempfile::tempdir().unwrap();
    let rack = RackSpec::new("t", 1, HostLink::Managed).in_pool("by-hand");
    let config = StageConfig::steady(vec![rack], &["--cooperative-grace=1s"]);
    let stage = Stage::start(dir.path(), config).await.unwrap();
    let _owner = stage
        .start_metal3(&[HOST], Settings::default())
        .await
        .unwrap();
    let tenant = Tenant {
        recorder: Recorder::start(&stage.client),
        stage,
    };
    if let Err(error) = tenant.run().await {
        panic!("{error:#}\n{}", tenant.stage.report().await);
    }
}

struct Tenant {
    stage: Stage,
    recorder: Recorder,
}

impl Tenant {
    async fn run(&self) -> Result<()> {
        let stage = &self.stage;
        stage.apply_rack_agents().await?;
        self.prepare().await?;
        for written in [
            "remediationstates",
            "baremetalhosts",
            "machines",
            "powerpolicies",
        ] {
            let asked = self.kubectl(&["auth", "can-i", "create", written]).await;
            ensure!(asked.is_err(), "he may create {written}");
        }
        self.without_admission(Step::PoweringOff).await?;
        // That one was there before a controller runs, the others are written while one does.
        stage.start_controller("controller-0").await?;
        self.decided().await?;
        for step in [Step::Holding, Step::PoweringOff, Step::PoweringOn] {
            for finalizers in [&[][..], &[FINALIZER]] {
                self.delete().await?;
                self.write(step, finalizers).await?;
                self.decided().await?;
            }
        }
        // The policy holds the host, also for who may request it.
        ensure!(stage.host(HOST)?.hang(), "{HOST} was up");
        stage.remediate(HOST).await?;
        let seen = stage.wait_blocked(HOST, "HeldByPolicy").await?;
        ensure!(seen.message.contains("approval"), "{}", seen.message);

        stage.untouched(HOST)?;
        let holds = self.recorder.holds(HOST, HOLD);
        ensure!(holds.is_empty(), "{HOST} was held: {holds:?}");
        stage.never_tainted(&self.recorder, HOST).await
    }

    /// A namespace in which the user may write Metal3Remediations, and a policy that holds all hosts.
    async fn prepare(&self) -> Result<()> {
        let role = "rbac.authorization.k8s.io";
        for object in [
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": USER } }),
            json!({
                "apiVersion": format!("{role}/v1"), "kind": "Role",
                "metadata": { "name": USER, "namespace": USER },
                "rules": [{
                    "apiGroups": ["infrastructure.cluster.x-k8s.io"],
                    "resources": ["metal3remediations", "metal3remediations/status"],
                    "verbs": ["get", "create", "patch"],
                }],
            }),
            json!({
                "apiVersion": format!("{role}/v1"), "kind": "RoleBinding",
                "metadata": { "name": USER, "namespace": USER },
                "roleRef": { "apiGroup": role, "kind": "Role", "name": USER },
                "subjects": [{ "apiGroup": role, "kind": "User", "name": USER }],
            }),
            json!({
                "apiVersion": "rackhand.dev/v1alpha1", "kind": "PowerPolicy",
                "metadata": { "name": "all" },
                "spec": { "requireApproval": true },
            }),
        ] {
            apply(&self.stage.client, object).await?;
        }
        // A Machine of his own, of the same name: without an owner in its namespace the remediation would be deleted.
        let machine = self.stage.machines().get(HOST).await?;
        let object = json!({
            "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine",
            "metadata": { "name": HOST, "namespace": USER },
            "spec": machine.data["spec"],
        });
        apply(&self.stage.client, object).await.map(drop)
    }

    async fn kubectl(&self, args: &[&str]) -> Result<String> {
        let whose = ["--as", USER, "--namespace", USER];
        self.stage.kubectl(&[&whose, args].concat()).await
    }

    /// Writes a remediation with a state in this step, for the host of the other namespace.
    async fn write(&self, step: Step, finalizers: &[&str]) -> Result<()> {
        let mut state = State::new(Timestamp::now());
        state.host = Some(HostRef {
            rack: "t".into(),
            host: HOST.into(),
            bmh: Some(format!("{NAMESPACE}/{HOST}")),
            bmc: self.stage.bmc_address(HOST)?,
        });
        (state.step, state.mode) = (step, Mode::Cooperative);
        (state.finalizer, state.agent_holds) = (true, true);
        let uid = [
            "get",
            "machine",
            HOST,
            "--namespace",
            USER,
            "--output=jsonpath={.metadata.uid}",
        ];
        let uid = self.stage.kubectl(&uid).await?;
        let copy = json!({ "state": state, "reason": step.label(), "message": "" });
        let object = json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "Metal3Remediation",
            "metadata": {
                "name": HOST, "namespace": USER,
                "annotations": { STATE: copy.to_string() },
                "finalizers": finalizers,
                "ownerReferences": [{
                    "apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine", "name": HOST,
                    "uid": uid.trim(),
                }],
            },
            "spec": { "strategy": { "type": "Reboot", "retryLimit": 1, "timeout": "100s" } },
        });
        let file = self.stage.dir().join("tenant.json");
        std::fs::write(&file, object.to_string())?;
        let file = file.display().to_string();
        self.kubectl(&["apply", "--filename", &file])
            .await
            .map(drop)
    }

    /// Deletes the remediation: one that has ended is not decided about again.
    async fn delete(&self) -> Result<()> {
        let patch = "--patch={\"metadata\":{\"finalizers\":null}}";
        for command in [
            &["patch", "metal3remediation", HOST, "--type=merge", patch][..],
            &["delete", "metal3remediation", HOST, "--ignore-not-found"],
        ] {
            let whose = ["--namespace", USER];
            self.stage.kubectl(&[&whose, command].concat()).await?;
        }
        Ok(())
    }

    /// The policy of the manifests refuses the annotation. Clusters before Kubernetes 1.30 have no such policies.
    async fn without_admission(&self, step: Step) -> Result<()> {
        let refused = self
            .write(step, &[FINALIZER])
            .await
            .err()
            .context("it was admitted")?;
        ensure!(refused.to_string().contains(STATE), "{refused:#}");
        let binding = [
            "delete",
            "validatingadmissionpolicybindings",
            "remediations.rackhand.dev",
        ];
        self.stage.kubectl(&binding).await?;
        wait_until("the policy is gone", LONG, || async {
            let written = self.write(step, &[FINALIZER]).await;
            Ok(written.map_err(|error| format!("{error:#}")))
        })
        .await
    }

    /// Waits until the controller has decided with the written state in sight: that has no message.
    async fn decided(&self) -> Result<()> {
        wait_until("the controller has decided", LONG, || async {
            let object = self.kubectl(&["get", "metal3remediation", HOST, "--output=json"]);
            let object: Value = serde_json::from_str(&object.await?)?;
            let copy = &object["metadata"]["annotations"][STATE];
            let copy: Value = serde_json::from_str(copy.as_str().context("no state")?)?;
            let is_forged = copy["message"] == "";
            Ok((!is_forged).then_some(()).ok_or_else(|| copy.to_string()))
        })
        .await
    }
}
