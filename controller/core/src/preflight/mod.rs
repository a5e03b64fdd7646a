//! What must be right before remediation can work, evaluated from gathered facts.
//!
//! Each rule is a function of one kind of facts and gives rows. A row that failed says what to do.

mod cluster;
mod evaluation;
mod facts;
mod identity;
mod persons;
mod racks;
mod rights;
mod watches;

use jiff::Timestamp;
use serde::Serialize;

pub use facts::{
    AgentFacts, AgentProbe, CheckFacts, CheckKind, ClockFacts, ClusterFacts, Facts, HoldTrial,
    HostCheck, HostFacts, KindFacts, LeaderFacts, Manager, ManagerFacts, NodeIdentity, NodesFacts,
    PersonsPolicy, ReportedIdentity, RightFacts, RightsFacts, TargetFacts, WatchFacts, WatchTrial,
};
pub use rights::{Need, OWN_NAMESPACE, RIGHTS, Right, Role};

/// The result of one check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// The check passed.
    Ok,
    /// Remediation works, but somebody should look at it.
    Warning,
    /// Remediation does not work, or not safely.
    Failed,
    /// Not checked; the message says why.
    Skipped,
}

impl Status {
    /// The status in tables.
    pub fn label(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "WARNING",
            Self::Failed => "FAILED",
            Self::Skipped => "skipped",
        }
    }
}

/// One thing that was checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    /// The name of the check.
    pub check: &'static str,
    /// What was checked: a cluster, a host, an agent.
    pub target: String,
    /// Whether the check passed.
    pub status: Status,
    /// What was found, for people.
    pub message: String,
    /// What to do; never empty if the check failed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub remedy: String,
}

impl Row {
    fn ok(check: &'static str, target: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            check,
            target: target.into(),
            status: Status::Ok,
            message: message.into(),
            remedy: String::new(),
        }
    }

    fn skipped(check: &'static str, target: impl Into<String>, why: impl Into<String>) -> Self {
        Self {
            status: Status::Skipped,
            ..Self::ok(check, target, why)
        }
    }

    fn warning(
        check: &'static str,
        target: impl Into<String>,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            status: Status::Warning,
            remedy: remedy.into(),
            ..Self::ok(check, target, message)
        }
    }

    fn failed(
        check: &'static str,
        target: impl Into<String>,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            status: Status::Failed,
            remedy: remedy.into(),
            ..Self::ok(check, target, message)
        }
    }
}

/// Everything that was checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The time that it is evaluated for.
    pub now: Timestamp,
    /// The rows, in the order of the checks.
    pub rows: Vec<Row>,
}

impl Report {
    /// Number of rows with this status.
    pub fn count(&self, status: Status) -> usize {
        self.rows.iter().filter(|row| row.status == status).count()
    }
}

/// Evaluates every check.
pub fn evaluate(facts: &Facts, now: Timestamp) -> Report {
    let installed = facts.is_installed();
    let mut rows = vec![cluster::leader(&facts.leader, installed)];
    rows.extend(facts.clusters.iter().flat_map(cluster::cluster));
    rows.extend(cluster::kinds(&facts.kinds));
    rows.extend(watches::watches(&facts.watches));
    rows.extend(cluster::rights(&facts.rights, facts, installed));
    rows.push(persons::words(
        facts.words,
        &facts.persons_policy,
        installed,
    ));
    rows.extend(evaluation::managers(&facts.managers));
    rows.extend(evaluation::hold(facts.hold.as_ref()));
    rows.extend(evaluation::checks(&facts.checks, &facts.managers));
    rows.extend(racks::own_certificate(facts.own_certificate.as_ref(), now));
    rows.extend(racks::agents(&facts.agents, now));
    let of_racks = facts.agents.iter().map(|agent| agent.rack.as_str());
    rows.extend(racks::targets(&facts.targets, &of_racks.collect()));
    rows.extend(racks::hosts(&facts.hosts, &facts.targets));
    rows.extend(identity::identities(&facts.targets, &facts.hosts));
    rows.extend(cluster::clocks(&facts.clocks));
    Report { now, rows }
}

#[cfg(test)]
mod tests;
