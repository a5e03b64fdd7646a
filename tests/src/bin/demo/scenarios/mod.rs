//! Scenarios of one failure each: what happens, what Rackhand decides and why, and a verdict.
//!
//! A scenario ends with a verdict by the counters of the simulator, not by the printed lines.

mod agent_crash;
mod baremetal_operator;
mod blocked_drain;
mod controller_crash;
mod dead_bmc;
mod environment;
mod flashing;
mod label;
mod lying_bmc;
mod maintenance;
mod nodes;
mod pdu;
mod policy;
mod power_lost;
mod rack_outage;
mod ready_but_broken;

use std::{fmt::Write as _, future::Future, path::Path, pin::Pin, str::FromStr, time::Instant};

use anyhow::{Result, bail, ensure};
use rackhand_tests::stage::{HostLink, Recorder};

use self::environment::{Cluster, Environment, Settings};
use crate::{Shown, screen::Screen, story::Story};

type Run = for<'a> fn(Story<'a>) -> Pin<Box<dyn Future<Output = Result<()>> + 'a>>;

/// A scenario: one failure and its remediation.
#[derive(Debug)]
pub(crate) struct Scenario {
    name: &'static str,
    /// Description in the list.
    line: &'static str,
    /// Introduction for readers without prior knowledge.
    about: &'static str,
    settings: Settings,
    run: Run,
}

/// All scenarios.
static SCENARIOS: [Scenario; 15] = [
    Scenario {
        name: "dead-bmc",
        line: "a hung host with a dead BMC: nothing is moved until a person confirms off",
        about: dead_bmc::ABOUT,
        settings: Settings {
            arguments: &["--power-timeout=8s"],
            ..Settings::PLAIN
        },
        run: |story| Box::pin(dead_bmc::run(story)),
    },
    Scenario {
        name: "pdu",
        line: "a hung host with a dead BMC and two PDUs: its outlets are cut, then on again",
        about: pdu::ABOUT,
        settings: Settings {
            arguments: &["--power-timeout=8s"],
            has_pdus: true,
            ..Settings::PLAIN
        },
        run: |story| Box::pin(pdu::run(story)),
    },
    Scenario {
        name: "blocked-drain",
        line: "a pod and a volume that do not go: the host stays off and they are named",
        about: blocked_drain::ABOUT,
        settings: Settings {
            arguments: blocked_drain::ARGUMENTS,
            ..Settings::PLAIN
        },
        run: |story| Box::pin(blocked_drain::run(story)),
    },
    Scenario {
        name: "lying-bmc",
        line: "a BMC that reports \"off\" for a running host, or accepts and does nothing",
        about: lying_bmc::ABOUT,
        settings: Settings {
            arguments: &["--power-timeout=8s"],
            ..Settings::PLAIN
        },
        run: |story| Box::pin(lying_bmc::run(story)),
    },
    Scenario {
        name: "agent-crash",
        line: "kill -9 of the rack agent in the middle of a power-off: still one power-off",
        about: agent_crash::ABOUT,
        settings: Settings::PLAIN,
        run: |story| Box::pin(agent_crash::run(story)),
    },
    Scenario {
        name: "controller-crash",
        line: "kill -9 of the leading controller during a drain: the standby finishes it",
        about: controller_crash::ABOUT,
        settings: Settings {
            controllers: 2,
            ..Settings::PLAIN
        },
        run: |story| Box::pin(controller_crash::run(story)),
    },
    Scenario {
        name: "baremetal-operator",
        line: "beside baremetal-operator and Ironic: neither undoes what the other did",
        about: baremetal_operator::ABOUT,
        settings: Settings {
            link: HostLink::Managed,
            arguments: &["--cooperative-grace=10s", "--power-timeout=30s"],
            ..Settings::PLAIN
        },
        run: |story| Box::pin(baremetal_operator::run(story)),
    },
    Scenario {
        name: "nodes",
        line: "no Cluster API: a NodeHealthCheck tries a quick power cycle, then fences",
        about: nodes::ABOUT,
        settings: Settings {
            cluster: Cluster::Plain,
            ..Settings::PLAIN
        },
        run: |story| Box::pin(nodes::run(story)),
    },
    Scenario {
        name: "policy",
        line: "a PowerPolicy: held until a person approves, and during a payroll run",
        about: policy::ABOUT,
        settings: Settings::PLAIN,
        run: |story| Box::pin(policy::run(story)),
    },
    Scenario {
        name: "label",
        line: "a host that is ill and Ready: a label asks for one remediation, and is removed",
        about: label::ABOUT,
        settings: Settings {
            arguments: &["--remediation-triggers"],
            ..Settings::PLAIN
        },
        run: |story| Box::pin(label::run(story)),
    },
    Scenario {
        name: "ready-but-broken",
        line: "a host that is broken and Ready: its pods leave in order, then it is cut",
        about: ready_but_broken::ABOUT,
        settings: Settings::PLAIN,
        run: |story| Box::pin(ready_but_broken::run(story)),
    },
    Scenario {
        name: "flashing",
        line: "a hung host whose firmware is being written: not cut before that has ended",
        about: flashing::ABOUT,
        settings: Settings {
            reports_updates: true,
            ..Settings::PLAIN
        },
        run: |story| Box::pin(flashing::run(story)),
    },
    Scenario {
        name: "power-lost",
        line: "a host loses its power: noticed by its BMC; beside it, by Kubernetes' timers",
        about: power_lost::ABOUT,
        settings: Settings::PLAIN,
        run: |story| Box::pin(power_lost::run(story)),
    },
    Scenario {
        name: "maintenance",
        line: "a DIMM is changed: the host is emptied, off, lit, left alone, and comes back",
        about: maintenance::ABOUT,
        settings: Settings::PLAIN,
        run: |story| Box::pin(maintenance::run(story)),
    },
    Scenario {
        name: "rack-outage",
        line: "a rack goes dark: held with one reason for all, until a person decides",
        about: rack_outage::ABOUT,
        settings: Settings {
            cluster: Cluster::Large,
            ..Settings::PLAIN
        },
        run: |story| Box::pin(rack_outage::run(story)),
    },
];

