//! Terms of leaders, and holds on hosts.

use std::collections::HashMap;

use rackhand_agent_core::ledger::{
    Arrival, Authority, Hold, Host, KnownTerm, Release, SetBack, Term, newer_copy,
};
use rackhand_proto::v1;
use rackhand_transport::Refusal;
use tonic::Status;
use tracing::{info, warn};

use crate::{
    engine::{Engine, Target, journal_status},
    journal::{JournalError, refused_status, wall_clock},
};

impl Engine {
    /// Rejects the request if the caller has seen this journal with a higher generation: the file
    /// is an older copy, from a backup or a snapshot, and its missing records prove nothing (F12).
    pub(crate) async fn check_journal(&self, known: &[v1::Journal]) -> Result<(), Status> {
        let journal = &self.shared.journal;
        let seen = known
            .iter()
            .map(|known| (known.instance.as_str(), known.generation));
        let Some(newer) = newer_copy(&journal.version(), seen) else {
            return Ok(());
        };
        journal.seen_newer(newer).await;
        Err(Status::unavailable(
            "the journal of this agent is an older copy of one that was seen before; the agent starts \
             anew with another instance",
        ))
    }

    pub(crate) async fn claim(
        &self,
        election: String,
        asked: Term,
    ) -> Result<Result<u64, Term>, Status> {
        let (number, holder) = (asked.number, asked.holder.clone());
        // Also for a known term: a leader must learn that this agent cannot take commands.
        if let Some(trouble) = self.shared.journal.trouble() {
            return Err(journal_status(&JournalError::Storage(trouble)));
        }
        let arrival = self.shared.claims.lock().arrives(&election, &asked);
        match arrival {
            Arrival::New => {}
            Arrival::Known => return Ok(Ok(number)),
            Arrival::Late => return Err(late_claim(number, &election)),
        }
        let result = self
            .shared
            .journal
            .claim(election.clone(), asked.clone())
            .await;
        let result = result.map_err(|error| journal_status(&error))?;
        match &result {
            Ok(_) => {
                let standby = asked.standby;
                info!(election, term = number, holder, standby, "term claimed");
                self.shared.claims.lock().written(&election, &asked);
            }
            Err(known) if known.number == number && known.holder == holder => {
                self.shared.claims.lock().refused(&election, &asked);
                return Err(late_claim(number, &election));
            }
            Err(known) => {
                self.shared.claims.lock().refused(&election, &asked);
                self.shared.metrics.refused(Refusal::StaleTerm.label());
                warn!(
                    election,
                    term = number,
                    holder,
                    highest = known.number,
                    by = known.holder,
                    "an old term was claimed"
                );
            }
        }
        Ok(result)
    }

    /// The terms of all elections.
    pub(crate) async fn terms(&self) -> Result<Vec<KnownTerm>, Status> {
        let terms = self.shared.journal.terms().await;
        terms.map_err(|error| journal_status(&error))
    }

    /// Sets the term of an election back, on request of an operator.
    pub(crate) async fn set_back_term(&self, asked: SetBack) -> Result<KnownTerm, Status> {
        let election = asked.election.clone();
        let (by, reason) = (asked.by.clone(), asked.reason.clone());
        // A concurrent claim is decided by the journal.
        self.shared.claims.lock().forget(&election);
        let result = self.shared.journal.set_back_term(asked).await;
        self.shared.claims.lock().forget(&election);
        let known = result
            .map_err(|error| journal_status(&error))?
            .map_err(|refused| Status::failed_precondition(refused.to_string()))?;
        warn!(
            election,
            term = known.term.number,
            by,
            reason,
            "term set back by hand"
        );
        Ok(known)
    }

    /// Releases a hold. The host need not be in the inventory.
    pub(crate) async fn release(
        &self,
        target: Result<Target, (String, Status)>,
        authority: Authority,
        owner: String,
        force: bool,
    ) -> Result<bool, Status> {
        let (key, at) = match target {
            Ok(target) => (target.key.clone(), self.shared.locate(&target).await?),
            Err((name, status)) => {
                let held = self
                    .holds()
                    .await?
                    .into_iter()
                    .find(|(_, hold)| hold.host == name);
                let (key, hold) = held.ok_or(status)?;
                let keys = hold.keys(&key);
                let at = Host {
                    keys,
                    ..Host::default()
                };
                (key, at)
            }
        };
        let release = Release {
            id: format!("{owner}/release/{}", uuid::Uuid::new_v4()),
            key,
            at,
            authority: authority.clone(),
            owner,
            force,
            now: wall_clock(),
        };
        let result = self.shared.journal.release(release).await;
        let lifted = result
            .map_err(|error| journal_status(&error))?
            .map_err(|refused| refused_status(&refused))?;
        if let Some(hold) = &lifted {
            info!(host = %hold.host, owner = %hold.owner, by = %authority, force, "hold released");
        }
        Ok(lifted.is_some())
    }

    /// The owners of all holds, by host key.
    pub(crate) async fn holds(&self) -> Result<HashMap<String, Hold>, Status> {
        let holds = self.holds_in_journal().await;
        Ok(holds
            .map_err(|error| journal_status(&error))?
            .into_iter()
            .collect())
    }

    /// All holds by host key, in the order of the keys.
    pub(crate) async fn holds_in_journal(&self) -> Result<Vec<(String, Hold)>, JournalError> {
        self.shared.journal.holds().await
    }
}

/// The response to a claim that was sent before another one that was accepted.
fn late_claim(number: u64, election: &str) -> Status {
    Status::unavailable(format!(
        "a later claim of term {number} of election {election} has been accepted; claim it again"
    ))
}
