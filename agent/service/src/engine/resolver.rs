//! Resolution of BMC host names.
//!
//! Owns: the number of concurrent lookups, and their last answers. Must never: let hanging lookups
//! take the threads that passwords and the journal need, or delay a host that is named by IP address.

use std::{collections::HashMap, fmt, io, net::IpAddr, pin::Pin, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout_at},
};

/// Concurrent lookups: a quarter of the threads for blocking work. The resolver of the system holds
/// a thread until it has an answer, even if the caller has given up.
const AT_ONCE: usize = 16;

type LookupFuture = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send>>;

/// Looks up names, a bounded number at a time.
#[derive(Clone)]
pub(crate) struct Resolver {
    places: Arc<Semaphore>,
    /// The last answer for each name.
    known: Arc<Mutex<HashMap<String, Vec<IpAddr>>>>,
    lookup: Arc<dyn Fn(String) -> LookupFuture + Send + Sync>,
}

impl Resolver {
    /// Uses the resolver of the system.
    pub(crate) fn system() -> Self {
        Self::new(|name| {
            Box::pin(async move {
                let found = tokio::net::lookup_host((name, 0)).await?;
                Ok(found.map(|socket| socket.ip()).collect())
            })
        })
    }

    pub(crate) fn new(lookup: impl Fn(String) -> LookupFuture + Send + Sync + 'static) -> Self {
        Self {
            places: Arc::new(Semaphore::new(AT_ONCE)),
            known: Arc::default(),
            lookup: Arc::new(lookup),
        }
    }

    /// The addresses of a host, sorted and without duplicates; at least one.
    ///
    /// # Errors
    ///
    /// Text of the lookup error.
    pub(crate) async fn addresses(
        &self,
        host: &str,
        limit: Duration,
    ) -> Result<Vec<IpAddr>, String> {
        if let Ok(ip) = host.parse() {
            return Ok(vec![ip]);
        }
        let until = Instant::now() + limit;
        let late = || format!("no answer from the name service within {limit:?}");
        let places = self.places.clone();
        let place = timeout_at(until, places.acquire_owned()).await;
        let place = place
            .map_err(|_| format!("{}: other lookups hang", late()))?
            .map_err(|_| "the agent stops".to_owned())?;
        let lookup = (self.lookup)(host.to_owned());
        // The permit is released when the lookup ends, not when its caller gives up.
        let running = tokio::spawn(async move {
            let found = lookup.await;
            drop(place);
            found
        });
        let found = timeout_at(until, running).await.map_err(|_| late())?;
        let found = found.map_err(|error| error.to_string())?;
        let mut ips = found.map_err(|error| error.to_string())?;
        ips.sort_unstable();
        ips.dedup();
        if ips.is_empty() {
            return Err("the name has no address".to_owned());
        }
        self.known.lock().insert(host.to_owned(), ips.clone());
        Ok(ips)
    }

    /// The addresses that were found last, without a lookup.
    pub(crate) fn last_known(&self, host: &str) -> Option<Vec<IpAddr>> {
        self.known.lock().get(host).cloned()
    }
}

impl fmt::Debug for Resolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolver").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn hanging_lookups_are_limited_and_do_not_delay_ip_addresses() {
        let begun = Arc::new(AtomicUsize::new(0));
        let counted = begun.clone();
        let resolver = Resolver::new(move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
            Box::pin(std::future::pending())
        });
        let second = Duration::from_secs(1);
        let names: Vec<String> = (0..100).map(|n| format!("bmc-{n}.example")).collect();
        let lookups = names.iter().map(|name| resolver.addresses(name, second));
        let (found, by_ip) = tokio::join!(
            futures::future::join_all(lookups),
            resolver.addresses("10.0.0.1", Duration::ZERO)
        );
        assert!(found.iter().all(Result::is_err));
        assert_eq!(begun.load(Ordering::SeqCst), AT_ONCE);
        assert_eq!(by_ip, Ok(vec![IpAddr::from([10, 0, 0, 1])]));
    }

    #[tokio::test]
    async fn addresses_are_sorted_and_an_empty_result_is_an_error() {
        let resolver = Resolver::new(|name| {
            let ips = match name.as_str() {
                "none" => Vec::new(),
                _ => vec![
                    [10, 0, 0, 2].into(),
                    [10, 0, 0, 1].into(),
                    [10, 0, 0, 2].into(),
                ],
            };
            Box::pin(async { Ok(ips) })
        });
        let found = resolver.addresses("two", Duration::from_secs(1)).await;
        assert_eq!(found, Ok(vec![[10, 0, 0, 1].into(), [10, 0, 0, 2].into()]));
        let none = resolver.addresses("none", Duration::from_secs(1)).await;
        assert!(none.is_err());
    }
}
