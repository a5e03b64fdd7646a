//! Many hosts that all fail at once, without kubelets and scheduler.
//!
//! `world.rs` contains the stand-ins for them. They help a remediation only in ways that a real cluster does.

mod world;

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use kube::{
    Api, ResourceExt,
    api::DynamicObject,
    runtime::{
        WatchStreamExt,
        watcher::{self, Event, watcher},
    },
};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::task::JoinSet;

use super::{ApiCalls, NAMESPACE, Stage, Usage, wait_until};
use crate::rack::{Action, Rule, SimHost};

/// Maximum number of concurrent calls of the test.
const AT_ONCE: usize = 32;
/// Timeout of all hosts together on a slow machine.
const PATIENCE: Duration = Duration::from_secs(900);
/// The step of a remediation that has ended well.
const SUCCEEDED: &str = "Succeeded";

/// The observed remediation of one host.
#[derive(Debug, Clone, Default)]
struct Track {
    steps: Vec<(Instant, String)>,
    reasons: BTreeSet<String>,
    /// The step that its object shows.
    shown: String,
    gone: bool,
}

impl Track {
    /// Whether it has ended well, and its object shows that.
    fn is_back(&self) -> bool {
        self.shown == SUCCEEDED && self.steps.last().is_some_and(|(_, step)| step == SUCCEEDED)
    }
}

#[derive(Default)]
struct Seen {
    tracks: Mutex<BTreeMap<String, Track>>,
    /// Number of taints of each Node.
    taints: Mutex<BTreeMap<String, u32>>,
    /// Nodes that were tainted while the host was not off.
    too_early: Mutex<Vec<String>>,
}

/// Many hosts of a stage.
pub struct Crowd<'a> {
    stage: &'a Stage,
    controller: String,
    hosts: Vec<SimHost>,
    machines: BTreeMap<String, String>,
    seen: Arc<Seen>,
    _tasks: JoinSet<()>,
}

/// The result of a round in which all hosts failed at once.
#[derive(Debug, Clone)]
pub struct Round {
    /// Hosts whose BMC is dead.
    pub dead: BTreeSet<String>,
    /// Times from the first remediation to the recovery of each host with a working BMC, the shortest first.
    pub live: Vec<Duration>,
    /// Durations of each step of these hosts, the shortest first.
    pub steps: Vec<(String, Vec<Duration>)>,
    /// Time until the last host with a dead BMC was reported.
    pub reported: Duration,
    /// API calls until the last host with a working BMC had recovered.
    pub calls: ApiCalls,
    /// Resource usage of the controller until then.
    pub controller: Usage,
    /// Resource usage of the agents until then.
    pub agents: Usage,
    /// Resource usage of the API server until then.
    pub api_server: Usage,
}

impl Round {
    /// The time within which this percentage of the hosts with working BMCs had recovered (nearest rank).
    #[must_use]
    pub fn within(&self, percent: usize) -> Duration {
        rank(&self.live, percent)
    }
}

impl std::fmt::Display for Round {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let seconds = |percent| self.within(percent).as_secs_f64();
        write!(
            f,
            "{} live hosts back: half within {:.1} s, 99 % {:.1} s, all {:.1} s; {} dead reported \
             after {:.1} s; controller {:.1} s CPU, {:.0} MiB at its peak; {} calls to the \
             management cluster, {} to the workload cluster",
            self.live.len(),
            seconds(50),
            seconds(99),
            seconds(100),
            self.dead.len(),
            self.reported.as_secs_f64(),
            self.controller.cpu.as_secs_f64(),
            self.controller.peak_mib(),
            self.calls.management,
            self.calls.workload,
        )
    }
}

/// The percentile of a sorted list (nearest rank).
#[must_use]
pub fn rank(sorted: &[Duration], percent: usize) -> Duration {
    let index = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(index).copied().unwrap_or_default()
}

