//! The interface between a session and the commands that use it.

use std::future::Future;

use ipmi_rs_core::connection::IpmiCommand;

use super::wire::CompletionCode;
use crate::BmcError;

/// Reason why a request has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RequestError {
    /// No usable response: session, network or time limit.
    Bmc(BmcError),
    /// The BMC responded with this completion code.
    Code(CompletionCode),
    /// Malformed response data; the text says what is wrong.
    Data(&'static str),
}

/// Sends one request and receives its response. Only for requests that may be repeated.
pub(super) trait Requester: Sync {
    /// Sends a request and parses its response.
    fn ask<C>(&self, command: C) -> impl Future<Output = Result<C::Output, RequestError>> + Send
    where
        C: IpmiCommand + Send,
        C::Output: Send;
}
