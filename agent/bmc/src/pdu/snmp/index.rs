//! Names of outlets in SNMP tables.
//!
//! Owns: the notation of an index. Must never: accept a name that means no index.

use super::tables::Table;
use crate::pdu::OutletId;

/// Maximum number of parts of an index.
const MAX_PARTS: usize = 4;

/// The index of an outlet: `12`, or all parts as in `2.12` for the second unit. Each outlet has one name, that
/// of [`name`]; another spelling is refused, because hosts that share an outlet are found by its name.
pub(super) fn parse(table: &Table, id: &OutletId) -> Option<Vec<u32>> {
    let mut parts: Vec<u32> =
        id.0.split('.')
            .take(MAX_PARTS + 1)
            .map(|part| {
                let is_number = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
                is_number.then(|| part.parse().ok()).flatten()
            })
            .collect::<Option<_>>()?;
    let whole = table.unit.len() + 1;
    let index = match parts.len() {
        1 => [table.unit, &parts].concat(),
        count if count == whole && count <= MAX_PARTS => {
            if let Some(unit) = parts.first_mut() {
                *unit = unit.checked_sub(1)?.checked_add(table.first_unit)?;
            }
            parts
        }
        _ => return None,
    };
    (name(table, &index) == *id).then_some(index)
}

/// The name of the outlet with this index.
pub(super) fn name(table: &Table, index: &[u32]) -> OutletId {
    let first = table.unit.len();
    if let (true, [outlet]) = (
        index.starts_with(table.unit),
        index.get(first..).unwrap_or(index),
    ) {
        return OutletId(outlet.to_string());
    }
    let parts: Vec<String> = (0_usize..)
        .zip(index)
        .map(|(place, part)| {
            let is_unit = place == 0 && first > 0;
            let part = u64::from(*part);
            if is_unit {
                (part + 1).saturating_sub(u64::from(table.first_unit))
            } else {
                part
            }
            .to_string()
        })
        .collect();
    OutletId(parts.join("."))
}

/// Why a text names no outlet of this make.
pub(super) fn refusal(table: &Table, id: &OutletId) -> String {
    let notation = match table.unit.len() {
        0 => "a number in the table, such as 12",
        1 => "12 at the first unit and 2.12 at the second",
        _ => "12 at the first unit and cord, and 2.1.12 at the first cord of the second unit",
    };
    let name: String = id.0.chars().take(32).collect();
    format!(
        "{name:?} is no outlet of this make; its outlets are named like {notation}: see `pdu outlets`"
    )
}

#[cfg(test)]
mod tests {
    use super::{super::tables, *};
    use crate::pdu::PduTable;

    fn parsed(table: PduTable, id: &str) -> Option<Vec<u32>> {
        parse(tables::table(table), &OutletId(id.to_owned()))
    }

    #[test]
    fn plain_number_is_an_outlet_of_the_first_unit() {
        assert_eq!(parsed(PduTable::ApcRpdu2, "12"), Some(vec![12]));
        assert_eq!(parsed(PduTable::Raritan, "12"), Some(vec![1, 12]));
        assert_eq!(parsed(PduTable::Raritan, "2.12"), Some(vec![2, 12]));
        assert_eq!(parsed(PduTable::ServerTech, "12"), Some(vec![1, 1, 12]));
        assert_eq!(parsed(PduTable::Eaton, "12"), Some(vec![0, 12]));
    }

    #[test]
    fn units_are_counted_from_1_for_every_make() {
        assert_eq!(parsed(PduTable::Eaton, "2.12"), Some(vec![1, 12]));
        assert_eq!(parsed(PduTable::Raritan, "2.12"), Some(vec![2, 12]));
        let second = Some(vec![2, 1, 12]);
        assert_eq!(parsed(PduTable::ServerTech, "2.1.12"), second);
        for table in PduTable::ALL {
            assert_eq!(parsed(table, "0.12"), None, "{table}");
        }
    }

    #[test]
    fn f6_outlet_has_one_name() {
        for (table, id) in [
            (PduTable::Eaton, "1.12"),
            (PduTable::Raritan, "1.12"),
            (PduTable::ServerTech, "1.1.12"),
            (PduTable::ApcRpdu, "012"),
            (PduTable::Raritan, "2.012"),
        ] {
            assert_eq!(parsed(table, id), None, "{table} {id}");
        }
    }

    #[test]
    fn other_names_are_refused() {
        for id in [
            "",
            "A1",
            "1.2.3",
            "1.",
            ".1",
            "-1",
            "+1",
            "99999999999",
            "1 ",
        ] {
            assert_eq!(parsed(PduTable::Raritan, id), None, "{id:?}");
        }
        assert_eq!(parsed(PduTable::ApcRpdu2, "1.2"), None);
    }

    #[test]
    fn name_of_an_index_is_parsed_back() {
        for table in PduTable::ALL.map(tables::table) {
            for unit in [table.unit.to_vec(), vec![7; table.unit.len()]] {
                let index = [unit, vec![12]].concat();
                assert_eq!(parse(table, &name(table, &index)), Some(index));
            }
        }
    }
}
