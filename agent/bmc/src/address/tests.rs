//! Tests of the address grammar.

use proptest::prelude::*;

use super::*;

fn parse(text: &str) -> BmcAddress {
    text.parse()
        .unwrap_or_else(|error| panic!("{text:?}: {error}"))
}

#[test]
fn every_scheme_maps_to_its_protocol_and_default_port() {
    for (text, protocol, port, warns) in [
        ("ipmi://h", Protocol::Ipmi, 623, false),
        ("libvirt://h:6233/?abc=def", Protocol::Ipmi, 6233, true),
        ("redfish://h", Protocol::Redfish, 443, false),
        ("redfish+http://h", Protocol::Redfish, 80, false),
        ("redfish+https://h", Protocol::Redfish, 443, false),
        ("REDFISH://h", Protocol::Redfish, 443, false),
        (
            "redfish-virtualmedia+http://h",
            Protocol::Redfish,
            80,
            false,
        ),
        (
            "redfish-uefihttp+https://h:8443",
            Protocol::Redfish,
            8443,
            false,
        ),
        ("idrac-redfish://h", Protocol::Redfish, 443, false),
        (
            "idrac-virtualmedia+https://h",
            Protocol::Redfish,
            443,
            false,
        ),
        ("ilo5-redfish://h", Protocol::Redfish, 443, true),
        ("ilo5-virtualmedia://h", Protocol::Redfish, 443, true),
        ("irmc://h:443", Protocol::Ipmi, 623, true),
        ("ilo4+https://h", Protocol::Ipmi, 623, true),
        ("ilo4-virtualmedia://h", Protocol::Ipmi, 623, true),
        ("ilo5+https://h", Protocol::Redfish, 443, true),
        ("ibmc+http://h", Protocol::Redfish, 80, true),
        ("idrac://h/wsman", Protocol::Redfish, 443, true),
        ("10.0.0.9", Protocol::Ipmi, 623, false),
        ("my.favourite-bmc.example", Protocol::Ipmi, 623, false),
        ("host:6230", Protocol::Ipmi, 6230, false),
        ("[fe80::1]", Protocol::Ipmi, 623, false),
        ("[fe80::1]:6233", Protocol::Ipmi, 6233, false),
        ("fe80::1", Protocol::Ipmi, 623, false),
        ("ipmi:10.0.0.9", Protocol::Ipmi, 623, false),
        ("ipmi:10.0.0.9:6230", Protocol::Ipmi, 6230, false),
        ("redfish:10.0.0.9", Protocol::Redfish, 443, false),
        (" redfish://h:/ ", Protocol::Redfish, 443, false),
    ] {
        let address = parse(text);
        assert_eq!(address.protocol(), protocol, "{text}");
        assert_eq!(address.port(), port, "{text}");
        assert_eq!(
            !address.warnings().is_empty(),
            warns,
            "{text}: {:?}",
            address.warnings()
        );
        assert_eq!(parse(&address.to_string()), address, "{text} -> {address}");
    }
}

#[test]
fn path_below_the_service_root_selects_the_system() {
    for (text, system) in [
        ("redfish://h", None),
        ("redfish://h/", None),
        ("redfish://h/redfish/v1", None),
        ("redfish://h/redfish/v1/", None),
        (
            "redfish://h/redfish/v1/Systems/1",
            Some("/redfish/v1/Systems/1"),
        ),
        (
            "redfish://h/redfish/v1/Systems/1/",
            Some("/redfish/v1/Systems/1/"),
        ),
        ("redfish://[::1]:8000/foo/bar", Some("/foo/bar")),
        ("idrac://h/wsman", None),
        (
            "ibmc://h/redfish/v1/Systems/1",
            Some("/redfish/v1/Systems/1"),
        ),
        ("ipmi://h/redfish/v1/Systems/1", None),
    ] {
        assert_eq!(parse(text).system(), system, "{text}");
    }
}

#[test]
fn ipmi_privilege_is_read_from_the_query() {
    assert_eq!(parse("ipmi://h").privilege(), Privilege::Administrator);
    let address = parse("ipmi://h?privilegelevel=OPERATOR");
    assert_eq!(address.privilege(), Privilege::Operator);
    assert_eq!(address.to_string(), "ipmi://h:623?privilegelevel=OPERATOR");
    assert_eq!(
        "ipmi://h?privilegelevel=ROOT".parse::<BmcAddress>(),
        Err(AddressError::Privilege)
    );
}

