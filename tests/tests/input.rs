//! What users may get wrong, and what they see: bad input is answered by a condition, an Event or a
//! message that says what to do, and nobody else is held up by it.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, bail, ensure};
use kube::ResourceExt;
use rackhand_tests::{
    cluster::{apply, apply_yaml},
    pki::CertSpec,
    rack::PowerState,
    stage::{
        CLUSTER, HostLink, LONG, NAMESPACE, RackSpec, Scenarios, Stage, StageConfig, Witness,
        wait_until,
    },
};
use serde_json::{Value, json};

/// Stands in a kubeconfig that does not read.
const SECRET: &str = "hush-7f3a9c";
const REMEDIATE: &str = "cluster.x-k8s.io/remediate-machine";

/// As the documentation of CAPM3 and Cluster API prints them.
const PRINTED: &str = r#"
apiVersion: cluster.x-k8s.io/v1beta1
kind: MachineHealthCheck
metadata:
  name: as-printed
  namespace: metal3
spec:
  # clusterName is required to associate this MachineHealthCheck with a particular cluster
  clusterName: demo
  # (Optional) maxUnhealthy prevents further remediation if the cluster is already partially unhealthy
  maxUnhealthy: 100%
  # (Optional) nodeStartupTimeout determines how long a MachineHealthCheck should wait for
  # a Node to join the cluster, before considering a Machine unhealthy.
  nodeStartupTimeout: 0m
  selector:
    matchLabels:
      nodepool: printed
  unhealthyConditions:
    - type: Ready
      status: Unknown
      timeout: 300s
    - type: Ready
      status: "False"
      timeout: 300s
  remediationTemplate:
    kind: Metal3RemediationTemplate
    apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
    name: as-printed
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: Metal3RemediationTemplate
metadata:
  name: as-printed
  namespace: metal3
spec:
  template:
    spec:
      strategy:
        type: "Reboot"
        retryLimit: 1
        timeout: 300s
"#;

struct World {
    stage: Stage,
    witness: Witness,
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_input_is_answered_clearly_and_holds_up_nobody_else() {
    let dir = tempfile::tempdir().unwrap();
    let racks = vec![
        RackSpec::new("good", 3, HostLink::Inventory),
        RackSpec::new("lost", 1, HostLink::Inventory).in_pool("lost"),
        RackSpec::new("rogue", 1, HostLink::Inventory),
    ];
    let mut config = StageConfig::fast(racks);
    config.controller_args.clear();
    let mut stage = Stage::start(dir.path(), config).await.unwrap();
    if let Err(error) = begin(&mut stage).await {
        panic!("{error:#}\n{}", stage.report().await);
    }
    let witness = Witness::start(&stage.client);
    let world = World { stage, witness };
    let w = &world;

    let mut all = Scenarios::new();
    all.add(
        "the_request_is_the_machines_and_its_columns_are_capm3s",
        request(w),
    );
    all.add(
        "the_printed_yaml_is_taken_by_kubectl_and_columns_are_cluster_apis",
        printed(w),
    );
    all.add(
        "f11_recovered_before_the_power_off_was_sent",
        recovered_early(w),
    );
    all.add(
        "a_missing_template_is_said_and_taken_up_when_it_comes",
        missing_template(w),
    );
    all.add(
        "an_unknown_strategy_is_refused_with_the_known_one",
        unknown_strategy(w),
    );
    all.add("a_machine_without_a_host_is_said", no_host(w));
    all.add("a_check_of_a_missing_cluster_is_said", missing_cluster(w));
    all.add("a_range_that_nothing_lies_in_is_said", impossible_range(w));
    all.add(
        "a_broken_kubeconfig_of_another_cluster_is_said",
        broken_kubeconfig(w),
    );
    all.add(
        "an_agent_of_another_authority_is_not_trusted_until_it_is_ours",
        rogue_agent(w),
    );
    all.add("an_agent_of_another_rack_is_not_trusted", other_rack(w));
    all.add("a_broken_inventory_is_told_whole", broken_inventory(w));
    all.add("an_expired_certificate_of_a_controller_is_said", expired(w));
    let outcome = all.run().await;
    let outcome = match outcome {
        Ok(()) => admin(w).await.and_then(|()| rights(w)),
        failed => failed,
    };
    if let Err(error) = outcome {
        panic!("{error:#}\n{}", world.stage.report().await);
    }
}

async fn begin(stage: &mut Stage) -> Result<()> {
    let rogue = stage.pki().other("rogue")?;
    let spec = CertSpec::peer("agent-rogue", "spiffe://rackhand/rack/rogue");
    let certificate = stage.issue_from(&rogue, "rogue", &spec)?;
    stage.wait_agent("rogue").await?;
    stage.stop_agent("rogue")?;
    stage.set_agent_certificate("rogue", certificate);
    stage.start_agent("rogue")?;
    stage.apply_rack_agents().await?;
    stage.start_controller("controller-0").await?;
    stage.apply_health_check().await
}

impl World {
    fn kubectl(&self, args: &[&str], input: &str) -> Result<Output> {
        use std::io::Write;
        let mut child = Command::new("kubectl")
            .arg("--kubeconfig")
            .arg(self.stage.plane().kubeconfig())
            .args(["--namespace", NAMESPACE])
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("kubectl")?;
        child
            .stdin
            .take()
            .context("no input")?
            .write_all(input.as_bytes())?;
        Ok(child.wait_with_output()?)
    }

