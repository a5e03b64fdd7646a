//! A path through the world of health checks as a story, one line for each action.

use super::{
    Action, Fault, Setting, Watch,
    engine::Task,
    objects::{CHECKS, MACHINES},
    world::{World, Wrong},
};

/// Tells a path.
pub fn tell(path: &[(World, Option<Action>)], setting: &Setting) -> Vec<String> {
    let mut lines = Vec::new();
    for (w, action) in path {
        if let Some(action) = action {
            let next = setting.next(w, *action);
            lines.push(line(w, &next, *action));
        } else if let Some(wrong) = w.wrong {
            lines.push(wrong_line(wrong).into());
        }
    }
    lines
}

fn line(w: &World, next: &World, action: Action) -> String {
    let what = match action {
        Action::Deliver(watch) => delivery(w, watch),
        Action::Call(place) => call(w, place),
        Action::Heal(place) => format!(
            "The remediation of {} succeeds: its Node is Ready.",
            MACHINES[place]
        ),
        Action::Gone(name) => format!("The remediation of {name} is gone."),
        Action::ConfirmAbsent(place) => format!(
            "A live read confirms that the Node of {} is gone.",
            MACHINES[place]
        ),
        Action::Fail(place) => format!("The Node of {} fails.", MACHINES[place]),
        Action::Time => "Time passes until something is due.".into(),
        Action::Fault(fault, place) => format!("FAULT: {}", fault_line(w, fault, place)),
    };
    let begun: Vec<String> = next
        .engine
        .tasks
        .iter()
        .filter(|task| !w.engine.tasks.contains(task))
        .map(task_words)
        .collect();
    if begun.is_empty() {
        what
    } else {
        format!("{what} The engine begins to {}.", begun.join(", and to "))
    }
}

fn wrong_line(wrong: Wrong) -> &'static str {
    match wrong {
        Wrong::Limit => {
            "So a machine is remediated although the limit has been exceeded since before the live read."
        }
        Wrong::TooMany => "So more machines are remediated at one time than the limit allows.",
        Wrong::Healthy => {
            "So a machine is remediated that has been healthy since before the live read."
        }
        Wrong::Burst => {
            "So the first machine of a burst is not held back until the burst has arrived."
        }
        Wrong::Two => "So one machine has two remediations.",
        Wrong::Withdrawn => "So a remediation is withdrawn that a live check wants.",
        Wrong::Unsettled => {
            "Nothing happens any more, and a remediation is left, or one is missing."
        }
    }
}

fn delivery(w: &World, watch: Watch) -> String {
    let api = &w.api;
    let change = match watch {
        Watch::Checks => api
            .checks
            .pending
            .front()
            .map(|(name, _, _, value)| (*name, value.is_some())),
        Watch::Machines => api
            .machines
            .pending
            .front()
            .map(|(name, _, _, value)| (*name, value.is_some())),
        Watch::Nodes => {
            return match api.nodes.pending.front() {
                Some((name, _, _, Some(true))) => {
                    format!("The watch shows that the Node of {name} is Ready.")
                }
                Some((name, _, _, Some(false))) => {
                    format!("The watch shows that the Node of {name} is not Ready.")
                }
                Some((name, _, _, None)) => {
                    format!("The watch shows that the Node of {name} is deleted.")
                }
                None => "The watch of Nodes shows nothing.".into(),
            };
        }
        Watch::Remediations => api
            .remediations
            .pending
            .front()
            .map(|(name, _, _, value)| (*name, value.is_some())),
    };
    let kind = match watch {
        Watch::Checks => "check",
        Watch::Machines => "machine",
        Watch::Nodes => "Node",
        Watch::Remediations => "remediation of",
    };
    match change {
        Some((name, true)) => format!("The watch shows {kind} {name} as it is now."),
        Some((name, false)) => format!("The watch shows that {kind} {name} is deleted."),
        None => format!("The watch of {kind} shows nothing."),
    }
}

fn task_words(task: &Task) -> String {
    match task {
        Task::Create(item, _) => {
            format!("create a remediation of {} for {}", item.member, item.check)
        }
        Task::Delete(item, _) => format!("delete the remediation of {}", item.member),
        Task::Withdraw(name, _, false) => {
            format!("read whether a live check stands behind the remediation of {name}")
        }
        Task::Withdraw(name, _, true) => format!("withdraw the remediation of {name}"),
        Task::Read(read, None) => format!("read live what feeds {}", read.check),
        Task::Read(read, Some(_)) => {
            format!("wait until the view of {} has caught up", read.check)
        }
    }
}

fn call(w: &World, place: usize) -> String {
    match w.engine.tasks.get(place) {
        Some(task) => format!("Served and answered: {}.", task_words(task)),
        None => "No call is served.".into(),
    }
}

fn fault_line(w: &World, fault: Fault, place: usize) -> String {
    let machine = MACHINES[place.min(MACHINES.len() - 1)];
    let task = w.engine.tasks.get(place).map(task_words);
    let task = task.unwrap_or_default();
    match fault {
        Fault::Takeover => "another process takes over with the same view.".into(),
        Fault::TakeoverBehind => {
            "another process takes over, whose watches have shown nothing since the beginning."
                .into()
        }
        Fault::Lost => format!("the call to {task} fails."),
        Fault::AnswerLost => format!("the call to {task} takes effect, and its answer is lost."),
        Fault::ReadFails => format!("the attempt to {task} is given up."),
        Fault::Delay => "calls are slow: time passes until something is due.".into(),
        Fault::Recovered => format!("the Node of {machine} is Ready again by itself."),
        Fault::NodeDeleted => format!("the Node of {machine} is deleted."),
        Fault::MachineDeleted => format!("machine {machine} and its Node are deleted."),
        Fault::CheckDeleted(check) => format!("{} is deleted.", CHECKS[check]),
        Fault::CheckNarrowed(check) => {
            format!("{} selects {} no more.", CHECKS[check], MACHINES[0])
        }
        Fault::LimitZero => format!("the limit of {} is lowered to 0.", CHECKS[0]),
        Fault::CheckCreated => format!(
            "{} is created, which makes the same remediations.",
            CHECKS[1]
        ),
    }
}
