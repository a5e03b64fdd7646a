//! Tests that the modules of a crate import only what its table of layers allows.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A module and the modules that it may import.
struct Layer {
    module: String,
    imports: BTreeSet<String>,
}

/// The rows of the table below a heading of a page, the lowest layer first.
fn layers(page: &str, heading: &str) -> Vec<Layer> {
    let page = fs::read_to_string(root().join(page)).unwrap();
    let (_, section) = page.split_once(heading).unwrap();
    let section = section.split("\n#").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let layers = rows.map(|row| {
        let cells: Vec<&str> = row.split('|').collect();
        let names = |cell: &str| -> Vec<String> {
            let quoted = cell.split('`').skip(1).step_by(2);
            quoted
                .map(|name| module_name(name.trim_end_matches('/')))
                .collect()
        };
        Layer {
            module: names(cells[1]).remove(0),
            imports: names(cells[3]).into_iter().collect(),
        }
    });
    layers.collect()
}

fn module_name(file: &str) -> String {
    file.strip_suffix(".rs").unwrap_or(file).to_owned()
}

/// The source files of each module of a crate, joined, without tests.
fn modules(src: &Path) -> BTreeMap<String, String> {
    let mut modules = BTreeMap::<String, String>::new();
    for entry in fs::read_dir(src).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        modules
            .entry(module_name(name))
            .or_default()
            .push_str(&read_all(&path));
    }
    modules
}

fn read_all(path: &Path) -> String {
    let name = path.file_name().unwrap().to_str().unwrap();
    if matches!(name, "tests" | "tests.rs") {
        return String::new();
    }
    if path.is_dir() {
        let entries = fs::read_dir(path)
            .unwrap()
            .map(|entry| entry.unwrap().path());
        return entries.map(|path| read_all(&path)).collect();
    }
    let source = fs::read_to_string(path).unwrap();
    match source.split_once("#[cfg(test)]\nmod tests {") {
        Some((source, _)) => source.to_owned(),
        None => source,
    }
}

/// The modules of the crate's root that a source names after `crate::`.
fn imports(source: &str) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    for path in source.split("crate::").skip(1) {
        let Some(list) = path.strip_prefix('{') else {
            found.extend(path.split([':', ';']).next());
            continue;
        };
        let mut depth = 0;
        for item in list.split_inclusive(['{', '}', ',']) {
            if depth == 0 {
                found.extend(item.trim_start().split([':', ',', '}']).next());
            }
            match item.chars().next_back() {
                Some('{') => depth += 1,
                Some('}') if depth == 0 => break,
                Some('}') => depth -= 1,
                _ => {}
            }
        }
    }
    found
}

/// Compares the imports of a crate with its table. `outside`: modules that the table does not list.
fn assert_layers(page: &str, heading: &str, src: &str, outside: &[&str]) {
    let layers = layers(page, heading);
    let modules = modules(&root().join(src));
    let listed: Vec<&str> = layers.iter().map(|layer| layer.module.as_str()).collect();
    let found = modules.keys().map(String::as_str);
    let found: BTreeSet<&str> = found.filter(|name| !outside.contains(name)).collect();
    assert_eq!(
        listed.iter().copied().collect::<BTreeSet<_>>(),
        found,
        "modules of {src}"
    );
    for (at, layer) in layers.iter().enumerate() {
        let module = &layer.module;
        let imports = imports(&modules[module]);
        let others = listed.iter().filter(|name| *name != module);
        let imported: BTreeSet<String> = others
            .filter(|name| imports.contains(*name))
            .map(|name| (*name).to_owned())
            .collect();
        assert_eq!(imported, layer.imports, "imports of {module} in {src}");
        assert!(
            imported
                .iter()
                .all(|name| listed[..at].contains(&name.as_str())),
            "{module} in {src} imports a module that is not above it in the table"
        );
    }
}

#[test]
fn core_modules_import_only_lower_layers() {
    assert_layers(
        "docs/decisions/core-layers.md",
        "# Layers of the core",
        "controller/core/src",
        &["lib"],
    );
}

#[test]
fn runtime_folders_import_only_lower_layers() {
    let outside = ["config", "lib", "run"];
    assert_layers(
        "ARCHITECTURE.md",
        "### Layers of the controller",
        "controller/runtime/src",
        &outside,
    );
}
