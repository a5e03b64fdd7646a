//! A BMC in memory that responds from tables, and one that responds with arbitrary bytes.

#![allow(clippy::unwrap_in_result)]

pub(super) mod records;

use std::{collections::BTreeMap, sync::Mutex};

use ipmi_rs_core::connection::{IpmiCommand, Message};

use crate::{
    BmcError, ErrorKind,
    ipmi::{
        requester::{RequestError, Requester},
        wire::CompletionCode,
    },
};

/// Data after the completion code, or an error completion code.
type Answer = Result<Vec<u8>, u8>;

/// The records of the BMC, and its limits and faults.
pub(super) struct FakeBmc {
    /// Records with their headers, by id, in link order.
    pub(super) sdr: Vec<(u16, Vec<u8>)>,
    /// Whether the last record links to the first.
    pub(super) sdr_loops: bool,
    /// Sensor readings by sensor number; other sensors are not present.
    pub(super) readings: BTreeMap<u8, Answer>,
    pub(super) sel: Vec<[u8; 16]>,
    /// Number of log entries that the BMC reports, if it is not the real number.
    pub(super) sel_total: Option<u16>,
    pub(super) sel_loops: bool,
    /// Number of status requests that report an erasure as in progress.
    pub(super) erasure_looks: usize,
    pub(super) fru: Vec<u8>,
    pub(super) fru_words: bool,
    pub(super) guid: Option<[u8; 16]>,
    pub(super) dcmi: Answer,
    /// Maximum number of bytes per read, and the completion code for longer reads.
    pub(super) most_bytes: usize,
    pub(super) too_many: u8,
    /// Silently truncates responses to this many bytes.
    pub(super) cuts_at: Option<usize>,
    pub(super) state: Mutex<State>,
}

#[derive(Default)]
pub(super) struct State {
    asked: Vec<(u8, u8, Vec<u8>)>,
    faults: Vec<Fault>,
    dies_after: Option<usize>,
    looks: usize,
    is_erased: bool,
}

/// A completion code for the n-th request of a kind, or for every one.
pub(super) struct Fault {
    net_fn: u8,
    command: u8,
    nth: Option<usize>,
    code: u8,
}

impl Fault {
    pub(super) fn nth(net_fn: u8, command: u8, nth: usize, code: u8) -> Self {
        let nth = Some(nth);
        Self {
            net_fn,
            command,
            nth,
            code,
        }
    }

    pub(super) fn always(net_fn: u8, command: u8, code: u8) -> Self {
        Self {
            net_fn,
            command,
            nth: None,
            code,
        }
    }
}

impl Default for FakeBmc {
    fn default() -> Self {
        Self {
            sdr: Vec::new(),
            sdr_loops: false,
            readings: BTreeMap::new(),
            sel: Vec::new(),
            sel_total: None,
            sel_loops: false,
            erasure_looks: 0,
            fru: Vec::new(),
            fru_words: false,
            guid: None,
            dcmi: Err(0xc1),
            most_bytes: usize::MAX,
            too_many: 0xca,
            cuts_at: None,
            state: Mutex::default(),
        }
    }
}

impl FakeBmc {
    pub(super) fn with_inventory() -> Self {
        let product: [(u8, &[u8]); 5] = [
            (3, b"ACME"),
            (3, b"Server 9000"),
            (3, b"P-1"),
            (3, b"v2"),
            (3, b"SN-PRODUCT-1"),
        ];
        Self {
            fru: records::inventory(&product),
            ..Self::default()
        }
    }

    pub(super) fn fail(&self, fault: Fault) {
        self.state.lock().unwrap().faults.push(fault);
    }

    /// Responds to `count` requests and to no further one.
    pub(super) fn die_after(&self, count: usize) {
        self.state.lock().unwrap().dies_after = Some(count);
    }

    pub(super) fn asked(&self, net_fn: u8, command: u8) -> usize {
        self.asked_with(net_fn, command, |_| true)
    }

    pub(super) fn asked_with(
        &self,
        net_fn: u8,
        command: u8,
        matches: impl Fn(&[u8]) -> bool,
    ) -> usize {
        let state = self.state.lock().unwrap();
        let asked = state.asked.iter();
        asked
            .filter(|(n, c, data)| (*n, *c) == (net_fn, command) && matches(data))
            .count()
    }

    pub(super) fn left_in_sel(&self) -> usize {
        let is_erased = self.state.lock().unwrap().is_erased;
        if is_erased { 0 } else { self.sel.len() }
    }

    fn answer(&self, net_fn: u8, command: u8, data: &[u8]) -> Result<Vec<u8>, RequestError> {
        let nth = self.asked(net_fn, command);
        {
            let mut state = self.state.lock().unwrap();
            if state.dies_after == Some(state.asked.len()) {
                return Err(RequestError::Bmc(silence()));
            }
            state.asked.push((net_fn, command, data.to_vec()));
            let fault = state.faults.iter().find(|fault| {
                (fault.net_fn, fault.command) == (net_fn, command)
                    && fault.nth.is_none_or(|wanted| wanted == nth)
            });
            if let Some(fault) = fault {
                return Err(code(fault.code));
            }
        }
        self.table(net_fn, command, data).map_err(code)
    }

