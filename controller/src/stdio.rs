//! Output of commands.
//!
//! Invariant: characters that change how a terminal shows the text around them are written as escapes, because
//! texts of BMCs, kubelets and tenants are shown, never interpreted. A closed pipe is no error.

use std::io::Write as _;

use rackhand_identity::text::visible;

/// Writes a text to standard output.
pub(crate) fn write_out(text: &str) {
    std::io::stdout()
        .lock()
        .write_all(visible(text).as_bytes())
        .ok();
}

/// Writes a text to standard error.
pub(crate) fn write_err(text: &str) {
    std::io::stderr()
        .lock()
        .write_all(visible(text).as_bytes())
        .ok();
}

macro_rules! out {
    ($($arguments:tt)*) => {
        $crate::stdio::write_out(&format!($($arguments)*))
    };
}

macro_rules! outln {
    ($($arguments:tt)*) => {
        $crate::stdio::write_out(&format!("{}\n", format_args!($($arguments)*)))
    };
}

macro_rules! errln {
    ($($arguments:tt)*) => {
        $crate::stdio::write_err(&format!("{}\n", format_args!($($arguments)*)))
    };
}
