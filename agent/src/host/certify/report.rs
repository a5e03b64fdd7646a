//! The report of a certification, as JSON and as Markdown. Pure.

use std::fmt::Write as _;

use serde::Serialize;

use super::{
    record::{Done, Part, Power, Record, Sensor, Snapshot},
    verdict::{Grade, Verdict, overall, verdicts},
};

/// The reset types that Rackhand sends, where a BMC offers them.
const SENT: [&str; 7] = [
    "On",
    "ForceOn",
    "ForceOff",
    "GracefulShutdown",
    "ForceRestart",
    "Nmi",
    "PushPowerButton",
];

/// Everything that is sent to others: nothing in it identifies a site.
#[derive(Debug, Serialize)]
pub(super) struct Report<'a> {
    pub(super) overall: Grade,
    pub(super) verdicts: Vec<Verdict>,
    vendor: &'a str,
    model: &'a str,
    /// The program that certified.
    version: &'a str,
    date: String,
    #[serde(flatten)]
    record: &'a Record,
}

impl<'a> Report<'a> {
    /// The report on a day, such as 2026-11-29.
    pub(super) fn new(record: &'a Record, date: String) -> Self {
        let verdicts = verdicts(record);
        let text = |of: fn(&super::record::Identity) -> &String| {
            let mut readings = record
                .readings()
                .map(|reading| of(&reading.identity).as_str());
            readings.find(|text| !text.is_empty()).unwrap_or_default()
        };
        Self {
            overall: overall(record, &verdicts),
            verdicts,
            vendor: text(|identity| &identity.vendor),
            model: text(|identity| &identity.model),
            version: env!("CARGO_PKG_VERSION"),
            date,
            record,
        }
    }

    pub(super) fn markdown(&self) -> String {
        let mut text = String::new();
        let record = self.record;
        let facts = &record.facts;
        let name = format!("{} {}", self.vendor, self.model);
        let name = match name.trim() {
            "" => "a host that reports no model",
            name => name,
        };
        // Writing to a String cannot fail.
        writeln!(text, "# Certification of {name}\n").ok();
        let mut protocols: Vec<&str> = record.readings().map(|reading| reading.protocol).collect();
        protocols.dedup();
        let offered = facts.reset_types.join(", ");
        let never = facts.reset_types.iter().map(String::as_str);
        let never = never.filter(|kind| !SENT.contains(kind));
        let never = never.collect::<Vec<_>>().join(", ");
        let found = record.found().map_or("not readable", Power::word);
        let facts_table = [
            ("Result", self.overall.word()),
            ("BMC", facts.service.as_str()),
            ("Firmware", facts.firmware.as_str()),
            ("Read by", &protocols.join(", ")),
            ("Reset types", &offered),
            ("Of these never sent", &never),
            ("Found", found),
            ("Date", &self.date),
            ("rackhand-agent", self.version),
        ];
        let rows = facts_table.map(|(key, value)| vec![key.to_owned(), value.to_owned()]);
        table(&mut text, &["", ""], rows);
        if record.is_interrupted {
            text.push_str("\nIt was interrupted: what was not done by then is missing.\n");
        }

        text.push_str("\n## Verdicts\n\n");
        let rows = self.verdicts.iter().map(|verdict| {
            vec![
                verdict.rule.to_owned(),
                verdict.needed_by.to_owned(),
                verdict.grade.word().to_owned(),
                verdict.found.clone(),
            ]
        });
        table(&mut text, &["Rule", "Needed by", "Verdict", "Found"], rows);

        text.push_str("\n## Steps\n\n");
        let head = [
            "Step",
            "Result",
            "Time",
            "Commands",
            "Power after it",
            "Message",
        ];
        table(&mut text, &head, record.steps.iter().map(step_row));

        text.push_str("\n## Reported while on and while off\n\n");
        let states = [Power::On, Power::Off].map(|power| (power, record.snapshot(power)));
        let row = |title: &str, of: &dyn Fn(Power, Option<&Snapshot>) -> String| {
            let fields = states.map(|(power, snapshot)| of(power, snapshot));
            [vec![title.to_owned()], fields.to_vec()].concat()
        };
        let rows = [
            row("Power, in its words", &|power, _| words_of(record, power)),
            row("Power draw", &|_, snapshot| draw(snapshot)),
            row("Sensors with a value", &|_, snapshot| measured(snapshot)),
            row("Entries of the event log", &|_, snapshot| {
                shown(snapshot.map(|snapshot| &snapshot.events), u32::to_string)
            }),
            row("Boot device", &|_, snapshot| {
                shown(
                    snapshot.map(|snapshot| &snapshot.boot_device),
                    String::clone,
                )
            }),
        ];
        table(&mut text, &["", "On", "Off"], rows);

        text.push_str("\n## Host check\n\n");
        let rows = facts.checks.iter();
        let rows = rows.map(|row| vec![row.check.clone(), row.verdict.to_owned()]);
        table(&mut text, &["Check", "Result"], rows);
        text
    }
}

