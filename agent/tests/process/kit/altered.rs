//! A connection to an agent that sends other texts: one of another version, or another program behind its socket.

use std::{
    io::{Read, Write},
    net::Shutdown,
    os::unix::net::{UnixListener, UnixStream},
    path::{Path, PathBuf},
};

/// A socket that passes calls on to an agent and alters the answers.
pub(crate) struct Altered {
    pub(crate) socket: PathBuf,
}

impl Altered {
    /// Answers contain `to` where the agent sent `from`, of the same length, so that their encoding stays valid.
    pub(crate) fn start(agent: &Path, from: &'static str, to: &'static str) -> Self {
        assert_eq!(from.len(), to.len());
        let socket = agent.with_extension("altered");
        let listener = UnixListener::bind(&socket).unwrap();
        let agent = agent.to_owned();
        std::thread::spawn(move || {
            for caller in listener.incoming().map_while(Result::ok) {
                let agent = UnixStream::connect(&agent).unwrap();
                let (to_agent, to_caller) = (agent.try_clone(), caller.try_clone());
                let (to_agent, to_caller) = (to_agent.unwrap(), to_caller.unwrap());
                std::thread::spawn(move || copy(caller, to_agent, "", ""));
                std::thread::spawn(move || copy(agent, to_caller, from, to));
            }
        });
        Self { socket }
    }
}

fn copy(mut source: UnixStream, mut sink: UnixStream, from: &str, to: &str) {
    let mut buffer = [0; 64 * 1024];
    while let Ok(length @ 1..) = source.read(&mut buffer) {
        let read = &mut buffer[..length];
        let places =
            (0..length).filter(|at| !from.is_empty() && read[*at..].starts_with(from.as_bytes()));
        for at in places.collect::<Vec<_>>() {
            read[at..at + to.len()].copy_from_slice(to.as_bytes());
        }
        if sink.write_all(read).is_err() {
            break;
        }
    }
    sink.shutdown(Shutdown::Both).ok();
}
