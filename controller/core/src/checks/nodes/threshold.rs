//! The number of Nodes that must be healthy (docs/reference/medik8s.md, Evaluation).
//!
//! Must never round so that more Nodes are remediated than upstream would remediate.

use super::Limit;
use crate::values::int_or_percent::IntOrPercent;

/// A limit that makes no sense for the selected Nodes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    /// `maxUnhealthy` is higher than the number of Nodes.
    #[error("maxUnhealthy is {most}, and only {selected} Nodes are selected")]
    MoreThanAll {
        /// The value of `maxUnhealthy` as a number of Nodes.
        most: u64,
        /// Number of selected Nodes.
        selected: u32,
    },
    /// The percentage is above 100.
    #[error("{0}% is more than all Nodes")]
    OverHundred(i32),
}

/// The number of Nodes that a limit means for `selected` Nodes; a percentage is rounded up.
fn number(limit: IntOrPercent, selected: u32) -> Result<u64, LimitError> {
    match limit {
        IntOrPercent::Percent(share) if share > 100 => Err(LimitError::OverHundred(share)),
        limit => Ok(limit.rounded_up(selected)),
    }
}

/// Whether the limit forbids remediation if all of `selected` Nodes fail. If not, a burst need not settle
/// (F13).
pub fn can_close(limit: Limit, selected: u32) -> bool {
    fewest_healthy(limit, selected).is_ok_and(|fewest| fewest > 0)
}

/// The fewest healthy Nodes, of `selected` ones, with which the check remediates.
///
/// # Errors
/// The limit allows more Nodes to be unhealthy than are selected.
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
