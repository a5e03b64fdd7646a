//! Admission of power operations.

use super::{
    Action, Authority, Change, Device, Hold, Host, HostHolds, Operation, Records, Refused,
    holds::{lift, replace},
    shared_outlets::{Sibling, sibling_names},
    terms::{check_sequence, check_serves, take_sequence},
};

/// A request to start an operation.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Admission {
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
    /// The other hosts that the outlets feed, for an operation of outlets.
    pub siblings: Vec<Sibling>,
    /// Nanoseconds of the Unix epoch.
    pub now: i64,
}

/// The decision about a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admitted<R> {
    /// This id was admitted before; nothing is started.
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
pub type AdmissionDecision<R> = (Admitted<R>, Vec<Change<R>>);

impl Admission {
    /// Decides on the operation.
    ///
    /// # Errors
    ///
    /// The stored records cannot be read.
    pub fn decide<V: Records>(self, records: &V) -> Result<AdmissionDecision<V::Report>, V::Error> {
        let unchanged = |admitted| Ok((admitted, Vec::new()));
        if let Some(known) = records.operation(&self.id)? {
            let same = self.at.keys.mean(&known.key)
                && known.action == self.action.word()
                && known.device == self.device;
            return unchanged(if same {
                Admitted::Known(Box::new(known))
            } else {
                Admitted::Refused(Refused::OtherOperation {
                    id: known.id,
                    action: known.action,
                    device: known.device,
                    host: known.host,
                })
            });
        }
        if let Err(refused) = check_serves(records, &self.authority)? {
            return unchanged(Admitted::Refused(refused));
        }
        if let Err(refused) = check_sequence(records, &self.authority, &self.key, &self.host)? {
            return unchanged(Admitted::Refused(refused));
        }
        let all = records.holds()?;
        let on_sibling = self.held_sibling(&all);
        let holds = HostHolds::new(all, &self.at);
        let others = self.foreign(&holds.on_host).cloned();
        let others = others.filter(|_| !self.action.suits_a_hold());
        if !self.force {
            let refused = match &others {
                Some(hold) => Some(Refused::Held(hold.clone())),
                None => self.check_doubt(&holds),
            };
            if let Some(refused) = refused {
                return unchanged(Admitted::Refused(refused));
            }
        }
        if let Some(hold) = on_sibling
            && !self.force
        {
            // The owner of this host wants it on. Its own hold must not keep the sibling off in turn.
            let own = holds.on_host.into_iter();
            let own: Vec<_> = own.filter(|(_, hold)| hold.owner == self.owner).collect();
            let changes = match self.action {
                Action::On => lift(&own).collect(),
                _ => Vec::new(),
            };
            return Ok((Admitted::Refused(Refused::Held(hold)), changes));
        }
        let changes = self.changes(&holds.on_host, others.as_ref());
        Ok((Admitted::Started { overridden: others }, changes))
    }

    /// A hold of another owner on a host that would get power with this one (F3). One because of outlets is
    /// none: it ends with this power-on.
    fn held_sibling(&self, holds: &[(String, Hold)]) -> Option<Hold> {
        if !self.action.may_power_on() {
            return None;
        }
        self.siblings.iter().find_map(|sibling| {
            let on_sibling = HostHolds::new(holds.to_vec(), &sibling.at).on_host;
            let mut on_sibling = on_sibling.into_iter().map(|(_, hold)| hold);
            on_sibling.find(|hold| hold.owner != self.owner && hold.outlets_of.is_empty())
        })
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
            detail: match self.action {
                Action::Off { .. } | Action::Cycle => sibling_names(&self.siblings),
                _ => String::new(),
            },
            overrode: overridden
                .map(|hold| hold.owner.clone())
                .unwrap_or_default(),
            ..Operation::new(&self.id, &self.key, &self.host, self.action.word())
        })));
        changes
    }
}
