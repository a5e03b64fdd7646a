//! Losses of power of several hosts of a rack at once, which wait for the judgement of shared causes.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::Timestamp;

use super::after;
use crate::fleet::shared_cause::{
    BmcReading, Domain, DomainKind, Failures, HostName, Judgement, OnTimeout, SharedCauseRules,
    judge,
};

/// How long a single loss waits for others of its rack. The other hosts of the rack are read at once meanwhile.
const ALONE_AFTER: Duration = Duration::from_secs(5);
/// How long losses of several hosts wait for more before they are judged: the default of `settlingSeconds`.
const SETTLING: Duration = Duration::from_secs(15);

/// The defaults of `sharedCauses` of a PowerPolicy. A PowerPolicy may hold the remediations for longer.
fn rules() -> SharedCauseRules {
    SharedCauseRules {
        window: Duration::from_secs(120),
        min_hosts: 3,
        min_percent: 50,
        settling: SETTLING,
        hold: Duration::from_secs(900),
        recovery: Duration::from_secs(300),
        on_timeout: OnTimeout::Proceed,
    }
}

/// Whether a host has lost its power alone.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SharedLoss {
    /// No other host of the rack has, or those that have share no cause.
    Alone,
    /// That is not known before this time.
    Settling(Timestamp),
    /// Most hosts of the rack have; the sentence of the cause, and when it ends by itself.
    Cause(String, Option<Timestamp>),
}

/// The hosts of all racks that have lost their power, whether or not anything else explains it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct RackLosses {
    losses: Failures,
    judgement: Judgement,
}

impl RackLosses {
    /// Adds a watched host of a rack. Its name is that of its Node.
    pub fn place(&mut self, host: &HostName, rack: &str) {
        let domain = Domain::new(DomainKind::Rack, rack);
        self.losses.place(host, BTreeSet::from([domain]));
    }

    /// Removes a host that is no longer watched.
    pub fn remove(&mut self, host: &HostName) {
        self.losses.remove(host);
    }

    /// Records whether a host that was on is off, and since when.
    pub fn record(&mut self, host: &HostName, lost: Option<Timestamp>, now: Timestamp) {
        match lost {
            Some(at) => self.losses.fail(host, at, now),
            None => self.losses.recover(host),
        }
    }

    /// The other watched hosts of the rack, at most `most`, which a loss of one lets read.
    pub fn others_of_rack(&self, host: &HostName, most: usize) -> Vec<HostName> {
        let of_host = self.losses.domains(host);
        let all = self.losses.hosts();
        let others = all.filter(|other| *other != host && self.losses.domains(other) == of_host);
        others.take(most).cloned().collect()
    }

    /// Judges the losses again.
    pub fn judge(&mut self, now: Timestamp) {
        let lost = self.losses.hosts();
        let lost = lost.filter(|host| self.losses.of_host(host).is_some());
        let readings: BTreeMap<HostName, BmcReading> =
            lost.map(|host| (host.clone(), BmcReading::Off)).collect();
        self.judgement = judge(&self.losses, &rules(), &self.judgement, &readings, now);
        let causes: Vec<HostName> = readings.into_keys().collect();
        for host in causes {
            self.judgement.begin_hold(&self.losses, &host, now);
        }
    }

    /// Whether the loss of a host is its own.
    #[must_use]
    pub fn of(&self, host: &HostName, now: Timestamp) -> SharedLoss {
        let Some(own) = self.losses.of_host(host) else {
            return SharedLoss::Settling(after(now, ALONE_AFTER));
        };
        let rules = rules();
        let hold = self.judgement.hold(&self.losses, &rules, host, true, now);
        if let Some(hold) = &hold
            && hold.cause.is_some()
        {
            let cause = self.judgement.cause_of(&self.losses, host);
            let text = cause.map_or_else(|| hold.detail.clone(), ToString::to_string);
            return SharedLoss::Cause(text, hold.until);
        }
        let domains = self.losses.domains(host).into_iter().flatten();
        let others = domains.flat_map(|domain| self.losses.failed(domain));
        let together = others.filter(|(at, other)| {
            let apart = at.duration_since(own.at).unsigned_abs();
            other != host && apart <= rules.window
        });
        let last = together.map(|(at, _)| *at).max();
        let until = match last {
            Some(last) => after(last.max(own.seen), SETTLING),
            None => after(own.seen, ALONE_AFTER),
        };
        match until > now {
            true => SharedLoss::Settling(until),
            false => SharedLoss::Alone,
        }
    }
}
