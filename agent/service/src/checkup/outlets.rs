//! Check of the outlets of a host at one PDU.

use rackhand_bmc::{
    BmcError, ErrorKind,
    pdu::{OutletReading, OutletState},
};
use rackhand_proto::v1::{Check, Verdict};

use super::check;

const NAME: &str = "outlets";

/// Judges a reading of the outlets of a host at one PDU.
pub(crate) fn outlets(
    pdu: &str,
    address: &str,
    read: &Result<Vec<OutletReading>, BmcError>,
) -> Check {
    let mut check = match read {
        Ok(readings) => of_readings(pdu, readings),
        Err(error) => check(
            NAME,
            Verdict::Failed,
            format!("PDU {pdu}: {}", error.message),
            advice(error.kind),
        ),
    };
    address.clone_into(&mut check.bmc);
    check
}

fn of_readings(pdu: &str, readings: &[OutletReading]) -> Check {
    let words: Vec<String> = readings.iter().map(|one| words(pdu, one)).collect();
    let found = words.join("; ");
    let is_known = |one: &OutletReading| one.state != OutletState::Unknown;
    if readings.iter().all(is_known) {
        return check(NAME, Verdict::Ok, found, "");
    }
    check(
        NAME,
        Verdict::Failed,
        found,
        "an outlet without a known state proves nothing: see that it is a switched outlet",
    )
}

fn words(pdu: &str, reading: &OutletReading) -> String {
    let state = match reading.state {
        OutletState::On => "on",
        OutletState::Off => "off",
        OutletState::Switching => "switching",
        OutletState::Unknown => "unknown",
    };
    let current = reading.amperes.map(|amperes| format!(", {amperes:.1} A"));
    format!(
        "{pdu}/{}: {state}{}",
        reading.id,
        current.unwrap_or_default()
    )
}

fn advice(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::System => {
            "mend the outlets of the host in the inventory: `pdu outlets` shows those of the PDU"
        }
        ErrorKind::Authentication | ErrorKind::Privilege => {
            "mend user, password or community of the PDU in the configuration"
        }
        ErrorKind::Tls => "trust the CA of the PDU (trust: ca_file), or pin its certificate",
        ErrorKind::Configuration => "mend the PDU in the configuration of the agent",
        _ => "ping the PDU; check its address, its table, and firewalls on the way",
    }
}

#[cfg(test)]
mod tests {
    use rackhand_bmc::pdu::OutletId;

    use super::*;

    fn reading(id: &str, state: OutletState, amperes: Option<f64>) -> OutletReading {
        OutletReading {
            id: OutletId(id.to_owned()),
            label: None,
            state,
            raw: String::new(),
            amperes,
            watts: None,
            none_watts: rackhand_bmc::pdu::NO_WATTS,
        }
    }

    #[test]
    fn outlets_with_a_known_state_pass() {
        let on = reading("3", OutletState::On, Some(1.26));
        let off = reading("4", OutletState::Off, None);
        let check = outlets("a", "snmp://pdu:161", &Ok(vec![on.clone(), off]));
        assert_eq!(check.verdict(), Verdict::Ok);
        assert_eq!(check.found, "a/3: on, 1.3 A; a/4: off");
        assert_eq!(check.bmc, "snmp://pdu:161");
        let unknown = reading("4", OutletState::Unknown, None);
        let check = outlets("a", "snmp://pdu:161", &Ok(vec![on, unknown]));
        assert_eq!(check.verdict(), Verdict::Failed);
    }

    #[test]
    fn failed_reading_fails_with_advice() {
        for (kind, wanted) in [
            (ErrorKind::System, "mend the outlets"),
            (ErrorKind::Authentication, "community"),
            (ErrorKind::Timeout, "ping the PDU"),
        ] {
            let error = BmcError {
                kind,
                bmc: "snmp://pdu:161".to_owned(),
                message: "no".to_owned(),
                retry_after: None,
                maybe_sent: false,
                not_sent: false,
            };
            let check = outlets("a", "snmp://pdu:161", &Err(error));
            assert_eq!(check.verdict(), Verdict::Failed);
            assert_eq!(check.found, "PDU a: no");
            assert!(check.advice.contains(wanted), "{check:?}");
        }
    }
}
