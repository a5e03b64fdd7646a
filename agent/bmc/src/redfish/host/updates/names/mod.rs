//! What a task does, by its name.
//!
//! Owns: what follows from the words of a name. Must never: take a name for other work that does not say so.

mod phrases;
mod words;

use self::{
    phrases::{Word, phrases},
    words::{
        EMPTY, FIRMWARE, IMAGES, INSTALL, LINKS, MEDIA, OTHER, PARTS, READ, SETTINGS,
        SETTINGS_AS_OBJECT, SHORT_INSTALL, SHORT_PARTS, UPDATES, UPGRADE,
    },
};

/// What the name of a task says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::redfish::host::updates) enum Said {
    /// Firmware is transferred or written.
    Update,
    /// Something else is done.
    Other,
    /// Nothing, as `Task 7` does; that something is updated, and not what; or something that no rule knows.
    Nothing,
}

/// What is updated, as far as it is about settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Object {
    Settings,
    Else,
    /// It may be either.
    Unclear,
}

/// What a name says. Only words of other work, or an update of settings, make it other work.
pub(in crate::redfish::host::updates) fn said(name: &str) -> Said {
    let phrases = phrases(name);
    let is_part_named = phrases.iter().any(|phrase| has_part(phrase));
    if phrases.iter().any(|phrase| says(phrase, UPDATES)) {
        return Said::Update;
    }
    let mut is_other = false;
    let mut is_unclear = false;
    for phrase in &phrases {
        for said in work(phrase, is_part_named) {
            match said {
                Said::Update => return Said::Update,
                Said::Other => is_other = true,
                Said::Nothing => is_unclear = true,
            }
        }
        // Something is done to this part, and another phrase says what.
        is_unclear |= has_part(phrase) && work(phrase, is_part_named).is_empty();
    }
    // No rule reads words of other scripts.
    let is_readable = (name.chars()).all(|sign| sign.is_ascii() || !sign.is_alphabetic());
    match is_other && !is_unclear && is_readable {
        true => Said::Other,
        false => Said::Nothing,
    }
}

/// Whether a name has no words beside those that tell nothing.
pub(in crate::redfish::host::updates) fn is_blank(name: &str) -> bool {
    let phrases = phrases(name);
    let mut words = phrases.iter().flatten();
    words.all(|word| EMPTY.contains(&&*word.text))
}

/// What each word of a phrase says that tells what is done.
fn work(phrase: &[Word], is_part_named: bool) -> Vec<Said> {
    let is_media = says(phrase, MEDIA);
    let is_install = |word: &Word| {
        let is_long = INSTALL.iter().any(|stem| word.text.contains(stem));
        is_long || is_upgrade(word, is_media) || SHORT_INSTALL.contains(&&*word.text)
    };
    let places: Vec<usize> = (phrase.iter().enumerate())
        .filter(|(_, word)| is_install(word))
        .map(|(place, _)| place)
        .collect();
    if places.is_empty() {
        return without_install(phrase).into_iter().collect();
    }
    let each = places.iter().enumerate().map(|(number, place)| {
        let begin = number.checked_sub(1).and_then(|number| places.get(number));
        let begin = begin.map_or(0, |before| before + 1);
        let end = places.get(number + 1).copied().unwrap_or(phrase.len());
        let before = phrase.get(begin..*place).unwrap_or_default();
        let after = phrase.get(place + 1..end).unwrap_or_default();
        let is_upgrade = (phrase.get(*place)).is_some_and(|word| is_upgrade(word, is_media));
        match object(before, after) {
            Object::Settings => Said::Other,
            Object::Else if is_upgrade || is_part_named => Said::Update,
            Object::Else | Object::Unclear => Said::Nothing,
        }
    });
    each.collect()
}

/// What a phrase says that has no word of an installation; `None`: nothing.
fn without_install(phrase: &[Word]) -> Option<Said> {
    let is_other = says(phrase, READ) || says(phrase, SETTINGS);
    if says(phrase, FIRMWARE) {
        let is_unclear = phrase.iter().any(is_settings);
        return Some(match is_other {
            true => Said::Other,
            false if is_unclear => Said::Nothing,
            false => Said::Update,
        });
    }
    (is_other || says(phrase, OTHER)).then_some(Said::Other)
}

