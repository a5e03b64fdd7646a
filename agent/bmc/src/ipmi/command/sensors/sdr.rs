//! Reader of the sensor data records of a BMC (IPMI 2.0, chapters 33 and 35).

use std::collections::BTreeSet;

use ipmi_rs_core::connection::NetFn;

use super::record::{self, HEADER, SensorRecord};
use crate::{
    ErrorKind,
    ipmi::{
        command::Raw,
        requester::{RequestError, Requester},
        wire::CompletionCode,
    },
};

/// Maximum number of records that are read; no server has nearly as many.
const MAX_RECORDS: usize = 4096;

/// Maximum number of reservations taken in one read.
const MAX_RESERVATIONS: usize = 16;

/// Read length for "the whole record", and the record id after the last one.
const WHOLE: u8 = 0xff;
const LAST: u16 = 0xffff;

/// Bytes per read, in the order in which they are tried after a rejection.
const CHUNKS: [u8; 6] = [WHOLE, 64, 32, 22, 16, 8];

/// Where a BMC keeps its records. The commands differ, their data do not.
#[derive(Debug, Clone, Copy)]
enum Source {
    /// The SDR repository: sensors of the BMC and of other controllers.
    Repository,
    /// The device SDRs of a BMC without a repository.
    Device,
}

impl Source {
    fn info(self) -> Raw {
        match self {
            Self::Repository => Raw::new(NetFn::Storage, 0x20, []),
            Self::Device => Raw::new(NetFn::SensorEvent, 0x20, []),
        }
    }

    fn reserve(self) -> Raw {
        match self {
            Self::Repository => Raw::new(NetFn::Storage, 0x22, []),
            Self::Device => Raw::new(NetFn::SensorEvent, 0x22, []),
        }
    }

    fn get(self, reservation: u16, id: u16, offset: u8, count: u8) -> Raw {
        let [r, r_high] = reservation.to_le_bytes();
        let [id, id_high] = id.to_le_bytes();
        let data = [r, r_high, id, id_high, offset, count];
        match self {
            Self::Repository => Raw::new(NetFn::Storage, 0x23, data),
            Self::Device => Raw::new(NetFn::SensorEvent, 0x21, data),
        }
    }
}

