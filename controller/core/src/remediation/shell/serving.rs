//! Selects the agent that serves a rack (F6).

/// The state of the agent that serves a rack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ServingState {
    /// The agent has not been probed yet.
    Untried,
    /// The agent answers, so it may be commanded.
    Answers,
    /// The agent does not answer, or belongs to another rack now.
    Silent,
}

/// The role of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ServingChoice {
    /// The agent serves the rack already.
    Serve,
    /// The agent stays on standby.
    StandBy,
    /// The agent becomes the serving agent.
    TakeOver,
}

/// The role of the agent `me`, which is probed now. The agent that served the rack before is kept
/// while it answers.
pub fn choose_serving<A: PartialEq>(me: &A, serving: Option<(&A, ServingState)>) -> ServingChoice {
    match serving {
        Some((current, _)) if current == me => ServingChoice::Serve,
        Some((_, ServingState::Untried | ServingState::Answers)) => ServingChoice::StandBy,
        Some((_, ServingState::Silent)) | None => ServingChoice::TakeOver,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f6_serving_agent_is_kept_while_it_answers() {
        let (a, b) = ("a", "b");
        assert_eq!(choose_serving(&a, None), ServingChoice::TakeOver);
        for state in [
            ServingState::Untried,
            ServingState::Answers,
            ServingState::Silent,
        ] {
            let same = choose_serving(&a, Some((&a, state)));
            assert_eq!(same, ServingChoice::Serve);
            let other = choose_serving(&b, Some((&a, state)));
            let is_silent = state == ServingState::Silent;
            assert_eq!(other == ServingChoice::TakeOver, is_silent, "{state:?}");
        }
    }
}
