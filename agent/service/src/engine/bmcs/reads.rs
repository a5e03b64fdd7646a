//! Readings of a BMC other than power: boot device, sensors, event log.
//!
//! Must never: make a power operation wait.

use std::time::Duration;

use rackhand_agent_core::bmc_queue::CallClass;
use rackhand_bmc::{Bmc, BmcError, BmcFuture, ErrorKind};
use tokio::time::timeout;

use super::clients::CallKind;
use crate::engine::{Engine, Target};

impl Engine {
    /// Reads something other than power, and yields to each operation.
    pub(crate) async fn read_other<T: Send>(
        &self,
        target: &Target,
        limit: Duration,
        call: impl for<'a> Fn(&'a dyn Bmc) -> BmcFuture<'a, T> + Send + Sync,
    ) -> Result<T, BmcError> {
        let clients = &self.shared.clients;
        let queue = clients.queue(target);
        let mut made_way = false;
        let reading = async {
            loop {
                let turn = queue.call(CallClass::Reader).await;
                tokio::select! {
                    biased;
                    () = turn.wanted() => made_way = true,
                    result = clients.ask(target, limit, CallKind::Look, &call) => return result,
                }
            }
        };
        match timeout(limit, reading).await {
            Ok(result) => result,
            Err(_) if made_way => Err(fault(
                target,
                ErrorKind::Busy,
                "a power operation is running on this BMC; try again when it has ended".to_owned(),
            )),
            Err(_) => Err(fault(
                target,
                ErrorKind::Timeout,
                format!("no answer within {limit:?}"),
            )),
        }
    }
}

pub(in crate::engine) fn fault(target: &Target, kind: ErrorKind, message: String) -> BmcError {
    BmcError {
        kind,
        bmc: target.address.to_string(),
        message,
        retry_after: None,
        maybe_sent: false,
    }
}
