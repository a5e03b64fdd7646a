//! How an answer is wrapped into a datagram, and what a rule spoils of it.

use rackhand_bmc::ipmi::wire::{PayloadType, Response, plain, v15};

use super::bmc::{Bmc, Framing};
use super::counters::Dropped;
use super::rules::Effects;

impl Bmc {
    /// An answer as it came to be asked.
    pub(super) fn wrap(
        &mut self,
        framing: Framing,
        mut response: Response,
        effects: &Effects,
    ) -> Result<Vec<u8>, Dropped> {
        if effects.wrong_sequence {
            response.sequence = (response.sequence + 1) & 0x3f;
        }
        let message = response.encode();
        let id = match framing {
            Framing::V15 => return Ok(v15(&message)),
            Framing::Plain => return Ok(plain(PayloadType::Ipmi, &message)),
            Framing::Session(rights) => rights.session,
        };
        let iv = self.random.bytes();
        // A session that this very command has closed is answered all the same.
        let mut closed = self.stores.closing.take().filter(|one| one.managed == id);
        let session = closed.as_mut().or_else(|| self.sessions.get(id));
        let session = session.ok_or(Dropped::UnknownSession)?;
        let sequence = session.next_sequence();
        let console = session.console ^ u32::from(effects.wrong_session);
        if effects.unencrypted {
            let mut packet = plain(PayloadType::Ipmi, &message);
            put(&mut packet, 6, console);
            put(&mut packet, 10, sequence);
            return Ok(packet);
        }
        let keys = session.keys().ok_or(Dropped::UnknownSession)?;
        let mut packet = keys.seal(PayloadType::Ipmi, console, sequence, &message, iv);
        if let Some(last) = packet.last_mut().filter(|_| effects.wrong_integrity) {
            *last ^= 0xff;
        }
        Ok(packet)
    }
}

fn put(packet: &mut [u8], at: usize, number: u32) {
    if let Some(place) = packet.get_mut(at..at + 4) {
        place.copy_from_slice(&number.to_le_bytes());
    }
}

pub(super) fn cut(mut bytes: Vec<u8>, effects: &Effects) -> Vec<u8> {
    bytes.truncate(effects.truncate.unwrap_or(usize::MAX));
    bytes
}
