//! Limits on the connections of a server from callers with an account that is not known yet.
//!
//! Pure. Invariant: a caller that opens connections and sends nothing does not keep others out. Above its limit
//! it loses its own oldest connection, and the slowest caller loses one as soon as another caller needs it.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv6Addr},
};

use tokio_util::sync::CancellationToken;

/// Maximum number of connections of a server. API servers and scrapers keep a few each.
const PLACES: usize = 128;
/// Maximum number of connections from one address without an accepted request. Several callers may share the
/// address of a proxy.
const PLACES_OF_ADDRESS: usize = 16;

/// An open connection.
struct Connection {
    address: IpAddr,
    /// Whether a request over the connection was accepted, so that its caller has an account.
    is_accepted: bool,
    /// Ends the connection.
    end: CancellationToken,
}

/// The open connections of a server, in the order in which they were opened.
#[derive(Default)]
pub(super) struct ConnectionTable {
    open: BTreeMap<u64, Connection>,
    next: u64,
}

/// The address by which connections are counted: an IPv6 network of 64 bits is one caller.
fn counted(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => {
            let network = v6.to_bits() >> 64 << 64;
            IpAddr::V6(Ipv6Addr::from_bits(network))
        }
        v4 => v4,
    }
}

// === impl ConnectionTable ===

impl ConnectionTable {
    /// Adds a new connection, and ends another one if the limits require it. `None` if callers with an account use
    /// all connections.
    pub(super) fn open(&mut self, address: IpAddr) -> Option<(u64, CancellationToken)> {
        let address = counted(address);
        let of_address = self.waiting_of(address);
        if of_address.len() >= PLACES_OF_ADDRESS {
            self.end(of_address.first().copied());
        } else if self.open.len() >= PLACES {
            let slowest = self.slowest()?;
            self.end(Some(slowest));
        }
        let id = self.next;
        self.next += 1;
        let end = CancellationToken::new();
        let connection = Connection {
            address,
            is_accepted: false,
            end: end.clone(),
        };
        self.open.insert(id, connection);
        Some((id, end))
    }

    /// Records that a request over a connection was accepted.
    pub(super) fn accepted(&mut self, id: u64) {
        if let Some(connection) = self.open.get_mut(&id) {
            connection.is_accepted = true;
        }
    }

    /// Removes a connection that has ended.
    pub(super) fn closed(&mut self, id: u64) {
        self.open.remove(&id);
    }

    /// The connections of an address without an accepted request, the oldest first.
    fn waiting_of(&self, address: IpAddr) -> Vec<u64> {
        let waiting = self.open.iter().filter(|(_, c)| !c.is_accepted);
        let of_address = waiting.filter(|(_, c)| c.address == address);
        of_address.map(|(id, _)| *id).collect()
    }

    /// The oldest connection without an accepted request, of the address that has most such connections.
    fn slowest(&self) -> Option<u64> {
        let mut waiting: BTreeMap<IpAddr, (usize, u64)> = BTreeMap::new();
        for (id, connection) in self.open.iter().filter(|(_, c)| !c.is_accepted) {
            let (count, _) = waiting.entry(connection.address).or_insert((0, *id));
            *count += 1;
        }
        let most = waiting
            .into_values()
            .max_by_key(|(count, oldest)| (*count, std::cmp::Reverse(*oldest)));
        most.map(|(_, oldest)| oldest)
    }

    fn end(&mut self, id: Option<u64>) {
        if let Some(connection) = id.and_then(|id| self.open.remove(&id)) {
            connection.end.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(last: u8) -> IpAddr {
        IpAddr::from([192, 0, 2, last])
    }

    #[test]
    fn one_address_takes_a_part_of_the_places_and_loses_its_oldest() {
        let mut table = ConnectionTable::default();
        let opened: Vec<_> = (0..PLACES * 2)
            .map(|_| table.open(ip(1)).unwrap())
            .collect();
        assert_eq!(table.open.len(), PLACES_OF_ADDRESS);
        let ended = opened.iter().filter(|(_, end)| end.is_cancelled());
        assert_eq!(ended.count(), PLACES * 2 - PLACES_OF_ADDRESS);
        assert!(!opened.last().unwrap().1.is_cancelled(), "the newest stays");
        let (_, other) = table.open(ip(2)).unwrap();
        assert!(!other.is_cancelled());
    }

    #[test]
    fn full_server_ends_the_slowest_and_never_one_with_an_account() {
        let mut table = ConnectionTable::default();
        let mut accepted = Vec::new();
        for _ in 0..PLACES - 1 {
            let (id, end) = table.open(ip(1)).unwrap();
            table.accepted(id);
            accepted.push((id, end));
        }
        let (_, slow) = table.open(ip(2)).unwrap();
        let (id, next) = table.open(ip(3)).unwrap();
        assert!(slow.is_cancelled() && !next.is_cancelled());
        table.accepted(id);
        assert!(table.open(ip(4)).is_none(), "all have an account");
        assert!(accepted.iter().all(|(_, end)| !end.is_cancelled()));
        table.closed(accepted[0].0);
        assert!(table.open(ip(4)).is_some());
    }

    #[test]
    fn addresses_of_one_network_count_as_one() {
        let address = |text: &str| counted(text.parse().unwrap());
        assert_eq!(address("2001:db8::1"), address("2001:db8::ffff:1"));
        assert_ne!(address("2001:db8::1"), address("2001:db8:0:1::1"));
        assert_eq!(address("::ffff:192.0.2.1"), ip(1));
    }
}
