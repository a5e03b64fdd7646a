//! Terms of leaders.

use std::sync::Arc;

use parking_lot::Mutex;
use rackhand_agent_core::ledger::{Arrival, Claims, KnownTerm, SetBack, Term, newer_copy};
use rackhand_proto::v1;
use rackhand_transport::Refusal;
use tonic::Status;
use tracing::{info, warn};

use crate::{
    engine::journal_status,
    journal::{Journal, JournalError},
    metrics::Metrics,
};

/// The terms of leaders that this agent accepts.
pub(crate) struct Terms {
    journal: Journal,
    metrics: Arc<Metrics>,
    /// The claims that were taken. A leader repeats its claim as a liveness check, which must neither
    /// write to the disk nor fill the log.
    claims: Mutex<Claims>,
}

impl Terms {
    pub(in crate::engine) fn new(journal: Journal, metrics: Arc<Metrics>) -> Arc<Self> {
        Arc::new(Self {
            journal,
            metrics,
            claims: Mutex::default(),
        })
    }

    /// Rejects the request if the caller has seen this journal with a higher generation: the file
    /// is an older copy, from a backup or a snapshot, and its missing records prove nothing (F12).
    pub(crate) async fn check_journal(&self, known: &[v1::Journal]) -> Result<(), Status> {
        let journal = &self.journal;
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
        if let Some(trouble) = self.journal.trouble() {
            return Err(journal_status(&JournalError::Storage(trouble)));
        }
        let arrival = self.claims.lock().arrives(&election, &asked);
        match arrival {
            Arrival::New => {}
            Arrival::Known => return Ok(Ok(number)),
            Arrival::Late => return Err(late_claim(number, &election)),
        }
        let result = self.journal.claim(election.clone(), asked.clone()).await;
        let result = result.map_err(|error| journal_status(&error))?;
        match &result {
            Ok(_) => {
                let standby = asked.standby;
                info!(election, term = number, holder, standby, "term claimed");
                self.claims.lock().written(&election, &asked);
            }
            Err(known) if known.number == number && known.holder == holder => {
                self.claims.lock().refused(&election, &asked);
                return Err(late_claim(number, &election));
            }
            Err(known) => {
                self.claims.lock().refused(&election, &asked);
                self.metrics.refused(Refusal::StaleTerm.label());
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
    pub(crate) async fn all(&self) -> Result<Vec<KnownTerm>, Status> {
        let terms = self.journal.terms().await;
        terms.map_err(|error| journal_status(&error))
    }

    /// Sets the term of an election back, on request of an operator.
    pub(crate) async fn set_back(&self, asked: SetBack) -> Result<KnownTerm, Status> {
        let election = asked.election.clone();
        let (by, reason) = (asked.by.clone(), asked.reason.clone());
        // A concurrent claim is decided by the journal.
        self.claims.lock().forget(&election);
        let result = self.journal.set_back_term(asked).await;
        self.claims.lock().forget(&election);
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
}

/// The response to a claim that was sent before another one that was accepted.
fn late_claim(number: u64, election: &str) -> Status {
    Status::unavailable(format!(
        "a later claim of term {number} of election {election} has been accepted; claim it again"
    ))
}