/// What is updated, by the words before and after the one of the installation: "BIOS settings update", "update BIOS
/// settings", and "update of BIOS settings", but not "BIOS update of user 7".
fn object(before: &[Word], after: &[Word]) -> Object {
    let is_link = |word: &Word| LINKS.contains(&&*word.text);
    let is_linked = after
        .first()
        .is_some_and(|word| word.is_after_colon || is_link(word));
    let first = after.iter().take_while(|word| is_link(word)).count();
    let after = after.get(first..).unwrap_or_default();
    let end = after.iter().position(is_link).unwrap_or(after.len());
    let after = without_empty(after.get(..end).unwrap_or_default());
    let before = without_empty(before);
    let is_of_settings = ends_in_settings(before);
    let is_of_part = has_part(before) && !is_of_settings;
    match () {
        () if after.is_empty() && is_of_settings => Object::Settings,
        () if after.is_empty() => Object::Else,
        () if ends_in_settings(after) => match (is_of_part, is_linked) {
            (false, _) => Object::Settings,
            (true, true) => Object::Else,
            (true, false) => Object::Unclear,
        },
        () if is_of_settings => match has_part(after) && !is_linked {
            true => Object::Else,
            false => Object::Unclear,
        },
        () if is_of_part || is_image(after) => Object::Else,
        () if after.iter().any(is_settings) => Object::Unclear,
        () => Object::Else,
    }
}

fn is_upgrade(word: &Word, is_media: bool) -> bool {
    let mut stems = UPGRADE.iter();
    stems.any(|stem| word.text.contains(stem) && !(is_media && *stem == "flash"))
}

/// Whether a phrase has one of these words, or words in this order.
fn says(phrase: &[Word], words: &[&str]) -> bool {
    let text = spaced(phrase);
    words.iter().any(|word| text.contains(word))
}

/// Words with a space before and after each.
fn spaced(phrase: &[Word]) -> String {
    let words = phrase.iter().map(|word| format!("{} ", word.text));
    std::iter::once(" ".to_owned()).chain(words).collect()
}

fn singular(word: &Word) -> &str {
    word.text.strip_suffix('s').unwrap_or(&word.text)
}

/// Whether firmware, or something that has one, is named.
fn has_part(phrase: &[Word]) -> bool {
    let is_short =
        |word: &Word| SHORT_PARTS.contains(&&*word.text) || SHORT_PARTS.contains(&singular(word));
    says(phrase, FIRMWARE) || says(phrase, PARTS) || phrase.iter().any(is_short)
}

fn is_settings(word: &Word) -> bool {
    SETTINGS.iter().any(|stem| word.text.contains(stem))
        || SETTINGS_AS_OBJECT.contains(&&*word.text)
        || SETTINGS_AS_OBJECT.contains(&singular(word))
}

/// Whether the thing that the words name is a setting: the last word says what it is.
fn ends_in_settings(words: &[Word]) -> bool {
    let pair = words.get(words.len().saturating_sub(2)..).map(spaced);
    let is_pair = |pair: String| {
        let pair = pair.trim().trim_end_matches('s');
        SETTINGS.contains(&pair)
    };
    words.last().is_some_and(is_settings) || pair.is_some_and(is_pair)
}

fn is_image(words: &[Word]) -> bool {
    let last = words.last();
    last.is_some_and(|word| {
        IMAGES.contains(&singular(word)) || has_part(std::slice::from_ref(word))
    })
}

/// Words without those at the end that tell nothing.
fn without_empty(words: &[Word]) -> &[Word] {
    let is_empty = |word: &Word| EMPTY.contains(&&*word.text);
    let end = words.iter().rposition(|word| !is_empty(word));
    words
        .get(..end.map_or(0, |end| end + 1))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests;
