//! The code blocks of a page, and what their markers say.
//!
//! A marker is an HTML comment directly above a block. `not run: REASON` leaves the block out;
//! `run in the background` starts it and lets it run until the page ends. `test: start the
//! controller` and `test: start the agent` stand where a reader's cluster or systemd starts them.

use std::fmt;

use anyhow::{Context as _, Result, bail, ensure};
use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};
use rackhand_tests::repository::root;

/// Languages of blocks that hold commands.
const SHELL: [&str; 2] = ["sh", "console"];
/// Languages of blocks that hold something else.
const OTHER: [&str; 4] = ["text", "yaml", "toml", "rust"];
/// What an object has, and what the configuration of an agent has, if it is a whole one.
const WHOLE: [(&str, &str); 2] = [("yaml", "apiVersion: "), ("toml", "rack = ")];

/// How a block with commands is treated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Treatment {
    Run,
    Background,
    NotRun(String),
}

/// One command, or a whole script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    pub text: String,
    /// The first line of the output that the page shows, if it shows one.
    pub shown: Option<String>,
}

/// A block with commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    pub page: String,
    pub line: usize,
    pub treatment: Treatment,
    /// A script as a whole, or the commands behind the prompts of a transcript.
    pub commands: Vec<Command>,
    pub is_transcript: bool,
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.page, self.line)
    }
}

/// A file that a page shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    pub page: String,
    pub line: usize,
    pub text: String,
}

/// What a page asks the test to do, in its order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    Block(Block),
    /// Objects that an API server is to accept.
    Manifest(File),
    /// A configuration that the agent is to accept.
    Configuration(File),
    StartController,
    StartAgent,
}

/// Every page whose commands a reader may run.
pub fn pages() -> Result<Vec<String>> {
    let mut pages: Vec<String> = [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "deploy/README.md",
        "hack/README.md",
    ]
    .map(str::to_owned)
    .to_vec();
    let mut folders = vec![root().join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "md") {
                let page = path.strip_prefix(root())?;
                pages.push(page.to_str().context("not UTF-8")?.to_owned());
            }
        }
    }
    pages.sort();
    Ok(pages)
}

/// The steps of one page.
///
/// # Errors
/// A block has no language or is not fenced, or a marker is not known.
pub fn steps(page: &str) -> Result<Vec<Step>> {
    let text = std::fs::read_to_string(root().join(page)).context(page.to_owned())?;
    parse(page, &text)
}

fn parse(page: &str, text: &str) -> Result<Vec<Step>> {
    let mut steps = Vec::new();
    let mut marker: Option<String> = None;
    let mut fence: Option<(usize, String)> = None;
    let mut code = String::new();
    for (event, range) in Parser::new(text).into_offset_iter() {
        let line = text[..range.start].matches('\n').count() + 1;
        let place = || format!("{page}:{line}");
        match event {
            Event::Html(html) => {
                if let Some(comment) = comment(&html) {
                    match comment {
                        "test: start the controller" => steps.push(Step::StartController),
                        "test: start the agent" => steps.push(Step::StartAgent),
                        _ => marker = Some(comment.to_owned()),
                    }
                }
            }
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(language))) => {
                fence = Some((line, language.into_string()));
                code.clear();
            }
            Event::Start(Tag::CodeBlock(CodeBlockKind::Indented)) => {
                bail!(
                    "{}: an indented block: use a fence with a language",
                    place()
                )
            }
            Event::Text(part) if fence.is_some() => code.push_str(&part),
            Event::End(TagEnd::CodeBlock) => {
                let Some((line, language)) = fence.take() else {
                    continue;
                };
                let marker = marker.take();
                if SHELL.contains(&language.as_str()) {
                    let commands = commands(&language, &code);
                    ensure!(
                        !commands.is_empty(),
                        "{}: a transcript without a prompt: use sh",
                        place()
                    );
                    steps.push(Step::Block(Block {
                        page: page.to_owned(),
                        line,
                        treatment: treatment(marker).with_context(place)?,
                        commands,
                        is_transcript: language == "console",
                    }));
                } else if !OTHER.contains(&language.as_str()) {
                    bail!("{}: unknown language {language:?} of a block", place());
                } else if WHOLE
                    .iter()
                    .any(|(l, key)| *l == language && code.contains(key))
                {
                    let file = File {
                        page: page.to_owned(),
                        line,
                        text: code.clone(),
                    };
                    match treatment(marker).with_context(place)? {
                        Treatment::Run if language == "yaml" => steps.push(Step::Manifest(file)),
                        Treatment::Run => steps.push(Step::Configuration(file)),
                        _ => {}
                    }
                }
            }
            Event::Start(Tag::HtmlBlock) | Event::End(TagEnd::HtmlBlock) => {}
            // A marker counts for the block directly below it.
            Event::Start(_) => marker = None,
            _ => {}
        }
    }
    Ok(steps)
}

