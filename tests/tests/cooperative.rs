//! Beside baremetal-operator and Ironic on a real control plane: neither side undoes the other, and
//! each host gets exactly the power commands that are planned for it.
//!
//! The operator and Ironic are a stand-in with shortened periods (60 s and 120 s are 1 s and 2 s
//! here). All scenarios run at the same time on one stage with two controllers, each with hosts of
//! its own.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_in_result,
    missing_docs,
    unreachable_pub
)]

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kube::api::{Patch, PatchParams};
use rackhand_tests::{
    bmo::{Metal3, Settings},
    rack::{LogEvent, PowerState, ResetType, SimHost},
    stage::{HostLink, LONG, RackSpec, Scenarios, Stage, StageConfig, Witness, wait_until},
};
use serde_json::{Value, json};

const HOLD: &str = "reboot.metal3.io/rackhand-";
const SOMEBODY: &str = "reboot.metal3.io/somebody-else";
const PAUSED: &str = "baremetalhost.metal3.io/paused";
const DETACHED: &str = "baremetalhost.metal3.io/detached";
/// Who sends what, in the hosts' logs: the agent logs in at the BMCs under this name.
const AGENT: &str = "rackhand";
const IRONIC: &str = "ironic";
/// How long the operator may act before the agent does.
const GRACE: Duration = Duration::from_secs(10);

const OFF: ResetType = ResetType::ForceOff;
const ON: ResetType = ResetType::On;

/// Hosts of an operator and an Ironic that are well.
const WELL: [&str; 11] = [
    "path-1",
    "sync-1",
    "foreign-1",
    "offline-1",
    "paused-1",
    "serv-1",
    "new-1",
    "keep-1",
    "det-1",
    "det-2",
    "plain-1",
];

struct World {
    stage: Stage,
    witness: Witness,
    well: Metal3,
    /// Neither of the two runs.
    down: Metal3,
    /// Ironic runs without the operator, and syncs so slowly that an off can be confirmed between.
    late: Metal3,
    /// A release that deletes the hold keys of others.
    _old: Metal3,
    /// Its changes of power fail; it does not force.
    ill: Metal3,
    /// Its operator takes its time over the power-on.
    slow: Metal3,
    /// Its operator goes away before the power-on.
    away: Metal3,
    /// The same, and Ironic goes too once it has forced the host off.
    alone: Metal3,
}

