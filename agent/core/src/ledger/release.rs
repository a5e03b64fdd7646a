//! Release of holds.

use super::{
    Authority, Change, Hold, Host, HostHolds, Operation, RecordedOutcome, Records, Refused,
    holds::lift,
    shared_outlets::release_siblings,
    terms::{check_sequence, check_term, take_sequence},
};

/// A request to release a hold.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Release {
    /// Id of its record.
    pub id: String,
    /// Host key: endpoint and system of the BMC.
    pub key: String,
    /// All addresses of the host.
    pub at: Host,
    /// Authority of the caller.
    pub authority: Authority,
    /// Owner that releases: a remediation or an operator.
    pub owner: String,
    /// Whether a hold of another owner is released, too.
    pub force: bool,
    /// Nanoseconds of the Unix epoch.
    pub now: i64,
}

/// The released hold (`None`: there was none) or the reason of a rejection, with the changes.
pub type ReleaseDecision<R> = (Result<Option<Hold>, Refused>, Vec<Change<R>>);

impl Release {
    /// Releases the hold and records the caller.
    ///
    /// # Errors
    ///
    /// The stored records cannot be read.
    pub fn decide<V: Records>(&self, records: &V) -> Result<ReleaseDecision<V::Report>, V::Error> {
        let refuse = |refused| Ok((Err(refused), Vec::new()));
        if let Err(refused) = check_term(records, &self.authority)? {
            return refuse(refused);
        }
        let all = records.holds()?;
        let siblings = release_siblings(&all, &self.at.keys);
        let holds = HostHolds::new(all, &self.at).on_host;
        let first = holds.iter().map(|(_, hold)| hold);
        let hold = first.min_by_key(|hold| hold.owner == self.owner).cloned();
        let host = hold
            .as_ref()
            .map_or(self.key.as_str(), |hold| hold.host.as_str());
        if let Err(refused) = check_sequence(records, &self.authority, &self.key, host)? {
            return refuse(refused);
        }
        if let Some(hold) = &hold
            && hold.owner != self.owner
            && !self.force
        {
            return refuse(Refused::Held(hold.clone()));
        }
        let mut changes: Vec<_> = take_sequence(&self.authority, &self.key)
            .into_iter()
            .collect();
        changes.extend(lift(&holds));
        changes.extend(siblings);
        changes.extend(hold.as_ref().map(|hold| self.record(hold)));
        Ok((Ok(hold), changes))
    }

    fn record<R>(&self, hold: &Hold) -> Change<R> {
        let is_other = hold.owner != self.owner;
        Change::Operation(Box::new(Operation {
            owner: self.owner.clone(),
            by: self.authority.to_string(),
            begun: self.now,
            ended: self.now,
            force: self.force,
            overrode: if is_other {
                hold.owner.clone()
            } else {
                String::new()
            },
            detail: format!("hold of {}", hold.owner),
            outcome: Some(RecordedOutcome::Released {
                host: hold.host.clone(),
                owner: hold.owner.clone(),
            }),
            ..Operation::new(&self.id, &self.key, &hold.host, "release")
        }))
    }
}
