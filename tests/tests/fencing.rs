//! Fencing on a real control plane: what cannot be confirmed is never guessed, what was added goes
//! again, and one host's trouble is nobody else's.
//!
//! All scenarios run at the same time on one stage, each with hosts of its own.
//!
//! Which rule is shown on a real control plane where; `f1_...` and the like beside the cores show
//! each of them alone:
//!
//! | rule | here | elsewhere |
//! |---|---|---|
//! | F1 | `f1_...` | `failure_table` |
//! | F2 | `f2_...` | `cooperative`, `crash` |
//! | F3 | `f3_...` | `cooperative` |
//! | F4 | `f4_...` | `power_remediation`, `failure_table` |
//! | F5 | `f5_...` | |
//! | F6 | | `failure_table` |
//! | F7 | | `crash`, and `authority` of the agent's service |
//! | F8 | `f8_...` | |
//! | F9 | `f9_...` | `power_remediation`, `input` |
//! | F10 | `f10_...` | |
//! | F11 | `f11_...` | `input` |
//! | L1 | the end of every scenario: back, or blocked with its reason | `failure_table` |

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use anyhow::{Context, Result, ensure};
use kube::api::{Patch, PatchParams};
use rackhand_tests::{
    cluster::apply_yaml,
    rack::{LogEvent, PowerState, ResetType, SimHost},
    stage::{HostLink, LONG, RackSpec, Scenarios, Stage, StageConfig, Witness, wait_until},
};
use serde_json::json;

const REMEDIATE: &str = "cluster.x-k8s.io/remediate-machine";
const CONFIRM: &str = "rackhand.dev/confirm-fenced";
const HOLD: &str = "reboot.metal3.io/rackhand-";

struct World {
    stage: Stage,
    witness: Witness,
}