#[tokio::test(flavor = "multi_thread")]
async fn beside_baremetal_operator_neither_side_undoes_the_other() {
    let dir = tempfile::tempdir().unwrap();
    let others = [
        "down-1", "late-1", "old-1", "ill-1", "away-1", "slow-1", "again-1",
    ];
    let hosts = WELL.iter().chain(&others).map(|&host| host.to_owned());
    let rack = RackSpec {
        hosts: hosts.collect(),
        ..RackSpec::new("metal", 0, HostLink::Managed)
    };
    let config = StageConfig::steady(
        vec![rack],
        &[
            "--power-timeout=30s",
            &format!("--cooperative-grace={}s", GRACE.as_secs()),
        ],
    );
    let stage = Stage::start(dir.path(), config).await.unwrap();
    if let Err(error) = begin(&stage).await {
        panic!("{error:#}\n{}", stage.report().await);
    }
    let world = World {
        witness: Witness::start(&stage.client),
        well: stage.start_metal3(&WELL, Settings::default()).unwrap(),
        down: stage
            .start_metal3(&["down-1"], Settings::default())
            .unwrap(),
        late: stage
            .start_metal3(
                &["late-1"],
                Settings {
                    sync: Duration::from_secs(6),
                    sync_retries: 1000,
                    ..Settings::default()
                },
            )
            .unwrap(),
        _old: stage
            .start_metal3(
                &["old-1"],
                Settings {
                    deletes_holds: true,
                    ..Settings::default()
                },
            )
            .unwrap(),
        ill: stage
            .start_metal3(
                &["ill-1"],
                Settings {
                    force: false,
                    ..Settings::default()
                },
            )
            .unwrap(),
        slow: stage
            .start_metal3(&["slow-1"], Settings::default())
            .unwrap(),
        away: stage
            .start_metal3(&["away-1"], Settings::default())
            .unwrap(),
        alone: stage
            .start_metal3(&["again-1"], Settings::default())
            .unwrap(),
        stage,
    };
    let w = &world;

    let mut all = Scenarios::new();
    all.add("the_operator_switches_off_and_on_at_our_word", path(w));
    all.add("f3_ironics_sync_leaves_a_held_host_off", synced(w));
    all.add("held_by_others_is_shown_and_waited_for", foreign(w));
    all.add("wanted_off_midway_is_cleaned_and_left_off", offline(w));
    all.add("a_paused_host_waits_until_it_is_not", paused(w));
    all.add("a_host_in_service_waits_for_its_end", servicing(w));
    all.add("a_host_that_is_not_provisioned_waits", unprovisioned(w));
    all.add("a_host_that_must_stay_on_is_refused", unswitchable(w));
    all.add("a_detached_host_is_the_agents_alone", detached(w));
    all.add("detached_midway_is_finished_by_the_agent", let_go(w));
    all.add("a_plain_reboot_annotation_is_answered_once", plain(w));
    all.add("f2_without_the_operator_the_agent_acts", alone(w));
    all.add("f3_what_ironic_forces_is_switched_off_again", forced(w));
    all.add("a2_a_hold_that_was_deleted_comes_back", deleted(w));
    all.add(
        "a7_what_ironic_undoes_is_not_held_against_the_host",
        undone(w),
    );
    all.add("f5_a_slow_operator_is_not_another_host", slow(w));
    all.add(
        "what_is_forced_off_while_it_boots_is_switched_on_again",
        off_again(w),
    );
    all.add("an_operator_in_backoff_holds_up_nothing", backing_off(w));
    let outcome = all.run().await;
    let outcome = outcome.and_then(|()| {
        let twice = w.stage.ran_twice();
        ensure!(twice.is_empty(), "ran twice: {twice:?}");
        Ok(())
    });
    if let Err(error) = outcome {
        panic!("{error:#}\n{}", world.stage.report().await);
    }
}

async fn begin(stage: &Stage) -> Result<()> {
    stage.apply_rack_agents().await?;
    stage.start_controller("controller-0").await?;
    stage.start_controller("controller-1").await?;
    stage.apply_health_check().await
}

impl World {
    fn host(&self, name: &str) -> Result<&SimHost> {
        self.stage.host(name)
    }

    /// The host hangs with a pod that stays in the API until [`Stage::let_pod_go`], and is drained
    /// up to that.
    async fn draining(&self, host: &str) -> Result<()> {
        self.stage.bind_pod(host, true).await?;
        self.host(host)?
            .wait_for(LONG, "runs its pod", |view| !view.pods.is_empty())
            .await?;
        self.hang(host)?;
        self.stage.wait_step(host, "Draining").await.map(drop)
    }

    fn hang(&self, host: &str) -> Result<()> {
        ensure!(self.host(host)?.hang(), "{host} was not up");
        Ok(())
    }

    /// Every command that a host got, in order, by whom.
    fn commands(&self, host: &str) -> Result<Vec<(String, ResetType)>> {
        let log = self.host(host)?.log();
        let commands = log.into_iter().filter_map(|entry| match entry.event {
            LogEvent::Command { reset, by, .. } => Some((by, reset)),
            _ => None,
        });
        Ok(commands.collect())
    }

    /// The remediation is over, the Node is Ready, nothing is left, and the host got exactly these
    /// commands, one power cycle by them.
    async fn back_by(&self, host: &str, wanted: &[(&str, ResetType)]) -> Result<()> {
        self.untainted(host).await?;
        self.stage.wait_back(host).await?;
        self.stage.one_cycle(host)?;
        let got = self.commands(host)?;
        let got: Vec<(&str, ResetType)> = got.iter().map(|(by, r)| (by.as_str(), *r)).collect();
        ensure!(got == wanted, "{host} got {got:?}, not {wanted:?}");
        self.stage.tainted_only_while_off(&self.witness, host).await
    }

