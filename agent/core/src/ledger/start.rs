//! Requests to start an operation.

use super::{
    Action, Authority, Change, Device, Hold, Host, HostHolds, Lifetime, Operation, Records,
    Refused,
    holds::{lift, replace},
    terms::{check_sequence, check_serves, take_sequence},
};

/// A request to start an operation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct StartRequest {
    /// Operation id, chosen by the caller.
    pub id: String,
    /// Host key: endpoint and system of the BMC.
    pub key: String,
    /// Name of the host, for messages.
    pub host: String,
    /// All addresses of the host.
    pub at: Host,
    /// Power action that the operation carries out.
    pub action: Action,
    /// What it switches. Outlets and BMC of one host have the same holds, sequences and terms.
    pub device: Device,
    /// Owner of the operation: a remediation or an operator.
    pub owner: String,
    /// Authority of the caller.
    pub authority: Authority,
    /// Whether a hold of another owner is overridden.
    pub force: bool,
    /// Other hosts that the operation may leave without power, in words for its record; empty: none.
    pub detail: String,
    /// How long it lives.
    pub lifetime: Lifetime,
    /// Nanoseconds of the Unix epoch.
    pub now: i64,
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StartAnswer<R> {
    /// This id was accepted before; nothing is started.
    Known(Box<Operation<R>>),
    /// The operation must be started.
    Started {
        /// A hold of another owner that was overridden by force.
        overridden: Option<Hold>,
    },
    /// The request is rejected.
    Refused(Refused),
}

/// The decision about a request, with the changes.
pub type StartDecision<R> = (StartAnswer<R>, Vec<Change<R>>);

impl StartRequest {
    /// Decides on the operation.
    ///
    /// # Errors
    ///
    /// The stored records cannot be read.
    pub fn decide<V: Records>(self, records: &V) -> Result<StartDecision<V::Report>, V::Error> {
        let unchanged = |answer| Ok((answer, Vec::new()));
        if let Some(known) = records.operation(&self.id)? {
            let same = self.at.keys.mean(&known.key)
                && known.action == self.action.word()
                && known.device == self.device;
            return unchanged(if same {
                StartAnswer::Known(Box::new(known))
            } else {
                StartAnswer::Refused(Refused::OtherOperation {
                    id: known.id,
                    action: known.action,
                    device: known.device,
                    host: known.host,
                })
            });
        }
        if let Err(refused) = check_serves(records, &self.authority)? {
            return unchanged(StartAnswer::Refused(refused));
        }
        if let Err(refused) = check_sequence(records, &self.authority, &self.key, &self.host)? {
            return unchanged(StartAnswer::Refused(refused));
        }
        let holds = HostHolds::new(records.holds()?, &self.at);
        let others = self.foreign(&holds.on_host).cloned();
        let others = others.filter(|_| !self.action.suits_a_hold());
        if !self.force {
            let refused = match &others {
                Some(hold) => Some(Refused::Held(hold.clone())),
                None => self.check_doubt(&holds),
            };
            if let Some(refused) = refused {
                return unchanged(StartAnswer::Refused(refused));
            }
        }
        let changes = self.changes(&holds.on_host, others.as_ref());
        Ok((StartAnswer::Started { overridden: others }, changes))
    }

    /// The first hold of another owner.
    fn foreign<'a>(&self, holds: &'a [(String, Hold)]) -> Option<&'a Hold> {
        let mut holds = holds.iter().map(|(_, hold)| hold);
        holds.find(|hold| hold.is_foreign(&self.owner))
    }

    /// Rejects a power-on of a host that may be held by another owner. The owner of a hold on this
    /// host has distinguished it from the others when it took the hold.
    fn check_doubt(&self, holds: &HostHolds) -> Option<Refused> {
        if !self.action.may_power_on() || !holds.on_host.is_empty() {
            return None;
        }
        let host = self.host.clone();
        if let Some(why) = self.at.unresolved.clone() {
            return Some(Refused::Unresolved { host, why });
        }
        let hold = self.foreign(&holds.doubtful)?.clone();
        Some(Refused::MaybeHeld { host, hold })
    }

    fn changes<R>(&self, holds: &[(String, Hold)], overridden: Option<&Hold>) -> Vec<Change<R>> {
        let mut changes: Vec<_> = take_sequence(&self.authority, &self.key)
            .into_iter()
            .collect();
        let election = match &self.authority {
            Authority::Controller { election, .. } => election.clone(),
            Authority::Operator { .. } => String::new(),
        };
        match self.action {
            Action::Off { hold: true } => {
                let hold = Hold {
                    host: self.host.clone(),
                    owner: self.owner.clone(),
                    by: self.authority.to_string(),
                    since: self.now,
                    election: election.clone(),
                    ..Hold::default()
                };
                changes.extend(replace(holds, &self.key, &self.at, hold));
            }
            // With its outlets on, the host still has to be switched on. Until then the hold is what shows
            // that outlets may be off, should the remediation end without having switched them on.
            Action::On
                if self.device == Device::Outlets
                    && matches!(self.authority, Authority::Controller { .. }) => {}
            Action::On | Action::Cycle => changes.extend(lift(holds)),
            Action::Off { hold: false } | Action::SoftOff | Action::Reset | Action::Nmi => {}
        }
        changes.push(Change::Operation(Box::new(Operation {
            owner: self.owner.clone(),
            by: self.authority.to_string(),
            election,
            begun: self.now,
            force: self.force,
            device: self.device,
            lifetime: self.lifetime,
            detail: self.detail.clone(),
            overrode: overridden
                .map(|hold| hold.owner.clone())
                .unwrap_or_default(),
            ..Operation::new(&self.id, &self.key, &self.host, self.action.word())
        })));
        changes
    }
}