/// Reads every sensor that the BMC describes, in its order.
///
/// A link to a missing record, or to one that was read already, ends the list.
///
/// # Errors
///
/// The BMC has no records ([`ErrorKind::Unsupported`]), or did not respond.
pub(super) async fn sensors<A: Requester>(ask: &A) -> Result<Vec<SensorRecord>, RequestError> {
    let source = source(ask).await?;
    let mut walk = RepositoryReader {
        ask,
        source,
        reservation: 0,
        reservations: 0,
        chunks: &CHUNKS,
    };
    walk.reserve().await?;
    let mut sensors = Vec::new();
    let mut seen = BTreeSet::new();
    let mut id = 0;
    while id != LAST && seen.len() < MAX_RECORDS && seen.insert(id) {
        match walk.record(id).await {
            Ok((next, record)) => {
                sensors.extend(record::parse(&record));
                id = next;
            }
            Err(RequestError::Code(CompletionCode::NOT_PRESENT)) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(sensors)
}

async fn source<A: Requester>(ask: &A) -> Result<Source, RequestError> {
    let none = match ask.ask(Source::Repository.info()).await {
        Ok(_) => return Ok(Source::Repository),
        Err(RequestError::Code(code)) if code.kind() == ErrorKind::Unsupported => code,
        Err(error) => return Err(error),
    };
    match ask.ask(Source::Device.info()).await {
        Ok(_) => Ok(Source::Device),
        Err(RequestError::Code(_)) => Err(RequestError::Code(none)),
        Err(error) => Err(error),
    }
}

struct RepositoryReader<'a, A> {
    ask: &'a A,
    source: Source,
    reservation: u16,
    reservations: usize,
    /// Read lengths that were not rejected, longest first.
    chunks: &'static [u8],
}

impl<A: Requester> RepositoryReader<'_, A> {
    /// Takes a reservation; 0 for a BMC without reservations (IPMI 2.0, 33.12).
    async fn reserve(&mut self) -> Result<(), RequestError> {
        self.reservations = self.reservations.saturating_add(1);
        self.reservation = match self.ask.ask(self.source.reserve()).await {
            Ok(data) => match data.first_chunk() {
                Some(bytes) => u16::from_le_bytes(*bytes),
                None => return Err(RequestError::Data("truncated reservation")),
            },
            Err(RequestError::Code(code)) if code.kind() == ErrorKind::Unsupported => 0,
            Err(error) => return Err(error),
        };
        Ok(())
    }

    /// Reads one record with its header, and the id of the next one. Renews a lost reservation,
    /// reads shorter parts if the BMC rejects longer ones, and remembers the accepted length.
    async fn record(&mut self, id: u16) -> Result<(u16, Vec<u8>), RequestError> {
        loop {
            let refused = match self.read(id).await {
                Err(RequestError::Code(code)) => code,
                result => return result,
            };
            match (refused, self.chunks) {
                (CompletionCode::RESERVATION, _) if self.reservations < MAX_RESERVATIONS => {
                    self.reserve().await?;
                }
                (code, [_, shorter @ ..]) if is_about_length(code) && !shorter.is_empty() => {
                    self.chunks = shorter;
                }
                (code, _) => return Err(RequestError::Code(code)),
            }
        }
    }

    /// Reads one record in parts. For records that describe no sensor, the header is sufficient.
    async fn read(&self, id: u16) -> Result<(u16, Vec<u8>), RequestError> {
        let chunk = self.chunks.first().copied().unwrap_or(WHOLE);
        let mut record = Vec::new();
        loop {
            let missing = missing(&record);
            let count = match missing {
                None if chunk == WHOLE && record.is_empty() => WHOLE,
                // The header first: some BMCs reject a read beyond the end of a record.
                None => HEADER
                    .saturating_sub(record.len())
                    .try_into()
                    .unwrap_or(WHOLE),
                Some(missing) => chunk.min(missing.try_into().unwrap_or(WHOLE)),
            };
            let Ok(offset) = u8::try_from(record.len()) else {
                return Err(RequestError::Data("endless sensor record"));
            };
            let request = self.source.get(self.reservation, id, offset, count);
            let data = self.ask.ask(request).await?;
            let Some((next, part)) = data.split_first_chunk() else {
                return Err(RequestError::Data("truncated sensor record"));
            };
            if part.is_empty() {
                return Err(RequestError::Data("truncated sensor record"));
            }
            let asked = if count == WHOLE {
                part.len()
            } else {
                count.into()
            };
            record.extend(part.iter().take(asked));
            let is_sensor = record.get(3).is_none_or(|kind| record::is_sensor(*kind));
            if self::missing(&record) == Some(0) || record.len() >= HEADER && !is_sensor {
                record.truncate(length(&record).unwrap_or(HEADER));
                return Ok((u16::from_le_bytes(*next), record));
            }
        }
    }
}

/// Length of the record according to its header; `None`: header incomplete.
fn length(record: &[u8]) -> Option<usize> {
    let rest = record.get(HEADER - 1)?;
    Some(HEADER + usize::from(*rest))
}

fn missing(record: &[u8]) -> Option<usize> {
    Some(length(record)?.saturating_sub(record.len()))
}

