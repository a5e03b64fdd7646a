//! The seam between a session and what is asked in it.

use std::future::Future;

use ipmi_rs_core::connection::IpmiCommand;

use super::wire::CompletionCode;
use crate::BmcError;

/// Why a request has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RequestError {
    /// No usable answer: session, network, time.
    Bmc(BmcError),
    /// The BMC answered with this completion code.
    Code(CompletionCode),
    /// The data of the answer make no sense; which, in words.
    Data(&'static str),
}

/// Something that carries one request and its answer. Only for requests that may be repeated.
pub(super) trait Requester: Sync {
    /// Asks, and reads the answer to exactly this request.
    fn ask<C>(&self, command: C) -> impl Future<Output = Result<C::Output, RequestError>> + Send
    where
        C: IpmiCommand + Send,
        C::Output: Send;
}