    /// The first line of what `kubectl get` prints, its columns apart.
    fn columns(&self, what: &[&str]) -> Result<Vec<String>> {
        let output = self.kubectl(&[&["get"], what].concat(), "")?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let head = text.lines().next().unwrap_or_default();
        let columns = head.split("   ").map(str::trim).filter(|c| !c.is_empty());
        Ok(columns.map(str::to_owned).collect())
    }

    /// Waits for a condition of an object.
    async fn condition(
        &self,
        objects: &kube::Api<kube::api::DynamicObject>,
        name: &str,
        type_: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Result<()> {
        wait_until(&format!("{name}: condition {type_}"), LONG, || async {
            let object = objects.get(name).await?;
            let status = &object.data["status"];
            let lists = [&status["conditions"], &status["v1beta2"]["conditions"]];
            let mut all = lists.iter().filter_map(|list| list.as_array()).flatten();
            let found = all.any(|c| c["type"] == type_ && wanted(c));
            Ok(if found {
                Ok(())
            } else {
                Err(status.to_string())
            })
        })
        .await
    }

    async fn back(&self, host: &str) -> Result<()> {
        wait_until(&format!("{host} has lost its taint"), LONG, || async {
            let seen = self.stage.remediation(host).await?;
            let taints = self.witness.taints(host);
            Ok(if taints.len() == 2 {
                Ok(())
            } else {
                Err(format!("{seen:?}"))
            })
        })
        .await?;
        self.stage.wait_back(host).await?;
        self.stage.one_cycle(host)
    }
}

fn says(condition: &Value, reason: &str, words: &[&str]) -> bool {
    let message = condition["message"].as_str().unwrap_or_default();
    condition["status"] == "False"
        && condition["reason"] == reason
        && words.iter().all(|word| message.contains(word))
}

async fn request(w: &World) -> Result<()> {
    let host = w.stage.host("good-1")?;
    host.never_boots(true);
    ensure!(host.hang(), "up");
    // CAPM3's phase is of the status, which is written after our step.
    let seen = w
        .stage
        .wait_remediation("good-1", "phase Waiting", |seen| {
            seen.step == "Booting" && seen.phase == "Waiting"
        })
        .await?;
    let machine = w.stage.machines().get("good-1").await?;
    let meta = &seen.object["metadata"];
    ensure!(
        meta["name"] == "good-1" && meta["namespace"] == NAMESPACE,
        "{meta}"
    );
    let owners = meta["ownerReferences"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let uid = machine.uid().unwrap_or_default();
    let owned = owners.len() == 1
        && owners[0]["kind"] == "Machine"
        && owners[0]["name"] == "good-1"
        && owners[0]["uid"] == uid
        && owners[0]["apiVersion"]
            .as_str()
            .is_some_and(|v| v.starts_with("cluster.x-k8s.io/"));
    ensure!(owned, "{owners:?}");
    ensure!(
        meta["labels"]["cluster.x-k8s.io/cluster-name"] == CLUSTER,
        "{meta}"
    );
    let from = &meta["annotations"]["cluster.x-k8s.io/cloned-from-name"];
    ensure!(from == "worker-remediation-request", "{meta}");

    let columns = w.columns(&["m3r", "good-1"])?;
    let wanted = [
        "NAME",
        "RETRY LIMIT",
        "RETRY COUNT",
        "LAST REMEDIATED",
        "STRATEGY",
        "PHASE",
    ];
    ensure!(columns == wanted, "{columns:?}");
    let output = w.kubectl(&["get", "m3r", "good-1", "--no-headers"], "")?;
    let line = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(
        line.contains("Reboot") && line.contains("Waiting"),
        "{line}"
    );
    host.never_boots(false);
    w.back("good-1").await
}

async fn printed(w: &World) -> Result<()> {
    let output = w.kubectl(&["apply", "-f", "-"], PRINTED)?;
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    );
    ensure!(output.status.success(), "{out}{err}");
    ensure!(!err.contains("Warning: unknown field"), "{err}");
    let again = w.kubectl(&["apply", "-f", "-"], PRINTED)?;
    let again = String::from_utf8_lossy(&again.stdout).into_owned();
    ensure!(
        again.matches("unchanged").count() == 2,
        "as it is stored: {again}"
    );
    let columns = w.columns(&["machinehealthchecks.v1beta1.cluster.x-k8s.io"])?;
    let wanted = [
        "NAME",
        "CLUSTER",
        "EXPECTEDMACHINES",
        "MAXUNHEALTHY",
        "CURRENTHEALTHY",
        "AGE",
    ];
    ensure!(columns == wanted, "{columns:?}");
    let columns = w.columns(&["mhc"])?;
    ensure!(
        columns == ["NAME", "CLUSTER", "REPLICAS", "HEALTHY", "AGE"],
        "{columns:?}"
    );
    w.condition(&w.stage.checks(), "as-printed", "RemediationAllowed", |c| {
        c["status"] == "True"
    })
    .await
}

async fn recovered_early(w: &World) -> Result<()> {
    let (host, machines) = (w.stage.host("good-2")?, w.stage.machines());
    host.silent();
    w.stage
        .annotate(&machines, "good-2", REMEDIATE, Some(""))
        .await?;
    w.stage.wait_step("good-2", "PoweringOff").await?;
    w.stage.wait_looks("good-2", 1).await?;
    w.stage
        .annotate(&machines, "good-2", REMEDIATE, None)
        .await?;
    w.stage.wait_back("good-2").await?;
    w.stage.untouched("good-2")?;
    w.stage.never_tainted(&w.witness, "good-2").await?;
    host.clear_faults();
    let held = w.stage.held_by("good").await?;
    ensure!(held["good-2"].is_empty(), "still held: {held:?}");
    Ok(())
}

async fn missing_template(w: &World) -> Result<()> {
    let name = "name: worker-remediation-request";
    let check = w
        .stage
        .health_check_of("lost", "lost", "100%")
        .replace(name, "name: lost");
    let (template, check) = check.split_once("---").context("two documents")?;
    apply_yaml(&w.stage.client, check).await?;
    ensure!(w.stage.host("lost-1")?.hang(), "up");
    let said = |c: &Value| says(c, "RemediationTemplateNotFound", &["lost"]);
    w.condition(&w.stage.machines(), "lost-1", "ExternallyRemediated", said)
        .await?;
    w.stage
        .wait_warning("lost-1", "RemediationTemplateNotFound")
        .await?;
    w.stage.untouched("lost-1")?;
    apply_yaml(&w.stage.client, template).await?;
    w.back("lost-1").await
}

async fn unknown_strategy(w: &World) -> Result<()> {
    let odd = PRINTED
        .replace("as-printed", "odd")
        .replace("\"Reboot\"", "\"Replace\"");
    let (_, template) = odd.split_once("---").context("two documents")?;
    let output = w.kubectl(&["apply", "-f", "-"], template)?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(!output.status.success(), "it was taken");
    let clear = ["spec.template.spec.strategy.type", "Replace", "Reboot"];
    ensure!(clear.iter().all(|word| said.contains(word)), "{said}");
    Ok(())
}

async fn no_host(w: &World) -> Result<()> {
    apply(
        &w.stage.client,
        json!({
            "apiVersion": "cluster.x-k8s.io/v1beta1",
            "kind": "Machine",
            "metadata": {
                "name": "nowhere",
                "namespace": NAMESPACE,
                "labels": { "cluster.x-k8s.io/cluster-name": CLUSTER },
            },
            "spec": {
                "clusterName": CLUSTER,
                "bootstrap": { "dataSecretName": "none" },
                "infrastructureRef": {
                    "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1",
                    "kind": "Metal3Machine",
                    "name": "nowhere",
                },
            },
        }),
    )
    .await?;
    w.stage.remediate("nowhere").await?;
    // While an agent is silent the host may be its.
    let seen = w
        .stage
        .wait_remediation("nowhere", "said", |seen| {
            ["HostNotFound", "AgentUnreachable"].contains(&seen.reason.as_str())
        })
        .await?;
    ensure!(seen.message.contains("nowhere"), "{}", seen.message);
    w.stage.wait_warning("nowhere", &seen.reason).await?;
    w.stage.wait_blocked("nowhere", "HostNotFound").await?;
    w.stage.withdraw("nowhere").await?;
    wait_until("it goes when it is withdrawn", LONG, || async {
        let seen = w.stage.remediation("nowhere").await?;
        Ok(seen.map_or(Ok(()), |seen| Err(format!("{seen:?}"))))
    })
    .await
}

async fn missing_cluster(w: &World) -> Result<()> {
    let check = w.stage.health_check_of("stray", "stray", "100%");
    let check = check.replace("clusterName: demo", "clusterName: atlantis");
    apply_yaml(&w.stage.client, &check).await?;
    let said = |c: &Value| says(c, "ClusterNotFound", &["atlantis"]);
    w.condition(&w.stage.checks(), "stray", "RemediationAllowed", said)
        .await?;
    w.stage.wait_warning("stray", "ClusterNotFound").await
}

async fn impossible_range(w: &World) -> Result<()> {
    let check = w.stage.health_check_of("backwards", "backwards", "100%");
    let check = check.replace("maxUnhealthy: 100%", "unhealthyRange: \"[5-3]\"");
    ensure!(check.contains("[5-3]"), "{check}");
    apply_yaml(&w.stage.client, &check).await?;
    let said = |c: &Value| says(c, "InvalidSpec", &["unhealthyRange", "[5-3]"]);
    w.condition(&w.stage.checks(), "backwards", "RemediationAllowed", said)
        .await?;
    w.stage.wait_warning("backwards", "InvalidSpec").await
}

/// What cannot be asked is not unhealthy; and whoever looks at the Machine learns why.
async fn broken_kubeconfig(w: &World) -> Result<()> {
    let now = jiff::Timestamp::now()
        .round(jiff::Unit::Second)?
        .to_string();
    let ready = |kind: &str| json!({ "type": kind, "status": "True", "lastTransitionTime": now, "reason": "Ready", "message": "" });
    for object in [
        json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": { "name": "second-kubeconfig", "namespace": NAMESPACE },
            "stringData": { "value": format!("users: [{{user: {{token: {SECRET}") },
        }),
        json!({
            "apiVersion": "cluster.x-k8s.io/v1beta1",
            "kind": "Cluster",
            "metadata": { "name": "second", "namespace": NAMESPACE },
            "spec": {},
            "status": {
                "phase": "Provisioned",
                "infrastructureReady": true,
                "controlPlaneReady": true,
                "conditions": [ready("InfrastructureReady"), ready("ControlPlaneInitialized")],
            },
        }),
        json!({
            "apiVersion": "cluster.x-k8s.io/v1beta1",
            "kind": "Machine",
            "metadata": {
                "name": "second-1",
                "namespace": NAMESPACE,
                "labels": { "cluster.x-k8s.io/cluster-name": "second", "nodepool": "second" },
            },
            "spec": {
                "clusterName": "second",
                "bootstrap": { "dataSecretName": "none" },
                "infrastructureRef": {
                    "apiVersion": "infrastructure.example/v1",
                    "kind": "PlainMachine",
                    "name": "second-1",
                },
            },
            "status": { "nodeRef": { "apiVersion": "v1", "kind": "Node", "name": "second-1" } },
        }),
    ] {
        apply(&w.stage.client, object).await?;
    }
    let check = w.stage.health_check_of("second", "second", "100%");
    let check = check.replace("clusterName: demo", "clusterName: second");
    apply_yaml(&w.stage.client, &check).await?;
    wait_until("the log says which Secret is broken", LONG, || async {
        let log = w.stage.log_of("controller-0")?;
        let said = log
            .lines()
            .find(|line| line.contains("metal3/second") && line.contains("second-kubeconfig"));
        Ok(said.map(|_| ()).ok_or("nothing".to_owned()))
    })
    .await?;
    wait_until("the check counts the Machine", LONG, || async {
        let status = w.stage.checks().get("second").await?.data["status"].clone();
        Ok(if status["expectedMachines"] == 1 {
            Ok(())
        } else {
            Err(status.to_string())
        })
    })
    .await?;
    // A remediation that was asked for all the same says what it waits for.
    w.stage.remediate("second-1").await?;
    w.stage
        .wait_remediation("second-1", "says something", |seen| {
            !seen.message.is_empty()
        })
        .await?;
    let logs = w.stage.log_of("controller-0")? + &w.stage.log_of("agent-good")?;
    ensure!(!logs.contains(SECRET), "the log quotes the kubeconfig");
    let told = format!("{:?}", w.stage.events("second-1").await?);
    let shown = format!("{:?} {told}", w.stage.remediation("second-1").await?);
    ensure!(!shown.contains(SECRET), "the kubeconfig is quoted: {shown}");
    w.stage.withdraw("second-1").await?;
    // The first cluster goes on meanwhile.
    ensure!(w.stage.host("good-3")?.hang(), "up");
    w.back("good-3").await
}