/// Whether a shorter read may succeed after this completion code.
fn is_about_length(code: CompletionCode) -> bool {
    [
        CompletionCode::TOO_MANY_BYTES,
        CompletionCode::LENGTH,
        CompletionCode::UNSPECIFIED,
    ]
    .contains(&code)
        || code.number() == 0xc8
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ipmi::command::fake::{FakeBmc, Fault, records};

    fn names(sensors: &[SensorRecord]) -> Vec<&str> {
        sensors.iter().map(|sensor| sensor.name.as_str()).collect()
    }

    fn bmc() -> FakeBmc {
        FakeBmc {
            sdr: vec![
                (0x0001, records::DELL_FAN.to_vec()),
                (0x0002, records::mc_locator()),
                (0x0100, records::compact(0x51, 0x08, 0x6f, b"PS1 Status")),
                (0x0007, records::DELL_INLET.to_vec()),
            ],
            ..FakeBmc::default()
        }
    }

    const ALL: [&str; 3] = ["Fan2A", "PS1 Status", "Inlet Temp"];

    #[tokio::test]
    async fn sensor_records_are_read_whole_by_default() {
        let bmc = bmc();
        assert_eq!(names(&sensors(&bmc).await.unwrap()), ALL);
        assert_eq!(bmc.asked(0x0a, 0x23), 4);
    }

    #[tokio::test]
    async fn record_read_adapts_to_the_byte_limit_of_the_bmc() {
        for most in [8, 16, 21, 31, 63] {
            let bmc = FakeBmc {
                most_bytes: most,
                ..bmc()
            };
            assert_eq!(names(&sensors(&bmc).await.unwrap()), ALL, "{most}");
        }
    }

    #[tokio::test]
    async fn rejected_read_length_is_not_tried_again() {
        let bmc = FakeBmc {
            most_bytes: 22,
            ..bmc()
        };
        sensors(&bmc).await.unwrap();
        let whole = |data: &[u8]| data.last() == Some(&WHOLE);
        assert_eq!(bmc.asked_with(0x0a, 0x23, whole), 1);
    }

    #[tokio::test]
    async fn rest_of_a_truncated_record_is_read() {
        let bmc = FakeBmc {
            cuts_at: Some(20),
            ..bmc()
        };
        assert_eq!(names(&sensors(&bmc).await.unwrap()), ALL);
    }

    #[tokio::test]
    async fn lost_sdr_reservation_is_renewed() {
        let bmc = bmc();
        bmc.fail(Fault::nth(0x0a, 0x23, 2, 0xc5));
        assert_eq!(names(&sensors(&bmc).await.unwrap()), ALL);
        assert_eq!(bmc.asked(0x0a, 0x22), 2);
    }

    #[tokio::test]
    async fn sdr_read_fails_when_every_reservation_is_lost() {
        let bmc = bmc();
        bmc.fail(Fault::always(0x0a, 0x23, 0xc5));
        let lost = RequestError::Code(CompletionCode::RESERVATION);
        assert_eq!(sensors(&bmc).await, Err(lost));
        assert_eq!(bmc.asked(0x0a, 0x22), MAX_RESERVATIONS);
    }

    #[tokio::test]
    async fn sdr_is_read_without_reservation_where_unsupported() {
        let bmc = bmc();
        bmc.fail(Fault::always(0x0a, 0x22, 0xc1));
        assert_eq!(names(&sensors(&bmc).await.unwrap()), ALL);
        assert_eq!(
            bmc.asked_with(0x0a, 0x23, |data| data.starts_with(&[0, 0])),
            4
        );
    }

    #[tokio::test]
    async fn cyclic_record_links_end_the_read() {
        let bmc = FakeBmc {
            sdr_loops: true,
            ..bmc()
        };
        assert_eq!(names(&sensors(&bmc).await.unwrap())[..3], ALL);
        assert!(bmc.asked(0x0a, 0x23) <= 5);
    }

    #[tokio::test]
    async fn link_to_a_missing_record_ends_the_read() {
        let bmc = bmc();
        bmc.fail(Fault::nth(0x0a, 0x23, 2, 0xcb));
        assert_eq!(names(&sensors(&bmc).await.unwrap()), ["Fan2A"]);
    }

    #[tokio::test]
    async fn device_sdr_is_read_where_no_repository_exists() {
        let bmc = bmc();
        bmc.fail(Fault::always(0x0a, 0x20, 0xc1));
        assert_eq!(names(&sensors(&bmc).await.unwrap()), ALL);
        assert_eq!(bmc.asked(0x0a, 0x23), 0);
    }

    #[tokio::test]
    async fn missing_sensor_records_report_the_completion_code() {
        let bmc = bmc();
        bmc.fail(Fault::always(0x0a, 0x20, 0xc1));
        bmc.fail(Fault::always(0x04, 0x20, 0xc1));
        let none = RequestError::Code(CompletionCode::INVALID_COMMAND);
        assert_eq!(sensors(&bmc).await, Err(none));
    }

    #[tokio::test]
    async fn lost_bmc_during_an_sdr_read_is_an_error() {
        let bmc = bmc();
        bmc.die_after(3);
        assert!(matches!(sensors(&bmc).await, Err(RequestError::Bmc(_))));
    }
}
