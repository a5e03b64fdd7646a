//! The fate of a datagram, as a pure function of seed, direction, number and length.
//!
//! It does not depend on a clock or on other datagrams: the same packets in the same order have the same
//! fates.

use std::time::Duration;

/// Direction of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Direction {
    /// From a client to the server.
    ToServer,
    /// From the server to a client.
    ToClient,
}

/// A fault of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fault {
    /// The datagram is lost.
    Drop,
    /// The datagram arrives twice.
    Duplicate,
    /// The datagram arrives [`Faults::delay_by`] later.
    Delay,
    /// The next datagram of the same direction overtakes it.
    Reorder,
    /// The end of the datagram is missing.
    Truncate,
    /// One bit of the datagram is flipped.
    Flip,
}

impl Fault {
    /// All faults.
    pub const ALL: [Self; 6] = [
        Self::Drop,
        Self::Duplicate,
        Self::Delay,
        Self::Reorder,
        Self::Truncate,
        Self::Flip,
    ];
}

/// A fault for certain datagrams, in addition to those chosen by the seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nth {
    /// Direction of the datagrams.
    pub direction: Direction,
    /// Number of the datagram in this direction, from 0.
    pub index: u64,
    /// Interval of further affected datagrams; `None` for only one.
    pub every: Option<u64>,
    /// What happens to the datagram.
    pub fault: Fault,
}

impl Nth {
    fn covers(&self, direction: Direction, index: u64) -> bool {
        let after = index.checked_sub(self.index);
        self.direction == direction
            && after.is_some_and(|after| match self.every {
                Some(every) => after % every.max(1) == 0,
                None => after == 0,
            })
    }
}

/// Probability of each fault, from 0 to 1, in both directions.
#[derive(Clone, Debug, PartialEq)]
pub struct Faults {
    /// Probability of [`Fault::Drop`].
    pub drop: f64,
    /// Probability of [`Fault::Duplicate`].
    pub duplicate: f64,
    /// Probability of [`Fault::Delay`].
    pub delay: f64,
    /// Probability of [`Fault::Reorder`].
    pub reorder: f64,
    /// Probability of [`Fault::Truncate`].
    pub truncate: f64,
    /// Probability of [`Fault::Flip`].
    pub flip: f64,
    /// Duration of a delay, longer than the timeout of a client.
    pub delay_by: Duration,
    /// Faults of certain datagrams.
    pub nth: Vec<Nth>,
}

impl Default for Faults {
    /// No faults.
    fn default() -> Self {
        Self {
            drop: 0.0,
            duplicate: 0.0,
            delay: 0.0,
            reorder: 0.0,
            truncate: 0.0,
            flip: 0.0,
            delay_by: Duration::from_secs(3),
            nth: Vec::new(),
        }
    }
}

impl Faults {
    /// All faults with this probability.
    pub fn all(probability: f64) -> Self {
        Self {
            drop: probability,
            duplicate: probability,
            delay: probability,
            reorder: probability,
            truncate: probability,
            flip: probability,
            ..Self::default()
        }
    }

    /// Adds a fault of a certain datagram.
    #[must_use]
    pub fn and(mut self, direction: Direction, index: u64, fault: Fault) -> Self {
        self.nth.push(Nth {
            direction,
            index,
            every: None,
            fault,
        });
        self
    }

    fn likely(&self, fault: Fault) -> f64 {
        match fault {
            Fault::Drop => self.drop,
            Fault::Duplicate => self.duplicate,
            Fault::Delay => self.delay,
            Fault::Reorder => self.reorder,
            Fault::Truncate => self.truncate,
            Fault::Flip => self.flip,
        }
    }
}

/// The fate of a datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fate {
    /// Number of copies that arrive: 0, 1 or 2.
    pub copies: u8,
    /// Delay of the arrival.
    pub delay: Duration,
    /// Whether the datagram is overtaken by the next one.
    pub reorder: bool,
    /// Number of bytes that arrive, if not all.
    pub truncate: Option<usize>,
    /// Index of the flipped bit, counted from the lowest bit of the first byte.
    pub flip: Option<usize>,
}

impl Fate {
    /// The datagram arrives unchanged.
    pub const UNHARMED: Self = Self {
        copies: 1,
        delay: Duration::ZERO,
        reorder: false,
        truncate: None,
        flip: None,
    };

    /// Applies the fate to a datagram.
    pub fn apply(&self, datagram: &[u8]) -> Vec<u8> {
        let mut bytes = datagram.to_vec();
        let flipped = self.flip.map(|bit| (bytes.get_mut(bit / 8), bit % 8));
        if let Some((Some(byte), bit)) = flipped {
            *byte ^= 1 << bit;
        }
        bytes.truncate(self.truncate.unwrap_or(usize::MAX));
        bytes
    }
}

/// The fate of datagram `index` of this direction, `length` bytes long.
pub fn decide(seed: u64, faults: &Faults, direction: Direction, index: u64, length: usize) -> Fate {
    let mut fate = Fate::UNHARMED;
    for (number, fault) in (0_u64..).zip(Fault::ALL) {
        let side = u64::from(direction == Direction::ToClient);
        let [chance, place] = draw(seed, index << 8 | number << 1 | side);
        let mut certain = faults.nth.iter().filter(|nth| nth.fault == fault);
        let certain = certain.any(|nth| nth.covers(direction, index));
        if !certain && fraction(chance) >= faults.likely(fault) {
            continue;
        }
        match fault {
            Fault::Drop => fate.copies = 0,
            Fault::Duplicate => fate.copies = fate.copies.saturating_mul(2),
            Fault::Delay => fate.delay = faults.delay_by,
            Fault::Reorder => fate.reorder = true,
            Fault::Truncate => fate.truncate = below(place, length),
            Fault::Flip => fate.flip = below(place, length.saturating_mul(8)),
        }
    }
    fate
}

/// Two pseudo-random numbers derived from seed and number (SplitMix64).
fn draw(seed: u64, number: u64) -> [u64; 2] {
    let mix = |mut value: u64| {
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    };
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    let first = mix(mix(seed.wrapping_add(STEP)) ^ number.wrapping_mul(STEP));
    [first, mix(first.wrapping_add(STEP))]
}

/// Maps a number to the range from 0 to below 1.
fn fraction(number: u64) -> f64 {
    let high = u32::try_from(number >> 32).unwrap_or(u32::MAX);
    f64::from(high) / (f64::from(u32::MAX) + 1.0)
}

/// Maps a number to the range below the limit; `None` if the limit is 0.
fn below(number: u64, limit: usize) -> Option<usize> {
    let limit = u64::try_from(limit).ok()?;
    usize::try_from(number.checked_rem(limit)?).ok()
}