fn agents(w: &World) -> kube::Api<kube::api::DynamicObject> {
    kube::Api::all_with(
        w.stage.client.clone(),
        &kube::core::ApiResource::from_gvk(&kube::core::GroupVersionKind::gvk(
            "rackhand.dev",
            "v1alpha1",
            "RackAgent",
        )),
    )
}

async fn agent_connected(w: &World, agent: &str, status: &str, words: &[&str]) -> Result<()> {
    w.condition(&agents(w), agent, "Connected", |c| {
        let message = c["message"].as_str().unwrap_or_default();
        c["status"] == status && words.iter().all(|word| message.contains(word))
    })
    .await
}

async fn rogue_agent(w: &World) -> Result<()> {
    ensure!(w.stage.host("rogue-1")?.hang(), "up");
    agent_connected(w, "rogue", "False", &["not trusted", "rogue", "ca.crt"]).await?;
    w.stage.wait_blocked("rogue-1", "AgentUnreachable").await?;
    w.stage.untouched("rogue-1")?;
    // A certificate of our own authority in its place is taken up without a restart.
    let spec = CertSpec::peer("agent-rogue", "spiffe://rackhand/rack/rogue");
    w.stage.issue_from(w.stage.pki(), "rogue", &spec)?;
    agent_connected(w, "rogue", "True", &[]).await?;
    w.back("rogue-1").await
}

