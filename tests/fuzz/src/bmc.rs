//! Packets from BMCs, and the addresses of BMCs in inventories and BareMetalHosts.

use rackhand_bmc::{
    BmcAddress,
    ipmi::wire::{
        Frame, Handshake, OpenRequest, OpenResponse, Rakp1, Rakp2, Rakp3, Rakp4, Request, Response,
        Suite,
    },
};

/// An address that can be parsed is unchanged after printing and parsing it.
pub(crate) fn address(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(address) = text.parse::<BmcAddress>() {
        assert_eq!(address.to_string().parse(), Ok(address));
    }
}

/// Packets of RMCP+, before they are authenticated.
pub(crate) fn ipmi_wire(bytes: &[u8]) {
    let _ = Frame::decode(bytes);
    for suite in Suite::ALL {
        let keys = Handshake {
            suite,
            console: 1,
            managed: 2,
            console_random: [3; 16],
            managed_random: [4; 16],
            guid: [5; 16],
            role: 0x14,
            user: b"admin".to_vec(),
        }
        .integrity_key(b"secret")
        .session_keys();
        let _ = keys.unseal(bytes);
    }
    if let Ok(request) = Request::decode(bytes) {
        assert_eq!(Request::decode(&request.encode()), Ok(request));
    }
    if let Ok(response) = Response::decode(bytes) {
        assert_eq!(Response::decode(&response.encode()), Ok(response));
    }
    let _ = OpenRequest::decode(bytes);
    let _ = OpenResponse::decode(bytes);
    let _ = Rakp1::decode(bytes);
    let _ = Rakp2::decode(bytes);
    let _ = Rakp3::decode(bytes);
    let _ = Rakp4::decode(bytes);
}