    /// The taint has come once and gone.
    async fn untainted(&self, host: &str) -> Result<()> {
        wait_until(&format!("{host} has lost its taint"), LONG, || async {
            let seen = self.stage.remediation(host).await?;
            let seen = seen.map(|s| (s.step, s.reason, s.message));
            let taints = self.witness.taints(host);
            let over = taints.len() >= 2 && taints.last().is_some_and(|(_, there)| !there);
            Ok(if over {
                Ok(())
            } else {
                Err(format!("{taints:?} {seen:?}"))
            })
        })
        .await
    }

    /// Ironic has looked this often more.
    async fn synced(&self, metal3: &Metal3, host: &str, more: u32) -> Result<()> {
        let enough = metal3.sent(host)?.syncs + more;
        wait_until(&format!("{host} is synced"), LONG, || async {
            let syncs = metal3.sent(host)?.syncs;
            Ok(if syncs >= enough {
                Ok(())
            } else {
                Err(format!("{syncs} of {enough}"))
            })
        })
        .await
    }

    async fn patch(&self, host: &str, spec: Value) -> Result<()> {
        let (params, body) = (
            PatchParams::default(),
            Patch::Merge(json!({ "spec": spec })),
        );
        let hosts = self.stage.bare_metal_hosts();
        hosts.patch(host, &params, &body).await?;
        Ok(())
    }

    async fn provisioning(&self, host: &str, state: &str) -> Result<()> {
        let body = json!({ "status": { "provisioning": { "state": state } } });
        let hosts = self.stage.bare_metal_hosts();
        hosts
            .patch_status(host, &PatchParams::default(), &Patch::Merge(body))
            .await?;
        Ok(())
    }

    async fn annotate(&self, host: &str, key: &str, value: Option<&str>) -> Result<()> {
        let hosts = self.stage.bare_metal_hosts();
        self.stage.annotate(&hosts, host, key, value).await
    }

    async fn operational(&self, host: &str, wanted: &str) -> Result<()> {
        wait_until(&format!("{host} is {wanted}"), LONG, || async {
            let object = self.stage.bare_metal_hosts().get(host).await?;
            let seen = object.data["status"]["operationalStatus"].clone();
            Ok(if seen == wanted {
                Ok(())
            } else {
                Err(seen.to_string())
            })
        })
        .await
    }

    /// Hangs, is blocked with a reason while nobody touches it, and comes back by the operator once
    /// that is `cleared`.
    async fn blocked_until(
        &self,
        host: &str,
        reason: &str,
        cleared: impl Future<Output = Result<()>>,
    ) -> Result<()> {
        self.hang(host)?;
        self.stage.wait_blocked(host, reason).await?;
        self.synced(&self.well, host, 1).await?;
        self.stage.untouched(host)?;
        let holds = self.witness.holds(host, HOLD);
        ensure!(holds.is_empty(), "{host} was held: {holds:?}");
        cleared.await?;
        self.back_by(host, &[(IRONIC, OFF), (IRONIC, ON)]).await
    }
}

