//! Regular expressions and CEL rules that several schemas share.
//!
//! Each expression comes with a sentence about what it allows. An API server that refuses a value by a
//! `pattern` shows only the expression; the admission policies ([`crate::policies`]) show the sentence.

use serde::Serialize;

use crate::GoDuration;

/// A CEL rule of a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Rule {
    /// CEL over `self`, the value that the schema is for.
    pub(crate) rule: &'static str,
    /// What the rule allows, as the end of a sentence that begins with the value.
    pub(crate) message: &'static str,
}

/// A qualified name cannot be longer than what an API server parses as a selector.
pub(crate) const SHORT_PREFIX: Rule = Rule {
    rule: "self.indexOf('/') <= 253",
    message: "must have at most 253 characters before the '/'",
};

/// 64 bits of nanoseconds hold no more; a longer duration cannot be parsed at all.
pub(crate) const SHORT_DURATION: Rule = Rule {
    rule: "duration(self) < duration('2562047h')",
    message: "must be shorter than 292 years",
};

/// The form of a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    /// The regular expression, in RE2 syntax.
    pub(crate) regex: &'static str,
    /// What matches it, as the end of a sentence that begins with the value.
    pub(crate) message: &'static str,
}

/// The key of a label: a qualified name.
pub(crate) const LABEL_KEY: Pattern = Pattern {
    regex: r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$",
    message: "must be a label key: up to 63 letters, digits, '-', '_' and '.', with or without a \
              DNS name and '/' before them",
};

/// The value of a label; it may be empty.
pub(crate) const LABEL_VALUE: Pattern = Pattern {
    regex: r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$",
    message: "must be a label value: up to 63 letters, digits, '-', '_' and '.', or empty",
};

/// A name as most kinds have it.
pub(crate) const DNS_NAME: Pattern = Pattern {
    regex: r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
    message: "must be a DNS name: lower-case letters, digits, '-' and '.'",
};

/// A condition type: a qualified name.
pub(crate) const CONDITION_TYPE: Pattern = Pattern {
    regex: r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
    message: "must be a condition type: letters, digits, '-', '_' and '.', with or without a DNS \
              name and '/' before them",
};

/// A kind.
pub(crate) const KIND: Pattern = Pattern {
    regex: r"^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$",
    message: "must be a kind: letters, digits and '-'",
};

/// The kind of a template.
pub(crate) const TEMPLATE_KIND: Pattern = Pattern {
    regex: "^.+Template$",
    message: "must end with \"Template\": the rest is the kind of the remediations",
};

/// A group with its version.
pub(crate) const GROUP_VERSION: Pattern = Pattern {
    regex: r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/[a-z]([-a-z0-9]*[a-z0-9])?$",
    message: "must be a group and a version such as \"rackhand.dev/v1alpha1\"",
};

/// A duration as Go reads it, zero or more.
pub(crate) const GO_DURATION: Pattern = Pattern {
    regex: GoDuration::PATTERN,
    message: "must be a duration of 0 or more such as \"300s\" or \"5m0s\"",
};

/// A duration as medik8s' schema takes it, zero or more.
pub(crate) const DURATION: Pattern = Pattern {
    regex: r"^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$",
    message: "must be a duration of 0 or more such as \"300s\" or \"5m0s\"",
};

/// A duration as medik8s' schema takes it, which may be negative.
pub(crate) const SIGNED_DURATION: Pattern = Pattern {
    regex: r"^-?([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$",
    message: "must be a duration such as \"300s\" or \"-1s\"",
};

/// A percentage, as Cluster API limits unhealthy Machines. It fits into 32 bits.
pub(crate) const PERCENTAGE: Pattern = Pattern {
    regex: r"^[+-]?[0-9]{1,9}%$",
    message: "must be a number without quotes, or a percentage such as \"40%\"",
};

/// A percentage up to 100, or a quoted number, as medik8s limits unhealthy Nodes.
pub(crate) const PERCENTAGE_OR_NUMBER: Pattern = Pattern {
    regex: "^((100|[0-9]{1,2})%|[0-9]{1,9})$",
    message: "must be a number of 0 or more, or a percentage up to \"100%\"",
};

/// A range of numbers of Machines.
pub(crate) const RANGE: Pattern = Pattern {
    regex: r"^\[[0-9]{1,9}-[0-9]{1,9}\]$",
    message: "must be a range such as \"[3-5]\"",
};

/// Every pattern above, by which [`crate::policies`] finds the sentence of a regular expression.
pub(crate) const ALL: [Pattern; 13] = [
    LABEL_KEY,
    LABEL_VALUE,
    DNS_NAME,
    CONDITION_TYPE,
    KIND,
    TEMPLATE_KIND,
    GROUP_VERSION,
    GO_DURATION,
    DURATION,
    SIGNED_DURATION,
    PERCENTAGE,
    PERCENTAGE_OR_NUMBER,
    RANGE,
];
