//! The calling processes that hold a lease (F17).
//!
//! Owns: the leases, and the signal of their end to the operations that depend on them. Must never: revive an
//! expired lease, or let a lease outlive the stream that renews it.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use rackhand_agent_core::caller::CallerLease;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tonic::Status;

/// Maximum number of processes with a lease.
const MOST: usize = 4096;
/// Maximum length of the name of a process, in bytes.
const LONGEST_NAME: usize = 128;

/// All leases, by the name of the process.
#[derive(Debug)]
pub(crate) struct Callers {
    start: Instant,
    leases: Mutex<HashMap<String, Entry>>,
}

#[derive(Debug)]
struct Entry {
    /// The operator that the process runs for.
    operator: String,
    lease: CallerLease,
    /// Number of the stream that renews it.
    stream: u64,
    gone: CancellationToken,
}

/// The stream by which a process renews its lease. Dropping it ends the lease, unless the process has opened another
/// one meanwhile.
#[derive(Debug)]
pub(crate) struct Attendance {
    callers: Arc<Callers>,
    name: String,
    stream: u64,
}

impl Callers {
    pub(crate) fn new(start: Instant) -> Arc<Self> {
        Arc::new(Self {
            start,
            leases: Mutex::default(),
        })
    }

    /// Begins a lease, or takes over the renewal of the existing lease of the process.
    ///
    /// # Errors
    ///
    /// The name is invalid or belongs to another operator, or too many processes hold a lease.
    pub(crate) fn attend(
        self: &Arc<Self>,
        name: &str,
        operator: &str,
    ) -> Result<Attendance, Status> {
        let is_name =
            (1..=LONGEST_NAME).contains(&name.len()) && name.chars().all(|c| c.is_ascii_graphic());
        if !is_name {
            return Err(Status::invalid_argument(
                "caller must be 1 to 128 visible ASCII characters without spaces",
            ));
        }
        let now = self.start.elapsed();
        let mut leases = self.leases.lock();
        let attendance = |stream| Attendance {
            callers: self.clone(),
            name: name.to_owned(),
            stream,
        };
        let mut stream = 0;
        if let Some(entry) = leases.get_mut(name) {
            if entry.operator != operator {
                return Err(of_another());
            }
            entry.stream += 1;
            if entry.lease.renew(now) {
                return Ok(attendance(entry.stream));
            }
            entry.gone.cancel();
            stream = entry.stream;
        } else if leases.len() >= MOST {
            return Err(Status::resource_exhausted(
                "too many programs call this agent; try again later",
            ));
        }
        let entry = Entry {
            operator: operator.to_owned(),
            lease: CallerLease::new(now),
            stream,
            gone: CancellationToken::new(),
        };
        leases.insert(name.to_owned(), entry);
        Ok(attendance(stream))
    }

    /// The token that is cancelled when the lease of a process ends.
    ///
    /// # Errors
    ///
    /// The process has no valid lease, or the lease belongs to another operator.
    pub(crate) fn living(&self, name: &str, operator: &str) -> Result<CancellationToken, Status> {
        let now = self.start.elapsed();
        match self.leases.lock().get(name) {
            Some(entry) if entry.operator != operator => Err(of_another()),
            Some(entry) if entry.lease.lasts(now) => Ok(entry.gone.clone()),
            _ => Err(Status::unavailable(
                "the calling program holds no lease at this agent, or its lease is over; nothing was begun",
            )),
        }
    }

    #[cfg(test)]
    fn count(&self) -> usize {
        self.leases.lock().len()
    }
}

fn of_another() -> Status {
    Status::permission_denied("the lease of this name belongs to another operator")
}

impl Attendance {
    /// Renews the lease. `false`: it is over, or renewed by another stream.
    pub(crate) fn renew(&self) -> bool {
        let now = self.callers.start.elapsed();
        let mut leases = self.callers.leases.lock();
        let entry = leases.get_mut(&self.name);
        entry.is_some_and(|entry| entry.stream == self.stream && entry.lease.renew(now))
    }

    /// Completes when the lease is over unless it is renewed before.
    pub(crate) async fn expired(&self) {
        let ends_at = {
            let leases = self.callers.leases.lock();
            let entry = leases.get(&self.name);
            entry.and_then(|entry| entry.lease.ends_at())
        };
        sleep_until(self.callers.start + ends_at.unwrap_or(Duration::ZERO)).await;
    }
}

impl Drop for Attendance {
    fn drop(&mut self) {
        let mut leases = self.callers.leases.lock();
        let is_last = |entry: &Entry| entry.stream == self.stream;
        if leases.get(&self.name).is_some_and(is_last)
            && let Some(mut entry) = leases.remove(&self.name)
        {
            entry.lease.end();
            entry.gone.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANN: &str = "ann";

    #[tokio::test(start_paused = true)]
    async fn f17_lease_ends_with_its_stream() {
        let callers = Callers::new(Instant::now());
        let stream = callers.attend("p", ANN).unwrap();
        let gone = callers.living("p", ANN).unwrap();
        assert!(!gone.is_cancelled());
        drop(stream);
        assert!(gone.is_cancelled() && callers.living("p", ANN).is_err());
        assert_eq!(callers.count(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn f17_lease_ends_without_renewal() {
        let callers = Callers::new(Instant::now());
        let stream = callers.attend("p", ANN).unwrap();
        for _ in 0..10 {
            tokio::time::advance(Duration::from_secs(3)).await;
            assert!(stream.renew());
        }
        let begun = Instant::now();
        stream.expired().await;
        assert_eq!(begun.elapsed(), Duration::from_secs(15));
        assert!(
            callers.living("p", ANN).is_err(),
            "also before the stream is dropped"
        );
        assert!(!stream.renew());
    }

    #[tokio::test(start_paused = true)]
    async fn f17_second_stream_of_a_process_takes_its_lease_over() {
        let callers = Callers::new(Instant::now());
        let first = callers.attend("p", ANN).unwrap();
        let gone = callers.living("p", ANN).unwrap();
        let second = callers.attend("p", ANN).unwrap();
        assert!(!first.renew() && second.renew());
        drop(first);
        assert!(!gone.is_cancelled() && callers.living("p", ANN).is_ok());
        // An expired lease is not taken over: its operations end.
        tokio::time::advance(Duration::from_secs(15)).await;
        let third = callers.attend("p", ANN).unwrap();
        assert!(gone.is_cancelled() && callers.living("p", ANN).is_ok());
        drop(second);
        assert!(callers.living("p", ANN).is_ok());
        drop(third);
        assert_eq!(callers.count(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn lease_belongs_to_its_operator() {
        let callers = Callers::new(Instant::now());
        let _stream = callers.attend("p", ANN).unwrap();
        for refused in [
            callers.attend("p", "bob").map(drop),
            callers.living("p", "bob").map(drop),
        ] {
            assert_eq!(refused.unwrap_err().code(), tonic::Code::PermissionDenied);
        }
        for name in ["", "a b", "\n", &"x".repeat(129)] {
            assert!(callers.attend(name, ANN).is_err(), "{name:?}");
        }
    }
}
