//! An operation carried out on a BMC, for users of the library.
//!
//! Nothing is written down: whoever must know after a crash what was sent keeps a journal of its
//! own around [`Operation`].

use std::{collections::VecDeque, time::Duration};

use tokio::time::{Instant, sleep_until, timeout_at};

use super::{Asked, Ending, Failed, Next, Operation, Proof, Seen};
use crate::{Accepted, Bmc, BmcError, PowerCommand, PowerReading};

/// Readings that a report carries when they confirm nothing.
const EVIDENCE: usize = 3;

/// Is told what an operation does while it does it.
pub trait Observer: Send {
    /// The BMC was read.
    fn reading(&mut self, _reading: &PowerReading) {}

    /// A command is about to leave.
    fn sending(&mut self, _command: PowerCommand) {}

    /// The BMC took it.
    fn accepted(&mut self, _accepted: &Accepted) {}

    /// A reading or a command failed.
    fn failed(&mut self, _error: &BmcError) {}
}

/// Nobody listens.
impl Observer for () {}

/// What an operation came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// How it ended.
    pub ending: Ending,
    /// The readings that confirm the ending, oldest first; else the last ones.
    pub readings: Vec<PowerReading>,
    /// Commands sent.
    pub commands: u32,
    /// The last failure.
    pub error: Option<BmcError>,
    /// How long it took.
    pub elapsed: Duration,
}

#[derive(Default)]
struct Evidence {
    recent: VecDeque<PowerReading>,
    confirming: Vec<PowerReading>,
    error: Option<BmcError>,
}

/// Runs an operation to its end, which comes at its deadline at the latest, or when a command that
/// was under way then is answered.
///
/// Dropping it stops it where it stands; a command that has left is not called back.
pub async fn run(bmc: &dyn Bmc, asked: Asked, observer: &mut dyn Observer) -> Report {
    let begun = Instant::now();
    let mut operation = Operation::new(asked);
    let mut evidence = Evidence::default();
    let ending = loop {
        match operation.next(begun.elapsed()) {
            Next::Done(ending) => break ending,
            Next::Wait(until) => sleep_until(at(begun, until)).await,
            Next::Read => read(bmc, begun, &mut operation, &mut evidence, observer).await,
            Next::Send(command) => {
                operation.sending(begun.elapsed());
                observer.sending(command);
                let result = bmc.command(command).await;
                match result {
                    Ok(accepted) => {
                        operation.answered(begun.elapsed(), &accepted);
                        observer.accepted(&accepted);
                    }
                    Err(error) => {
                        operation.sent(begun.elapsed(), Err(Failed::from(&error)));
                        evidence.fail(error, observer);
                    }
                }
            }
        }
    };
    let proven = ending.is_done() && !evidence.confirming.is_empty();
    Report {
        ending,
        readings: if proven {
            evidence.confirming
        } else {
            evidence.recent.into()
        },
        commands: operation.sends(),
        error: evidence.error,
        elapsed: begun.elapsed(),
    }
}

async fn read(
    bmc: &dyn Bmc,
    begun: Instant,
    operation: &mut Operation,
    evidence: &mut Evidence,
    observer: &mut dyn Observer,
) {
    let asked = begun.elapsed();
    let deadline = at(begun, operation.deadline());
    let Ok(result) = timeout_at(deadline, bmc.power()).await else {
        return;
    };
    let seen = result.as_ref().map(Seen::from).map_err(Failed::from);
    let proof = operation.read(asked, begun.elapsed(), seen);
    match result {
        Ok(reading) => {
            observer.reading(&reading);
            evidence.take(reading, proof);
        }
        Err(error) => evidence.fail(error, observer),
    }
}

impl Evidence {
    fn take(&mut self, reading: PowerReading, proof: Proof) {
        match proof {
            Proof::None => self.confirming.clear(),
            Proof::First => self.confirming = vec![reading.clone()],
            Proof::Further => self.confirming.push(reading.clone()),
            Proof::TooSoon => {}
        }
        if self.recent.len() == EVIDENCE {
            self.recent.pop_front();
        }
        self.recent.push_back(reading);
    }

    fn fail(&mut self, error: BmcError, observer: &mut dyn Observer) {
        observer.failed(&error);
        self.error = Some(error);
    }
}

/// A time of the operation on the clock; one beyond all clocks is a century away.
fn at(begun: Instant, after: Duration) -> Instant {
    const CENTURY: Duration = Duration::from_secs(100 * 365 * 86_400);
    begun.checked_add(after).unwrap_or_else(|| begun + CENTURY)
}
