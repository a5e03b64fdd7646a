//! Errors of one BMC.
//!
//! Owns: the texts of errors. Must never: include a secret, a control character or a page of HTML.

use std::fmt;

use secrecy::{ExposeSecret, SecretString};

use super::extended_info::Messages;
use crate::{BmcError, ErrorKind};

/// Maximum length of a quoted text of the BMC, in characters.
const MAX_QUOTE: usize = 300;

/// Creates the errors of one BMC.
pub(crate) struct Reporter {
    bmc: String,
    password: SecretString,
}

impl Reporter {
    pub(super) fn new(bmc: String, password: SecretString) -> Self {
        Self { bmc, password }
    }

    pub(crate) fn bmc(&self) -> &str {
        &self.bmc
    }

    pub(crate) fn error(&self, kind: ErrorKind, message: impl Into<String>) -> BmcError {
        BmcError {
            kind,
            bmc: self.bmc.clone(),
            message: message.into(),
            retry_after: None,
            maybe_sent: false,
            not_sent: false,
        }
    }

    /// A text of the BMC for an error: short, on one line, and without the password, which some
    /// BMCs repeat in a rejection.
    pub(crate) fn quote(&self, text: &str) -> String {
        self.plain(text, MAX_QUOTE)
    }

    /// A text of the BMC on one line, at most `max` characters, without the password.
    pub(in crate::redfish) fn plain(&self, text: &str, max: usize) -> String {
        let password = self.password.expose_secret();
        if password.is_empty() || !text.contains(password) {
            return crate::text::plain(text, max);
        }
        crate::text::plain(&text.replace(password, "***"), max)
    }

    /// `: <text of the BMC>`, or empty.
    pub(crate) fn says(&self, messages: &Messages) -> String {
        let text = self.quote(&messages.text());
        if text.is_empty() {
            text
        } else {
            format!(": {text}")
        }
    }
}

impl fmt::Debug for Reporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reporter")
            .field("bmc", &self.bmc)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_text_is_short_printable_and_without_password() {
        let reporter = Reporter::new("redfish://h:443".to_owned(), "hunter2".into());
        assert_eq!(
            reporter.quote("value 'hunter2'\r\n\u{1b}[31m  bad"),
            "value '***'  [31m  bad"
        );
        let long = reporter.quote(&"é".repeat(1000));
        assert_eq!(long.chars().count(), MAX_QUOTE + 3);
        assert!(!format!("{reporter:?}").contains("hunter2"));
    }
}
