//! What a fence agent says beside its result.
//!
//! Owns standard error and the file that was asked for. Must never be told a secret.

use std::{
    fs::{File, OpenOptions},
    io::Write,
};

use jiff::Timestamp;

use super::{input::Input, settings::is_set};

/// Lines with time and level, as ClusterLabs' agents write them.
pub(super) struct Log {
    verbose: bool,
    quiet: bool,
    file: Option<File>,
}

impl Log {
    /// As was asked for. A file that cannot be written is said, and nothing fails for it.
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

    /// What is done.
    pub(super) fn info(&mut self, text: &str) {
        self.line("INFO", text, self.verbose);
    }

    /// What was asked for in vain.
    pub(super) fn warn(&mut self, text: &str) {
        self.line("WARNING", text, !self.quiet);
    }

    /// Why it failed.
    pub(super) fn error(&mut self, text: &str) {
        self.line("ERROR", text, !self.quiet);
    }

    fn line(&mut self, level: &str, text: &str, shown: bool) {
        let line = format!("{:.3} {level}: {text}\n", Timestamp::now());
        if shown {
            err!("{line}");
        }
        if let Some(file) = &mut self.file {
            // There is nobody else to tell.
            let _ = file.write_all(line.as_bytes());
        }
    }
}