fn step_row(done: &Done) -> Vec<String> {
    let power = done.power().map_or("not readable", Power::word).to_owned();
    let step = done.step.words().to_owned();
    match &done.ended {
        Some(ended) => vec![
            step,
            ended.result.clone(),
            format!("{:.1} s", ended.seconds),
            ended.commands_sent.to_string(),
            power,
            ended.message.clone(),
        ],
        None => {
            let count = match done.readings.len() {
                1 => "1 reading".to_owned(),
                count => format!("{count} readings"),
            };
            let none = String::new;
            vec![step, none(), none(), none(), power, count]
        }
    }
}

/// The words in which a state was reported, each once.
fn words_of(record: &Record, power: Power) -> String {
    let mut words: Vec<&str> = Vec::new();
    for reading in record.readings().filter(|reading| reading.power == power) {
        if !words.contains(&reading.raw.as_str()) {
            words.push(&reading.raw);
        }
    }
    words.join("; ")
}

fn shown<T>(part: Option<&Part<T>>, of: impl Fn(&T) -> String) -> String {
    match part {
        None => "-".to_owned(),
        Some(Part::Read(value)) => of(value),
        Some(Part::Error(why)) => why.clone(),
    }
}

fn draw(snapshot: Option<&Snapshot>) -> String {
    let value = |sensors: &Vec<Sensor>| {
        let mut draws = sensors.iter().filter(|sensor| sensor.is_draw);
        let value = draws.find_map(|sensor| sensor.value);
        value.map_or_else(|| "not measured".to_owned(), |value| format!("{value} W"))
    };
    shown(snapshot.map(|snapshot| &snapshot.sensors), value)
}

fn measured(snapshot: Option<&Snapshot>) -> String {
    let count = |sensors: &Vec<Sensor>| {
        let measured = sensors.iter().filter(|sensor| sensor.value.is_some());
        format!("{} of {}", measured.count(), sensors.len())
    };
    shown(snapshot.map(|snapshot| &snapshot.sensors), count)
}

fn table(text: &mut String, head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) {
    let mut line = |fields: &[String]| {
        let fields: Vec<String> = fields.iter().map(|field| cell(field)).collect();
        writeln!(text, "| {} |", fields.join(" | ")).ok();
    };
    line(
        &head
            .iter()
            .map(|&title| title.to_owned())
            .collect::<Vec<_>>(),
    );
    line(&vec!["---".to_owned(); head.len()]);
    for row in rows {
        line(&row);
    }
}

/// A field that cannot end its cell or its row, or be taken for HTML.
fn cell(field: &str) -> String {
    let mut safe = String::with_capacity(field.len());
    for letter in field.chars() {
        match letter {
            '|' => safe.push_str("\\|"),
            '<' => safe.push_str("&lt;"),
            '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {}
            letter if letter.is_control() => safe.push(' '),
            letter => safe.push(letter),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::super::{
        plan::tests::done,
        record::{Facts, Step},
    };
    use super::*;

    #[test]
    fn report_has_no_identity_and_no_broken_table() {
        let mut record = Record {
            facts: Facts {
                firmware: "1.2 | <b>\n3".to_owned(),
                reset_types: vec!["On".to_owned(), "Suspend".to_owned()],
                ..Facts::default()
            },
            ..Record::default()
        };
        record.steps.push(done(Step::Found, "", Some(Power::On)));
        record
            .steps
            .push(done(Step::HardOff, "unproven", Some(Power::Off)));
        let report = Report::new(&record, "2026-11-29".to_owned());
        let markdown = report.markdown();
        let json = serde_json::to_string(&report).unwrap();
        for text in [&markdown, &json] {
            assert!(!text.contains("4c4c4544"), "{text}");
            assert!(text.contains("2026-11-29"), "{text}");
        }
        assert!(
            markdown.contains("| Firmware | 1.2 \\| &lt;b> 3 |"),
            "{markdown}"
        );
        assert!(
            markdown.contains("| Of these never sent | Suspend |"),
            "{markdown}"
        );
        assert!(markdown.contains("| Result | failed |"), "{markdown}");
        assert!(json.contains("\"overall\":\"failed\""), "{json}");
    }
}
