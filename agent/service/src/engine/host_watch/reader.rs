//! The reader of one watched host.

use std::sync::Arc;

use rackhand_agent_core::{bmc_queue::CallClass, watch_schedule::Extras};
use rackhand_bmc::{
    BmcError, ErrorKind, EventLog, PowerReading, PowerState, hardware_faults, stop_since_start,
};
use tokio::time::Instant;

use super::{
    Context,
    host::{HealthReading, Host, LastMark, Mark, StopReading},
};
use crate::engine::Target;

/// Number of entries of the event log that are read, the newest.
const LOG_ENTRIES: usize = 100;

/// Reads the host whenever it is due. The caller ends it.
pub(super) async fn run(context: &Context, host: &Host) {
    loop {
        host.due().await;
        let config = context.settings.load();
        let mut target = host.target();
        if !Arc::ptr_eq(&config, &target.config) {
            let Some(again) = target.again(&config) else {
                host.gone();
                return;
            };
            host.set_target(again.clone());
            target = again;
        }
        read(context, host, &target).await;
    }
}

async fn read(context: &Context, host: &Host, target: &Target) {
    // Nobody closes the semaphore.
    let Ok(_permit) = context.permits.acquire().await else {
        return;
    };
    let clients = &context.clients;
    let queue = clients.queue(target);
    let turn = queue.call(CallClass::Reader).await;
    // The wait for operations on the BMC is no sign of strain.
    let since = Instant::now();
    let result = clients.read_watched(target).await;
    drop(turn);
    let is_on = result
        .as_ref()
        .is_ok_and(|reading| reading.state == PowerState::On);
    let mark = mark(context, target, &result);
    let extras = host.read(since, result.err(), is_on, mark);
    let (stops, health) = read_extras(context, target, extras).await;
    host.complete(stops, health);
}

/// Reads what is wanted besides the power. The event log serves both.
async fn read_extras(
    context: &Context,
    target: &Target,
    extras: Extras,
) -> (Option<StopReading>, Option<HealthReading>) {
    if extras == Extras::default() {
        return (None, None);
    }
    let limit = target.config.times.call;
    let reads = &context.reads;
    let log = reads
        .other(target, limit, |bmc| bmc.event_log(LOG_ENTRIES))
        .await;
    let at = Instant::now();
    let stops = extras.stops.then(|| StopReading {
        at,
        stop: match &log {
            Ok(log) => Ok(stop_since_start(log)),
            Err(error) => Err(error.clone()),
        },
    });
    if !extras.health {
        return (stops, None);
    }
    let rollup = reads.other(target, limit, |bmc| bmc.health()).await;
    (stops, Some(health(log, rollup)))
}

fn health(
    log: Result<EventLog, BmcError>,
    rollup: Result<rackhand_bmc::HealthRollup, BmcError>,
) -> HealthReading {
    let faults = hardware_faults(log.as_ref().ok(), rollup.as_ref().ok().copied());
    // A BMC that has no such report has not failed.
    let failed = |error: &BmcError| error.kind != ErrorKind::Unsupported;
    let errors = [log.err(), rollup.as_ref().err().cloned()];
    HealthReading {
        at: Instant::now(),
        rollup: rollup.ok(),
        faults,
        failure: errors.into_iter().flatten().find(failed),
    }
}

/// What makes a reading worth a message.
fn mark(context: &Context, target: &Target, result: &Result<PowerReading, BmcError>) -> Mark {
    let failure = match result {
        Ok(_) => None,
        Err(error) => Some((error.kind, error.message.clone())),
    };
    let last = context.clients.last_reading(target);
    Mark {
        failure,
        last: last.map(|(last, _)| LastMark {
            observation: last.observation,
            state: last.state,
            raw: last.raw,
            confirmed: last.readings.min(2),
            identify_led: last.identify_led,
            identity: last.identity,
        }),
    }
}
