//! The table of sessions of one BMC: pure, with `now` as an argument.
//!
//! Owns: tokens, which are kept in memory only. Must never: exceed its limit.

use std::time::{Duration, Instant};

/// One open session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Its `Id`.
    pub id: String,
    /// Its secret token.
    pub token: String,
    /// Name of the user who opened the session.
    pub user: String,
    used: Instant,
}

/// The sessions of a BMC.
#[derive(Clone, Debug)]
pub struct SessionTable {
    limit: usize,
    idle: Duration,
    sessions: Vec<Session>,
    opened: u64,
}

impl SessionTable {
    /// An empty table for `limit` sessions with the idle timeout `idle`.
    pub fn new(limit: usize, idle: Duration) -> Self {
        Self {
            limit,
            idle,
            sessions: Vec::new(),
            opened: 0,
        }
    }

    /// Opens a session with this token; `None` if the table is full.
    pub fn begin(&mut self, now: Instant, user: &str, token: String) -> Option<Session> {
        self.expire(now);
        if self.sessions.len() >= self.limit {
            return None;
        }
        self.opened += 1;
        let session = Session {
            id: self.opened.to_string(),
            token,
            user: user.to_owned(),
            used: now,
        };
        self.sessions.push(session.clone());
        Some(session)
    }

    /// The user of a token, whose use is recorded; `None` if the token is unknown or expired.
    pub fn check(&mut self, now: Instant, token: &str) -> Option<String> {
        self.expire(now);
        let session = self
            .sessions
            .iter_mut()
            .find(|session| session.token == token)?;
        session.used = now;
        Some(session.user.clone())
    }

    /// Closes a session; `false` if the id does not exist.
    pub fn end(&mut self, id: &str) -> bool {
        let before = self.sessions.len();
        self.sessions.retain(|session| session.id != id);
        self.sessions.len() != before
    }

    pub fn forget(&mut self) {
        self.sessions.clear();
    }

    /// The open sessions at this time.
    pub fn open_at(&mut self, now: Instant) -> &[Session] {
        self.expire(now);
        &self.sessions
    }

    /// The sessions that were open at the last access.
    pub fn sessions(&self) -> &[Session] {
        &self.sessions
    }

    /// Number of open sessions.
    pub fn open(&self) -> usize {
        self.sessions.len()
    }

    /// Total number of sessions opened.
    pub fn opened(&self) -> u64 {
        self.opened
    }

    fn expire(&mut self, now: Instant) {
        let idle = self.idle;
        self.sessions
            .retain(|session| now.saturating_duration_since(session.used) < idle);
    }
}
