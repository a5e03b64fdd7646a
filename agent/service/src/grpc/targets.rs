//! What a request refers to, and how long its call may take, by the configuration in force.

use std::{sync::Arc, time::Duration};

use rackhand_proto::v1;
use tonic::Status;

use super::{caller::Caller, operation_request::time};
use crate::{
    config::Config,
    engine::{Settings, Target, resolve},
};

/// Maximum time limit of one reading.
const LONGEST_READ: Duration = Duration::from_secs(60);
/// Reading sensors or an event log takes many requests; the default limit is that of this many calls.
pub(super) const RECORDS: u32 = 3;

/// Finds the hosts that requests name.
#[derive(Clone)]
pub(super) struct Targets(Settings);

impl Targets {
    pub(super) fn new(settings: Settings) -> Self {
        Self(settings)
    }

    pub(super) fn config(&self) -> Arc<Config> {
        self.0.load()
    }

    pub(super) fn find(
        &self,
        caller: &Caller,
        target: Option<v1::Target>,
    ) -> Result<Target, Status> {
        resolve(&self.config(), target, caller.is_controller())
    }

    /// The time limit of a call; the default is that of `calls` BMC calls.
    pub(super) fn limit(
        &self,
        requested: Option<&prost_types::Duration>,
        calls: u32,
    ) -> Result<Duration, Status> {
        let usual = self.config().times.call.saturating_mul(calls);
        Ok(time("timeout", requested)?
            .unwrap_or(usual)
            .min(LONGEST_READ))
    }
}
