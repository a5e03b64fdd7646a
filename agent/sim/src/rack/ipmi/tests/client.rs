//! A minimal IPMI client for tests.

use rackhand_bmc::ipmi::wire::{
    Frame, Handshake, OpenRequest, OpenResponse, PayloadType, Rakp1, Rakp2, Rakp3, Rakp4,
    RakpStatus, Request, Response, SessionKeys, plain,
};

use super::*;

const CONSOLE: u32 = 0xa0a1_a2a3;

/// Reason why no session was opened.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum LoginError {
    Status(RakpStatus),
    Silence,
    WrongCode,
}

#[derive(Clone, Debug)]
pub(super) struct Login {
    pub(super) suite: Suite,
    pub(super) user: &'static str,
    pub(super) password: &'static str,
    pub(super) kg: Option<&'static [u8]>,
    pub(super) role: u8,
}

pub(super) const ADMIN: Login = Login {
    suite: Suite::Cipher17,
    user: "admin",
    password: "secret",
    kg: None,
    role: 0x14,
};

#[derive(Debug)]
pub(super) struct Client {
    pub(super) keys: SessionKeys,
    pub(super) managed: u32,
    pub(super) sequence: u32,
    /// The last packets of opening the session.
    pub(super) rakp3: Vec<u8>,
    pub(super) rakp4: Vec<u8>,
    rq: u8,
}

pub(super) fn payload(packet: &[u8]) -> &[u8] {
    match Frame::decode(packet).expect("a frame") {
        Frame::V15 { payload } | Frame::V20 { payload, .. } => payload,
    }
}

pub(super) fn opening(login: &Login) -> Vec<u8> {
    let open = OpenRequest {
        tag: 1,
        privilege: 0,
        console: CONSOLE,
        algorithms: login.suite.algorithms(),
    };
    plain(PayloadType::OpenRequest, &open.encode())
}

pub(super) fn log_in(bmc: &mut Bmc, login: &Login, now: Instant) -> Result<Client, LoginError> {
    let packet = bmc
        .receive(&opening(login), now)
        .ok_or(LoginError::Silence)?;
    let response = OpenResponse::decode(payload(&packet)).expect("open session response");
    let opened = response.result.map_err(LoginError::Status)?;
    assert_eq!((response.tag, response.console), (1, CONSOLE));
    assert_eq!(opened.algorithms, login.suite.algorithms());

    let rakp1 = Rakp1 {
        tag: 2,
        managed: opened.managed,
        random: [5; 16],
        role: login.role,
        user: login.user.as_bytes().to_vec(),
    };
    let packet = plain(PayloadType::Rakp1, &rakp1.encode());
    let packet = bmc.receive(&packet, now).ok_or(LoginError::Silence)?;
    let rakp2 = Rakp2::decode(payload(&packet)).expect("RAKP 2");
    let body = rakp2.result.map_err(LoginError::Status)?;
    let hand = Handshake {
        suite: login.suite,
        console: CONSOLE,
        managed: opened.managed,
        console_random: rakp1.random,
        managed_random: body.random,
        guid: body.guid,
        role: login.role,
        user: rakp1.user,
    };
    // A wrong password is left for the BMC to detect.
    let password = login.password.as_bytes();
    let known = hand.is_rakp2_code(password, &body.code);

    let rakp3 = Rakp3 {
        tag: 3,
        managed: opened.managed,
        result: Ok(hand.rakp3_code(password).to_vec()),
    };
    let sent = plain(PayloadType::Rakp3, &rakp3.encode());
    let packet = bmc.receive(&sent, now).ok_or(LoginError::Silence)?;
    let rakp4 = Rakp4::decode(payload(&packet)).expect("RAKP 4");
    let code = rakp4.result.map_err(LoginError::Status)?;
    let key = hand.integrity_key(login.kg.unwrap_or(password));
    if !known || !hand.is_rakp4_code(&key, &code) {
        return Err(LoginError::WrongCode);
    }
    Ok(Client {
        keys: key.session_keys(),
        managed: opened.managed,
        sequence: 0,
        rakp3: sent,
        rakp4: packet,
        rq: 0,
    })
}

/// A session with privilege OPERATOR.
pub(super) fn operator(bmc: &mut Bmc, now: Instant) -> Client {
    let mut client = log_in(bmc, &ADMIN, now).expect("a session");
    assert_eq!(client.ask(bmc, SET_PRIVILEGE, &[3], now), Ok(vec![3]));
    client
}

impl Client {
    pub(super) fn packet(&mut self, command: Command, data: &[u8]) -> Vec<u8> {
        self.sequence += 1;
        self.rq = (self.rq + 1) & 0x3f;
        let request = Request {
            net_fn: command.net_fn,
            lun: 0,
            sequence: self.rq,
            command: command.command,
            data: data.to_vec(),
        };
        self.sealed(&request.encode())
    }

    fn sealed(&self, message: &[u8]) -> Vec<u8> {
        let (managed, sequence) = (self.managed, self.sequence);
        let kind = PayloadType::Ipmi;
        self.keys.seal(kind, managed, sequence, message, [7; 16])
    }

    pub(super) fn read(&self, packet: &[u8]) -> Response {
        let unsealed = self.keys.unseal(packet).expect("an answer");
        assert_eq!(unsealed.session, CONSOLE);
        Response::decode(&unsealed.payload).expect("a response")
    }

    /// Data, or the completion code.
    pub(super) fn ask(
        &mut self,
        bmc: &mut Bmc,
        command: Command,
        data: &[u8],
        now: Instant,
    ) -> Result<Vec<u8>, u8> {
        let packet = self.packet(command, data);
        let packet = bmc.receive(&packet, now).expect("an answer");
        let response = self.read(&packet);
        assert_eq!(response.sequence, self.rq);
        match response.completion {
            0 => Ok(response.data),
            code => Err(code),
        }
    }

    pub(super) fn is_on(&mut self, bmc: &mut Bmc, now: Instant) -> bool {
        let status = self.ask(bmc, Command::CHASSIS_STATUS, &[], now);
        status.expect("a status")[0] & 1 != 0
    }

    pub(super) fn control(&mut self, bmc: &mut Bmc, number: u8, now: Instant) -> Result<(), u8> {
        let reply = self.ask(bmc, Command::CHASSIS_CONTROL, &[number], now);
        reply.map(|data| assert!(data.is_empty()))
    }
}
