//! A path through the world as a story, one line for each action.

use rackhand_agent_core::ledger::RecordedOutcome;
use rackhand_core::remediation::{Command, Next, PowerState, Taint};

use crate::remediation::{
    actions::{Action, Fault},
    observe::decide,
    setting::Setting,
    world::{
        Power, World,
        operation::{Phase, is_interrupt},
        outlets::is_of_outlets,
    },
};

/// The lines of a path.
pub fn tell(path: &[(World, Option<Action>)], setting: &Setting) -> Vec<String> {
    let steps = path.iter().filter_map(|(w, action)| Some((w, (*action)?)));
    steps.map(|(w, action)| line(w, action, setting)).collect()
}

fn line(w: &World, action: Action, setting: &Setting) -> String {
    match action {
        Action::Decide => decision(w, setting),
        Action::Carry => carried(w),
        Action::Claim => "The new controller claims its term at the agent.".into(),
        Action::Late => late(w, setting),
        Action::Agent => agent(w),
        Action::Power => match w.host.power {
            Power::GoingOff(_) => "The host goes off.".into(),
            _ => "The host gets power and boots.".into(),
        },
        Action::Boot if w.pod.bound => {
            "The host has booted, and its kubelet starts the pod.".into()
        }
        Action::Boot => "The host has booted.".into(),
        Action::Operator if w.hold == Some(false) => {
            "baremetal-operator finds no hold, copies Ironic's state and requests on.".into()
        }
        Action::Operator => {
            "baremetal-operator finds our hold, copies Ironic's state and requests off.".into()
        }
        Action::Force if w.owner.stored => "Ironic forces the host on.".into(),
        Action::Force => "Ironic forces the host off.".into(),
        Action::Evict => "The kubelet stops the pod because of the taint.".into(),
        Action::ForceDelete => {
            "Kubernetes deletes the pod, because the Node is out of service.".into()
        }
        Action::Detach if w.pod.process => {
            "Kubernetes detaches the volume and starts the pod on another host, while it still runs on \
             ours."
                .into()
        }
        Action::Detach => {
            "Kubernetes detaches the volume and starts the pod on another host.".into()
        }
        Action::PodEnds => "The kubelet ends the pod that was evicted.".into(),
        Action::BudgetPermits => "The budget of the pod permits its eviction.".into(),
        Action::Renew => "The kubelet renews its Lease.".into(),
        Action::Report => "The kubelet reports its first status of this boot.".into(),
        Action::Watch => "The watch shows that the Node has changed.".into(),
        Action::Unheard => "The control plane no longer hears the kubelet.".into(),
        Action::BackUp => "A backup of the management cluster is made.".into(),
        Action::LeftHold => {
            "The controller deals with the hold that the ended remediation has left at the agent.".into()
        }
        Action::Answers => "The BMC answers again.".into(),
        Action::WorkloadAnswers => "The workload API answers again.".into(),
        Action::FlashEnds => "The update of firmware ends.".into(),
        Action::Learns => "The BMC learns whether its host is on.".into(),
        Action::PduAnswers => "The PDU answers again.".into(),
        Action::SiblingAnswers => {
            "The BMC of the other host of the outlets answers again.".into()
        }
        Action::Time => "Time passes until the next deadline.".into(),
        Action::Fault(fault) => format!("FAULT: {}", fault_line(w, fault)),
    }
}

fn fault_line(w: &World, fault: Fault) -> String {
    let what = match fault {
        Fault::Crash => "the controller crashes and forgets what is not written.",
        Fault::Lost => return format!("{}, but it fails.", carried(w).trim_end_matches('.')),
        Fault::AnswerLost => {
            return format!(
                "{}, but it does not learn so.",
                carried(w).trim_end_matches('.')
            );
        }
        Fault::Delay => "everybody is slow: time passes until the next deadline.",
        Fault::AgentRestart => "the agent is restarted; its operation is interrupted.",
        Fault::JournalWiped => "the agent loses its journal, and its operations with it.",
        Fault::Silent => "the BMC stops answering.",
        Fault::BmcReset => "the BMC is reset and takes its host for off, whatever that does.",
        Fault::BmcResetAtOff => {
            "the agent reads on; then the BMC is reset, and refuses the power-off as already off."
        }
        Fault::Deposed => {
            return format!(
                "{}; the call is on its way, the controller is suspended, and another one leads.",
                carried(w).trim_end_matches('.')
            );
        }
        Fault::Button => "somebody switches the host on.",
        Fault::HoldRemoved => "somebody removes our hold.",
        Fault::Deleted => "the remediation is deleted.",
        Fault::NodeReplaced => "the Node is replaced by another one of the same name.",
        Fault::FlashBegins => "an update of the firmware of the host begins.",
        Fault::Recovers => "the kubelet that hangs goes on.",
        Fault::Hangs => "the kubelet hangs.",
        Fault::Cordoned => "a person cordons the Node.",
        Fault::PodReturns => "a person removes the cordon, and the pod comes back if it has left.",
        Fault::GivenUp => "whoever made the remediation gives it up.",
        Fault::AskedOff => "a person has the host switched that was to be left on.",
        Fault::Renamed => "the kubelet registers under another name from its next boot on.",
        Fault::EarlyConfirmation => {
            "somebody confirms that the host is off, unasked, and it is not."
        }
        Fault::Restored => "the etcd of the management cluster is restored from the backup.",
        Fault::PduSilent => "the PDU of the second outlet stops answering.",
        Fault::OutletOn => "somebody switches an outlet on.",
        Fault::SiblingOn => "an operator switches the other host of the outlets on.",
        Fault::SiblingOff => "an operator switches the other host of the outlets off.",
        Fault::SiblingLost => {
            "the other host of the outlets is switched on by its button, and its BMC stops answering."
        }
        Fault::Person => "a person switches the host off by hand and confirms it.",
    };
    what.into()
}

