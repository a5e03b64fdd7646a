//! The lease by which an operation knows that its caller lives (F17). Pure.

use std::time::Duration;

/// Time for which a lease lasts without a renewal. Callers renew it every 3 s, so that a late one does not end it.
pub const LEASE: Duration = Duration::from_secs(15);

/// The lease of a calling process. Times are those of the agent since its start. A lease that is over stays over:
/// what lived by it may have ended already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallerLease {
    /// The last renewal; `None`: the lease is over.
    renewed: Option<Duration>,
}

impl CallerLease {
    /// A lease that begins at `now`.
    pub fn new(now: Duration) -> Self {
        Self { renewed: Some(now) }
    }

    /// Renews it. Returns whether it lasts.
    pub fn renew(&mut self, now: Duration) -> bool {
        self.renewed = self.renewed.filter(|_| self.lasts(now)).map(|_| now);
        self.renewed.is_some()
    }

    /// Ends it: the caller has closed its connection.
    pub fn end(&mut self) {
        self.renewed = None;
    }

    /// When it ends without a renewal; `None`: it is over.
    pub fn ends_at(&self) -> Option<Duration> {
        self.renewed.map(|renewed| renewed.saturating_add(LEASE))
    }

    /// Whether operations may begin and send commands by it.
    pub fn lasts(&self, now: Duration) -> bool {
        self.ends_at().is_some_and(|ends| now < ends)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn f17_lease_lasts_while_it_is_renewed() {
        let mut lease = CallerLease::new(s(100));
        assert!(lease.lasts(s(114)) && !lease.lasts(s(115)));
        for at in [103, 106, 120] {
            assert!(lease.renew(s(at)), "{at}");
        }
        assert_eq!(lease.ends_at(), Some(s(135)));
    }

    #[test]
    fn f17_lease_that_is_over_cannot_be_renewed() {
        let mut late = CallerLease::new(s(0));
        assert!(!late.renew(s(15)));
        assert!(!late.renew(s(16)) && !late.lasts(s(16)));
        let mut closed = CallerLease::new(s(0));
        closed.end();
        assert!(!closed.renew(s(1)) && !closed.lasts(s(1)));
    }
}