async fn other_rack(w: &World) -> Result<()> {
    let endpoint = w.stage.agent_endpoint("good")?;
    apply(
        &w.stage.client,
        json!({
            "apiVersion": "rackhand.dev/v1alpha1",
            "kind": "RackAgent",
            "metadata": { "name": "elsewhere" },
            "spec": { "rack": "elsewhere", "endpoint": endpoint },
        }),
    )
    .await?;
    agent_connected(w, "elsewhere", "False", &["elsewhere", "good"]).await?;
    // A host that nobody knows could be its, for as long as it is there and silent.
    agents(w).delete("elsewhere", &Default::default()).await?;
    Ok(())
}

async fn broken_inventory(w: &World) -> Result<()> {
    let path = w.stage.dir().join("broken.toml");
    std::fs::write(
        &path,
        r#"
rack = "a rack"
listen = "everywhere"
tls = "/nowhere"
socket = "agent.sock"
state = "state"
allowed_bmc_networks = ["all"]

[[hosts]]
name = "one"
bmc = { address = "gopher://192.0.2.1", username = "u", password_file = "p" }

[[hosts]]
name = "one"
bmc = { address = "redfish+https://192.0.2.2/redfish/v1/Systems/1", username = "u", password_file = "p" }
"#,
    )?;
    let output = Command::new(w.stage.binary("rackhand-agent"))
        .arg("serve")
        .arg("--config")
        .arg(&path)
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(!output.status.success(), "it started");
    for word in [
        "broken.toml",
        "a rack",
        "everywhere",
        "all",
        "gopher",
        "one",
    ] {
        ensure!(said.contains(word), "{word} is not told: {said}");
    }
    Ok(())
}