/// The hold comes before any off and goes after the drain; the agent only looks.
async fn path(w: &World) -> Result<()> {
    w.stage.bind_pod("path-1", false).await?;
    w.host("path-1")?
        .wait_for(LONG, "runs its pod", |view| !view.pods.is_empty())
        .await?;
    w.hang("path-1")?;
    w.back_by("path-1", &[(IRONIC, OFF), (IRONIC, ON)]).await?;
    let holds = w.witness.holds("path-1", HOLD);
    ensure!(holds.len() == 2, "came and went once: {holds:?}");
    let (off, on) = (
        w.stage.commanded("path-1", OFF)?,
        w.stage.commanded("path-1", ON)?,
    );
    let [(came, _), (went, _)] = [holds[0], holds[1]];
    // The witness sees a version a little after the operator may.
    let early = came.saturating_duration_since(off);
    ensure!(
        early < Duration::from_secs(1),
        "off {early:?} before the hold"
    );
    ensure!(off < went, "the hold went before the off");
    let early = went.saturating_duration_since(on);
    ensure!(
        early < Duration::from_secs(1),
        "on {early:?} before the hold went"
    );
    let gone = w.witness.of("Pod", "on-path-1");
    let gone = gone.iter().find(|record| record.gone).context("drained")?;
    ensure!(gone.at <= went, "the hold went before the pod");
    let sent = w.well.sent("path-1")?;
    ensure!((sent.offs, sent.ons) == (1, 1), "{sent:?}");
    ensure!((sent.forced_offs, sent.forced_ons) == (0, 0), "{sent:?}");
    Ok(())
}

async fn synced(w: &World) -> Result<()> {
    w.draining("sync-1").await?;
    w.synced(&w.well, "sync-1", 4).await?;
    let (host, sent) = (w.host("sync-1")?, w.well.sent("sync-1")?);
    ensure!(host.real_power() == PowerState::Off, "it stays off");
    ensure!((sent.ons, sent.forced_ons) == (0, 0), "{sent:?}");
    ensure!(w.stage.tainted("sync-1").await?, "tainted all the while");
    w.stage.let_pod_go("sync-1").await?;
    w.back_by("sync-1", &[(IRONIC, OFF), (IRONIC, ON)]).await
}

async fn foreign(w: &World) -> Result<()> {
    w.draining("foreign-1").await?;
    w.annotate("foreign-1", SOMEBODY, Some("")).await?;
    w.stage.let_pod_go("foreign-1").await?;
    let seen = w.stage.wait_blocked("foreign-1", "HeldByOthers").await?;
    ensure!(seen.message.contains(SOMEBODY), "{}", seen.message);
    let host = w.host("foreign-1")?;
    // Longer than the agent would wait for the operator.
    tokio::time::sleep(GRACE + Duration::from_secs(3)).await;
    w.synced(&w.well, "foreign-1", 2).await?;
    ensure!(host.real_power() == PowerState::Off, "off until it goes");
    let bmh = w.stage.bare_metal_hosts().get("foreign-1").await?;
    let kept = bmh.metadata.annotations.unwrap_or_default();
    ensure!(kept.contains_key(SOMEBODY), "not ours to take");
    w.annotate("foreign-1", SOMEBODY, None).await?;
    w.back_by("foreign-1", &[(IRONIC, OFF), (IRONIC, ON)]).await
}

async fn offline(w: &World) -> Result<()> {
    w.draining("offline-1").await?;
    w.patch("offline-1", json!({ "online": false })).await?;
    w.stage.wait_looks("offline-1", 4).await?;
    ensure!(w.stage.tainted("offline-1").await?, "until it is drained");
    w.stage.let_pod_go("offline-1").await?;
    let seen = w.stage.wait_blocked("offline-1", "HostOffline").await?;
    let seen = w
        .stage
        .wait_remediation("offline-1", "is over", |now| {
            now.step == "Blocked" && now.object["metadata"]["finalizers"].is_null()
        })
        .await
        .with_context(|| seen.message.clone())?;
    ensure!(seen.phase == "Failed", "CAPM3's phase: {}", seen.phase);
    let left = w.stage.left_on("offline-1").await?;
    ensure!(left == ["power Off"], "{left:?}");
    w.synced(&w.well, "offline-1", 3).await?;
    let host = w.host("offline-1")?;
    ensure!(host.real_power() == PowerState::Off, "left off");
    w.patch("offline-1", json!({ "online": true })).await?;
    w.back_by("offline-1", &[(IRONIC, OFF), (IRONIC, ON)]).await
}

