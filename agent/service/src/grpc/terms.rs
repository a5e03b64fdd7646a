//! Terms of leaders, and setting one back by hand.

use jiff::Timestamp;
use rackhand_agent_core::ledger::{KnownTerm, SetBack};
use rackhand_proto::{convert::timestamp_to_proto, v1};
use tonic::{Request, Response, Status};

use super::{PowerService, caller::Caller};
use crate::journal::wall_clock;

/// Maximum length of a reason, in bytes.
const LONGEST: usize = 512;

impl PowerService {
    pub(super) async fn terms(
        &self,
        request: Request<v1::ListTermsRequest>,
    ) -> Result<Response<v1::ListTermsResponse>, Status> {
        Caller::of(&request)?;
        let terms = self.engine.terms().await?;
        Ok(Response::new(v1::ListTermsResponse {
            terms: terms.into_iter().map(term_to_proto).collect(),
        }))
    }

    pub(super) async fn term_set_back(
        &self,
        request: Request<v1::SetBackTermRequest>,
    ) -> Result<Response<v1::SetBackTermResponse>, Status> {
        let name = Caller::local(&request)?;
        let v1::SetBackTermRequest {
            election,
            to,
            reason,
        } = request.into_inner();
        if reason.trim().is_empty() || reason.len() > LONGEST || reason.contains('\n') {
            return Err(Status::invalid_argument(format!(
                "reason must be 1 to {LONGEST} characters in one line: it is recorded in the journal"
            )));
        }
        let asked = SetBack {
            election,
            to,
            by: format!("operator {name}"),
            reason,
            now: wall_clock(),
        };
        let known = self.engine.set_back_term(asked).await?;
        Ok(Response::new(v1::SetBackTermResponse {
            term: Some(term_to_proto(known)),
        }))
    }
}

fn term_to_proto(known: KnownTerm) -> v1::TermInfo {
    let set_back = known.set_back.into_iter().map(|record| {
        let at = Timestamp::from_nanosecond(record.at.into()).unwrap_or_default();
        v1::TermSetBack {
            at: Some(timestamp_to_proto(at)),
            from: record.from,
            to: record.to,
            by: record.by,
            reason: record.reason,
        }
    });
    v1::TermInfo {
        set_back: set_back.collect(),
        election: known.election,
        number: known.term.number,
        holder: known.term.holder,
    }
}
