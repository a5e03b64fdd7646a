//! How many Nodes have to be healthy (docs/reference/medik8s.md, Evaluation).
//!
//! Must never round so that more Nodes may be remediated than upstream would.

use super::Limit;
use crate::health::IntOrPercent;

/// A limit that cannot be kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    /// More may be unhealthy than there are.
    #[error("maxUnhealthy is {most}, and only {selected} Nodes are selected")]
    MoreThanAll {
        /// The largest number that is allowed.
        most: u64,
        /// The Nodes.
        selected: u32,
    },
    /// More than all.
    #[error("{0}% is more than all Nodes")]
    OverHundred(u32),
}

/// The number that a limit means for so many Nodes; a part is rounded up.
fn number(limit: IntOrPercent, selected: u32) -> Result<u64, LimitError> {
    match limit {
        IntOrPercent::Percent(share) if share > 100 => Err(LimitError::OverHundred(share)),
        limit => Ok(limit.rounded_up(selected)),
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
        Limit::MinHealthy(share) => number(share, selected),
        Limit::MaxUnhealthy(share) => {
            let most = number(share, selected)?;
            u64::from(selected)
                .checked_sub(most)
                .ok_or(LimitError::MoreThanAll { most, selected })
        }
    }
}