fn decision(w: &World, setting: &Setting) -> String {
    let (_, _, d) = decide(w, setting.breakage);
    let step = w
        .object
        .state
        .as_ref()
        .map_or("no state", |s| s.step.label());
    let what = match &d.next {
        Next::Write
            if w.object
                .state
                .as_ref()
                .is_some_and(|s| s.step == d.state.step) =>
        {
            "wants to write its state".into()
        }
        Next::Write => format!("wants to go on to {}", d.state.step.label()),
        Next::Do(command) => format!("wants to {}", command_words(command)),
        Next::Wait(_) => "waits".into(),
        Next::Done(outcome) => format!("ends: {outcome:?}"),
    };
    format!("[{step}] The controller {what} ({}).", d.reason)
}

fn late(w: &World, setting: &Setting) -> String {
    let what = w.late.as_ref().map(|late| match &late.next {
        Next::Do(command) => command_words(command),
        _ => "write the state".into(),
    });
    let next = w.clone().next(Action::Late, setting.breakage);
    let (before, after) = (
        (&w.object, &w.node, w.hold, &w.agent),
        (&next.object, &next.node, next.hold, &next.agent),
    );
    let result = if before == after {
        "is refused, or changes nothing"
    } else {
        "is carried out"
    };
    format!(
        "The late call of the deposed controller, to {}, arrives and {result}.",
        what.unwrap_or_default()
    )
}

fn carried(w: &World) -> String {
    match w.process.held.as_ref().map(|h| (&h.next, &h.state)) {
        Some((Next::Write, s)) => {
            format!("The controller writes its state, step {}.", s.step.label())
        }
        Some((Next::Do(command), _)) => {
            let word = match (command, w.read_bmc()) {
                (Command::ReadPower, Some(state)) => format!("; it reports {}", word(state)),
                (Command::ReadPower, None) => "; it does not answer".into(),
                (Command::AddTaint, _) if w.node.taint == Taint::Ours => "; it is there".into(),
                _ => String::new(),
            };
            format!(
                "The controller is about to {} and does{word}.",
                command_words(command)
            )
        }
        _ => "The controller does nothing.".into(),
    }
}

fn word(state: PowerState) -> &'static str {
    match state {
        PowerState::On => "on",
        PowerState::Off => "off",
        PowerState::PoweringOn => "powering on",
        PowerState::PoweringOff => "powering off",
        PowerState::Unknown => "nothing clear",
    }
}

fn command_words(command: &Command) -> String {
    match command {
        Command::AddFinalizer => "add its finalizer".into(),
        Command::RemoveFinalizer(_) => "remove its finalizer".into(),
        Command::AddHold => "set the hold on the BareMetalHost".into(),
        Command::RenewHold => "change the value of the hold on the BareMetalHost".into(),
        Command::RemoveHold => "remove the hold from the BareMetalHost".into(),
        Command::RemoveOrphanedHolds { .. } => {
            "remove orphaned holds from the BareMetalHost".into()
        }
        Command::EndMachineRequest => "end the request of the Machine".into(),
        Command::BlockMove => "block a move".into(),
        Command::UnblockMove => "unblock the move".into(),
        Command::UnblockHost => "unblock the move of the host".into(),
        Command::PowerOff { id, .. } => format!("begin power-off {id}"),
        Command::PowerOn { id, .. } => format!("begin power-on {id}"),
        Command::Cancel { id } => format!("cancel {id}"),
        Command::CollectEvidence { interrupt: Some(_) } => "interrupt the host for a dump".into(),
        Command::CollectEvidence { .. } => "collect evidence".into(),
        Command::ReadPower => "read the power from the BMC".into(),
        Command::Release => "release the agent's hold".into(),
        Command::AddTaint => "taint the Node".into(),
        Command::DeletePods { .. } => "delete the pod".into(),
        Command::RemoveTaint => "remove the taint".into(),
        Command::Cordon { .. } => "cordon the Node".into(),
        Command::Uncordon { .. } => "uncordon the Node".into(),
        Command::EvictPods { .. } => "evict the pod".into(),
        other => format!("do {other:?}"),
    }
}

fn agent(w: &World) -> String {
    let Some(run) = w.agent.current().and_then(|i| w.agent.runs.get(i)) else {
        return "The agent does nothing.".into();
    };
    let what = match run.on {
        true => "power-on",
        false if is_interrupt(&run.id) => "diagnostic interrupt",
        false => "power-off",
    };
    let next = w.clone().next(Action::Agent, None);
    let after = next.agent.op(&run.id);
    let source = if is_of_outlets(&run.id) {
        "PDUs"
    } else {
        "BMC"
    };
    match (after.and_then(|op| op.end), w.read_by(&run.id)) {
        (Some(RecordedOutcome::Reported(end)), _) => format!("The agent ends the {what}: {end:?}."),
        (_, None) => format!("The agent's {what} has no answer of the {source}."),
        (_, Some(_)) if run.phase == Phase::Command => {
            format!("The agent sends the {what} to the {source}.")
        }
        (_, Some(state)) => format!("The agent reads {} from the {source}.", word(state)),
    }
}
