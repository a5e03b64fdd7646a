//! Faults that are put around the agent's decisions on purpose, to show that the checker finds each.

use rackhand_agent_core::ledger::{Action, Authority, Host, StartRequest};

use super::{
    actions::Fault,
    agent::Ledger,
    check::Setting,
    world::{ELECTION, HOST, Manual},
};

/// A fault on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "the description says it")]
pub enum Breakage {
    TermIgnored,
    SequenceIgnored,
    StandbyIgnored,
    HoldUnchecked,
    ForceNotNeeded,
    AnsweredEarly,
    CopyTrusted,
    QueueIgnored,
    InterruptedRepeated,
    PinIgnored,
    LateTaken,
    ClaimsUnordered,
    AbsenceBelieved,
    CallerIgnored,
    CycleAbandoned,
    CycleLeftOff,
}

impl Breakage {
    /// All of them.
    pub const ALL: [Self; 16] = [
        Self::TermIgnored,
        Self::SequenceIgnored,
        Self::StandbyIgnored,
        Self::HoldUnchecked,
        Self::ForceNotNeeded,
        Self::AnsweredEarly,
        Self::CopyTrusted,
        Self::QueueIgnored,
        Self::InterruptedRepeated,
        Self::PinIgnored,
        Self::LateTaken,
        Self::ClaimsUnordered,
        Self::AbsenceBelieved,
        Self::CallerIgnored,
        Self::CycleAbandoned,
        Self::CycleLeftOff,
    ];

    /// What is done wrong.
    pub fn description(self) -> &'static str {
        match self {
            Self::TermIgnored => "a command of an older term is taken",
            Self::SequenceIgnored => "a command with an older sequence is taken",
            Self::StandbyIgnored => "an agent that stands by takes commands",
            Self::HoldUnchecked => "a power-on does not look for a hold",
            Self::ForceNotNeeded => "a power-on needs no force on a held host",
            Self::AnsweredEarly => "an operation is answered before it is written",
            Self::CopyTrusted => "an older copy of a journal counts as the last one",
            Self::QueueIgnored => "operations do not wait for their turn",
            Self::InterruptedRepeated => "an interrupted operation is begun again",
            Self::PinIgnored => "a controller does not wait for the other agent",
            Self::LateTaken => "a command is taken after its time",
            Self::ClaimsUnordered => "commands of before the last claim are taken",
            Self::AbsenceBelieved => "a serving agent counts as never to begin a call",
            Self::CallerIgnored => "an operation goes on without its caller",
            Self::CycleAbandoned => "a cycle without its caller is not finished",
            Self::CycleLeftOff => "an interrupted cycle is not finished",
        }
    }

    /// The smallest world in which it can be found.
    pub fn setting(self) -> Setting {
        let (faults, operator): (&[Fault], &[Manual]) = match self {
            Self::TermIgnored => (&[Fault::Takeover], &[]),
            Self::SequenceIgnored => (&[Fault::Twice], &[]),
            Self::StandbyIgnored => (&[Fault::Late, Fault::Lost], &[]),
            Self::HoldUnchecked | Self::ForceNotNeeded => (&[], &[Manual::On]),
            Self::QueueIgnored => (&[], &[Manual::ForcedOn]),
            Self::AnsweredEarly => (&[], &[]),
            Self::CopyTrusted => (&[Fault::Takeover, Fault::RestoredWithNote], &[]),
            Self::InterruptedRepeated => (&[Fault::Crash], &[Manual::ForcedReset]),
            Self::PinIgnored | Self::LateTaken | Self::AbsenceBelieved => (&[Fault::Late], &[]),
            Self::ClaimsUnordered => (&[Fault::Late, Fault::Lost], &[]),
            Self::CallerIgnored => (&[Fault::CallerGone], &[Manual::Off]),
            Self::CycleAbandoned => (&[Fault::CallerGone], &[Manual::Cycle]),
            Self::CycleLeftOff => (&[Fault::Crash], &[Manual::Cycle]),
        };
        Setting {
            faults: faults.to_vec(),
            operator: operator.to_vec(),
            breakage: Some(self),
            ..Setting::rack(u8::try_from(faults.len()).unwrap_or(u8::MAX))
        }
    }

    /// Distorts a request before the ledger decides about it.
    pub fn request(self, request: &mut StartRequest, ledger: &Ledger) {
        match (self, &mut request.authority) {
            (Self::TermIgnored, Authority::Controller { term, holder, .. }) => {
                if let Some(known) = ledger.terms.get(ELECTION) {
                    *term = known.number;
                    holder.clone_from(&known.holder);
                }
            }
            (Self::SequenceIgnored, Authority::Controller { term, sequence, .. }) => {
                let known = ledger
                    .sequences
                    .get(&(ELECTION.to_owned(), HOST.to_owned()));
                if let Some(known) = known.filter(|known| known.term == *term) {
                    *sequence = (*sequence).max(known.sequence + 1);
                }
            }
            (Self::StandbyIgnored, authority @ Authority::Controller { .. }) => {
                let stands_by = ledger.terms.get(ELECTION).is_some_and(|term| term.standby);
                if stands_by {
                    *authority = Authority::Operator { name: "ann".into() };
                }
            }
            (Self::HoldUnchecked, _) if request.action == Action::On => {
                request.at = Host::default();
            }
            (Self::ForceNotNeeded, _) => request.force = true,
            _ => {}
        }
    }
}
