//! Prints a scenario: facts, reasons, and commands that show them.

mod messages;
mod rule;
mod verdict;

use std::{
    collections::BTreeSet, future::Future, path::PathBuf, pin::pin, process::Stdio, time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use kube::ResourceExt as _;
use rackhand_tests::{
    rack::SimHost,
    stage::{LONG, Recorder, Stage, wait_until},
};

use self::messages::message;
pub(crate) use self::{messages::PERSON, rule::Rule};
use crate::{
    fact::{Fact, Moment},
    screen::Screen,
    timeline::Timeline,
};

const POLL: Duration = Duration::from_millis(100);
/// Timeout of a shown command.
const COMMAND: Duration = Duration::from_secs(60);

/// Maximum length of a shown line of output.
const WIDEST: usize = 120;

/// The output of a running scenario.
pub(crate) struct Story<'a> {
    pub(crate) stage: &'a Stage,
    pub(crate) recorder: &'a Recorder,
    /// The host that fails; its Node and its Machine have the same name.
    pub(crate) victim: String,
    /// The pod on that host.
    pub(crate) pod: String,
    checks: Vec<(bool, String)>,
    screen: Screen,
    timeline: Timeline<'a>,
    /// Observed facts that an earlier, not yet observed fact may precede.
    held: Vec<Moment>,
    explained: BTreeSet<Rule>,
}

impl<'a> Story<'a> {
    pub(crate) fn new(stage: &'a Stage, recorder: &'a Recorder, victim: &str, pod: &str) -> Self {
        Self {
            stage,
            recorder,
            victim: victim.to_owned(),
            pod: pod.to_owned(),
            checks: Vec::new(),
            screen: Screen::new(),
            timeline: Timeline::new(stage, victim, pod),
            held: Vec::new(),
            explained: BTreeSet::new(),
        }
    }

    /// The host that fails.
    pub(crate) fn host(&self) -> Result<&'a SimHost> {
        self.stage.host(&self.victim)
    }

    /// Starts the clock, with a headline if there are several parts.
    pub(crate) fn begin(&mut self, headline: &str) {
        self.print(f64::INFINITY);
        self.timeline = Timeline::new(self.stage, &self.victim, &self.pod);
        self.screen.title(headline);
        self.screen.columns();
    }

    /// Prints an action of this moment.
    pub(crate) async fn line(&mut self, who: &str, what: &str) {
        self.tell_all().await;
        self.screen.told(self.timeline.now(), who, "", what);
    }

    /// Hangs the host of the victim, which keeps its power, and prints that.
    pub(crate) async fn hang_victim(&mut self, host: &SimHost) -> Result<()> {
        ensure!(host.hang(), "{} was not up", self.victim);
        let what = format!(
            "{} hangs: its kubelet is dead, but it has power and {} still runs",
            self.victim, self.pod
        );
        self.line("fault", &what).await;
        Ok(())
    }

    /// Prints the reason of a decision of Rackhand.
    pub(crate) fn why(&mut self, rule: Rule, text: &str) {
        self.explain(rule);
        self.screen.aside(&format!("why ({rule}): "), text);
    }

    /// Prints a note.
    pub(crate) fn note(&self, text: &str) {
        self.screen.aside("", text);
    }

    /// Prints a command, runs it, and prints its output.
    pub(crate) async fn see(&mut self, command: &str) -> Result<String> {
        self.tell_all().await;
        self.screen.quote("$ ", command);
        let (kubeconfig, bins) = (self.stage.plane().kubeconfig(), self.stage.binary("."));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::iter::once(bins).chain(std::env::split_paths(&path));
        let path = std::env::join_paths(path.collect::<Vec<PathBuf>>())?;
        let running = tokio::process::Command::new("sh")
            .args(["-c", command])
            .env("KUBECONFIG", kubeconfig)
            .env("PATH", path)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let output = tokio::time::timeout(COMMAND, running)
            .await
            .with_context(|| format!("no answer within {COMMAND:?}: {command}"))??;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        self.screen.quote("| ", &shortened(&said));
        ensure!(
            output.status.success(),
            "{command}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(said)
    }

    /// Prints all facts until `work` has ended.
    pub(crate) async fn during<T>(&mut self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let mut work = pin!(work);
        loop {
            self.tell().await;
            tokio::select! {
                done = &mut work => {
                    self.tell_all().await;
                    return done;
                }
                () = tokio::time::sleep(POLL) => {}
            }
        }
    }

    /// Prints all facts until the host has recovered, its pod runs elsewhere and nothing is left.
    pub(crate) async fn back(&mut self) -> Result<()> {
        let (stage, victim, pod) = (self.stage, self.victim.clone(), self.pod.clone());
        self.during(async move {
            stage.wait_back(&victim).await?;
            runs_elsewhere(stage, &pod, &victim).await.map(drop)
        })
        .await
    }

    /// Prints the facts up to the last poll. Later facts are held back, because the next poll may find
    /// earlier ones.
    async fn tell(&mut self) {
        let until = self.timeline.now();
        let seen = self.timeline.look().await;
        self.held.extend(seen);
        self.print(until);
    }

    /// Prints all held facts.
    async fn tell_all(&mut self) {
        let seen = self.timeline.look().await;
        self.held.extend(seen);
        self.print(f64::INFINITY);
    }

    fn print(&mut self, until: f64) {
        for moment in taken(&mut self.held, until) {
            let Some(message) = message(&moment.fact) else {
                continue;
            };
            let rule = message
                .rule
                .map(|rule| rule.to_string())
                .unwrap_or_default();
            self.screen
                .told(moment.at, message.who, &rule, &message.what);
            if let Some(rule) = message.rule {
                self.explain(rule);
            }
        }
    }

    /// Prints the text of a rule, once.
    fn explain(&mut self, rule: Rule) {
        if self.explained.insert(rule) {
            self.screen.aside(&format!("rule {rule}: "), rule.text());
        }
    }
}

