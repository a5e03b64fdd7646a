//! How many Nodes have to be healthy (docs/reference/medik8s.md, Evaluation).
//!
//! Must never round so that more Nodes may be remediated than upstream would.

use super::{Limit, Share};

/// A limit that cannot be kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    /// More may be unhealthy than there are.
    #[error("maxUnhealthy is {most}, and only {selected} Nodes are selected")]
    MoreThanAll {
        /// The limit.
        most: u64,
        /// The Nodes.
        selected: u32,
    },
    /// More than all.
    #[error("{0}% is more than all Nodes")]
    OverHundred(u32),
}

// === impl Share ===

impl Share {
    /// The number that it means for so many Nodes; a part is rounded up.
    fn of(self, selected: u32) -> Result<u64, LimitError> {
        match self {
            Self::Count(count) => Ok(u64::from(count)),
            Self::Percent(share) if share > 100 => Err(LimitError::OverHundred(share)),
            Self::Percent(share) => Ok((u64::from(selected) * u64::from(share)).div_ceil(100)),
        }
    }
}

/// Whether the limit forbids remediation once all of so many selected Nodes fail. Where it does not, a
/// burst need not be waited for (F13).
pub fn can_close(limit: Limit, selected: u32) -> bool {
    fewest_healthy(limit, selected).is_ok_and(|fewest| fewest > 0)
}

/// The fewest healthy Nodes, of so many selected ones, at which the check acts.
///
/// # Errors
/// The limit allows more Nodes to be unhealthy than there are.
pub fn fewest_healthy(limit: Limit, selected: u32) -> Result<u64, LimitError> {
    match limit {
        Limit::MinHealthy(share) => share.of(selected),
        Limit::MaxUnhealthy(share) => {
            let most = share.of(selected)?;
            u64::from(selected)
                .checked_sub(most)
                .ok_or(LimitError::MoreThanAll { most, selected })
        }
    }
}
