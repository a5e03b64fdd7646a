//! The rack agent as a process, against whoever means it ill: killed in the middle, strangers at
//! its port, a thousand hosts, and everything that it writes searched for secrets.

mod callers;
mod clocks;
mod crashes;
mod crowds;
mod secrets;
mod site;
mod users;
