//! The pods that really run on a host, and the record of all past ones.
//!
//! Owns: the real state that Kubernetes cannot observe: a hung host with power still runs its pods.
//! Must never: remove a record: records are only added and ended, so that a test can prove that no
//! identity ran in two places at once.

use std::collections::BTreeMap;
use std::time::Instant;

use jiff::Timestamp;

/// A time, on the monotonic clock and on the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Monotonic; the same clock for all hosts of a process.
    pub at: Instant,
    pub wall: Timestamp,
}

/// The pod that a process belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodIdentity {
    /// The pod's UID.
    pub uid: String,
    pub namespace: String,
    /// Its name; for a StatefulSet, the identity that must not run twice.
    pub name: String,
}

/// Reason why a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StopReason {
    /// The pod was deleted, and the kubelet stopped it.
    Deleted,
    /// The pod was removed from the API (a forced deletion), and the kubelet noticed.
    Vanished,
    /// The host lost power.
    PowerOff,
    /// The host was reset.
    Reset,
}

/// The processes of one pod on one host, from start to end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodProcess {
    pub pod: PodIdentity,
    /// Boot id of the host at that time.
    pub boot_id: String,
    /// Start time.
    pub started_at: Stamp,
    /// End time; `None` while it runs.
    pub stopped_at: Option<Stamp>,
    /// Reason of the end.
    pub why: Option<StopReason>,
}

/// The processes of one host.
#[derive(Clone, Debug, Default)]
pub struct ProcessTable {
    records: Vec<PodProcess>,
    running: BTreeMap<String, usize>,
}

impl ProcessTable {
    /// Starts the processes of a pod; `false` if they already run.
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

    /// Stops the processes of a pod; `false` if none ran.
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

    /// Stops everything; returns the stopped pods.
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

    /// The running processes, in order of start.
    pub fn running(&self) -> Vec<PodProcess> {
        self.records
            .iter()
            .filter(|record| record.stopped_at.is_none())
            .cloned()
            .collect()
    }

    /// All processes, in order of start.
    pub fn records(&self) -> &[PodProcess] {
        &self.records
    }
}

/// A process and its host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostProcess {
    /// The host's name.
    pub host: String,
    pub process: PodProcess,
}

/// One identity that ran on two hosts at the same time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overlap {
    /// The process that started first.
    pub first: HostProcess,
    /// The process that started before the first one had ended.
    pub second: HostProcess,
}

/// Every pair of processes of the same namespace and name whose run times overlap.
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