fn comment(html: &str) -> Option<&str> {
    let inner = html.trim().strip_prefix("<!--")?.strip_suffix("-->")?;
    Some(inner.trim())
}

fn treatment(marker: Option<String>) -> Result<Treatment> {
    let Some(marker) = marker else {
        return Ok(Treatment::Run);
    };
    if marker == "run in the background" {
        return Ok(Treatment::Background);
    }
    match marker.split_once(": ") {
        Some(("not run", reason)) => Ok(Treatment::NotRun(reason.to_owned())),
        _ => bail!("unknown marker {marker:?}"),
    }
}

fn commands(language: &str, code: &str) -> Vec<Command> {
    if language == "sh" {
        let text = code.to_owned();
        return vec![Command { text, shown: None }];
    }
    let mut commands: Vec<Command> = Vec::new();
    let mut continues = false;
    for line in code.lines() {
        match (line.strip_prefix("$ "), commands.last_mut()) {
            (Some(text), _) => {
                let text = text.to_owned();
                commands.push(Command { text, shown: None });
            }
            (None, Some(last)) if continues => {
                last.text.push('\n');
                last.text.push_str(line);
            }
            (None, Some(last)) if last.shown.is_none() => last.shown = Some(line.to_owned()),
            _ => {}
        }
        let in_command = commands.last().is_some_and(|c| c.shown.is_none());
        continues = in_command && line.ends_with('\\');
    }
    commands
}

const PAGE: &str = "\
<!-- not run: needs a moon -->
```sh
fly
```

1. In a list:

   ```sh
   walk
   ```

<!-- not run: counts only for the block directly below -->

Words.

```console
$ look \\
  up
SKY    STARS
blue   1

$ look down
```

<!-- test: start the agent -->

<!-- run in the background -->
```sh
wait
```
";

#[test]
fn markers_count_for_the_block_below_them() {
    let steps = parse("page.md", PAGE).unwrap();
    let blocks: Vec<&Block> = steps
        .iter()
        .filter_map(|step| match step {
            Step::Block(block) => Some(block),
            _ => None,
        })
        .collect();
    let treatments: Vec<&Treatment> = blocks.iter().map(|block| &block.treatment).collect();
    let left_out = Treatment::NotRun("needs a moon".into());
    let wanted = [
        &left_out,
        &Treatment::Run,
        &Treatment::Run,
        &Treatment::Background,
    ];
    assert_eq!(treatments, wanted);
    assert_eq!(
        blocks[1].commands[0].text, "walk\n",
        "without the list's indent"
    );
    assert_eq!(steps[3], Step::StartAgent);
    let look = [
        Command {
            text: "look \\\n  up".into(),
            shown: Some("SKY    STARS".into()),
        },
        Command {
            text: "look down".into(),
            shown: None,
        },
    ];
    assert_eq!(blocks[2].commands, look);
}

#[test]
fn a_block_that_nobody_could_classify_is_refused() {
    for (page, why) in [
        ("    indented\n", "an indented block"),
        ("```\nplain\n```\n", "unknown language \"\""),
        ("```console\nls\n```\n", "a transcript without a prompt"),
        ("<!-- not runs: typo -->\n```sh\nx\n```\n", "unknown marker"),
    ] {
        let error = format!("{:#}", parse("page.md", page).unwrap_err());
        assert!(error.contains(why), "{error}");
    }
}
