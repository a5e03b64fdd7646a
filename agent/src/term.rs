//! `term`: claimed terms of the leaders.

use std::process::ExitCode;

use anyhow::bail;
use rackhand_proto::{convert::timestamp_from_proto, v1};
use serde::Serialize;
use tonic::Request;

use crate::{
    cli::{Output, TermAction, TermArgs},
    client::connect_error,
    output::{TableRow, print},
    power::{CALL_TIMEOUT, connect},
};

#[derive(Debug, Serialize)]
struct Row {
    election: String,
    term: u64,
    #[serde(skip_serializing_if = "String::is_empty")]
    holder: String,
    /// Records of setting it back, oldest first.
    set_back: Vec<SetBack>,
}

#[derive(Debug, Serialize)]
struct SetBack {
    at: String,
    from: u64,
    to: u64,
    by: String,
    reason: String,
}

impl Row {
    fn of(info: v1::TermInfo) -> Self {
        let set_back = info.set_back.into_iter().map(|change| {
            let at = change.at.and_then(|at| timestamp_from_proto(&at).ok());
            SetBack {
                at: at.map(|at| format!("{at:.0}")).unwrap_or_default(),
                from: change.from,
                to: change.to,
                by: change.by,
                reason: change.reason,
            }
        });
        Self {
            set_back: set_back.collect(),
            election: info.election,
            term: info.number,
            holder: info.holder,
        }
    }
}

impl TableRow for Row {
    const HEAD: &'static [&'static str] = &["ELECTION", "TERM", "HOLDER", "SET BACK"];
    const SHORT: usize = 4;

    fn fields(&self) -> Vec<String> {
        let set_back = self.set_back.iter().map(|change| {
            let SetBack {
                at,
                from,
                to,
                by,
                reason,
            } = change;
            format!("{at} from {from} to {to} by {by}: {reason}")
        });
        vec![
            self.election.clone(),
            self.term.to_string(),
            self.holder.clone(),
            set_back.collect::<Vec<_>>().join("; "),
        ]
    }

    fn name(&self) -> &str {
        &self.election
    }
}

pub(crate) async fn term(args: TermArgs) -> anyhow::Result<ExitCode> {
    match args.action {
        TermAction::List(args) => {
            let mut request = Request::new(v1::ListTermsRequest {});
            request.set_timeout(CALL_TIMEOUT);
            let listed = connect(&args.common).await?.list_terms(request).await;
            let listed = listed
                .map_err(|status| connect_error::call(&status))?
                .into_inner();
            let rows: Vec<Row> = listed.terms.into_iter().map(Row::of).collect();
            print(&rows, args.common.output)?;
            if rows.is_empty() && matches!(args.common.output, Output::Table | Output::Wide) {
                errln!("no controller has claimed a term at this agent");
            }
        }
        TermAction::SetBack(args) => {
            let mut request = Request::new(v1::SetBackTermRequest {
                election: args.election,
                to: args.to,
                reason: args.reason,
            });
            request.set_timeout(CALL_TIMEOUT);
            let done = connect(&args.common).await?.set_back_term(request).await;
            let done = done
                .map_err(|status| connect_error::call(&status))?
                .into_inner();
            let Some(info) = done.term else {
                bail!("the agent returned no term; `term list` shows its terms");
            };
            print(&[Row::of(info)], args.common.output)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