    fn table(&self, net_fn: u8, command: u8, data: &[u8]) -> Answer {
        match (net_fn, command) {
            (0x06, 0x01) => Ok(records::DEVICE_ID.to_vec()),
            (0x06, 0x37) => self.guid.map(|guid| guid.to_vec()).ok_or(0xc1),
            (0x2c, 0x02) => self.dcmi.clone(),
            (0x0a | 0x04, 0x20) => Ok(vec![0x51, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x02]),
            (0x0a | 0x04, 0x22) => Ok(vec![0x34, 0x12]),
            (0x0a, 0x23) | (0x04, 0x21) => self.record(data),
            (0x04, 0x2d) => self.readings.get(&data[0]).cloned().unwrap_or(Err(0xcb)),
            (0x0a, 0x40) => {
                let entries = self
                    .sel_total
                    .unwrap_or(self.left_in_sel().try_into().unwrap());
                let [low, high] = entries.to_le_bytes();
                Ok(vec![0x51, low, high, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0x02])
            }
            (0x0a, 0x42) => Ok(vec![0x77, 0x00]),
            (0x0a, 0x43) => self.event(u16::from_le_bytes([data[2], data[3]])),
            (0x0a, 0x47) => Ok(vec![self.erase(data[5])]),
            (0x0a, 0x10) => {
                let [low, high] = u16::try_from(self.fru.len()).unwrap().to_le_bytes();
                Ok(vec![low, high, self.fru_words.into()])
            }
            (0x0a, 0x11) => self.inventory(data),
            _ => Err(0xc1),
        }
    }

    fn record(&self, data: &[u8]) -> Answer {
        let wanted = u16::from_le_bytes([data[2], data[3]]);
        let index = self.sdr.iter().position(|(id, _)| *id == wanted);
        let index = if wanted == 0 { Some(0) } else { index }.ok_or(0xcb)?;
        let (_, record) = self.sdr.get(index).ok_or(0xcb)?;
        let first = self.sdr.first().filter(|_| self.sdr_loops);
        let next = self
            .sdr
            .get(index + 1)
            .or(first)
            .map_or(0xffff, |next| next.0);
        let rest = &record[usize::from(data[4]).min(record.len())..];
        let count = match data[5] {
            0xff => rest.len(),
            count => usize::from(count),
        };
        // Reads beyond the end are rejected, as real BMCs do.
        if count > rest.len() || count > self.most_bytes {
            return Err(self.too_many);
        }
        let count = count.min(self.cuts_at.unwrap_or(count));
        let mut answer = next.to_le_bytes().to_vec();
        answer.extend(&rest[..count]);
        Ok(answer)
    }

    fn event(&self, wanted: u16) -> Answer {
        let id = |entry: &[u8; 16]| u16::from_le_bytes([entry[0], entry[1]]);
        let index = match wanted {
            0 => Some(0),
            0xffff => self.sel.len().checked_sub(1),
            wanted => self.sel.iter().position(|entry| id(entry) == wanted),
        };
        let index = index.filter(|index| *index < self.sel.len()).ok_or(0xcb)?;
        let first = self.sel.first().filter(|_| self.sel_loops);
        let next = self.sel.get(index + 1).or(first).map_or(0xffff, id);
        let mut answer = next.to_le_bytes().to_vec();
        answer.extend(self.sel[index]);
        Ok(answer)
    }

    /// Handles the erase and status actions; returns the erasure progress.
    fn erase(&self, action: u8) -> u8 {
        let mut state = self.state.lock().unwrap();
        if action == 0xaa {
            state.is_erased = true;
        } else {
            state.looks += 1;
        }
        (state.looks >= self.erasure_looks).into()
    }

    fn inventory(&self, data: &[u8]) -> Answer {
        let unit = if self.fru_words { 2 } else { 1 };
        let offset = usize::from(u16::from_le_bytes([data[1], data[2]])) * unit;
        let count = usize::from(data[3]) * unit;
        if count > self.most_bytes {
            return Err(self.too_many);
        }
        let end = offset + count.min(self.cuts_at.unwrap_or(count) / unit * unit);
        let part = self.fru.get(offset..end).ok_or(0xc9)?;
        let mut answer = vec![(part.len() / unit).try_into().unwrap()];
        answer.extend(part);
        Ok(answer)
    }
}

impl Requester for FakeBmc {
    async fn ask<C>(&self, command: C) -> Result<C::Output, RequestError>
    where
        C: IpmiCommand + Send,
        C::Output: Send,
    {
        let message: Message = command.into();
        let answer = self.answer(message.netfn_raw(), message.cmd(), message.data())?;
        C::parse_success_response(&answer).map_err(|_| RequestError::Data("garbled"))
    }
}

/// Responds to every request with the next of these answers, cyclically.
pub(super) struct Noise(pub(super) Vec<Answer>, pub(super) Mutex<usize>);

/// Upper bound of the requests of one log read; a log has at most 65,536 entries.
const MOST_REQUESTS: usize = 200_000;

impl Requester for Noise {
    async fn ask<C>(&self, _: C) -> Result<C::Output, RequestError>
    where
        C: IpmiCommand + Send,
        C::Output: Send,
    {
        let mut asked = self.1.lock().unwrap();
        let answer = self.0[*asked % self.0.len()].clone();
        *asked += 1;
        assert!(*asked < MOST_REQUESTS, "endless requests");
        let data = answer.map_err(code)?;
        C::parse_success_response(&data).map_err(|_| RequestError::Data("garbled"))
    }
}

fn code(number: u8) -> RequestError {
    CompletionCode::of(number).map_or(RequestError::Data("no code"), RequestError::Code)
}

fn silence() -> BmcError {
    BmcError {
        kind: ErrorKind::Timeout,
        bmc: "ipmi://fake".to_owned(),
        message: "no answer".to_owned(),
        retry_after: None,
        maybe_sent: true,
        not_sent: false,
    }
}