async fn paused(w: &World) -> Result<()> {
    w.annotate("paused-1", PAUSED, Some("metal3.io/capm3"))
        .await?;
    let cleared = w.annotate("paused-1", PAUSED, None);
    w.blocked_until("paused-1", "HostPaused", cleared).await
}

async fn servicing(w: &World) -> Result<()> {
    w.well.servicing("serv-1", true)?;
    w.operational("serv-1", "servicing").await?;
    let cleared = async { w.well.servicing("serv-1", false) };
    w.blocked_until("serv-1", "HostServicing", cleared).await
}

async fn unprovisioned(w: &World) -> Result<()> {
    w.provisioning("new-1", "deprovisioning").await?;
    let cleared = w.provisioning("new-1", "externally provisioned");
    w.blocked_until("new-1", "HostNotProvisioned", cleared)
        .await
}

/// The operator would reboot it again and again, for as long as a hold is on it.
async fn unswitchable(w: &World) -> Result<()> {
    w.patch("keep-1", json!({ "disablePowerOff": true }))
        .await?;
    let cleared = w.patch("keep-1", json!({ "disablePowerOff": false }));
    w.blocked_until("keep-1", "UnsupportedHost", cleared).await
}

async fn detached(w: &World) -> Result<()> {
    w.annotate("det-1", DETACHED, Some("")).await?;
    w.operational("det-1", "detached").await?;
    w.hang("det-1")?;
    w.back_by("det-1", &[(AGENT, OFF), (AGENT, ON)]).await?;
    // Attached again, it is taken over as it is.
    w.annotate("det-1", DETACHED, None).await?;
    w.operational("det-1", "OK").await?;
    w.synced(&w.well, "det-1", 2).await?;
    w.stage.one_cycle("det-1")
}

/// Once it is not in Ironic any more, taking our key off switches nothing on.
async fn let_go(w: &World) -> Result<()> {
    w.draining("det-2").await?;
    w.annotate("det-2", DETACHED, Some("")).await?;
    w.operational("det-2", "detached").await?;
    w.stage.let_pod_go("det-2").await?;
    w.back_by("det-2", &[(IRONIC, OFF), (AGENT, ON)]).await
}

/// A person asks for a reboot while we hold: the operator sees the host off and takes that for its
/// first half.
async fn plain(w: &World) -> Result<()> {
    w.draining("plain-1").await?;
    w.annotate("plain-1", "reboot.metal3.io", Some("")).await?;
    wait_until("the plain annotation is gone", LONG, || async {
        let bmh = w.stage.bare_metal_hosts().get("plain-1").await?;
        let left = bmh.metadata.annotations.unwrap_or_default();
        Ok(if left.contains_key("reboot.metal3.io") {
            Err("it is there".to_owned())
        } else {
            Ok(())
        })
    })
    .await?;
    w.synced(&w.well, "plain-1", 2).await?;
    let host = w.host("plain-1")?;
    ensure!(host.real_power() == PowerState::Off, "we hold it still");
    w.stage.let_pod_go("plain-1").await?;
    w.back_by("plain-1", &[(IRONIC, OFF), (IRONIC, ON)]).await
}

async fn alone(w: &World) -> Result<()> {
    w.down.stop_operator();
    w.down.stop_ironic();
    w.hang("down-1")?;
    w.back_by("down-1", &[(AGENT, OFF), (AGENT, ON)]).await?;
    let (came, _) = w.witness.holds("down-1", HOLD)[0];
    let off = w.stage.commanded("down-1", OFF)?;
    let grace = off.saturating_duration_since(came);
    let least = GRACE - Duration::from_secs(1);
    ensure!(grace >= least, "the operator had only {grace:?}");
    // Back at work, they find it as it should be.
    w.down.start_ironic();
    w.down.start_operator();
    w.synced(&w.down, "down-1", 2).await?;
    w.stage.one_cycle("down-1")
}

