//! Selection of hosts: names, ranges, labels, files.
//!
//! Pure. Must never: drop a given name: the agent decides whether the rack has such a host.

use std::collections::BTreeSet;

use rackhand_identity::{IdentityMatch, compare_system_uuids};
use rackhand_proto::v1;

/// Maximum number of selected hosts.
const MOST: usize = 100_000;

/// Meaning of one word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HostSelector {
    Name(String),
    /// A label, or name, node, rack, position or pdu.
    Labelled {
        key: String,
        value: String,
    },
}

/// Parses words such as `node-[01-40,44]`, `a,b`, `rack=r[1-3]`.
///
/// # Errors
///
/// An invalid range; the message repeats the word.
pub(crate) fn wanted(words: &[String]) -> Result<Vec<HostSelector>, String> {
    let mut found = Vec::new();
    for word in words.iter().flat_map(|word| parts(word)) {
        if let Some((key, value)) = word.split_once('=') {
            for value in expanded(value)? {
                found.push(HostSelector::Labelled {
                    key: key.to_owned(),
                    value,
                });
            }
        } else {
            found.extend(expanded(&word)?.into_iter().map(HostSelector::Name));
        }
        if found.len() > MOST {
            return Err(format!(
                "{word:?} and the other arguments name more than {MOST} hosts"
            ));
        }
    }
    Ok(found)
}

/// The words of a file or of standard input, separated by white space; `#` starts a comment.
pub(crate) fn words_of(text: &str) -> Vec<String> {
    let lines = text.lines();
    let lines = lines.map(|line| line.split('#').next().unwrap_or_default());
    lines
        .flat_map(str::split_whitespace)
        .map(str::to_owned)
        .collect()
}

/// The selected hosts, each once, in the order of selection. A name that the rack does not have is
/// kept.
///
/// # Errors
///
/// Labels that no host has.
pub(crate) fn hosts(
    wanted: &[HostSelector],
    rack: &str,
    known: &[v1::Host],
) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    for one in wanted {
        match one {
            HostSelector::Name(name) => names.push(called(known, name).unwrap_or(name).to_owned()),
            HostSelector::Labelled { key, value } => {
                let before = names.len();
                let of = known.iter().filter(|host| has(host, rack, key, value));
                names.extend(of.map(|host| host.name.clone()));
                if names.len() == before {
                    return Err(format!(
                        "no host of rack {rack} has {key}={value}; `host list -o wide` shows the \
                         labels"
                    ));
                }
            }
        }
    }
    let mut seen = BTreeSet::new();
    names.retain(|name| seen.insert(name.clone()));
    Ok(names)
}

/// The inventory name of a host given by another of its names, so that it is selected once.
fn called<'a>(known: &'a [v1::Host], name: &str) -> Option<&'a str> {
    let mut found = known.iter().filter(|host| is_called(host, name));
    match (found.next(), found.next()) {
        (Some(host), None) => Some(&host.name),
        _ => None,
    }
}

/// A hint for a name that no host has; `None`: the name exists, or no single host is similar.
pub(crate) fn hint(name: &str, rack: &str, known: &[v1::Host]) -> Option<String> {
    if known.iter().any(|host| is_called(host, name)) {
        return None;
    }
    if name.contains(['*', '?']) {
        return Some(format!(
            "no such host; a range is written as node-[01-40], all of the rack as rack={rack}"
        ));
    }
    let near = |host: &&v1::Host| {
        plain(&host.name) == plain(name) || strsim::damerau_levenshtein(&host.name, name) == 1
    };
    let mut found = known.iter().filter(near);
    match (found.next(), found.next()) {
        (Some(host), None) => Some(format!("no such host; did you mean {}?", host.name)),
        _ => None,
    }
}

/// Normalises a name: lower case, and numbers without leading zeros.
fn plain(name: &str) -> String {
    let name = name.to_lowercase();
    let (mut plain, mut rest) = (String::new(), name.as_str());
    while let Some(at) = rest.find(|letter: char| letter.is_ascii_digit()) {
        let (before, number) = rest.split_at(at);
        let end = number.find(|letter: char| !letter.is_ascii_digit());
        let (number, behind) = number.split_at(end.unwrap_or(number.len()));
        plain.push_str(before);
        plain.push_str(number.trim_start_matches('0'));
        rest = behind;
    }
    plain + rest
}

/// Whether the host has this name.
pub(crate) fn is_called(host: &v1::Host, name: &str) -> bool {
    [&host.name, &host.node_name, &host.provider_id]
        .into_iter()
        .any(|known| known == name)
        || compare_system_uuids(&host.system_uuid, name) == IdentityMatch::Same
}

fn has(host: &v1::Host, rack: &str, key: &str, value: &str) -> bool {
    match key {
        "rack" => rack == value,
        "name" => host.name == value,
        "node" => host.node_name == value,
        "position" => host.position == value,
        "pdu" => host.pdu == value,
        _ => host.labels.get(key).is_some_and(|known| known == value),
    }
}

