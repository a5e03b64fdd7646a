//! Which pods really run on a host, and the record of all that ever did.
//!
//! Owns the truth that Kubernetes cannot see: a hung host with power still runs its pods. Must
//! never forget: records are only added and ended, so that a test can prove afterwards that no
//! identity ran in two places at once.

use std::collections::BTreeMap;
use std::time::Instant;

use jiff::Timestamp;

/// A moment, on the clock that orders and on the clock that people read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Monotonic; the same clock for all hosts of a process.
    pub at: Instant,
    pub wall: Timestamp,
}

/// Which pod a process belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodIdentity {
    /// The pod's UID.
    pub uid: String,
    pub namespace: String,
    /// Its name; for a StatefulSet, the identity that must not exist twice.
    pub name: String,
}

/// Why a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StopReason {
    /// The pod was deleted and the kubelet ended it.
    Deleted,
    /// The pod vanished from the API (a forced deletion) and the kubelet noticed.
    Vanished,
    /// The host lost power.
    PowerOff,
    /// The host was reset.
    Reset,
}

/// One pod's processes on one host, from start to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodProcess {
    pub pod: PodIdentity,
    /// The boot of the host that it runs in.
    pub boot_id: String,
    /// When it began.
    pub started_at: Stamp,
    /// When it ended; none while it runs.
    pub stopped_at: Option<Stamp>,
    /// Why it ended.
    pub why: Option<StopReason>,
}

/// The processes of one host.
#[derive(Clone, Debug, Default)]
pub struct ProcessTable {
    records: Vec<PodProcess>,
    running: BTreeMap<String, usize>,
}

impl ProcessTable {
    /// A pod's processes begin; false if they run already.
    pub fn start(&mut self, pod: PodIdentity, boot_id: &str, now: Stamp) -> bool {
        if self.running.contains_key(&pod.uid) {
            return false;
        }
        self.running.insert(pod.uid.clone(), self.records.len());
        self.records.push(PodProcess {
            pod,
            boot_id: boot_id.to_owned(),
            started_at: now,
            stopped_at: None,
            why: None,
        });
        true
    }

    /// A pod's processes end; false if none ran.
    pub fn stop(&mut self, uid: &str, now: Stamp, why: StopReason) -> bool {
        let Some(index) = self.running.remove(uid) else {
            return false;
        };
        if let Some(record) = self.records.get_mut(index) {
            record.stopped_at = Some(now);
            record.why = Some(why);
        }
        true
    }

    /// Everything ends; gives what ended.
    pub fn stop_all(&mut self, now: Stamp, why: StopReason) -> Vec<PodIdentity> {
        let ended = self
            .running()
            .into_iter()
            .map(|process| process.pod)
            .collect();
        for index in std::mem::take(&mut self.running).into_values() {
            if let Some(record) = self.records.get_mut(index) {
                record.stopped_at = Some(now);
                record.why = Some(why);
            }
        }
        ended
    }

    /// Whether a pod's processes run.
    pub fn is_running(&self, uid: &str) -> bool {
        self.running.contains_key(uid)
    }

    /// What runs now, in order of start.
    pub fn running(&self) -> Vec<PodProcess> {
        self.records
            .iter()
            .filter(|record| record.stopped_at.is_none())
            .cloned()
            .collect()
    }

    /// All that ever ran, in order of start.
    pub fn records(&self) -> &[PodProcess] {
        &self.records
    }
}

/// A process and the host it ran on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostProcess {
    /// The host's name.
    pub host: String,
    pub process: PodProcess,
}

/// One identity that ran twice at the same time: what must never happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlap {
    /// The one that began first.
    pub first: HostProcess,
    /// The one that began before the first had ended.
    pub second: HostProcess,
}

/// Every pair of processes of the same namespace and name whose times overlap.
pub fn overlaps(processes: Vec<HostProcess>) -> Vec<Overlap> {
    let mut by_name: BTreeMap<(String, String), Vec<HostProcess>> = BTreeMap::new();
    for one in processes {
        let pod = &one.process.pod;
        by_name
            .entry((pod.namespace.clone(), pod.name.clone()))
            .or_default()
            .push(one);
    }
    let mut found = Vec::new();
    for mut same in by_name.into_values() {
        same.sort_by_key(|one| one.process.started_at.at);
        for (index, first) in same.iter().enumerate() {
            for second in same.iter().skip(index + 1) {
                let ended = first.process.stopped_at.map(|stamp| stamp.at);
                if ended.is_none_or(|ended| second.process.started_at.at < ended) {
                    found.push(Overlap {
                        first: first.clone(),
                        second: second.clone(),
                    });
                }
            }
        }
    }
    found
}