/// Nobody tells Ironic that the host shall be off, so its sync switches it on: the one case in which
/// the hold alone does not keep a host off.
async fn forced(w: &World) -> Result<()> {
    let host = w.host("late-1")?;
    w.late.stop_operator();
    host.never_boots(true);
    w.stage.bind_pod("late-1", true).await?;
    host.wait_for(LONG, "runs its pod", |view| !view.pods.is_empty())
        .await?;
    w.hang("late-1")?;
    wait_until("Ironic forces it on", LONG, || async {
        let sent = w.late.sent("late-1")?;
        Ok(if sent.forced_ons > 0 {
            Ok(())
        } else {
            Err(format!("{sent:?}"))
        })
    })
    .await?;
    // Off again, whatever step it was at.
    let before = host.counters().offs;
    host.wait_for(LONG, "off again", |view| {
        view.counters.offs > before && view.power == PowerState::Off
    })
    .await?;
    w.late.start_operator();
    wait_until("Ironic knows that it is to be off", LONG, || async {
        let node = w.late.node("late-1")?;
        Ok(
            if node.power == Some(rackhand_tests::bmo::ironic::Power::Off) {
                Ok(())
            } else {
                Err(format!("{node:?}"))
            },
        )
    })
    .await?;
    let forced = w.late.sent("late-1")?.forced_ons;
    w.stage.wait_step("late-1", "Draining").await?;
    w.synced(&w.late, "late-1", 2).await?;
    let sent = w.late.sent("late-1")?;
    ensure!(sent.forced_ons == forced, "quiet once it knows: {sent:?}");
    ensure!(host.real_power() == PowerState::Off, "off");
    host.never_boots(false);
    w.stage.let_pod_go("late-1").await?;
    w.untainted("late-1").await?;
    w.stage.wait_back("late-1").await?;
    let counters = host.counters();
    ensure!(
        counters.ons >= 1 && counters.offs >= counters.ons,
        "{counters:?}"
    );
    let on = w.commands("late-1")?;
    ensure!(
        on.last() == Some(&(IRONIC.to_owned(), ON)),
        "the operator switches on: {on:?}"
    );
    Ok(())
}

/// As releases before v0.14 do while they provision.
async fn deleted(w: &World) -> Result<()> {
    let host = w.host("old-1")?;
    host.never_boots(true);
    w.draining("old-1").await?;
    w.provisioning("old-1", "provisioning").await?;
    wait_until("our key is deleted and comes back", LONG, || async {
        let holds = w.witness.holds("old-1", HOLD);
        Ok(if holds.len() >= 3 {
            Ok(())
        } else {
            Err(format!("{holds:?}"))
        })
    })
    .await?;
    w.provisioning("old-1", "provisioned").await?;
    w.stage.wait_warning("old-1", "HoldLost").await?;
    w.stage.wait_step("old-1", "Draining").await?;
    let steps = w.witness.steps("old-1");
    let confirmed = steps.iter().filter(|(_, step)| step == "ConfirmingOff");
    ensure!(confirmed.count() >= 2, "off confirmed again: {steps:?}");
    let bmh = w.stage.bare_metal_hosts().get("old-1").await?;
    let held = bmh.metadata.annotations.unwrap_or_default();
    ensure!(held.keys().any(|key| key.starts_with(HOLD)), "{held:?}");
    host.never_boots(false);
    w.stage.let_pod_go("old-1").await?;
    w.untainted("old-1").await?;
    w.stage.wait_back("old-1").await?;
    // An on that was cut short counts for none.
    let counters = host.counters();
    ensure!(
        counters.ons >= 1 && counters.offs >= counters.ons,
        "{counters:?}"
    );
    Ok(())
}

