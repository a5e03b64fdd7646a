//! Users of a BMC and their passwords (IPMI 2.0, sections 22.27, 22.29 and 22.30).
//!
//! Must never: print a password.

use ipmi_rs_core::connection::{IpmiCommand, Message, NetFn};
use secrecy::{ExposeSecret, SecretString};

use super::chassis::TooShort;

/// The channel of the session.
const THIS_CHANNEL: u8 = 0x0e;
/// Length of a password of IPMI 1.5, and of a user name.
const SHORT: usize = 16;
/// Maximum length of a password.
const LONG: usize = 20;
/// Bit of the user id: the password has 20 bytes.
const IS_LONG: u8 = 0x80;
/// Operation of Set User Password: set.
const SET: u8 = 2;

/// The number of a user, 1 to 63.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct UserId(u8);

impl UserId {
    /// All ids up to the last one.
    pub(super) fn up_to(last: u8) -> impl Iterator<Item = Self> {
        (1..=last.min(63)).map(Self)
    }
}

/// Get User Access: the number of user ids.
#[derive(Debug, Clone, Copy)]
pub(super) struct GetUserAccess;

impl From<GetUserAccess> for Message {
    fn from(_: GetUserAccess) -> Self {
        Self::new_request(NetFn::App, 0x44, vec![THIS_CHANNEL, 1])
    }
}

impl IpmiCommand for GetUserAccess {
    type Output = u8;
    type Error = TooShort;

    fn parse_success_response(data: &[u8]) -> Result<u8, TooShort> {
        data.first().map(|ids| ids & 0x3f).ok_or(TooShort)
    }
}

/// Get User Name. A name without text is empty.
#[derive(Debug, Clone, Copy)]
pub(super) struct GetUserName(pub(super) UserId);

impl From<GetUserName> for Message {
    fn from(GetUserName(UserId(id)): GetUserName) -> Self {
        Self::new_request(NetFn::App, 0x46, vec![id])
    }
}

impl IpmiCommand for GetUserName {
    type Output = String;
    type Error = TooShort;

    fn parse_success_response(data: &[u8]) -> Result<String, TooShort> {
        let name = data.get(..SHORT).ok_or(TooShort)?;
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        Ok(String::from_utf8_lossy(name).into_owned())
    }
}

/// Set User Password; `None` if the password is too long.
pub(super) fn set_password(UserId(id): UserId, password: &SecretString) -> Option<Message> {
    let password = password.expose_secret().as_bytes();
    if password.len() > LONG {
        return None;
    }
    let (id, length) = if password.len() > SHORT {
        (id | IS_LONG, LONG)
    } else {
        (id, SHORT)
    };
    let mut data = vec![id, SET];
    data.extend_from_slice(password);
    data.resize(length.saturating_add(2), 0);
    Some(Message::new_request(NetFn::App, 0x47, data))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(password: &str) -> Option<Vec<u8>> {
        let message = set_password(UserId(3), &SecretString::from(password))?;
        Some(message.data().to_vec())
    }

    #[test]
    fn password_of_over_16_bytes_is_sent_with_20() {
        assert_eq!(data("p"), Some([vec![3, 2, b'p'], vec![0; 15]].concat()));
        let long = "p".repeat(17);
        let sent = [vec![0x83, 2], vec![b'p'; 17], vec![0; 3]].concat();
        assert_eq!(data(&long), Some(sent));
        assert_eq!(data(&"p".repeat(20)).unwrap().len(), 22);
        assert_eq!(data(&"p".repeat(21)), None);
    }

    #[test]
    fn name_ends_at_the_first_zero_byte() {
        let mut name = [0; 16];
        name[..3].copy_from_slice(b"ops");
        let parse = GetUserName::parse_success_response;
        assert_eq!(parse(&name).unwrap(), "ops");
        assert_eq!(parse(&[0; 16]).unwrap(), "");
        assert_eq!(parse(&[b'x'; 16]).unwrap(), "x".repeat(16));
        assert!(parse(&name[..15]).is_err());
    }

    #[test]
    fn number_of_users_is_in_six_bits() {
        let parse = GetUserAccess::parse_success_response;
        assert_eq!(parse(&[0xc5, 1, 1, 0x34]).unwrap(), 5);
        assert!(parse(&[]).is_err());
        assert_eq!(UserId::up_to(2).collect::<Vec<_>>(), [UserId(1), UserId(2)]);
    }
}
