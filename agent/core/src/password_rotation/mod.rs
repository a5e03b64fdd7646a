//! The order of steps in which the password of a BMC is changed, proven, and set back.
//!
//! Owns: the decision which of the two passwords counts in the end. Must never: give up a password that a driver
//! of the BMC may still need.
//!
//! A BMC may have several drivers (Redfish, IPMI) that log in with the same password. Some BMCs store it once,
//! others once for each protocol, so every driver has to accept the new password before the old one is given up.

/// What is done next. Drivers are numbered in the order of the inventory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Step {
    /// Log in by this driver with the new password.
    LogInNew(usize),
    /// Change the password by this driver, logged in with the old one.
    Change(usize),
    /// Change the password back by this driver, logged in with the new one.
    ChangeBack(usize),
    /// Log in by this driver with the old password.
    LogInOld(usize),
    /// Nothing is left to do.
    End(End),
}

/// The answer of the BMC to a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Answer {
    /// The log-in or the change succeeded.
    Accepted,
    /// The BMC refused it: the password is wrong, or the change was certainly not made.
    Refused,
    /// There was no answer, or one that tells neither.
    Unknown,
}

/// How a rotation ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum End {
    /// Every driver has accepted the new password since the last change.
    New,
    /// No change was made, or every driver has accepted the old password since the last one.
    Old,
    /// It is not known which password counts. Both must be kept, and the rotation continued.
    Undecided,
}

/// A rotation in progress.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PasswordRotation {
    drivers: usize,
    step: Step,
    /// Whether a change may have been made, in this rotation or in an interrupted one.
    may_have_changed: bool,
    /// Drivers below this one have accepted the new password.
    accept_new: usize,
    /// The driver by which this rotation last changed the password.
    changed_by: Option<usize>,
}

impl PasswordRotation {
    /// A new rotation for this number of drivers, at least one.
    pub fn new(drivers: usize) -> Self {
        Self {
            drivers,
            step: Step::Change(0),
            may_have_changed: false,
            accept_new: 0,
            changed_by: None,
        }
    }

    /// Continues a rotation that was interrupted at an unknown step.
    pub fn resume(drivers: usize) -> Self {
        Self {
            step: Step::LogInNew(0),
            may_have_changed: true,
            ..Self::new(drivers)
        }
    }

    /// The next step.
    pub fn step(&self) -> Step {
        self.step
    }

    /// Records the answer to the present step.
    #[must_use]
    pub fn answered(mut self, answer: Answer) -> Self {
        use Answer::{Accepted, Refused, Unknown};
        self.step = match (self.step, answer) {
            (Step::Change(driver), Accepted | Unknown) => {
                self.may_have_changed = true;
                self.changed_by = Some(driver);
                Step::LogInNew(driver)
            }
            (Step::Change(_), Refused) if !self.may_have_changed => Step::End(End::Old),
            (Step::Change(_), Refused) => self.back(),
            (Step::LogInNew(driver), Accepted) => {
                self.accept_new = driver.saturating_add(1);
                if self.accept_new < self.drivers {
                    Step::LogInNew(self.accept_new)
                } else {
                    Step::End(End::New)
                }
            }
            // The driver's own store still has the old password, unless it was changed just now.
            (Step::LogInNew(driver), Refused) if self.is_unchanged(driver) => Step::Change(driver),
            (Step::LogInNew(_), Refused | Unknown) => self.back(),
            (Step::ChangeBack(driver), _) => self.back_below(driver),
            (Step::LogInOld(driver), Accepted) => {
                let next = driver.saturating_add(1);
                if next < self.drivers {
                    Step::LogInOld(next)
                } else {
                    Step::End(End::Old)
                }
            }
            (Step::LogInOld(_), Refused | Unknown) => Step::End(End::Undecided),
            (Step::End(end), _) => Step::End(end),
        };
        self
    }

    /// Whether this rotation has not changed the password by this driver yet.
    fn is_unchanged(&self, driver: usize) -> bool {
        driver > 0 && driver == self.accept_new && self.changed_by != Some(driver)
    }

    fn back(&self) -> Step {
        self.back_below(self.accept_new)
    }

    /// Changes the password back by the drivers below this one, the last first, and then checks all.
    fn back_below(&self, driver: usize) -> Step {
        match driver.checked_sub(1) {
            Some(driver) => Step::ChangeBack(driver),
            None => Step::LogInOld(0),
        }
    }
}

#[cfg(test)]
mod tests;
