//! Names of outlets in SNMP tables.
//!
//! Owns: the notation of an index. Must never: accept a name that means no index.

use super::tables::Table;
use crate::pdu::OutletId;

/// Maximum number of parts of an index.
const MAX_PARTS: usize = 4;

/// The index of an outlet: `12`, or all parts as in `2.12`.
pub(super) fn parse(table: &Table, id: &OutletId) -> Option<Vec<u32>> {
    let parts: Vec<u32> =
        id.0.split('.')
            .map(|part| {
                let is_number = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
                is_number.then(|| part.parse().ok()).flatten()
            })
            .collect::<Option<_>>()?;
    let whole = table.unit.len() + 1;
    match parts.len() {
        1 => Some([table.unit, &parts].concat()),
        count if count == whole && count <= MAX_PARTS => Some(parts),
        _ => None,
    }
}

/// The name of the outlet with this index.
pub(super) fn name(table: &Table, index: &[u32]) -> OutletId {
    let rest = index
        .strip_prefix(table.unit)
        .filter(|rest| rest.len() == 1)
        .unwrap_or(index);
    let parts: Vec<String> = rest.iter().map(ToString::to_string).collect();
    OutletId(parts.join("."))
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
