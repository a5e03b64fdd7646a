//! Reader of the newest event log entries (IPMI 2.0, chapters 31 and 32).

mod clear;
mod meaning;
mod messages;

use std::collections::{BTreeSet, VecDeque};

use ipmi_rs_core::{
    connection::NetFn,
    storage::sel::{GetSelInfo, ReserveSel},
};

use super::Raw;
use crate::{
    EventLog,
    ipmi::{
        requester::{RequestError, Requester},
        wire::CompletionCode,
    },
};
pub(in crate::ipmi) use clear::clear_event_log;
use messages::ENTRY_SIZE;

/// Maximum number of reservations taken in one read, where a BMC requires or loses them.
const MAX_RESERVATIONS: usize = 8;

/// Record ids of the first and the last entry in a request. As the next id, the latter means that
/// there is none.
const FIRST: u16 = 0;
const LAST: u16 = 0xffff;

/// Reads the newest `limit` entries, oldest first.
///
/// The log is a list linked from its first entry. If the first and the last id show that the ids
/// have no gaps, reading starts `limit` entries before the end; if this proves wrong, at the first
/// entry. Entries are read whole, which needs no reservation (31.5): taking one would cancel
/// another client's.
///
/// # Errors
///
/// The BMC has no log, or did not respond.
pub(in crate::ipmi) async fn event_log<A: Requester>(
    ask: &A,
    limit: usize,
) -> Result<EventLog, RequestError> {
    let total = usize::from(ask.ask(GetSelInfo).await?.entries);
    let mut log = Log {
        ask,
        reservation: 0,
        reservations: 0,
    };
    let newest = match (total, limit) {
        (0, _) | (_, 0) => VecDeque::new(),
        _ => match log.tail(total, limit).await? {
            Some(newest) => newest,
            None => log.walk(FIRST, limit).await?,
        },
    };
    Ok(EventLog {
        entries: newest.iter().map(messages::entry).collect(),
        total: Some(total),
    })
}

type Entry = [u8; ENTRY_SIZE];

struct Log<'a, A> {
    ask: &'a A,
    /// Reservation id; 0: none.
    reservation: u16,
    reservations: usize,
}

