//! Conversion of durations and timestamps from and to protobuf.
//!
//! Owns: the validation of received values. Must never: panic, or round silently, on a received
//! value.

use std::time::Duration;

use jiff::Timestamp;

/// Error of an invalid duration or timestamp.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TimeError {
    /// Negative, or nanoseconds out of range.
    #[error("not a duration of zero or more")]
    Duration,
    /// Out of range.
    #[error("not a time between the years -9999 and 9999")]
    Timestamp,
}

/// Converts a duration to protobuf, limited to the maximum of the format.
pub fn duration_to_proto(duration: Duration) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(duration.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(duration.subsec_nanos()).unwrap_or(0),
    }
}

/// Converts a received duration.
pub fn duration_from_proto(duration: &prost_types::Duration) -> Result<Duration, TimeError> {
    let seconds = u64::try_from(duration.seconds).map_err(|_| TimeError::Duration)?;
    let nanos = u32::try_from(duration.nanos).map_err(|_| TimeError::Duration)?;
    if nanos >= 1_000_000_000 {
        return Err(TimeError::Duration);
    }
    Ok(Duration::new(seconds, nanos))
}

/// Converts a received duration for which zero and absence mean "not set".
pub fn duration_if_set(
    duration: Option<&prost_types::Duration>,
) -> Result<Option<Duration>, TimeError> {
    match duration.map(duration_from_proto).transpose()? {
        None => Ok(None),
        Some(duration) if duration.is_zero() => Ok(None),
        set => Ok(set),
    }
}

/// Converts a timestamp to protobuf.
pub fn timestamp_to_proto(at: Timestamp) -> prost_types::Timestamp {
    // Protobuf counts nanoseconds forward from the second, jiff towards zero.
    let nanos = at.subsec_nanosecond();
    if nanos < 0 {
        prost_types::Timestamp {
            seconds: at.as_second() - 1,
            nanos: nanos + 1_000_000_000,
        }
    } else {
        prost_types::Timestamp {
            seconds: at.as_second(),
            nanos,
        }
    }
}

/// Converts a received timestamp.
pub fn timestamp_from_proto(at: &prost_types::Timestamp) -> Result<Timestamp, TimeError> {
    if !(0..1_000_000_000).contains(&at.nanos) {
        return Err(TimeError::Timestamp);
    }
    Timestamp::new(at.seconds, at.nanos).map_err(|_| TimeError::Timestamp)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn durations_round_trip(seconds in 0..=i64::MAX as u64, nanos in 0..1_000_000_000_u32) {
            let duration = Duration::new(seconds, nanos);
            prop_assert_eq!(duration_from_proto(&duration_to_proto(duration)), Ok(duration));
        }

        #[test]
        fn timestamps_round_trip(seconds in -377_705_023_201_i64..253_402_207_200, nanos in 0..1_000_000_000_i32) {
            let at = Timestamp::new(seconds, nanos).unwrap();
            let proto = timestamp_to_proto(at);
            prop_assert!((0..1_000_000_000).contains(&proto.nanos));
            prop_assert_eq!(timestamp_from_proto(&proto), Ok(at));
        }

        #[test]
        fn arbitrary_times_do_not_panic(seconds: i64, nanos: i32) {
            duration_from_proto(&prost_types::Duration { seconds, nanos }).ok();
            timestamp_from_proto(&prost_types::Timestamp { seconds, nanos }).ok();
        }
    }

    #[test]
    fn zero_and_absent_durations_are_none() {
        let zero = prost_types::Duration::default();
        assert_eq!(duration_if_set(None), Ok(None));
        assert_eq!(duration_if_set(Some(&zero)), Ok(None));
        let minus = prost_types::Duration {
            seconds: -1,
            nanos: 0,
        };
        assert_eq!(duration_if_set(Some(&minus)), Err(TimeError::Duration));
    }
}
