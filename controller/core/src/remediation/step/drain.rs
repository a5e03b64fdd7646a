//! While the host is off: wait until the API has forgotten what ran there (F3, F4).

use super::{
    super::{Because, Drain, DrainBlocked, State, Step, Taint, TaintOwner, WorkloadView},
    Cx, Decision, Note,
    proof::Fresh,
};

impl Cx<'_> {
    /// Off until no pod and no volume is left. A Node that is gone has left its pods behind: they
    /// are waited for as well.
    pub(super) fn draining(&self, mut s: State) -> Decision {
        if let Some(d) = self.leave_hold(&s) {
            return d;
        }
        match &self.o.workload {
            WorkloadView::Unreachable { why } => {
                let because = Because::WorkloadUnreachable(why.clone());
                return self.watch_hold(s, because, None);
            }
            WorkloadView::NotJoined
            | WorkloadView::Missing { .. }
            | WorkloadView::ClusterGone { .. } => {}
            WorkloadView::Present(node) => {
                if let Some(d) = self
                    .other_node(&s, node)
                    .or_else(|| self.lease_renewed(&s, node))
                {
                    return d;
                }
                if node.taint == Taint::Absent {
                    // Taken off: through Tainting again, which proves off first.
                    s.taint = Some(TaintOwner::Us);
                    return self.to(s, Step::Tainting, Because::Tainting);
                }
            }
        }
        if let Fresh::On(seen) | Fresh::Unclear(seen) = self.power_now(&s) {
            return self.violated(s, &seen);
        }
        let left = match &self.o.drain {
            Some(drain) if drain.pods.is_empty() && drain.volumes.is_empty() => None,
            Some(drain) => Some(names(drain)),
            None => Some("pods and volumes".into()),
        };
        let late = self.late(&s, self.policy.drain_timeout);
        match (left, self.policy.drain_blocked) {
            // Where it stays off anyway there is nothing to hurry for.
            (Some(left), DrainBlocked::PowerOn) if late && !self.keeps_off(&s) => {
                self.drained(s, Some(left))
            }
            (Some(left), DrainBlocked::GiveUp) if late && self.withdrawn().is_none() => {
                self.give_up(s, left)
            }
            (Some(left), _) => {
                let because = if late {
                    Because::DrainBlocked(left)
                } else {
                    Because::Draining(left)
                };
                self.watch_hold(s, because, Some(self.policy.drain_poll))
            }
            (None, _) => self.drained(s, None),
        }
    }

    /// The last word before power-on is the BMC's: a host that came on in between may have started
    /// its pods again.
    fn drained(&self, mut s: State, left: Option<String>) -> Decision {
        let because = Because::Draining("the last look at the power state".into());
        if let Some(d) = self.not_off(&s, because) {
            return d;
        }
        s.drained = Some(self.now);
        if let Some(why) = self.offline() {
            return self.abort(s, why);
        }
        let note = match left {
            None => Note {
                warning: false,
                reason: "Drained",
                message: "no pod and no volume is left on the node".into(),
            },
            Some(left) => {
                let because = Because::DrainSkipped(left);
                Note {
                    warning: true,
                    reason: because.label(),
                    message: because.to_string(),
                }
            }
        };
        let mut d = self.after_off(s, Because::PowerOnRunning);
        d.notes.insert(0, note);
        d
    }

    /// The user's choice for a drain that never ends: no further attempt. What stands stays, since
    /// neither the taint nor the power may change while pods are left (F3, F4).
    fn give_up(&self, mut s: State, left: String) -> Decision {
        let because = Because::DrainGivenUp(left);
        if !s.is_recorded() {
            s.record_attempt(because.clone(), self.now);
        }
        s.ending = Some(because.clone());
        let mut d = self.to(s, Step::Fenced, because);
        for note in &mut d.notes {
            note.warning = true;
        }
        d
    }
}

/// How many names a message carries.
const NAMES: usize = 5;

fn names(drain: &Drain) -> String {
    let list = |one: &str, many: &str, names: &[String]| -> Option<String> {
        let shown: Vec<&str> = names.iter().take(NAMES).map(String::as_str).collect();
        let more = names.len().saturating_sub(NAMES);
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        let what = if names.len() == 1 { one } else { many };
        (!names.is_empty()).then(|| format!("{} {what} ({}{more})", names.len(), shown.join(", ")))
    };
    [
        list("pod", "pods", &drain.pods),
        list("volume", "volumes", &drain.volumes),
    ]
    .into_iter()
    .flatten()
    .collect::<Vec<_>>()
    .join(" and ")
}