impl<'a> Crowd<'a> {
    /// Writes the objects of all hosts of the stage and waits until their Nodes are Ready. `controller` is
    /// the controller whose usage is measured.
    ///
    /// # Errors
    /// The API server rejects an object.
    pub async fn start(stage: &'a Stage, controller: &str) -> Result<Self> {
        let racks = stage.config().racks.iter();
        let places = racks.flat_map(|spec| spec.hosts.iter().map(move |host| (spec, host)));
        let machines: BTreeMap<String, String> = stream::iter(places)
            .map(|(spec, host)| async move {
                let uid = stage.write_one(spec, host).await?;
                anyhow::Ok((host.clone(), uid))
            })
            .buffer_unordered(AT_ONCE)
            .try_collect()
            .await?;
        let hosts: Vec<SimHost> = stage
            .racks()
            .iter()
            .flat_map(|rack| rack.hosts().values().cloned())
            .collect();
        let seen = Arc::<Seen>::default();
        let mut tasks = JoinSet::new();
        for host in &hosts {
            tasks.spawn(world::kubelet(host.clone(), stage.client.clone()));
        }
        let noted = seen.clone();
        tasks.spawn(world::evict(
            stage.client.clone(),
            hosts.clone(),
            move |node, off| {
                *noted.taints.lock().entry(node.to_owned()).or_default() += 1;
                if !off {
                    noted.too_early.lock().push(node.to_owned());
                }
            },
        ));
        tasks.spawn(follow(stage.remediations(), seen.clone(), show));
        tasks.spawn(follow(stage.remediation_states(), seen.clone(), record));
        Ok(Self {
            stage,
            controller: controller.to_owned(),
            hosts,
            machines,
            seen,
            _tasks: tasks,
        })
    }

    /// Number of hosts.
    #[must_use]
    pub fn len(&self) -> usize {
        self.hosts.len()
    }

    /// Whether there are no hosts.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.hosts.is_empty()
    }

    /// Hangs all hosts, every `nth` with a BMC that accepts connections and never answers (0 for none), and
    /// creates all remediations at once. Waits until the hosts with working BMCs have recovered and the
    /// others are reported as FenceUnconfirmed.
    ///
    /// # Errors
    /// A host does not recover, or is not reported, in time.
    pub async fn fail(&self, nth: usize) -> Result<Round> {
        let client = &self.stage.client;
        self.seen.tracks.lock().clear();
        let is_dead = |index: usize| nth > 0 && index % nth == nth - 1;
        let mut dead = BTreeSet::new();
        for (index, host) in self.hosts.iter().enumerate() {
            ensure!(host.hang(), "{} was up", host.name());
            if is_dead(index) {
                host.inject(Rule::always(Action::Hang));
                dead.insert(host.name().to_owned());
            }
        }
        self.each(|name| async move {
            world::unknown(client, name).await?;
            world::bind_pod(client, name).await
        })
        .await?;
        let calls = self.stage.api_calls().await?;
        let controller = self.stage.usage_of_controller(&self.controller)?;
        let agents = self.stage.usage_of_agents()?;
        let api_server = self.stage.usage_of_api_server()?;
        let begun = Instant::now();
        self.each(|name| self.stage.create_remediation(name, &self.machines[name]))
            .await?;
        let living = |name: &str| !dead.contains(name);
        self.until("live hosts are back", |name, track| {
            !living(name) || track.is_back()
        })
        .await?;
        let mut round = Round {
            live: Vec::new(),
            steps: Vec::new(),
            reported: Duration::ZERO,
            calls: self.stage.api_calls().await?.since(&calls),
            controller: spent(
                self.stage.usage_of_controller(&self.controller)?,
                controller,
            ),
            agents: spent(self.stage.usage_of_agents()?, agents),
            api_server: spent(self.stage.usage_of_api_server()?, api_server),
            dead: dead.clone(),
        };
        self.until("dead BMCs are reported", |name, track| {
            living(name) || track.reasons.contains("FenceUnconfirmed")
        })
        .await?;
        round.reported = begun.elapsed();
        self.times(&mut round, begun);
        Ok(round)
    }

    fn times(&self, round: &mut Round, begun: Instant) {
        let tracks = self.seen.tracks.lock();
        let mut steps: BTreeMap<&str, Vec<Duration>> = BTreeMap::new();
        let mut order = Vec::new();
        for (_, track) in tracks
            .iter()
            .filter(|(name, _)| !round.dead.contains(*name))
        {
            let ends = track.steps.iter().skip(1).map(|(at, _)| *at);
            for ((at, step), end) in track.steps.iter().zip(ends) {
                if !order.contains(&step.as_str()) {
                    order.push(step);
                }
                steps.entry(step).or_default().push(end - *at);
            }
            if let Some((at, _)) = track.steps.last() {
                round.live.push(*at - begun);
            }
        }
        round.live.sort();
        for step in order {
            let mut took = steps.remove(step).unwrap_or_default();
            took.sort();
            round.steps.push((step.to_owned(), took));
        }
    }

    /// Makes the dead BMCs answer again, waits until their hosts have recovered too, then deletes all
    /// remediations and waits until they are gone.
    ///
    /// # Errors
    /// A host does not recover in time.
    pub async fn recover(&self) -> Result<()> {
        for host in &self.hosts {
            host.clear_faults();
        }
        self.until("all hosts are back", |_, track| track.is_back())
            .await?;
        self.each(|name| self.stage.withdraw(name)).await?;
        self.until("no remediation is left", |_, track| track.gone)
            .await
    }

    /// Checks that each host was switched off and on this many times, tainted as often and only while off,
    /// and that no taint or hold key is left.
    ///
    /// # Errors
    /// A host violates this; the message names it.
    pub async fn cycled(&self, times: u64) -> Result<()> {
        for host in &self.hosts {
            let (counters, name) = (host.counters(), host.name());
            let once = (counters.offs, counters.ons, counters.resets) == (times, times, 0);
            ensure!(once, "{name}: not {times} cycles: {counters:?}");
            let taints = self.seen.taints.lock().get(name).copied().unwrap_or(0);
            ensure!(
                u64::from(taints) == times,
                "{name} was tainted {taints} times"
            );
        }
        let early = self.seen.too_early.lock().clone();
        ensure!(early.is_empty(), "tainted while not off: {early:?}");
        let stage = self.stage;
        self.each(|name| async move {
            let left = stage.left_on(name).await?;
            ensure!(left.is_empty(), "left on {name}: {left:?}");
            Ok(())
        })
        .await
    }

    /// Checks that none of these hosts was commanded, tainted, or reported as finished.
    ///
    /// # Errors
    /// A host violates this; the message names it.
    pub fn untouched<'n>(&self, names: impl IntoIterator<Item = &'n String>) -> Result<()> {
        for name in names {
            self.stage.untouched(name)?;
            let tainted = self.seen.taints.lock().contains_key(name);
            ensure!(!tainted, "{name} was tainted");
        }
        Ok(())
    }

    async fn each<'s, F, Fut>(&'s self, act: F) -> Result<()>
    where
        F: Fn(&'s str) -> Fut,
        Fut: Future<Output = Result<()>>,
    {
        stream::iter(self.hosts.iter().map(|host| act(host.name())))
            .buffer_unordered(AT_ONCE)
            .try_collect::<Vec<()>>()
            .await
            .map(drop)
    }

    async fn until(&self, what: &str, done: impl Fn(&str, &Track) -> bool) -> Result<()> {
        wait_until(what, PATIENCE, || async {
            let tracks = self.seen.tracks.lock();
            let missing = self.hosts.iter().filter(|host| {
                let track = tracks.get(host.name());
                !track.is_some_and(|track| done(host.name(), track))
            });
            let missing: Vec<_> = missing.map(SimHost::name).collect();
            let Some(first) = missing.first() else {
                return Ok(Ok(()));
            };
            let how = tracks.get(*first);
            Ok(Err(format!(
                "not {} hosts, {first}: {how:?}",
                missing.len()
            )))
        })
        .await
    }
}