/// It ends at once and says which file is to be renewed.
async fn expired(w: &World) -> Result<()> {
    let spec = CertSpec::peer("expired", "spiffe://rackhand/controller").expired();
    let tls = w.stage.issue(&spec)?;
    let started = w.stage.start_controller_with("expired", &tls, &[]).await;
    let said = match started {
        Ok(()) => bail!("it started"),
        Err(error) => format!("{error:#}"),
    };
    let file = tls.join("tls.crt").display().to_string();
    for word in ["expired on", "renew it", &file] {
        ensure!(said.contains(word), "{word} is not told: {said}");
    }
    Ok(())
}

async fn admin(w: &World) -> Result<()> {
    for path in ["/livez", "/readyz"] {
        let (status, text) = w.stage.admin("controller-0", path).await?;
        ensure!(status == 200, "{path}: {status} {text}");
    }
    let (status, text) = w.stage.admin("controller-0", "/metrics").await?;
    ensure!(status == 200, "{status}");
    let mut samples = 0;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        sample(line)?;
        samples += 1;
    }
    ensure!(samples > 20 && text.ends_with("# EOF\n"), "{text}");
    let done = text
        .lines()
        .any(|line| line.starts_with("rackhand_remediations_total{") && !line.ends_with(" 0"));
    ensure!(done, "no finished remediation is counted: {text}");
    ensure!(
        w.stage.host("good-1")?.real_power() == PowerState::On,
        "it is"
    );
    Ok(())
}

/// `name{label="value",...} number`.
fn sample(line: &str) -> Result<()> {
    let (name, value) = line.rsplit_once(' ').with_context(|| format!("{line:?}"))?;
    if value.parse::<f64>().is_err() {
        bail!("not a number: {line:?}");
    }
    let bare = name.split('{').next().unwrap_or_default();
    let proper = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    ensure!(
        !bare.is_empty() && bare.chars().all(proper),
        "not a name: {line:?}"
    );
    ensure!(
        name.contains('{') == name.ends_with('}'),
        "not labels: {line:?}"
    );
    Ok(())
}

/// It ran with exactly what its ServiceAccount may.
fn rights(w: &World) -> Result<()> {
    let log = w.stage.log_of("controller-0")?;
    let refused: Vec<&str> = log
        .lines()
        .filter(|line| line.to_lowercase().contains("forbidden"))
        .collect();
    ensure!(refused.is_empty(), "{refused:?}");
    Ok(())
}