/// Splits at commas outside of brackets.
fn parts(word: &str) -> Vec<String> {
    let (mut parts, mut depth) = (vec![String::new()], 0_u32);
    for letter in word.chars() {
        match letter {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(last) = parts.last_mut() {
            last.push(letter);
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// Expands the ranges of a word.
fn expanded(word: &str) -> Result<Vec<String>, String> {
    let mut names = vec![String::new()];
    let mut rest = word;
    while let Some((before, behind)) = rest.split_once('[') {
        let wrong = || format!("{word:?}: write a range as node-[01-40] or node-[1,3,7-9]");
        let (inside, after) = behind.split_once(']').ok_or_else(wrong)?;
        let choices = choices(inside).ok_or_else(wrong)?;
        if choices.len().saturating_mul(names.len()) > MOST {
            return Err(format!("{word:?} names more than {MOST} hosts"));
        }
        names = names
            .iter()
            .flat_map(|name| {
                let with = choices.iter();
                with.map(move |choice| format!("{name}{before}{choice}"))
            })
            .collect();
        rest = after;
    }
    if rest.contains(']') {
        return Err(format!(
            "{word:?}: it has a closing bracket without an opening one"
        ));
    }
    names.iter_mut().for_each(|name| name.push_str(rest));
    Ok(names)
}

/// Expands the content of brackets: `01-40`, `1,3,7-9`, `a,b`.
fn choices(inside: &str) -> Option<Vec<String>> {
    let mut all = Vec::new();
    for part in inside.split(',').map(str::trim) {
        if part.is_empty() || part.contains('[') {
            return None;
        }
        let Some((first, last)) = part.split_once('-') else {
            all.push(part.to_owned());
            continue;
        };
        let (from, to) = (number(first)?, number(last)?);
        if from > to || to - from >= MOST {
            return None;
        }
        let width = first.len();
        all.extend((from..=to).map(|number| format!("{number:0width$}")));
    }
    Some(all)
}

fn number(digits: &str) -> Option<usize> {
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| digits.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn names(words: &[&str]) -> Result<Vec<String>, String> {
        let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
        hosts(&wanted(&words)?, "r1", &known())
    }

    fn known() -> Vec<v1::Host> {
        [
            ("n1", "w1", "p1", "db"),
            ("n2", "w2", "p1", "web"),
            ("n3", "w3", "p2", "db"),
        ]
        .map(|(name, node, pdu, role)| v1::Host {
            name: name.to_owned(),
            node_name: node.to_owned(),
            system_uuid: format!("4c4c4544-0042-3510-8054-00000000000{name}"),
            pdu: pdu.to_owned(),
            labels: [("role".to_owned(), role.to_owned())].into(),
            ..v1::Host::default()
        })
        .into()
    }

    #[test]
    fn host_ranges_are_expanded() {
        for (word, wanted) in [
            (
                "node-[08-11]",
                vec!["node-08", "node-09", "node-10", "node-11"],
            ),
            ("r[1,3]-[a,b]", vec!["r1-a", "r1-b", "r3-a", "r3-b"]),
            ("x[1,4-5]y", vec!["x1y", "x4y", "x5y"]),
            ("a,b-[1-2],a", vec!["a", "b-1", "b-2"]),
            ("plain", vec!["plain"]),
            ("n[998-1000]", vec!["n998", "n999", "n1000"]),
        ] {
            assert_eq!(names(&[word]).unwrap(), wanted, "{word}");
        }
        for wrong in [
            "n[3-1]",
            "n[",
            "n[1-]",
            "n[]",
            "n[a-c]",
            "n]",
            "n[1-999999]",
            "n[[1]]",
        ] {
            let said = names(&[wrong]).unwrap_err();
            assert!(said.contains(wrong), "{said}");
        }
        let many = "n[1-1000]x[1-1000]";
        assert!(names(&[many]).unwrap_err().contains("100000"));
    }

    #[test]
    fn labels_and_aliases_select_each_host_once() {
        assert_eq!(names(&["role=db"]).unwrap(), ["n1", "n3"]);
        assert_eq!(names(&["pdu=p[1-2]"]).unwrap(), ["n1", "n2", "n3"]);
        assert_eq!(names(&["rack=r1", "w2"]).unwrap(), ["n1", "n2", "n3"]);
        assert_eq!(
            names(&["w3", "n3", "role=db", "n9"]).unwrap(),
            ["n3", "n1", "n9"]
        );
        assert_eq!(
            names(&["role=mail"]).unwrap_err(),
            "no host of rack r1 has role=mail; `host list -o wide` shows the labels"
        );
    }

    #[test]
    fn misspelled_host_gets_a_hint_if_one_host_matches() {
        let known: Vec<v1::Host> = ["node-01", "node-02", "db-7", "db-100"]
            .map(|name| v1::Host {
                name: name.to_owned(),
                ..v1::Host::default()
            })
            .into();
        for (said, meant) in [
            ("node-1", Some("node-01")),
            ("Node-02", Some("node-02")),
            ("nod-02", Some("node-02")),
            ("bd-7", Some("db-7")),
            ("db-0100", Some("db-100")),
            ("node-*", Some("rack=r1")),
            ("node-03", None),
            ("mail", None),
            ("db-7", None),
        ] {
            let hint = hint(said, "r1", &known);
            match (&hint, meant) {
                (Some(hint), Some(meant)) => assert!(hint.contains(meant), "{said}: {hint}"),
                (hint, meant) => assert_eq!(hint.as_deref(), meant, "{said}"),
            }
        }
    }

    #[test]
    fn host_files_hold_names_and_comments() {
        let text = "# spare\nn1 n2  # both\n\n role=db\n";
        assert_eq!(words_of(text), ["n1", "n2", "role=db"]);
    }

    proptest! {
        #[test]
        fn arbitrary_selectors_neither_panic_nor_exceed_the_limit(words in prop::collection::vec("[a-z0-9\\[\\],=-]{0,20}", 0..4)) {
            if let Ok(wanted) = wanted(&words) {
                prop_assert!(wanted.len() <= MOST);
                let _ = hosts(&wanted, "r1", &known());
            }
        }
    }
}
