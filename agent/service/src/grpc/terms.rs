//! Terms of leaders, and setting one back by hand.

use std::sync::Arc;

use jiff::Timestamp;
use rackhand_agent_core::ledger::{KnownTerm, SetBack, Term};
use rackhand_proto::{
    convert::{duration_to_proto, timestamp_to_proto},
    v1,
};
use tonic::{Request, Response, Status};

use super::{
    Answer,
    caller::{Caller, check_term},
    hosts::HostList,
};
use crate::{
    engine::{Clock, JournalStatus, Terms},
    journal::wall_clock,
};

/// Maximum length of a reason, in bytes.
const LONGEST: usize = 512;

/// The calls about terms.
#[derive(Clone)]
pub(super) struct TermCalls {
    pub(super) terms: Arc<Terms>,
    pub(super) hosts: HostList,
    pub(super) journal: JournalStatus,
    pub(super) instance: Arc<str>,
    pub(super) clock: Clock,
}

impl TermCalls {
    pub(super) async fn claim(
        &self,
        request: Request<v1::ClaimTermRequest>,
    ) -> Answer<v1::ClaimTermResponse> {
        if !Caller::of(&request)?.is_controller() {
            return Err(Status::permission_denied(
                "only a controller has a leader term",
            ));
        }
        let v1::ClaimTermRequest {
            term,
            standby,
            known_journals,
            sequence,
            list_hosts,
        } = request.into_inner();
        let term = check_term(term)?;
        self.terms.check_journal(&known_journals).await?;
        let asked = Term {
            number: term.number,
            holder: term.holder,
            standby,
            sequence,
        };
        let result = self.terms.claim(term.election, asked).await?;
        let hosts = match result {
            Ok(_) if list_hosts => Some(self.hosts.list().await?),
            _ => None,
        };
        Ok(Response::new(v1::ClaimTermResponse {
            accepted: result.is_ok(),
            highest: result.unwrap_or_else(|known| known.number),
            instance: self.instance.to_string(),
            journal: Some(self.journal.identity()),
            since_start: Some(duration_to_proto(self.clock.since_start())),
            hosts,
        }))
    }

    pub(super) async fn list(
        &self,
        request: Request<v1::ListTermsRequest>,
    ) -> Answer<v1::ListTermsResponse> {
        Caller::of(&request)?;
        let terms = self.terms.all().await?;
        Ok(Response::new(v1::ListTermsResponse {
            terms: terms.into_iter().map(term_to_proto).collect(),
        }))
    }

    pub(super) async fn set_back(
        &self,
        request: Request<v1::SetBackTermRequest>,
    ) -> Answer<v1::SetBackTermResponse> {
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
        let known = self.terms.set_back(asked).await?;
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
