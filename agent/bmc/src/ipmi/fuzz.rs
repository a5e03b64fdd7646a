//! A BMC whose responses are chosen by libFuzzer.

use std::{
    future::Future,
    pin::pin,
    sync::Mutex,
    task::{Context, Poll, Waker},
};

use ipmi_rs_core::connection::IpmiCommand;

use super::{
    command,
    requester::{RequestError, Requester},
    wire::CompletionCode,
};

/// Completion code and data of each response, used cyclically, and the number of requests.
struct Noise<'a>(Vec<(u8, &'a [u8])>, Mutex<usize>);

/// Upper bound of the requests of one log read; a log has at most 65,536 entries.
const MOST_REQUESTS: usize = 200_000;

impl Requester for Noise<'_> {
    async fn ask<C>(&self, _: C) -> Result<C::Output, RequestError>
    where
        C: IpmiCommand + Send,
        C::Output: Send,
    {
        let at = {
            let mut asked = self.1.lock().map_err(|_| RequestError::Data("poisoned"))?;
            *asked += 1;
            assert!(*asked < MOST_REQUESTS, "endless requests");
            *asked % self.0.len().max(1)
        };
        let (code, data) = self.0.get(at).copied().unwrap_or_default();
        match CompletionCode::of(code) {
            Some(code) => Err(RequestError::Code(code)),
            None => C::parse_success_response(data).map_err(|_| RequestError::Data("garbled")),
        }
    }
}

/// Runs the reading commands against responses cut from `bytes`: each is a completion code, a
/// length, and that many bytes.
pub(crate) fn fuzz(mut bytes: &[u8]) {
    let mut answers = Vec::new();
    while let [code, length, rest @ ..] = bytes {
        let (data, rest) = rest.split_at(usize::from(*length).min(rest.len()));
        answers.push((*code, data));
        bytes = rest;
    }
    let noise = || Noise(answers.clone(), Mutex::new(0));
    if let Some(Ok(sensors)) = at_once(command::sensors(&noise())) {
        let mut values = sensors.iter().filter_map(|sensor| sensor.value);
        assert!(values.all(f64::is_finite));
    }
    if let Some(Ok(log)) = at_once(command::event_log(&noise(), 20)) {
        assert!(log.entries.len() <= 20);
    }
    let _ = at_once(command::identity(&noise(), None));
    if let Some(Ok(Some(found))) = at_once(command::upgrade(&noise())) {
        assert!(found.updates.len() <= 1);
    }
}

/// Polls a future once, which completes it because the fake BMC never waits.
fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}
