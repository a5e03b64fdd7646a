//! Tests that a folder holds few modules, and that few files reach into one stateful type.
//!
//! A module is a file `X.rs` or a folder `X` with Rust files in it; both together are one. Not counted: `mod.rs`,
//! `lib.rs` and `main.rs`, which are the folder itself, its unit tests (`tests.rs`, `tests`), and `bin`, whose
//! programs are crates of their own.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// Most modules side by side.
const MODULES: usize = 16;
/// Most files with `impl` blocks of one stateful type.
const FILES: usize = 4;
/// Where every decision is pure, and a context may have a file for each of its subjects (CONTRIBUTING.md, "Rules for a
/// change").
const CORES: [&str; 3] = [
    "controller/core/",
    "agent/core/",
    "agent/bmc/src/operation/",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Whether a file is of the programs that are delivered: no test, no simulator, no test kit.
fn is_production(file: &str) -> bool {
    let is_test = file.ends_with("tests.rs") || file.contains("/tests/");
    !is_test && !file.starts_with("tests/") && !file.starts_with("agent/sim/")
}

/// Every Rust file of the repository, by its path from the root.
fn sources() -> Vec<String> {
    let mut found = Vec::new();
    for folder in ["agent", "controller", "proto", "tests"] {
        add_sources(&root().join(folder), folder, &mut found);
    }
    assert!(
        found.len() > 1_000,
        "only {} sources were found",
        found.len()
    );
    found
}

fn add_sources(folder: &Path, name: &str, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let inner = path.file_name().unwrap().to_str().unwrap();
        let name = format!("{name}/{inner}");
        if path.is_dir() {
            if !inner.starts_with('.') && inner != "target" {
                add_sources(&path, &name, found);
            }
        } else if name.ends_with(".rs") {
            found.push(name);
        }
    }
}

/// The folders with more modules side by side than may be, each with their number.
fn crowded<'a>(files: impl IntoIterator<Item = &'a String>) -> Vec<String> {
    let mut folders = BTreeMap::<&str, BTreeSet<&str>>::new();
    for file in files {
        let mut folder = file.as_str();
        while let Some((outer, name)) = folder.rsplit_once('/') {
            let module = name.strip_suffix(".rs").unwrap_or(name);
            if !matches!(module, "mod" | "lib" | "main" | "tests" | "bin") {
                folders.entry(outer).or_default().insert(module);
            }
            folder = outer;
        }
    }
    let crowded = folders.iter().filter(|(_, inner)| inner.len() > MODULES);
    crowded
        .map(|(folder, inner)| format!("{folder}: {}", inner.len()))
        .collect()
}

/// The type of an `impl` block that begins a line, without its path, generics and trait.
fn type_of_impl(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("impl")?;
    let rest = without_generics(rest)?.trim_start();
    let of = rest.split_once(" for ").map_or(rest, |(_, of)| of);
    let of = of.trim_start_matches(['&', '(']).trim_start_matches("mut ");
    let path = of
        .split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':')
        .next()?;
    path.rsplit("::").next().filter(|name| !name.is_empty())
}

/// What follows the generics of an `impl`.
fn without_generics(rest: &str) -> Option<&str> {
    if !rest.starts_with('<') {
        return rest.starts_with(' ').then_some(rest);
    }
    let (mut depth, mut before) = (0, ' ');
    for (at, c) in rest.char_indices() {
        match c {
            '<' => depth += 1,
            '>' if before != '-' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return rest.get(at + 1..);
        }
        before = c;
    }
    None
}

/// The type whose definition begins at a line.
fn type_of_definition(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace().skip_while(|w| w.starts_with("pub"));
    let mut word = words.next()?;
    if word.ends_with(')') {
        word = words.next()?;
    }
    if !matches!(word, "struct" | "enum") {
        return None;
    }
    let name = words.next()?;
    name.split(|c: char| !c.is_alphanumeric() && c != '_')
        .next()
}

/// The number of folders that two paths have in common from the root.
fn common(one: &str, other: &str) -> usize {
    let pairs = one.split('/').zip(other.split('/'));
    pairs.take_while(|(a, b)| a == b).count()
}

