//! Deliberate faults of the signal PowerLost, each of which the exploration must find.

use crate::small::OnPurpose;

/// A fault on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Breakage {
    /// A host need not have been read on.
    NeverOn,
    /// A reading of another observation counts as one of this one.
    Interrupted,
    /// One reading of off counts as two.
    ReadOnce,
    /// A Lease counts as silent that was renewed.
    LeaseNotSilent,
    /// The Leases of other Nodes are not looked at.
    OthersIgnored,
    /// It is not looked at who has switched the host.
    SwitchedByUs,
    /// It is not looked at whether the host was shut down in order.
    ShutDownInOrder,
    /// Hosts of a rack that have lost their power together are not waited for.
    RackIgnored,
    /// The condition does not go away.
    NeverEnds,
    /// A Lease that was renewed keeps the time since which the one before was silent.
    OlderSilence,
}

impl OnPurpose for Breakage {
    const EVERY: &'static [Self] = &[
        Self::NeverOn,
        Self::Interrupted,
        Self::ReadOnce,
        Self::LeaseNotSilent,
        Self::OthersIgnored,
        Self::SwitchedByUs,
        Self::ShutDownInOrder,
        Self::RackIgnored,
        Self::NeverEnds,
        Self::OlderSilence,
    ];

    fn words(self) -> &'static str {
        match self {
            Self::NeverOn => "a host that was never read on has lost its power",
            Self::Interrupted => "a BMC that has restarted counts as uninterrupted",
            Self::ReadOnce => "one reading of off is enough for PowerLost",
            Self::LeaseNotSilent => "a Lease that is renewed counts as silent",
            Self::OthersIgnored => "no other Lease is looked at for PowerLost",
            Self::SwitchedByUs => "a host that Rackhand switches has lost its power",
            Self::ShutDownInOrder => "a host in somebody's hands has lost its power",
            Self::RackIgnored => "a loss does not wait for others of its rack",
            Self::NeverEnds => "PowerLost stays although the host is on",
            Self::OlderSilence => "a renewed Lease counts as silent for longer",
        }
    }

    fn faults(self) -> u8 {
        // A BMC that is wrong shows nothing while the Lease is renewed.
        match self {
            Self::OlderSilence => 0,
            Self::LeaseNotSilent
            | Self::SwitchedByUs
            | Self::ShutDownInOrder
            | Self::RackIgnored => 1,
            Self::NeverOn
            | Self::Interrupted
            | Self::ReadOnce
            | Self::OthersIgnored
            | Self::NeverEnds => 2,
        }
    }
}
