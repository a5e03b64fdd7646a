//! Which members of a collection are read first.

use std::cmp::Reverse;

use crate::redfish::protocol::document::last_part;

/// All links, those of new members first.
pub(super) fn newest_first(links: &[String]) -> impl Iterator<Item = &str> {
    places(links).filter_map(|place| links.get(place).map(String::as_str))
}

/// The places of all links, those of new members first.
///
/// Most BMCs number tasks and jobs as they begin, but not all list them in this order (`1`, `10`, `2`), and some use
/// free numbers again and add the new member at the end. So the highest number and the end of the list take turns.
pub(super) fn places(links: &[String]) -> impl Iterator<Item = usize> + use<> {
    let by_place: Vec<usize> = (0..links.len()).rev().collect();
    let mut by_number = by_place.clone();
    if let Some(numbers) = numbers(links) {
        by_number.sort_by_key(|place| Reverse(numbers.get(*place).copied()));
    }
    let mut is_taken = vec![false; links.len()];
    let turns = by_number.into_iter().zip(by_place);
    turns
        .flat_map(|(number, place)| [number, place])
        .filter(move |place| {
            let taken = is_taken.get_mut(*place);
            taken.is_some_and(|taken| !std::mem::replace(taken, true))
        })
}

/// The number at the end of each link; `None`: they differ in more than a number, which then says nothing about time.
fn numbers(links: &[String]) -> Option<Vec<u64>> {
    let mut common = None;
    let number = |link: &String| {
        let id = last_part(link);
        let digits = id.bytes().rev().take_while(u8::is_ascii_digit).count();
        let (prefix, number) = id.split_at(id.len().saturating_sub(digits));
        let is_same = *common.get_or_insert_with(|| prefix.to_owned()) == prefix;
        number.parse().ok().filter(|_| is_same)
    };
    links.iter().map(number).collect()
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn of(ids: &[&str]) -> Vec<String> {
        let links: Vec<String> = ids.iter().map(|id| format!("/tasks/{id}")).collect();
        newest_first(&links)
            .map(|link| last_part(link).to_owned())
            .collect()
    }

    #[test]
    fn highest_number_is_first_however_the_list_is_sorted() {
        assert_eq!(of(&["1", "2", "3"]), ["3", "2", "1"]);
        assert_eq!(of(&["1", "10", "11", "2"])[..3], ["11", "2", "10"]);
        assert_eq!(
            of(&["JID_12", "JID_9", "JID_300"])[..2],
            ["JID_300", "JID_12"]
        );
    }

    #[test]
    fn number_that_is_used_again_is_found_at_the_end_of_the_list() {
        assert_eq!(of(&["6", "7", "8", "9", "1"])[..2], ["9", "1"]);
    }

    #[test]
    fn ids_that_are_no_numbers_are_read_from_the_end() {
        assert_eq!(of(&["a7", "b1", "c3"]), ["c3", "b1", "a7"]);
        assert_eq!(of(&["1", "x", "2"]), ["2", "x", "1"]);
    }

    proptest! {
        #[test]
        fn every_member_is_read_exactly_once(ids in vec("(JID_)?[0-9a-f]{0,24}", 0..20)) {
            let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
            let mut found = of(&ids);
            let mut all: Vec<String> =
                ids.iter().map(|id| last_part(&format!("/tasks/{id}")).to_owned()).collect();
            found.sort();
            all.sort();
            prop_assert_eq!(found, all);
        }
    }
}
