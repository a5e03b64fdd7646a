//! Errors of one BMC.
//!
//! Owns: the texts of errors. Must never: include a secret, a control character or a page of HTML.

use std::{
    fmt,
    sync::{Mutex, PoisonError},
};

use base64::{Engine, engine::general_purpose::STANDARD_NO_PAD};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;
use url::form_urlencoded;

use super::extended_info::Messages;
use crate::{BmcError, ErrorKind};

/// Maximum length of a quoted text of the BMC, in characters.
const MAX_QUOTE: usize = 300;

/// How many tokens are known: those of sessions that end are still in answers to late requests.
const MAX_TOKENS: usize = 4;
/// A shorter token is no secret, and may be a part of any word.
const MIN_TOKEN: usize = 6;

/// Creates the errors of one BMC.
pub(crate) struct Reporter {
    bmc: String,
    /// The password in each form in which a request, and so a BMC that repeats it, has it; the longest first.
    password: Vec<SecretString>,
    /// Tokens of sessions, the newest last.
    tokens: Mutex<Vec<SecretString>>,
}

/// The forms of a password: as it is, in a document, in a document within a text, in a URL or form, and as HTTP Basic
/// sends it.
fn forms(username: &str, password: &str) -> Vec<SecretString> {
    if password.is_empty() {
        return Vec::new();
    }
    let in_document = |text: &str| {
        let quoted = Value::from(text).to_string();
        let inner = quoted.get(1..quoted.len().saturating_sub(1));
        inner.unwrap_or_default().to_owned()
    };
    let once = in_document(password);
    let twice = in_document(&once);
    let in_form: String = form_urlencoded::byte_serialize(password.as_bytes()).collect();
    let in_url = in_form.replace('+', "%20");
    let basic = STANDARD_NO_PAD.encode(format!("{username}:{password}"));
    let mut forms = vec![password.to_owned(), once, twice, in_form, in_url, basic];
    forms.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
    forms.dedup();
    forms.into_iter().map(SecretString::from).collect()
}

impl Reporter {
    pub(super) fn new(bmc: String, username: &str, password: &SecretString) -> Self {
        Self {
            bmc,
            password: forms(username, password.expose_secret()),
            tokens: Mutex::default(),
        }
    }

    /// From now on this token of a session is left out of every text.
    pub(super) fn leave_out(&self, token: &SecretString) {
        if token.expose_secret().len() < MIN_TOKEN {
            return;
        }
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        if tokens.len() >= MAX_TOKENS {
            tokens.remove(0);
        }
        tokens.push(token.clone());
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

    /// A text of the BMC for an error: short, on one line, and without the password and the token of a session, which
    /// some BMCs repeat in a rejection.
    pub(crate) fn quote(&self, text: &str) -> String {
        self.plain(text, MAX_QUOTE)
    }

    /// A text of the BMC on one line, at most `max` characters, without secrets.
    pub(in crate::redfish) fn plain(&self, text: &str, max: usize) -> String {
        let tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        let mut kept: Option<String> = None;
        for secret in self.password.iter().chain(tokens.iter()) {
            let secret = secret.expose_secret();
            let text = kept.as_deref().unwrap_or(text);
            if text.contains(secret) {
                kept = Some(text.replace(secret, "***"));
            }
        }
        crate::text::plain(kept.as_deref().unwrap_or(text), max)
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
        let reporter = Reporter::new("redfish://h:443".to_owned(), "admin", &"hunter2".into());
        assert_eq!(
            reporter.quote("value 'hunter2'\r\n\u{1b}[31m  bad"),
            "value '***'  [31m  bad"
        );
        let long = reporter.quote(&"é".repeat(1000));
        assert_eq!(long.chars().count(), MAX_QUOTE + 3);
        assert!(!format!("{reporter:?}").contains("hunter2"));
    }

    #[test]
    fn no_form_of_a_secret_is_quoted() {
        let reporter = Reporter::new("redfish://h:443".to_owned(), "admin", &"a\"b c+/é".into());
        for repeated in [
            "a\"b c+/é",
            r#"{"Password":"a\"b c+/é"}"#,
            r#"body: "{\"Password\":\"a\\\"b c+/é\"}""#,
            "Password=a%22b+c%2B%2F%C3%A9&x",
            "?Password=a%22b%20c%2B%2F%C3%A9",
            "Authorization: Basic YWRtaW46YSJiIGMrL8Op",
        ] {
            let quoted = reporter.quote(repeated);
            assert!(quoted.contains("***"), "{quoted}");
            assert!(
                !quoted.contains("b c") && !quoted.contains("YWRt"),
                "{quoted}"
            );
        }
        for n in 0..9 {
            reporter.leave_out(&format!("token-{n}").into());
        }
        assert_eq!(
            reporter.quote("token token-8 has ended"),
            "token *** has ended"
        );
        // Empty secrets and short tokens leave texts as they are.
        let reporter = Reporter::new("redfish://h:443".to_owned(), "", &"".into());
        reporter.leave_out(&"1".into());
        assert_eq!(reporter.quote("session 1"), "session 1");
    }
}