/// The chosen scenarios.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Choice {
    List,
    All,
    One(&'static Scenario),
}

impl Choice {
    pub(crate) fn is_list(self) -> bool {
        matches!(self, Self::List)
    }
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "list" => Ok(Self::List),
            "all" => Ok(Self::All),
            name => {
                let found = SCENARIOS.iter().find(|scenario| scenario.name == name);
                let names: Vec<_> = SCENARIOS.iter().map(|scenario| scenario.name).collect();
                found
                    .map(Self::One)
                    .ok_or_else(|| format!("valid names: {}, all, list", names.join(", ")))
            }
        }
    }
}

/// The list of all scenarios with their descriptions.
pub(crate) fn list() -> String {
    let mut text = "Scenarios:".to_owned();
    for scenario in &SCENARIOS {
        write!(text, "\n  {:<20}{}", scenario.name, scenario.line).ok();
    }
    text
}

/// Runs one scenario, or all.
///
/// # Errors
/// The arguments cannot be combined.
pub(crate) async fn show(choice: Choice, keep: bool, dir: &Path) -> Result<Shown> {
    match choice {
        Choice::List => Ok(Shown::ended(Ok(()))),
        Choice::One(scenario) => Ok(one(scenario, keep, dir).await),
        Choice::All => {
            ensure!(!keep, "--keep needs a single scenario");
            Ok(Shown::ended(all(dir).await))
        }
    }
}

async fn all(dir: &Path) -> Result<()> {
    let screen = Screen::new();
    let mut lines = Vec::new();
    let mut wrong = Vec::new();
    for scenario in &SCENARIOS {
        let begun = Instant::now();
        let dir = dir.join(scenario.name);
        std::fs::create_dir_all(&dir)?;
        let outcome = one(scenario, false, &dir).await.outcome;
        let seconds = begun.elapsed().as_secs();
        let what = match &outcome {
            Ok(()) => "passed".to_owned(),
            Err(error) => format!("FAILED: {error:#}"),
        };
        lines.push(format!("  {:<20}{seconds:>4} s  {what}", scenario.name));
        if outcome.is_err() {
            wrong.push(scenario.name);
        }
    }
    screen.title("all scenarios:");
    screen.print(&lines.join("\n"));
    if !wrong.is_empty() {
        bail!("failed: {}", wrong.join(", "));
    }
    Ok(())
}

/// Runs one scenario. The last line is the result, except for the text that `keep` adds.
async fn one(scenario: &Scenario, keep: bool, dir: &Path) -> Shown {
    let screen = Screen::new();
    screen.title(&format!("{}: {}", scenario.name, scenario.line));
    for paragraph in scenario.about.split("\n\n") {
        screen.paragraph(paragraph);
    }
    let begun = Instant::now();
    let (environment, outcome) = match environment::start(&scenario.settings, dir).await {
        Ok(environment) => {
            let outcome = played(scenario, &environment).await;
            (Some(environment), outcome)
        }
        Err(error) => (None, Err(error)),
    };
    let seconds = begun.elapsed().as_secs();
    screen.title(&match &outcome {
        Ok(()) => format!("{}: passed ({seconds} s in all)", scenario.name),
        Err(error) => format!("{}: FAILED: {error:#}", scenario.name),
    });
    let kept = environment
        .map(|environment| environment.stage)
        .filter(|_| keep);
    if let Some(stage) = &kept {
        environment::explore(stage);
    }
    Shown {
        kept,
        ..Shown::ended(outcome)
    }
}

async fn played(scenario: &Scenario, environment: &Environment) -> Result<()> {
    let client = &environment.stage.client;
    let recorder = if environment.stage.config().plain {
        Recorder::of_nodes(client)
    } else {
        Recorder::start(client)
    };
    let story = Story::new(
        &environment.stage,
        &recorder,
        &environment.victim,
        &environment.pod,
    );
    let outcome = (scenario.run)(story).await;
    if let Err(error) = &outcome {
        let screen = Screen::new();
        screen.title(&format!("failed: {error:#}"));
        screen.print(&environment.stage.report().await);
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_is_listed_and_parsed_by_name() {
        let list = list();
        for scenario in &SCENARIOS {
            let found = scenario.name.parse::<Choice>();
            assert!(matches!(found, Ok(Choice::One(one)) if one.name == scenario.name));
            assert!(list.contains(scenario.name));
        }
        assert!(list.lines().all(|line| line.len() <= 100), "{list}");
        assert!(matches!("all".parse(), Ok(Choice::All)));
        assert!("list".parse::<Choice>().is_ok_and(Choice::is_list));
        let error = "dead".parse::<Choice>().unwrap_err();
        assert!(
            error.contains("dead-bmc") && error.contains("list"),
            "{error}"
        );
    }
}
