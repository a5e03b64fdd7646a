//! Writes to standard output and standard error; the standard macros panic where this goes on.
//!
//! A reader that closes its end, as `head -1` does, has seen enough: the command goes on without it,
//! because what it has begun at a BMC must be ended and its sessions closed. Any other error ends the
//! program with a failure once the command is done.

use std::{
    fmt,
    io::{self, ErrorKind, Write},
    sync::OnceLock,
};

/// The first error that is not a closed pipe.
static FAILED: OnceLock<String> = OnceLock::new();

/// Writes to standard output.
pub(crate) fn write_out(arguments: fmt::Arguments<'_>) {
    let mut out = io::stdout().lock();
    note(out.write_fmt(arguments));
}

/// Writes bytes to standard output.
pub(crate) fn write_bytes(bytes: &[u8]) {
    note(io::stdout().lock().write_all(bytes));
}

/// Writes to standard error, where a failure can be told to nobody.
pub(crate) fn write_err(arguments: fmt::Arguments<'_>) {
    io::stderr().lock().write_fmt(arguments).ok();
}

/// Writes out what is still kept back, and returns why the output is not whole.
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
        $crate::stdio::write_out(format_args!($($arguments)*))
    };
}

macro_rules! outln {
    () => { $crate::stdio::write_out(format_args!("\n")) };
    ($($arguments:tt)*) => {
        $crate::stdio::write_out(format_args!("{}\n", format_args!($($arguments)*)))
    };
}

macro_rules! err {
    ($($arguments:tt)*) => {
        $crate::stdio::write_err(format_args!($($arguments)*))
    };
}

macro_rules! errln {
    ($($arguments:tt)*) => {
        $crate::stdio::write_err(format_args!("{}\n", format_args!($($arguments)*)))
    };
}
