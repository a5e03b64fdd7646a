//! Output to standard output and standard error; the standard macros panic where these functions continue.
//! Characters that change how a terminal shows the surrounding text are written as escapes: texts of BMCs, agents
//! and files are shown, never interpreted.
//!
//! After a reader closes the pipe, as `head -1` does, the command continues without output, because
//! a started BMC operation must be completed and its sessions closed. Any other error makes the
//! program fail after the command has ended.

use std::{
    fmt,
    io::{self, ErrorKind, Write},
    sync::OnceLock,
};

use rackhand_identity::text::visible;

/// The first error other than a closed pipe.
static FAILED: OnceLock<String> = OnceLock::new();

/// Writes to standard output.
pub(crate) fn write_out(arguments: fmt::Arguments<'_>) {
    let text = arguments.to_string();
    note(io::stdout().lock().write_all(visible(&text).as_bytes()));
}

/// Writes bytes to standard output.
pub(crate) fn write_bytes(bytes: &[u8]) {
    note(io::stdout().lock().write_all(bytes));
}

/// Writes to standard error, whose errors cannot be reported.
pub(crate) fn write_err(arguments: fmt::Arguments<'_>) {
    let text = arguments.to_string();
    io::stderr()
        .lock()
        .write_all(visible(&text).as_bytes())
        .ok();
}

/// Removes the current line of a terminal from standard error.
pub(crate) fn clear_line() {
    io::stderr().lock().write_all(b"\r\x1b[K").ok();
}

/// Flushes the output, and returns the error if it is incomplete.
pub(crate) fn finish() -> Option<&'static str> {
    note(io::stdout().lock().flush());
    FAILED.get().map(String::as_str)
}

fn note(result: io::Result<()>) {
    if let Err(error) = result
        && error.kind() != ErrorKind::BrokenPipe
    {
        FAILED.get_or_init(|| error.to_string());
    }
}

macro_rules! out {
    ($($arguments:tt)*) => {
        $crate::output::stdio::write_out(format_args!($($arguments)*))
    };
}

macro_rules! outln {
    () => { $crate::output::stdio::write_out(format_args!("\n")) };
    ($($arguments:tt)*) => {
        $crate::output::stdio::write_out(format_args!("{}\n", format_args!($($arguments)*)))
    };
}

macro_rules! err {
    ($($arguments:tt)*) => {
        $crate::output::stdio::write_err(format_args!($($arguments)*))
    };
}

macro_rules! errln {
    ($($arguments:tt)*) => {
        $crate::output::stdio::write_err(format_args!("{}\n", format_args!($($arguments)*)))
    };
}
