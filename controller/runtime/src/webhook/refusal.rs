//! Why a field cannot be as it is.
//!
//! Owns the form of an answer; must never hold a rule.

use std::fmt;

/// A field that cannot be as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    /// The path of the field.
    pub(super) field: String,
    /// What is wrong with it, as the end of a sentence that begins with the field.
    pub(super) problem: String,
}

impl Refusal {
    pub(super) fn new(field: &str, problem: impl Into<String>) -> Self {
        Self {
            field: field.to_owned(),
            problem: problem.into(),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.problem)
    }
}

/// One refusal for each field: the first says most.
pub(super) fn each_once(found: Vec<Refusal>) -> Vec<Refusal> {
    let mut once: Vec<Refusal> = Vec::new();
    for refusal in found {
        if !once.iter().any(|known| known.field == refusal.field) {
            once.push(refusal);
        }
    }
    once
}
