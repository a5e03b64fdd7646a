//! The operator at the command line of the first agent.

use std::sync::Arc;

use rackhand_agent_core::ledger::{Action, Authority, Device, Lifetime, StartRequest};

use super::{
    agent::Pending,
    world::{HOST, Manual, OPERATOR, Rack, host},
};

/// The agent at whose command line the operator is.
pub const AGENT: usize = 0;

/// A request of the operator.
pub fn request(id: &str, action: Action, force: bool) -> StartRequest {
    StartRequest {
        id: id.to_owned(),
        key: HOST.to_owned(),
        host: HOST.to_owned(),
        at: host(),
        action,
        device: Device::Bmc,
        owner: OPERATOR.to_owned(),
        authority: Authority::Operator { name: "ann".into() },
        force,
        detail: String::new(),
        lifetime: Lifetime::default(),
        now: 0,
    }
}

impl Rack {
    /// Whether an operation lives by the lease of the operator's process.
    pub fn is_attended(&self) -> bool {
        let process = self.agents[AGENT].process.as_ref();
        !self.caller_gone
            && process.is_some_and(|process| {
                let mut pending = process.pending.iter();
                pending.any(|pending| pending.request.lifetime.is_attended)
                    || process.runs.iter().any(|run| run.is_attended)
            })
    }

    /// The operator asks for one thing.
    pub fn asks(&mut self, manual: Manual) {
        self.operator.clear();
        let (action, force) = match manual {
            Manual::On => (Action::On, false),
            Manual::ForcedOn => (Action::On, true),
            Manual::ForcedReset => (Action::Reset, true),
            Manual::Off => (Action::Off { hold: false }, false),
            Manual::Cycle => (Action::Cycle, false),
        };
        let mut request = request(&format!("{manual:?}"), action, force);
        request.lifetime.is_attended = matches!(manual, Manual::Off | Manual::Cycle);
        if let Some(process) = &mut self.agent(AGENT).process {
            process.pending.push(Pending {
                request: Arc::new(request),
                until: None,
                awaited: false,
            });
        }
    }
}