async fn backing_off(w: &World) -> Result<()> {
    w.ill.refusing("ill-1", true)?;
    w.draining("ill-1").await?;
    let sent = w.ill.sent("ill-1")?;
    ensure!(sent.offs == 0, "Ironic could not: {sent:?}");
    let seen = w.witness.of("BareMetalHost", "ill-1");
    let errors = seen
        .iter()
        .any(|record| record.object["status"]["errorCount"].as_u64() > Some(0));
    ensure!(errors, "the operator counts its errors");
    w.ill.refusing("ill-1", false)?;
    w.operational("ill-1", "OK").await?;
    w.stage.let_pod_go("ill-1").await?;
    w.back_by("ill-1", &[(AGENT, OFF), (IRONIC, ON)]).await
}

/// Without the operator Ironic does not know that the host is wanted on again, and undoes what the
/// agent did; once the operator is back, it is its turn.
async fn undone(w: &World) -> Result<()> {
    w.draining("away-1").await?;
    w.away.stop_operator();
    w.stage.let_pod_go("away-1").await?;
    wait_until("Ironic forces it off", LONG, || async {
        let sent = w.away.sent("away-1")?;
        Ok(if sent.forced_offs > 0 {
            Ok(())
        } else {
            Err(format!("{sent:?}"))
        })
    })
    .await?;
    w.away.start_operator();
    w.untainted("away-1").await?;
    w.stage.wait_back("away-1").await?;
    let commands = w.commands("away-1")?;
    ensure!(
        commands.contains(&(IRONIC.to_owned(), ON)),
        "the operator switches on: {commands:?}"
    );
    let steps = w.witness.steps("away-1");
    let again = steps.iter().any(|(_, step)| step == "Retrying");
    ensure!(!again, "an attempt was lost: {steps:?}");
    let counters = w.host("away-1")?.counters();
    ensure!(
        counters.ons >= 1 && counters.offs >= counters.ons,
        "{counters:?}"
    );
    w.stage.tainted_only_while_off(&w.witness, "away-1").await
}

/// The operator switches on late in its grace: the node that reports then is no other host's.
async fn slow(w: &World) -> Result<()> {
    w.draining("slow-1").await?;
    w.slow.stop_operator();
    w.stage.let_pod_go("slow-1").await?;
    wait_until("our hold goes", LONG, || async {
        let holds = w.witness.holds("slow-1", HOLD);
        Ok(if holds.len() == 2 {
            Ok(())
        } else {
            Err(format!("{holds:?}"))
        })
    })
    .await?;
    // After the last look but one, and early enough for the node to report within the grace.
    tokio::time::sleep(Duration::from_millis(6500)).await;
    w.slow.start_operator();
    w.back_by("slow-1", &[(IRONIC, OFF), (IRONIC, ON)]).await?;
    let steps = w.witness.steps("slow-1");
    let aborted = steps.iter().any(|(_, step)| step == "Aborting");
    ensure!(!aborted, "{steps:?} {:?}", w.witness.reasons("slow-1"));
    Ok(())
}

/// Nobody but us is left to switch on what Ironic forced off: the agent does, in the same attempt.
async fn off_again(w: &World) -> Result<()> {
    let host = w.host("again-1")?;
    w.draining("again-1").await?;
    w.alone.stop_operator();
    host.never_boots(true);
    w.stage.let_pod_go("again-1").await?;
    wait_until("Ironic forces it off", LONG, || async {
        let sent = w.alone.sent("again-1")?;
        Ok(if sent.forced_offs > 0 {
            Ok(())
        } else {
            Err(format!("{sent:?}"))
        })
    })
    .await?;
    w.alone.stop_ironic();
    host.never_boots(false);
    w.stage.wait_warning("again-1", "OffAgain").await?;
    w.untainted("again-1").await?;
    w.stage.wait_back("again-1").await?;
    let commands = w.commands("again-1")?;
    let last = commands.last().context("commands")?;
    ensure!(*last == (AGENT.to_owned(), ON), "{commands:?}");
    let steps = w.witness.steps("again-1");
    let again = steps.iter().any(|(_, step)| step == "Retrying");
    ensure!(!again, "an attempt was lost: {steps:?}");
    w.stage.tainted_only_while_off(&w.witness, "again-1").await
}
