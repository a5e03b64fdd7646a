//! Power commands, and what BMCs answer to them.

mod actions;
mod chassis;
mod commands;
mod readings;
mod refusals;
mod repeats;
mod stand_in;
mod targets;
mod tasks;
