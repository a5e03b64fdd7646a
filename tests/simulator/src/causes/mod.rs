//! Outages by chance, and what the judgement of shared causes makes of them: which it recognises, which
//! hosts are power-cycled in vain before, and which failures it holds that are none of an outage.
//!
//! Owns the generated outages and the figures. The judgement and the PowerPolicy are those of production;
//! failures reach them as Kubernetes reports them: a kubelet renews its Lease every 10 s, and the
//! controller manager looks every 5 s for Leases that are older than 50 s.

mod outage;
mod trial;

use std::{
    collections::BTreeMap,
    fmt,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use rackhand_core::fleet::shared_cause::{
    Domain, Failures, Judgement, OnTimeout, SharedCauseRules, judge,
};

use outage::Kind;
use trial::Trial;

/// Many outages of each kind.
#[derive(Debug, Clone, Copy)]
pub struct Causes {
    /// Seed of the random numbers.
    pub seed: u64,
    /// Outages of each kind, with each setting.
    pub trials: u32,
}

/// A health check and a policy.
#[derive(Debug, Clone, Copy)]
struct Setting {
    name: &'static str,
    /// From a Node that is not Ready to its remediation.
    check: Duration,
    settling: Duration,
}

const SETTINGS: [Setting; 3] = [
    Setting {
        name: "check 5 min, settling 15 s",
        check: Duration::from_secs(300),
        settling: Duration::from_secs(15),
    },
    Setting {
        name: "check 0 s, settling 15 s",
        check: Duration::ZERO,
        settling: Duration::from_secs(15),
    },
    Setting {
        name: "check 0 s, settling 0 s",
        check: Duration::ZERO,
        settling: Duration::ZERO,
    },
];

/// The rules of a policy with `sharedCauses: {}`, but for the settling time.
fn rules(settling: Duration) -> SharedCauseRules {
    SharedCauseRules {
        window: Duration::from_secs(120),
        min_hosts: 3,
        min_percent: 50,
        settling,
        hold: Duration::from_secs(900),
        recovery: Duration::from_secs(300),
        on_timeout: OnTimeout::Proceed,
    }
}

/// What came of the outages of one kind.
#[derive(Debug, Clone, Default)]
struct Figures {
    trials: u32,
    /// Outages for which a cause was found that contains most of their hosts.
    recognised: u32,
    /// Outages whose cause has the right name.
    named: u32,
    /// Outages of which the right thing was likely.
    likely: u32,
    /// From the first Node that is not Ready to the cause.
    delays: Vec<Duration>,
    /// Hosts of outages, and those that were power-cycled during the outage although no time was over.
    hosts: u32,
    cycled: u32,
    /// Hosts that failed for themselves, and those that a cause held.
    others: u32,
    held: u32,
    /// Causes that are no outage.
    invented: u32,
}

/// The figures of all kinds and settings.
#[derive(Debug)]
pub struct CausesReport {
    causes: Causes,
    rows: Vec<(&'static str, Kind, Figures)>,
    costs: Vec<Cost>,
}

/// How long the judgement of a large fleet takes.
#[derive(Debug)]
struct Cost {
    hosts: usize,
    failed: usize,
    /// A change of one Node, one judgement, and the look-up of one decision.
    change: Duration,
    judgement: Duration,
    decision: Duration,
}

impl Cost {
    /// Measures a fleet of `repeated` times the usual one, of which the first hosts have failed.
    fn of(repeated: usize, failed: usize) -> Self {
        let hosts = outage::HOSTS * repeated;
        let rules = rules(Duration::from_secs(15));
        let mut failures = Failures::default();
        for host in 0..hosts {
            let domains = Domain::of(&outage::placement(host, false));
            failures.place(&outage::host_name(host), domains);
        }
        let now = Timestamp::UNIX_EPOCH;
        let begun = Instant::now();
        for host in 0..failed {
            failures.fail(&outage::host_name(host), now, now);
        }
        let each = |took: Duration| took / u32::try_from(failed.max(1)).unwrap_or(u32::MAX);
        let change = each(begun.elapsed());
        let begun = Instant::now();
        let judgement = judge(
            &failures,
            &rules,
            &Judgement::default(),
            &BTreeMap::new(),
            now,
        );
        let judged = begun.elapsed();
        let begun = Instant::now();
        let held = (0..failed).filter(|host| {
            let name = outage::host_name(*host);
            judgement
                .hold(&failures, &rules, &name, true, now)
                .is_some()
        });
        let held = held.count();
        let decision = each(begun.elapsed());
        debug_assert_eq!(held, failed, "all are held");
        Self {
            hosts,
            failed,
            change,
            judgement: judged,
            decision,
        }
    }
}

impl Causes {
    /// Generates the outages and judges them.
    pub fn run(self) -> CausesReport {
        let mut rows = Vec::new();
        for setting in SETTINGS {
            for kind in Kind::ALL {
                let mut figures = Figures::default();
                for trial in 0..self.trials {
                    let seed = self.seed.wrapping_add(u64::from(trial));
                    Trial::new(kind, setting.check, rules(setting.settling), seed)
                        .run(&mut figures);
                }
                rows.push((setting.name, kind, figures));
            }
        }
        // 102,000 hosts, of which a rack, and of which all have failed.
        let costs = vec![
            Cost::of(85, outage::PER_RACK),
            Cost::of(85, outage::HOSTS * 85),
        ];
        CausesReport {
            causes: self,
            rows,
            costs,
        }
    }
}

impl fmt::Display for CausesReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Causes { seed, trials } = self.causes;
        writeln!(f, "{trials} outages of each kind, from seed {seed}")?;
        let mut shown = "";
        for (setting, kind, figures) in &self.rows {
            if *setting != shown {
                shown = setting;
                writeln!(f, "\n{setting}\n")?;
                writeln!(
                    f,
                    "| outage | recognised | named | likely right | median delay | hosts | power-cycled in vain | \
                     other failures | held wrongly | invented causes |"
                )?;
                writeln!(f, "|---|---|---|---|---|---|---|---|---|---|")?;
            }
            let percent = |part: u32, all: u32| match all {
                0 => "-".to_owned(),
                all => format!("{:.1} %", 100.0 * f64::from(part) / f64::from(all)),
            };
            let mut delays = figures.delays.clone();
            delays.sort_unstable();
            let median = delays.get(delays.len() / 2);
            writeln!(
                f,
                "| {} | {} | {} | {} | {} | {} | {} ({}) | {} | {} ({}) | {} |",
                kind.name(),
                percent(figures.recognised, outages(*kind, figures)),
                percent(figures.named, outages(*kind, figures)),
                percent(figures.likely, outages(*kind, figures)),
                median.map_or("-".to_owned(), |d| format!("{} s", d.as_secs())),
                figures.hosts,
                figures.cycled,
                percent(figures.cycled, figures.hosts),
                figures.others,
                figures.held,
                percent(figures.held, figures.others),
                figures.invented,
            )?;
        }
        writeln!(
            f,
            "\n| hosts | failed | change of a Node | judgement | decision |"
        )?;
        writeln!(f, "|---|---|---|---|---|")?;
        for cost in &self.costs {
            writeln!(
                f,
                "| {} | {} | {:.1?} | {:.1?} | {:.1?} |",
                cost.hosts, cost.failed, cost.change, cost.judgement, cost.decision
            )?;
        }
        Ok(())
    }
}

fn outages(kind: Kind, figures: &Figures) -> u32 {
    match kind {
        Kind::Independent => 0,
        _ => figures.trials,
    }
}
