//! Log output of the fence agent.
//!
//! Owns: standard error and the debug file. Must never: receive a secret.

use std::{
    fs::{File, OpenOptions},
    io::Write,
};

use jiff::Timestamp;

use super::{input::Input, settings::is_set};

/// Writes lines with time and level, in the format of ClusterLabs' agents.
pub(super) struct Log {
    verbose: bool,
    quiet: bool,
    file: Option<File>,
}

impl Log {
    /// Opens the log as configured. A file that cannot be opened is reported on standard error
    /// only.
    pub(super) fn new(given: &Input) -> Self {
        let set = |name| is_set(given, name).unwrap_or(false);
        let mut log = Self {
            verbose: set("verbose"),
            quiet: set("quiet"),
            file: None,
        };
        if let Some(path) = given.get("debug_file").filter(|path| !path.is_empty()) {
            match OpenOptions::new().create(true).append(true).open(path) {
                Ok(file) => log.file = Some(file),
                Err(error) => log.warn(&format!("debug_file: {error}")),
            }
        }
        log
    }

    /// Logs a step.
    pub(super) fn info(&mut self, text: &str) {
        self.line("INFO", text, self.verbose);
    }

    /// Logs a warning.
    pub(super) fn warn(&mut self, text: &str) {
        self.line("WARNING", text, !self.quiet);
    }

    /// Logs an error.
    pub(super) fn error(&mut self, text: &str) {
        self.line("ERROR", text, !self.quiet);
    }

    fn line(&mut self, level: &str, text: &str, shown: bool) {
        let line = format!("{:.3} {level}: {text}\n", Timestamp::now());
        if shown {
            err!("{line}");
        }
        if let Some(file) = &mut self.file {
            // A write error cannot be reported anywhere.
            let _ = file.write_all(line.as_bytes());
        }
    }
}