/// The types whose `impl` blocks are in more files than may be, each with these files. A block is of the type of its
/// name in the same crate whose definition is nearest.
fn scattered(sources: &BTreeMap<String, String>) -> Vec<String> {
    let crate_of = |file: &str| file.split("/src/").next().unwrap_or_default().to_owned();
    let mut definitions = BTreeMap::<(String, &str), Vec<&str>>::new();
    for (file, source) in sources {
        for name in source.lines().filter_map(type_of_definition) {
            let of_name = definitions.entry((crate_of(file), name)).or_default();
            of_name.push(file);
        }
    }
    let mut files = BTreeMap::<(&str, &str), BTreeSet<&str>>::new();
    for (file, source) in sources {
        for name in source.lines().filter_map(type_of_impl) {
            let of_name = definitions.get(&(crate_of(file), name)).into_iter();
            let nearest = of_name.flatten().max_by_key(|at| common(at, file));
            if let Some(at) = nearest {
                files.entry((*at, name)).or_default().insert(file);
            }
        }
    }
    let scattered = files.iter().filter(|(_, files)| files.len() > FILES);
    scattered
        .map(|((at, name), files)| format!("{name} of {at}: {files:?}"))
        .collect()
}

#[test]
fn folder_of_production_code_has_at_most_16_modules() {
    let files = sources();
    let crowded = crowded(files.iter().filter(|file| is_production(file)));
    assert!(crowded.is_empty(), "{crowded:#?}");
}

#[test]
fn folder_of_tests_and_simulators_has_at_most_16_modules() {
    let files = sources();
    let crowded = crowded(files.iter().filter(|file| !is_production(file)));
    assert!(crowded.is_empty(), "{crowded:#?}");
}

#[test]
fn stateful_type_has_its_methods_in_at_most_four_files() {
    let is_stateful =
        |file: &String| is_production(file) && !CORES.iter().any(|core| file.starts_with(core));
    let files = sources().into_iter().filter(is_stateful);
    let read = |file: String| {
        let source = fs::read_to_string(root().join(&file)).unwrap();
        (file, source)
    };
    let scattered = scattered(&files.map(read).collect());
    assert!(scattered.is_empty(), "{scattered:#?}");
}

#[test]
fn crowded_folders_are_found_and_a_file_with_its_folder_is_one_module() {
    let mut files: Vec<String> = (0..16).map(|n| format!("a/src/m{n}.rs")).collect();
    let more = ["a/src/m0/inner.rs", "a/src/lib.rs", "a/src/tests/one.rs"];
    files.extend(more.map(str::to_owned));
    assert_eq!(crowded(&files), Vec::<String>::new());
    files.push("a/src/folder/deep/file.rs".to_owned());
    assert_eq!(crowded(&files), ["a/src: 17"]);
}

#[test]
fn impl_blocks_are_counted_for_the_nearest_type_of_their_name() {
    assert_eq!(type_of_impl("impl Engine {"), Some("Engine"));
    assert_eq!(
        type_of_impl("impl<M: Fn() -> u8> Machines<M> {"),
        Some("Machines")
    );
    assert_eq!(
        type_of_impl("impl fmt::Display for super::Row {"),
        Some("Row")
    );
    assert_eq!(type_of_impl("implied = 1"), None);
    assert_eq!(
        type_of_definition("pub(in crate::a) struct Row<T> {"),
        Some("Row")
    );
    assert_eq!(type_of_definition("pub(super) enum Row {"), Some("Row"));
    assert_eq!(type_of_definition("let row = struct_of();"), None);
    let with = |definition: bool| {
        let text = if definition {
            "struct Row {\nimpl Row {"
        } else {
            "impl Row {"
        };
        text.to_owned()
    };
    let mut sources: BTreeMap<String, String> = (0..3)
        .map(|n| (format!("a/src/one/m{n}.rs"), with(n == 0)))
        .collect();
    for n in 0..4 {
        sources.insert(format!("a/src/other/m{n}.rs"), with(n == 0));
    }
    assert_eq!(scattered(&sources), Vec::<String>::new());
    sources.insert("a/src/other/m4.rs".to_owned(), with(false));
    let found = scattered(&sources);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].starts_with("Row of a/src/other/m0.rs: "),
        "{found:?}"
    );
}