/// Takes the facts up to this time, in order, causes first; later facts stay.
fn taken(held: &mut Vec<Moment>, until: f64) -> Vec<Moment> {
    let times = held.iter().map(|cause| {
        let effects = held.iter().filter(|told| cause.fact.causes(&told.fact));
        effects.map(|told| told.at).fold(cause.at, f64::min)
    });
    let times: Vec<f64> = times.collect();
    for (moment, at) in held.iter_mut().zip(times) {
        moment.at = at;
    }
    // Of two facts at the same time, an Event is the later one.
    let told = |fact: &Fact| matches!(fact, Fact::Event { .. } | Fact::CheckEvent { .. });
    held.sort_by(|a, b| {
        let at_once = || told(&a.fact).cmp(&told(&b.fact));
        a.at.total_cmp(&b.at).then_with(at_once)
    });
    let later = held.split_off(held.partition_point(|moment| moment.at <= until));
    std::mem::replace(held, later)
}

/// Cuts long lines.
fn shortened(text: &str) -> String {
    let line = |line: &str| match line.char_indices().nth(WIDEST) {
        Some((at, _)) => format!("{}...", line.get(..at).unwrap_or(line)),
        None => line.to_owned(),
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// Waits until a pod runs on another host than this; returns that host.
pub(crate) async fn runs_elsewhere(stage: &Stage, pod: &str, not_on: &str) -> Result<String> {
    wait_until(&format!("{pod} runs elsewhere"), LONG, || async {
        let pods = stage.pods().await?;
        let Some(found) = pods.iter().find(|p| p.name_any() == pod) else {
            return Ok(Err("it does not exist".to_owned()));
        };
        let status = found.status.as_ref();
        let phase = status.and_then(|s| s.phase.as_deref()).unwrap_or_default();
        let node = found.spec.as_ref().and_then(|s| s.node_name.as_deref());
        let stays = found.metadata.deletion_timestamp.is_none();
        Ok(match node.filter(|node| *node != not_on) {
            Some(node) if phase == "Running" && stays => Ok(node.to_owned()),
            _ => Err(format!("{phase} on {node:?}")),
        })
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::{WIDEST, shortened, taken};
    use crate::fact::{Fact, Moment};

    #[test]
    fn late_moments_are_shown_in_time_order() {
        let moment = |at| Moment {
            at,
            fact: Fact::PoweredOn(true),
        };
        let mut held = vec![moment(2.0), moment(5.0)];
        assert_eq!(taken(&mut held, 3.0), [moment(2.0)]);
        held.push(moment(4.0));
        assert_eq!(taken(&mut held, f64::INFINITY), [moment(4.0), moment(5.0)]);
        assert!(held.is_empty());
    }

    #[test]
    fn late_cause_is_shown_before_its_effect() {
        let ready = |at, status: &str| Moment {
            at,
            fact: Fact::Ready {
                node: "a".into(),
                status: status.into(),
            },
        };
        let removed = Moment {
            at: 4.0,
            fact: Fact::CheckEvent {
                reason: "RemediationRemoved".into(),
                note: String::new(),
            },
        };
        let mut held = vec![removed.clone(), ready(5.0, "True")];
        let told = taken(&mut held, 4.5);
        assert_eq!(told, [ready(4.0, "True"), removed.clone()]);
        let mut held = vec![removed.clone(), ready(5.0, "Unknown")];
        assert_eq!(taken(&mut held, 4.5), [removed]);
    }

    #[test]
    fn long_lines_are_cut_with_dots() {
        let long = "ä".repeat(WIDEST + 1);
        let wanted = format!("short\n{}...", "ä".repeat(WIDEST));
        assert_eq!(shortened(&format!("short\n{long}\n")), wanted);
    }
}