fn spent(after: Usage, before: Usage) -> Usage {
    Usage {
        cpu: after.cpu.saturating_sub(before.cpu),
        ..after
    }
}

/// Passes on every version of every object, and whether it is gone.
async fn follow(
    api: Api<DynamicObject>,
    seen: Arc<Seen>,
    note: impl Fn(&DynamicObject, bool, &mut BTreeMap<String, Track>),
) {
    let mut events = pin!(watcher(api, watcher::Config::default()).default_backoff());
    while let Some(event) = events.next().await {
        let (object, gone) = match event {
            Ok(Event::Apply(object) | Event::InitApply(object)) => (object, false),
            Ok(Event::Delete(object)) => (object, true),
            Ok(Event::Init | Event::InitDone) | Err(_) => continue,
        };
        note(&object, gone, &mut seen.tracks.lock());
    }
}

/// What the object of a remediation shows.
fn show(object: &DynamicObject, gone: bool, tracks: &mut BTreeMap<String, Track>) {
    let annotation = object.annotations().get("rackhand.dev/state");
    let copy: Value = annotation
        .and_then(|text| serde_json::from_str(text).ok())
        .unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let track = tracks.entry(object.name_any()).or_default();
    track.gone = gone;
    track.shown = text(&copy["state"]["step"]);
    track.reasons.insert(text(&copy["reason"]));
}

/// What is recorded about a remediation.
fn record(object: &DynamicObject, gone: bool, tracks: &mut BTreeMap<String, Track>) {
    let spec = &object.data["spec"];
    let (Some(name), Some(step)) = (spec["name"].as_str(), spec["state"]["step"].as_str()) else {
        return;
    };
    let track = tracks.entry(name.to_owned()).or_default();
    if !gone && track.steps.last().is_none_or(|(_, last)| last != step) {
        track.steps.push((Instant::now(), step.to_owned()));
    }
}