#[test]
fn invalid_address_is_rejected() {
    let long_label = format!("redfish://{}.example", "a".repeat(64));
    for (text, error) in [
        ("", AddressError::Empty),
        (" \n", AddressError::Empty),
        ("redfish://", AddressError::NoHost),
        ("redfish://:443", AddressError::NoHost),
        (
            "gopher://h",
            AddressError::UnknownScheme("gopher".to_owned()),
        ),
        (
            "ipmi+http://h",
            AddressError::UnknownScheme("ipmi+http".to_owned()),
        ),
        (
            "redfish+ftp://h",
            AddressError::UnknownScheme("redfish+ftp".to_owned()),
        ),
        ("redfish://my-.example", AddressError::Host),
        ("redfish://under_score", AddressError::Host),
        ("redfish://999.1.1.1", AddressError::Host),
        ("redfish://1.2.3", AddressError::Host),
        ("redfish://0x7f", AddressError::Host),
        ("redfish://h.", AddressError::Host),
        ("[fe80::fc33:8xff]:6223", AddressError::Host),
        ("[fe80::1%eth0]", AddressError::Host),
        (long_label.as_str(), AddressError::Host),
        ("redfish://h:0", AddressError::Port),
        ("redfish://h:65536", AddressError::Port),
        ("redfish://h:+80", AddressError::Port),
        ("redfish://h//evil/x", AddressError::Path),
        ("redfish://h/redfish/../x", AddressError::Path),
        ("redfish://h/redfish/%2E%2e/x", AddressError::Path),
        ("redfish://h/a b", AddressError::Path),
        ("redfish://h/a\\b", AddressError::Path),
    ] {
        assert_eq!(text.parse::<BmcAddress>(), Err(error), "{text:?}");
    }
}

#[test]
fn credentials_in_an_address_are_rejected_and_not_shown() {
    for text in [
        "redfish://root:calvin@10.0.0.1",
        "root:calvin@10.0.0.1",
        "ipmi:root:calvin@10.0.0.1",
        "redfish://root:cal/vin@10.0.0.1",
        "redfish://root:calvin",
        "redfish://calvin_",
        "root:calvin",
    ] {
        let Err(error) = text.parse::<BmcAddress>() else {
            panic!("{text:?} was accepted")
        };
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains("calvin"), "{text:?}: {shown}");
    }
}

#[test]
fn equivalent_addresses_have_the_same_endpoint() {
    let plain = parse("redfish://BMC.example/redfish/v1/Systems/1");
    assert_eq!(plain.endpoint(), "redfish://bmc.example:443");
    assert_eq!(
        parse("idrac-virtualmedia+https://bmc.example:443").endpoint(),
        plain.endpoint()
    );
    assert_eq!(parse("[FE80:0::1]").endpoint(), "ipmi://[fe80::1]:623");
}

fn address_like() -> impl Strategy<Value = String> {
    let scheme = prop_oneof![
        Just(String::new()),
        "(ipmi|libvirt|redfish|redfish-virtualmedia|redfish-uefihttp|idrac-redfish|idrac|irmc|ilo4|ilo5|ibmc|x)(\\+https?)?(://|:)",
    ];
    let host = prop_oneof![
        "[a-zA-Z0-9.-]{0,12}",
        "[0-9]{1,3}\\.[0-9]{1,3}\\.[0-9]{1,3}\\.[0-9]{1,3}",
        "\\[[0-9a-f:]{0,12}\\]",
        "(xn--)?[a-z0-9-]{1,10}\\.example",
    ];
    let port = prop_oneof![Just(String::new()), ":[0-9]{0,6}"];
    let path = prop_oneof![
        Just(String::new()),
        "/redfish/v1/Systems/[A-Za-z0-9.%_-]{0,8}/?",
        "/.{0,8}"
    ];
    let query = prop_oneof![
        Just(String::new()),
        "\\?privilegelevel=(OPERATOR|user)",
        "[?#].{0,5}"
    ];
    (scheme, host, port, path, query)
        .prop_map(|(scheme, host, port, path, query)| scheme + &host + &port + &path + &query)
}

proptest! {
    #[test]
    fn parsing_arbitrary_text_does_not_panic(text in ".*") {
        if let Ok(address) = text.parse::<BmcAddress>() {
            prop_assert_eq!(address.to_string().parse::<BmcAddress>(), Ok(address));
        }
    }

    #[test]
    fn displayed_address_parses_to_the_same_address(text in address_like()) {
        if let Ok(address) = text.parse::<BmcAddress>() {
            prop_assert_eq!(address.to_string().parse::<BmcAddress>(), Ok(address));
        }
    }
}
