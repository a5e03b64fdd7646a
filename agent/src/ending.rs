//! How a command ends, for scripts.
//!
//! Pure. Must never end well what was not done.

use std::{fmt, process::ExitCode};

/// What became of one host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum End {
    /// As it was asked for.
    Done,
    /// Not, or nobody knows.
    Failed,
    /// The agent would not: somebody else holds the host, or it is not for us to say.
    Refused,
    /// Nobody answered: the BMC, or the agent.
    Unreachable,
}

impl End {
    fn number(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Refused => 3,
            Self::Unreachable => 4,
        }
    }

    /// The exit code of this alone.
    pub(crate) fn code(self) -> ExitCode {
        ExitCode::from(self.number())
    }

    /// Of several: done if all are; refused or unreachable if all that are not done are so; else
    /// failed.
    pub(crate) fn of(all: impl IntoIterator<Item = Self>) -> Self {
        let mut rest = all.into_iter().filter(|end| *end != Self::Done);
        match rest.next() {
            None => Self::Done,
            Some(first) if rest.all(|end| end == first) => first,
            Some(_) => Self::Failed,
        }
    }
}

/// There is no way to the agent.
#[derive(Debug)]
pub(crate) struct NoAgent(pub(crate) anyhow::Error);

impl fmt::Display for NoAgent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#}", self.0)
    }
}

impl std::error::Error for NoAgent {}

/// What was asked for makes no sense.
#[derive(Debug)]
pub(crate) struct Usage(pub(crate) String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// The exit code of an error.
pub(crate) fn code_of(error: &anyhow::Error) -> ExitCode {
    if error.is::<NoAgent>() {
        End::Unreachable.code()
    } else if error.is::<Usage>() {
        ExitCode::from(2)
    } else {
        End::Failed.code()
    }
}

#[cfg(test)]
mod tests {
    use super::End::{Done, Failed, Refused, Unreachable};
    use super::*;

    #[test]
    fn the_whole_is_what_its_worst_are() {
        for (all, whole, number) in [
            (vec![], Done, 0),
            (vec![Done, Done], Done, 0),
            (vec![Done, Failed], Failed, 1),
            (vec![Done, Refused, Refused], Refused, 3),
            (vec![Unreachable, Done], Unreachable, 4),
            (vec![Unreachable, Refused], Failed, 1),
        ] {
            assert_eq!(End::of(all.clone()), whole, "{all:?}");
            assert_eq!(whole.number(), number);
        }
    }
}