fn racks() -> Vec<RackSpec> {
    let known = |name: &str, hosts: &[&str]| RackSpec {
        hosts: hosts.iter().map(|&host| host.to_owned()).collect(),
        ..RackSpec::new(name, 0, HostLink::Inventory)
    };
    vec![
        known(
            "many",
            &[
                "fine-1", "bmc-1", "bmc-2", "bmc-3", "bmc-4", "bmc-5", "word-1", "lie-1",
                "drain-1", "drain-2",
            ],
        ),
        known("gone", &["gone-1"]),
        known("away", &["away-1"]),
        known("zero", &["zero-1"]).in_pool("zero"),
        known("forty", &["forty-1", "forty-2", "forty-3", "forty-4"]).in_pool("forty"),
        RackSpec::new("swap", 2, HostLink::Detached),
        RackSpec::new("held", 1, HostLink::Managed),
        RackSpec::new("del", 5, HostLink::Managed).in_pool("by-hand"),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_confirmed_off_is_never_taken_for_off_and_what_was_added_goes_again() {
    let dir = tempfile::tempdir().unwrap();
    let config = StageConfig::steady(racks(), &["--power-timeout=8s", "--cooperative-grace=1s"]);
    let stage = Stage::start(dir.path(), config).await.unwrap();
    if let Err(error) = begin(&stage).await {
        panic!("{error:#}\n{}", stage.report().await);
    }
    let witness = Witness::start(&stage.client);
    let world = World { stage, witness };
    let w = &world;

    let mut all = Scenarios::new();
    all.add(
        "f1_a_bmc_that_says_powering_off_for_ever_is_not_off",
        stuck(w),
    );
    all.add("f8_a_silent_bmc_is_not_off", silent(w));
    all.add("f8_a_bmc_that_refuses_the_password_is_not_off", refused(w));
    all.add("f5_a_bmc_of_another_system_is_not_commanded", foreign(w));
    all.add("f1_a_bmc_that_ignores_commands_is_not_off", ignoring(w));
    all.add("f8_without_an_agent_nothing_is_tainted", agentless(w));
    all.add(
        "f8_the_right_persons_word_counts_and_no_other",
        persons_word(w),
    );
    all.add(
        "f5_a_bmc_that_lies_off_while_the_lease_moves_taints_nothing",
        lie(w),
    );
    all.add(
        "f5_a_host_switched_off_in_error_is_switched_on_again",
        swapped(w),
    );
    all.add(
        "f3_a_host_switched_on_while_draining_is_switched_off_again",
        switched_on(w),
    );
    all.add(
        "f4_the_host_stays_off_until_the_last_pod_is_gone",
        drained_first(w),
    );
    all.add(
        "f11_recovered_while_no_agent_was_there",
        recovered_agentless(w),
    );
    all.add("f10_a_limit_of_zero_never_acts", limit_zero(w));
    all.add(
        "f10_two_of_four_close_a_gate_of_forty_percent",
        limit_forty(w),
    );
    all.add("f2_the_hold_is_there_before_the_power_off", held_first(w));
    all.add(
        "f9_withdrawn_before_the_off_took_effect",
        withdrawn_powering_off(w),
    );
    all.add("f9_withdrawn_when_off", withdrawn_off(w));
    all.add("f9_withdrawn_while_draining", withdrawn_draining(w));
    all.add("f9_withdrawn_while_powering_on", withdrawn_powering_on(w));
    all.add("f9_withdrawn_while_booting", withdrawn_booting(w));
    let outcome = all.run().await;
    if let Err(error) = outcome.and_then(|()| nothing_ran_twice(&world)) {
        panic!("{error:#}\n{}", world.stage.report().await);
    }
}

async fn begin(stage: &Stage) -> Result<()> {
    for rack in ["gone", "away"] {
        stage.wait_agent(rack).await?;
        stage.kill_agent(rack)?;
    }
    stage.apply_rack_agents().await?;
    stage.start_controller("controller-0").await?;
    stage.apply_health_check().await
}

fn nothing_ran_twice(w: &World) -> Result<()> {
    let twice = w.stage.ran_twice();
    ensure!(twice.is_empty(), "ran twice: {twice:?}");
    Ok(())
}

impl World {
    fn host(&self, name: &str) -> Result<&SimHost> {
        self.stage.host(name)
    }

    /// A pod runs on a host, and then the host hangs.
    async fn lose(&self, host: &str, kept: bool) -> Result<String> {
        let pod = self.stage.bind_pod(host, kept).await?;
        let sim = self.host(host)?;
        sim.wait_for(LONG, "runs its pod", |view| !view.pods.is_empty())
            .await?;
        ensure!(sim.hang(), "{host} was not up");
        Ok(pod.metadata.uid.unwrap_or_default())
    }

    /// Nothing was done to the workload: no taint ever, and the pod is as it was.
    async fn workload_untouched(&self, host: &str, pod: &str) -> Result<()> {
        self.stage.never_tainted(&self.witness, host).await?;
        let found = self.stage.bound_pod(host).await?;
        let found = found.with_context(|| format!("the pod on {host} is gone"))?;
        ensure!(
            found.metadata.uid.as_deref() == Some(pod)
                && found.metadata.deletion_timestamp.is_none(),
            "the pod on {host} was touched: {:?}",
            found.metadata
        );
        Ok(())
    }

    /// A host comes back by itself: one cycle, tainted once, and only while it was off.
    async fn comes_back(&self, host: &str) -> Result<()> {
        self.tainted_once(host).await?;
        self.stage.one_cycle(host)?;
        // F1: two readings of off, 2 s apart, come before the taint.
        let (tainted, _) = self.witness.taints(host)[0];
        let log = self.host(host)?.log();
        let off = log
            .iter()
            .rfind(|entry| {
                entry.stamp.at <= tainted && matches!(entry.event, LogEvent::Power(PowerState::Off))
            })
            .with_context(|| format!("{host} was tainted before it was off"))?;
        let confirmed = tainted - off.stamp.at;
        ensure!(
            confirmed.as_secs() >= 2,
            "{host} was tainted {confirmed:?} after the off"
        );
        Ok(())
    }

    async fn tainted_once(&self, host: &str) -> Result<()> {
        wait_until(&format!("{host} has lost its taint"), LONG, || async {
            let seen = self.stage.remediation(host).await?;
            let seen = seen.map(|s| (s.step, s.reason, s.message));
            let taints = self.witness.taints(host);
            Ok(if taints.len() == 2 {
                Ok(())
            } else {
                Err(format!("{taints:?} {seen:?}"))
            })
        })
        .await?;
        self.stage.wait_back(host).await?;
        self.stage
            .tainted_only_while_off(&self.witness, host)
            .await?;
        let tainted = self.witness.taints(host).len();
        ensure!(
            tainted == 2,
            "{host}: tainted and untainted once, not {tainted}"
        );
        Ok(())
    }

    /// The others are not held up: a host without any fault that hung at the same time is back.
    async fn others_go_on(&self) -> Result<()> {
        wait_until("fine-1 has lost its taint", LONG, || async {
            let taints = self.witness.taints("fine-1");
            Ok(if taints.len() == 2 {
                Ok(())
            } else {
                Err(format!("{taints:?}"))
            })
        })
        .await?;
        self.stage.wait_back("fine-1").await
    }

    async fn blocked_then_back(
        &self,
        host: &str,
        reason: &str,
        clear: impl FnOnce(&SimHost),
    ) -> Result<()> {
        let pod = self.lose(host, false).await?;
        self.stage.wait_blocked(host, reason).await?;
        self.others_go_on().await?;
        self.workload_untouched(host, &pod).await?;
        clear(self.host(host)?);
        self.comes_back(host).await
    }
}

/// Hangs the host without any fault, too: the others wait for it.
async fn stuck(w: &World) -> Result<()> {
    ensure!(w.host("fine-1")?.hang(), "up");
    let host = w.host("bmc-1")?;
    host.stuck_powering_off(true);
    let pod = w.lose("bmc-1", false).await?;
    w.stage.wait_blocked("bmc-1", "FenceUnconfirmed").await?;
    w.others_go_on().await?;
    w.stage.one_cycle("fine-1")?;
    w.workload_untouched("bmc-1", &pod).await?;
    ensure!(
        host.real_power() == PowerState::PoweringOff,
        "as the fault says"
    );
    host.stuck_powering_off(false);
    w.comes_back("bmc-1").await
}

async fn silent(w: &World) -> Result<()> {
    w.host("bmc-2")?.silent();
    w.blocked_then_back("bmc-2", "FenceUnconfirmed", SimHost::clear_faults)
        .await
}

/// So as not to lock the account, a refused password is tried again only after a minute.
async fn refused(w: &World) -> Result<()> {
    let host = w.host("bmc-3")?;
    host.refuse_auth();
    let pod = w.lose("bmc-3", false).await?;
    w.stage.wait_blocked("bmc-3", "FenceUnconfirmed").await?;
    w.workload_untouched("bmc-3", &pod).await?;
    w.stage.untouched("bmc-3")?;
    host.clear_faults();
    w.comes_back("bmc-3").await
}

async fn ignoring(w: &World) -> Result<()> {
    w.host("bmc-5")?.ignore_commands();
    w.blocked_then_back("bmc-5", "FenceUnconfirmed", SimHost::clear_faults)
        .await
}

/// A wrong BMC is for a person to correct; the request ends, and the next one works.
async fn foreign(w: &World) -> Result<()> {
    let host = w.host("bmc-4")?;
    host.foreign_uuid();
    let pod = w.lose("bmc-4", false).await?;
    w.stage.wait_blocked("bmc-4", "IdentityMismatch").await?;
    // CAPM3's phase is of the status, which is written after our step.
    w.stage
        .wait_remediation("bmc-4", "phase Failed", |seen| {
            seen.step == "Blocked" && seen.phase == "Failed"
        })
        .await?;
    w.workload_untouched("bmc-4", &pod).await?;
    w.stage.untouched("bmc-4")?;
    host.clear_faults();
    w.stage.withdraw("bmc-4").await?;
    w.comes_back("bmc-4").await
}

async fn agentless(w: &World) -> Result<()> {
    let pod = w.lose("gone-1", false).await?;
    w.stage.wait_blocked("gone-1", "AgentUnreachable").await?;
    w.others_go_on().await?;
    w.workload_untouched("gone-1", &pod).await?;
    w.stage.untouched("gone-1")?;
    w.stage.start_agent("gone")?;
    w.comes_back("gone-1").await
}

async fn persons_word(w: &World) -> Result<()> {
    let (host, objects) = (w.host("word-1")?, w.stage.remediations());
    host.bmc_dead().await?;
    let pod = w.lose("word-1", false).await?;
    w.stage.wait_blocked("word-1", "FenceUnconfirmed").await?;
    let wrong = "00000000-0000-4000-8000-000000000000";
    w.stage
        .annotate(&objects, "word-1", CONFIRM, Some(wrong))
        .await?;
    // It tries on as if nothing had been said.
    let seen = w.stage.wait_step("word-1", "AwaitingConfirmation").await?;
    let tries = seen.object["metadata"]["annotations"]["rackhand.dev/state"]
        .as_str()
        .and_then(|text| serde_json::from_str::<serde_json::Value>(text).ok())
        .and_then(|state| state["state"]["tries"].as_u64());
    ensure!(tries >= Some(3), "tried {tries:?} times");
    w.workload_untouched("word-1", &pod).await?;

    host.switch(ResetType::ForceOff, "a person");
    host.wait_for(LONG, "off", |view| view.power == PowerState::Off)
        .await?;
    let uid = seen.object["metadata"]["uid"].as_str().unwrap_or_default();
    w.stage
        .annotate(&objects, "word-1", CONFIRM, Some(uid))
        .await?;
    w.stage
        .wait_remediation("word-1", "drained", |seen| seen.step == "PoweringOn")
        .await?;
    ensure!(host.real_power() == PowerState::Off, "its BMC is dead");
    host.bmc_alive().await?;
    w.tainted_once("word-1").await?;
    w.stage.one_cycle("word-1")
}

async fn lie(w: &World) -> Result<()> {
    let (host, machines) = (w.host("lie-1")?, w.stage.machines());
    let pod = w.stage.bind_pod("lie-1", false).await?;
    host.ignore_commands();
    host.lie_off();
    w.stage
        .annotate(&machines, "lie-1", REMEDIATE, Some(""))
        .await?;
    w.stage.wait_blocked("lie-1", "LeaseRenewed").await?;
    w.workload_untouched("lie-1", &pod.metadata.uid.unwrap_or_default())
        .await?;
    ensure!(host.counters().offs == 0, "it was never off");
    host.clear_faults();
    // Left on, and over.
    w.stage.wait_step("lie-1", "Blocked").await?;
    ensure!(
        host.real_power() == PowerState::On && host.counters().offs == 0,
        "left on"
    );
    w.stage
        .annotate(&machines, "lie-1", REMEDIATE, None)
        .await?;
    w.stage.wait_back("lie-1").await?;
    w.stage.never_tainted(&w.witness, "lie-1").await
}

/// The BareMetalHost of one names the BMC of the other, which does not say who it is.
async fn swapped(w: &World) -> Result<()> {
    let (machines, other) = (w.stage.machines(), w.host("swap-2")?);
    other.anonymous();
    let address = other
        .system_url()?
        .replacen("https://", "redfish+https://", 1);
    let body = json!({ "spec": { "bmc": { "address": address } } });
    let hosts = w.stage.bare_metal_hosts();
    hosts
        .patch("swap-1", &PatchParams::default(), &Patch::Merge(body))
        .await?;
    w.stage
        .annotate(&machines, "swap-1", REMEDIATE, Some(""))
        .await?;
    w.stage.wait_warning("swap-1", "LeaseRenewed").await?;
    ensure!(other.counters().offs == 1, "the other one was switched off");
    other
        .wait_for(LONG, "on again", |view| view.power == PowerState::On)
        .await?;
    w.stage.wait_step("swap-1", "Blocked").await?;
    w.stage.untouched("swap-1")?;
    w.stage
        .annotate(&machines, "swap-1", REMEDIATE, None)
        .await?;
    w.stage.wait_back("swap-1").await?;
    w.stage.wait_back("swap-2").await?;
    w.stage.never_tainted(&w.witness, "swap-1").await
}

async fn switched_on(w: &World) -> Result<()> {
    let host = w.host("drain-1")?;
    w.lose("drain-1", true).await?;
    w.stage.wait_step("drain-1", "Draining").await?;
    // Somebody presses the button, the BMC takes no command any more, and the drain would be over.
    host.never_boots(true);
    host.ignore_commands();
    host.switch(ResetType::On, "somebody");
    host.wait_for(LONG, "on", |view| view.power == PowerState::On)
        .await?;
    w.stage.wait_warning("drain-1", "FenceViolated").await?;
    w.stage.let_pod_go("drain-1").await?;
    wait_until("the pod is gone", LONG, || async {
        let pod = w.stage.bound_pod("drain-1").await?;
        Ok(if pod.is_none() {
            Ok(())
        } else {
            Err("it is there".to_owned())
        })
    })
    .await?;
    w.stage.wait_looks("drain-1", 6).await?;
    let seen = w
        .stage
        .remediation("drain-1")
        .await?
        .context("it goes on")?;
    let waits = ["PoweringOff", "AwaitingConfirmation"].contains(&seen.step.as_str());
    ensure!(waits, "a drain counted while the host was on: {seen:?}");
    ensure!(w.stage.tainted("drain-1").await?, "the taint stays");
    host.never_boots(false);
    host.clear_faults();
    w.stage.wait_back("drain-1").await?;
    let counters = host.counters();
    ensure!(
        (counters.offs, counters.ons) == (2, 2),
        "off again, then on: {counters:?}"
    );
    let steps: Vec<String> = w
        .witness
        .steps("drain-1")
        .into_iter()
        .map(|s| s.1)
        .collect();
    let fenced = steps.iter().filter(|step| *step == "ConfirmingOff").count();
    ensure!(
        fenced == 2,
        "confirmed again before the drain counted: {steps:?}"
    );
    Ok(())
}

async fn drained_first(w: &World) -> Result<()> {
    let host = w.host("drain-2")?;
    w.lose("drain-2", true).await?;
    let seen = w.stage.wait_step("drain-2", "Draining").await?;
    w.stage
        .wait_remediation("drain-2", "says what it waits for", |seen| {
            seen.reason == "Draining" && seen.message.contains("default/on-drain-2")
        })
        .await?;
    w.stage.wait_looks("drain-2", 6).await?;
    ensure!(
        host.real_power() == PowerState::Off,
        "off until the pod is gone: {seen:?}"
    );
    let released = std::time::Instant::now();
    w.stage.let_pod_go("drain-2").await?;
    w.comes_back("drain-2").await?;
    ensure!(
        w.stage.commanded("drain-2", ResetType::On)? > released,
        "on only after that"
    );
    Ok(())
}

async fn recovered_agentless(w: &World) -> Result<()> {
    let machines = w.stage.machines();
    w.stage
        .annotate(&machines, "away-1", REMEDIATE, Some(""))
        .await?;
    w.stage.wait_blocked("away-1", "AgentUnreachable").await?;
    w.stage
        .annotate(&machines, "away-1", REMEDIATE, None)
        .await?;
    w.stage.wait_back("away-1").await?;
    w.stage.start_agent("away")?;
    w.stage.untouched("away-1")
}

/// Waits until a check says that its gate is closed, with so many healthy.
async fn closed(w: &World, check: &str, healthy: u64) -> Result<()> {
    wait_until(&format!("{check} is closed"), LONG, || async {
        let object = w.stage.checks().get(check).await?;
        let status = &object.data["status"];
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        let said = conditions.iter().any(|c| {
            c["type"] == "RemediationAllowed"
                && c["status"] == "False"
                && c["reason"] == "TooManyUnhealthy"
                && c["message"].as_str().is_some_and(|m| !m.is_empty())
        });
        let now = status["currentHealthy"].as_u64().unwrap_or(0);
        Ok(if said && now == healthy {
            Ok(())
        } else {
            Err(status.to_string())
        })
    })
    .await?;
    w.stage.wait_warning(check, "RemediationRestricted").await
}

async fn unknown(w: &World, host: &str) -> Result<()> {
    wait_until(&format!("{host} is Unknown"), LONG, || async {
        let ready = rackhand_tests::stage::ready(&w.stage.node(host).await?);
        Ok(if ready == "Unknown" {
            Ok(())
        } else {
            Err(ready)
        })
    })
    .await
}

fn never_requested(w: &World, machine: &str) -> Result<()> {
    let seen = w.witness.of("Metal3Remediation", machine);
    ensure!(
        seen.is_empty(),
        "{machine}: a request was made: {:?}",
        seen.first()
    );
    Ok(())
}

async fn limit_zero(w: &World) -> Result<()> {
    let check = w.stage.health_check_of("zero", "zero", "0");
    apply_yaml(&w.stage.client, &check).await?;
    ensure!(w.host("zero-1")?.hang(), "up");
    unknown(w, "zero-1").await?;
    closed(w, "zero", 0).await?;
    // All that others take from the fault to the end passes.
    w.others_go_on().await?;
    never_requested(w, "zero-1")?;
    w.stage.untouched("zero-1")
}

async fn limit_forty(w: &World) -> Result<()> {
    for host in ["forty-1", "forty-2"] {
        ensure!(w.host(host)?.hang(), "{host} was up");
    }
    for host in ["forty-1", "forty-2"] {
        unknown(w, host).await?;
    }
    let check = w.stage.health_check_of("forty", "forty", "40%");
    apply_yaml(&w.stage.client, &check).await?;
    closed(w, "forty", 2).await?;
    w.others_go_on().await?;
    for host in ["forty-1", "forty-2"] {
        never_requested(w, host)?;
        w.stage.untouched(host)?;
    }
    // A person brings one back; one of four is within the limit.
    let host = w.host("forty-1")?;
    host.switch(ResetType::ForceOff, "a person");
    host.wait_for(LONG, "off", |view| view.power == PowerState::Off)
        .await?;
    host.switch(ResetType::On, "a person");
    w.stage.wait_step("forty-2", "PoweringOff").await?;
    w.comes_back("forty-2").await?;
    never_requested(w, "forty-1")?;
    let others = host
        .log()
        .into_iter()
        .find(|entry| matches!(&entry.event, LogEvent::Command { by, .. } if by != "a person"));
    ensure!(others.is_none(), "forty-1 was commanded: {others:?}");
    Ok(())
}

/// No baremetal-operator runs here, so the agent acts after the grace.
async fn held_first(w: &World) -> Result<()> {
    w.lose("held-1", false).await?;
    w.comes_back("held-1").await?;
    let holds = w.witness.holds("held-1", HOLD);
    ensure!(holds.len() == 2, "came and went once: {holds:?}");
    let [(came, _), (went, _)] = [holds[0], holds[1]];
    let (off, on) = (
        w.stage.commanded("held-1", ResetType::ForceOff)?,
        w.stage.commanded("held-1", ResetType::On)?,
    );
    ensure!(
        came < off,
        "the hold came {:?} after the power-off",
        came - off
    );
    let grace = off.saturating_duration_since(came);
    ensure!(
        grace.as_millis() >= 900,
        "baremetal-operator had only {grace:?}"
    );
    ensure!(
        off < went && went < on,
        "the hold goes at the power-on, before our command"
    );
    let uid = w.witness.of("Metal3Remediation", "held-1")[0]
        .uid()
        .to_owned();
    let key = format!("{HOLD}{uid}");
    let seen = w.witness.of("BareMetalHost", "held-1");
    let value = seen.iter().find_map(|record| record.annotation(&key));
    ensure!(value == Some(r#"{"mode":"hard"}"#), "{key} is {value:?}");
    Ok(())
}

async fn withdrawn_powering_off(w: &World) -> Result<()> {
    let host = w.host("del-1")?;
    host.stuck_powering_off(true);
    host.hang();
    w.stage.remediate("del-1").await?;
    host.wait_for(LONG, "going off", |view| {
        view.power == PowerState::PoweringOff
    })
    .await?;
    w.stage.withdraw("del-1").await?;
    w.stage.wait_looks("del-1", 6).await?;
    w.stage.never_tainted(&w.witness, "del-1").await?;
    host.stuck_powering_off(false);
    w.stage.wait_back("del-1").await?;
    w.stage.one_cycle("del-1")?;
    w.stage.never_tainted(&w.witness, "del-1").await
}

async fn withdrawn_off(w: &World) -> Result<()> {
    let host = w.host("del-2")?;
    host.hang();
    w.stage.remediate("del-2").await?;
    host.wait_for(LONG, "off", |view| view.power == PowerState::Off)
        .await?;
    w.stage.withdraw("del-2").await?;
    w.stage.wait_back("del-2").await?;
    w.stage.one_cycle("del-2")
}

async fn withdrawn_draining(w: &World) -> Result<()> {
    let host = w.host("del-3")?;
    w.lose("del-3", true).await?;
    w.stage.remediate("del-3").await?;
    w.stage.wait_step("del-3", "Draining").await?;
    w.stage.withdraw("del-3").await?;
    // With the taint on, drained is the only way out.
    w.stage.wait_looks("del-3", 6).await?;
    ensure!(host.real_power() == PowerState::Off, "off until drained");
    w.stage.let_pod_go("del-3").await?;
    w.comes_back("del-3").await
}

async fn withdrawn_powering_on(w: &World) -> Result<()> {
    let host = w.host("del-4")?;
    host.set_timings(rackhand_tests::rack::PowerTimings {
        on_takes: std::time::Duration::from_secs(3),
        ..w.stage.config().timings
    });
    host.hang();
    w.stage.remediate("del-4").await?;
    host.wait_for(LONG, "going on", |view| {
        view.power == PowerState::PoweringOn
    })
    .await?;
    w.stage.withdraw("del-4").await?;
    w.comes_back("del-4").await
}

async fn withdrawn_booting(w: &World) -> Result<()> {
    let host = w.host("del-5")?;
    host.never_boots(true);
    host.hang();
    w.stage.remediate("del-5").await?;
    w.stage.wait_step("del-5", "Booting").await?;
    w.stage.withdraw("del-5").await?;
    host.never_boots(false);
    w.comes_back("del-5").await
}
