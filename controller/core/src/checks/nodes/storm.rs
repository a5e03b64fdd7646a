//! A storm: the limit is reached, and no remediation begins until enough Nodes have been healthy for the
//! cooldown (docs/reference/medik8s.md, Evaluation).
//!
//! Evaluated each time, so that a storm ends when its Nodes recover, and not when the next one fails. Its
//! state is two conditions of the check, which survive a restart.

use std::time::Duration;

use jiff::Timestamp;

use super::{Event, check_status::Flag};
use crate::checks::machines::deadline;

/// The two conditions of a storm.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Storm {
    /// `StormActive`.
    pub(super) active: Option<Flag>,
    /// `StormCooldownActive`.
    pub(super) cooldown: Option<Flag>,
}

/// The effect of a storm on the decision.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct StormEffect {
    /// Why no remediation may begin, if so.
    pub(super) closed: Option<String>,
    /// When the cooldown ends.
    pub(super) until: Option<Timestamp>,
    /// The Events to publish.
    pub(super) events: Vec<Event>,
}

fn is_on(flag: Option<&Flag>) -> bool {
    flag.is_some_and(|flag| flag.on)
}

fn turn(flag: &mut Option<Flag>, on: bool, now: Timestamp) {
    match flag {
        Some(flag) if flag.on == on => {}
        None if !on => {}
        _ => *flag = Some(Flag { on, since: now }),
    }
}

// === impl Storm ===

impl Storm {
    /// Updates the conditions. `breached`: the limit forbids remediation; `unhealthy`: a Node is
    /// unhealthy, without which no storm begins. `cooldown`: `None` is no storm mode.
    pub(super) fn step(
        &mut self,
        cooldown: Option<Duration>,
        breached: bool,
        unhealthy: bool,
        now: Timestamp,
    ) -> StormEffect {
        let mut effect = StormEffect::default();
        let Some(cooldown) = cooldown else {
            turn(&mut self.active, false, now);
            turn(&mut self.cooldown, false, now);
            return effect;
        };
        let active = is_on(self.active.as_ref());
        if breached && (unhealthy || active) {
            if !active {
                effect.events.push(Event::warning(
                    "StormRecoveryStarted",
                    "the limit is reached; no remediation begins until enough Nodes are healthy and \
                     the cooldown after that has passed",
                ));
            }
            turn(&mut self.active, true, now);
            turn(&mut self.cooldown, false, now);
            effect.closed = Some("a storm is active".to_owned());
            return effect;
        }
        if !active {
            return effect;
        }
        if !is_on(self.cooldown.as_ref()) {
            effect.events.push(Event::warning(
                "StormRecoveryCooldownStarted",
                format!("enough Nodes are healthy; no remediation begins for {cooldown:?}"),
            ));
            // The cooldown begins now, even if the condition was False before.
            self.cooldown = Some(Flag {
                on: true,
                since: now,
            });
        }
        let since = self.cooldown.as_ref().map_or(now, |flag| flag.since);
        let until = deadline(since, cooldown);
        if now >= until {
            turn(&mut self.active, false, now);
            turn(&mut self.cooldown, false, now);
            effect
                .events
                .push(Event::normal("StormRecoveryEnded", "the storm is over"));
        } else {
            effect.closed = Some(format!("the cooldown after a storm lasts until {until}"));
            effect.until = Some(until);
        }
        effect
    }
}