impl<A: Requester> Log<'_, A> {
    /// Reads the last entries only; `None`: their start cannot be determined.
    async fn tail(
        &mut self,
        total: usize,
        limit: usize,
    ) -> Result<Option<VecDeque<Entry>>, RequestError> {
        if total <= limit {
            return Ok(None);
        }
        let Some((_, first)) = self.entry(FIRST).await? else {
            return Ok(None);
        };
        let last = match self.entry(LAST).await {
            Ok(Some((_, last))) => last,
            Ok(None) | Err(RequestError::Code(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        let Some(start) = start(id(&first), id(&last), total, limit) else {
            return Ok(None);
        };
        let newest = match self.walk(start, limit).await {
            Ok(newest) => newest,
            Err(RequestError::Code(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        let begins = newest.front().map(id) >= Some(start);
        let holds_last = newest.iter().any(|entry| id(entry) == id(&last));
        Ok((begins && holds_last && newest.len() == limit).then_some(newest))
    }

    /// Follows the links from entry `start` and keeps the last `limit` entries. A missing entry, or
    /// one that was read already, ends the list.
    async fn walk(&mut self, start: u16, limit: usize) -> Result<VecDeque<Entry>, RequestError> {
        let mut newest = VecDeque::new();
        let mut seen = BTreeSet::new();
        let mut next = start;
        loop {
            let Some((following, entry)) = self.entry(next).await? else {
                return Ok(newest);
            };
            // The first entry is requested by a special id; its own id may recur in a cyclic log.
            if !seen.insert(id(&entry)) {
                return Ok(newest);
            }
            if newest.len() >= limit {
                newest.pop_front();
            }
            newest.push_back(entry);
            if following == LAST || following == FIRST {
                return Ok(newest);
            }
            next = following;
        }
    }

    /// Reads one entry and the id of the next one; `None`: the entry does not exist.
    async fn entry(&mut self, id: u16) -> Result<Option<(u16, Entry)>, RequestError> {
        loop {
            let [r, r_high] = self.reservation.to_le_bytes();
            let [low, high] = id.to_le_bytes();
            let whole = [r, r_high, low, high, 0, 0xff];
            match self.ask.ask(Raw::new(NetFn::Storage, 0x43, whole)).await {
                Ok(data) => return parse(&data).map(Some),
                Err(RequestError::Code(CompletionCode::NOT_PRESENT)) => return Ok(None),
                Err(RequestError::Code(CompletionCode::RESERVATION))
                    if self.reservations < MAX_RESERVATIONS =>
                {
                    self.reservations += 1;
                    self.reservation = self.ask.ask(ReserveSel).await?.get();
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// Parsed here, because `ipmi-rs-core` drops timestamps and rejects unknown record types and
/// channels.
fn parse(data: &[u8]) -> Result<(u16, Entry), RequestError> {
    let entry = data.split_first_chunk().and_then(|(next, rest)| {
        let entry = rest.first_chunk::<ENTRY_SIZE>()?;
        Some((u16::from_le_bytes(*next), *entry))
    });
    entry.ok_or(RequestError::Data("truncated event log entry"))
}

fn id(entry: &Entry) -> u16 {
    let [low, high, ..] = *entry;
    u16::from_le_bytes([low, high])
}

/// Id of the entry `limit` before the end, if the ids run from first to last without gaps.
fn start(first: u16, last: u16, total: usize, limit: usize) -> Option<u16> {
    let span = usize::from(last.checked_sub(first)?).checked_add(1)?;
    if span != total {
        return None;
    }
    let back = u16::try_from(limit.checked_sub(1)?).ok()?;
    last.checked_sub(back).filter(|start| *start >= first)
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::{
        super::fake::{FakeBmc, Fault, records},
        *,
    };

    fn bmc(ids: impl IntoIterator<Item = u16>) -> FakeBmc {
        FakeBmc {
            sel: ids.into_iter().map(records::event).collect(),
            ..FakeBmc::default()
        }
    }

    async fn ids(bmc: &FakeBmc, limit: usize) -> Vec<String> {
        let log = event_log(bmc, limit).await.unwrap();
        log.entries.into_iter().map(|entry| entry.id).collect()
    }

    #[tokio::test]
    async fn whole_log_is_read_oldest_first() {
        let bmc = bmc([1, 2, 3]);
        assert_eq!(ids(&bmc, 10).await, ["1", "2", "3"]);
        assert_eq!(event_log(&bmc, 10).await.unwrap().total, Some(3));
        assert_eq!(bmc.asked(0x0a, 0x42), 0, "a reservation was taken");
    }

    #[tokio::test]
    async fn newest_entries_of_a_long_log_are_read_directly() {
        let bmc = bmc(1..=500);
        assert_eq!(ids(&bmc, 3).await, ["498", "499", "500"]);
        assert_eq!(bmc.asked(0x0a, 0x43), 5);
    }

    #[tokio::test]
    async fn log_with_id_gaps_is_read_from_its_first_entry() {
        let bmc = bmc([1, 2, 5, 9, 12]);
        assert_eq!(ids(&bmc, 2).await, ["9", "12"]);
    }

    #[tokio::test]
    async fn log_with_unordered_ids_is_read_from_its_first_entry() {
        // First id, last id and count suggest no gaps, but the order differs.
        let bmc = bmc([1, 4, 2, 3, 5]);
        assert_eq!(ids(&bmc, 2).await, ["3", "5"]);
        assert_eq!(ids(&bmc, 3).await, ["2", "3", "5"]);
    }

    #[tokio::test]
    async fn log_is_read_from_its_first_entry_if_the_last_is_unavailable() {
        let bmc = bmc(1..=20);
        bmc.fail(Fault::nth(0x0a, 0x43, 1, 0xcb));
        assert_eq!(ids(&bmc, 2).await, ["19", "20"]);
        let bmc = self::bmc(1..=20);
        bmc.fail(Fault::nth(0x0a, 0x43, 1, 0xc9));
        assert_eq!(ids(&bmc, 2).await, ["19", "20"]);
    }

    #[tokio::test]
    async fn empty_log_is_not_an_error() {
        assert!(ids(&bmc([]), 10).await.is_empty());
        let stale = FakeBmc {
            sel_total: Some(4),
            ..bmc([])
        };
        assert!(ids(&stale, 10).await.is_empty());
        let bmc = bmc([1]);
        assert!(ids(&bmc, 0).await.is_empty());
        assert_eq!(bmc.asked(0x0a, 0x43), 0);
    }

    #[tokio::test]
    async fn cyclic_log_links_end_the_read() {
        let bmc = FakeBmc {
            sel_loops: true,
            ..bmc([3, 1, 2])
        };
        assert_eq!(ids(&bmc, 10).await, ["3", "1", "2"]);
    }

    #[tokio::test]
    async fn sel_reservation_is_taken_where_required() {
        let bmc = bmc([1, 2]);
        bmc.fail(Fault::nth(0x0a, 0x43, 0, 0xc5));
        assert_eq!(ids(&bmc, 10).await, ["1", "2"]);
        assert_eq!(bmc.asked(0x0a, 0x42), 1);
        let bmc = self::bmc([1, 2]);
        bmc.fail(Fault::always(0x0a, 0x43, 0xc5));
        let lost = RequestError::Code(CompletionCode::RESERVATION);
        assert_eq!(event_log(&bmc, 10).await, Err(lost));
        assert_eq!(bmc.asked(0x0a, 0x42), MAX_RESERVATIONS);
    }

    #[tokio::test]
    async fn missing_log_and_lost_bmc_are_errors() {
        let bmc = bmc([1, 2]);
        bmc.fail(Fault::always(0x0a, 0x40, 0xc1));
        let none = RequestError::Code(CompletionCode::INVALID_COMMAND);
        assert_eq!(event_log(&bmc, 10).await, Err(none));
        for after in 0..3 {
            let bmc = self::bmc([1, 2]);
            bmc.die_after(after);
            assert!(matches!(
                event_log(&bmc, 10).await,
                Err(RequestError::Bmc(_))
            ));
        }
    }

    proptest! {
        #[test]
        fn parsing_arbitrary_sel_records_does_not_panic(data in vec(any::<u8>(), 0..40)) {
            prop_assert_eq!(parse(&data).is_ok(), data.len() >= 18);
        }

        #[test]
        fn start_of_a_partial_read_is_within_the_log(first: u16, last: u16, total: usize, limit: usize) {
            if let Some(start) = start(first, last, total, limit) {
                prop_assert!((first..=last).contains(&start));
                prop_assert_eq!(usize::from(last - start) + 1, limit);
            }
        }
    }
}
