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

/// The source files of each module of a crate, joined, without tests. A module of a group, a folder that `groups`
/// names, is `group/module`.
fn modules(src: &Path, groups: &BTreeSet<&str>) -> BTreeMap<String, String> {
    let mut modules = BTreeMap::<String, String>::new();
    for entry in fs::read_dir(src).unwrap() {
        let path = entry.unwrap().path();
        let name = module_name(path.file_name().unwrap().to_str().unwrap());
        if !groups.contains(name.as_str()) {
            modules.entry(name).or_default().push_str(&read_all(&path));
            continue;
        }
        for entry in fs::read_dir(path).unwrap() {
            let path = entry.unwrap().path();
            let inner = module_name(path.file_name().unwrap().to_str().unwrap());
            if inner != "mod" {
                let source = modules.entry(format!("{name}/{inner}")).or_default();
                source.push_str(&read_all(&path));
            }
        }
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
    let source = match source.split_once("#[cfg(test)]\nmod tests {") {
        Some((source, _)) => source,
        None => &source,
    };
    // A comment may name what uses the module.
    let code = source
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    code.flat_map(|line| [line, "\n"]).collect()
}

/// The names that the root of a crate exports, with the module that each is from.
fn exports(root: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for export in root.split("pub use ").skip(1) {
        let export = export.split(';').next().unwrap();
        let (path, names) = export.rsplit_once("::").unwrap_or((export, ""));
        let (path, names) = match export.split_once("::{") {
            Some((path, names)) => (path, names),
            None => (path, names),
        };
        let module = path.split("::").next().unwrap();
        let names = names.split(|c: char| !c.is_alphanumeric() && c != '_');
        for name in names.filter(|name| !name.is_empty()) {
            found.insert(name.to_owned(), module.to_owned());
        }
    }
    found
}

/// What a source names after `crate::`: modules of the crate's root, and `group/module` for what is in them.
fn imports(source: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for path in source.split("crate::").skip(1) {
        add_imports(path, None, &mut found);
    }
    found
}

/// Adds the first two names of each path of a use tree.
fn add_imports(tree: &str, parent: Option<&str>, found: &mut BTreeSet<String>) {
    for item in items(tree) {
        let name = item
            .split(|c: char| !c.is_alphanumeric() && c != '_')
            .next();
        let Some(name) = name.filter(|name| !name.is_empty()) else {
            continue;
        };
        if let Some(parent) = parent {
            found.insert(format!("{parent}/{name}"));
            continue;
        }
        found.insert(name.to_owned());
        if let Some(rest) = item[name.len()..].strip_prefix("::") {
            add_imports(rest, Some(name), found);
        }
    }
}

/// The paths of a list in braces, or the one path at the start of a text.
fn items(tree: &str) -> Vec<&str> {
    let Some(list) = tree.strip_prefix('{') else {
        return vec![tree];
    };
    let (mut items, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, c) in list.char_indices() {
        match c {
            ',' if depth == 0 => {
                items.push(list[start..at].trim_start());
                start = at + 1;
            }
            '{' => depth += 1,
            '}' if depth == 0 => {
                items.push(list[start..at].trim_start());
                break;
            }
            '}' => depth -= 1,
            _ => {}
        }
    }
    items
}

/// Compares the imports of a crate with its table. `outside`: modules that the table does not list.
fn assert_layers(page: &str, heading: &str, src: &str, outside: &[&str]) {
    let layers = layers(page, heading);
    let listed: Vec<&str> = layers.iter().map(|layer| layer.module.as_str()).collect();
    let groups: BTreeSet<&str> = listed
        .iter()
        .filter_map(|name| Some(name.split_once('/')?.0))
        .collect();
    let modules = modules(&root().join(src), &groups);
    let exports = exports(modules.get("lib").map_or("", String::as_str));
    let found = modules.keys().map(String::as_str);
    let found: BTreeSet<&str> = found.filter(|name| !outside.contains(name)).collect();
    assert_eq!(
        listed.iter().copied().collect::<BTreeSet<_>>(),
        found,
        "modules of {src}"
    );
    for (at, layer) in layers.iter().enumerate() {
        let module = &layer.module;
        let mut imports = imports(&modules[module]);
        imports.extend(
            imports
                .iter()
                .filter_map(|name| exports.get(name))
                .cloned()
                .collect::<Vec<_>>(),
        );
        let others = listed.iter().filter(|name| *name != module);
        let imported: BTreeSet<String> = others
            .filter(|name| imports.contains(**name))
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
fn paths_of_a_use_tree_are_found_to_the_second_name() {
    let source = "use crate::{\n    a::{b::C, d::{E, F}},\n    g,\n};\nlet h = crate::i::j();";
    let found = imports(source);
    let wanted = ["a", "a/b", "a/d", "g", "i", "i/j"];
    assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), wanted);
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

#[test]
fn modules_of_the_agents_library_import_only_lower_layers() {
    let page = "docs/decisions/agent-layers.md";
    assert_layers(page, "## The library", "agent/bmc/src", &["lib"]);
}

#[test]
fn modules_of_the_agents_service_import_only_lower_layers() {
    let page = "docs/decisions/agent-layers.md";
    assert_layers(page, "## The service", "agent/service/src", &["lib"]);
}

#[test]
fn exported_name_belongs_to_its_module() {
    let found = exports("pub use a::{B, c};\npub use d::e::F;\nuse g::H;\n");
    let wanted = [("B", "a"), ("F", "d"), ("c", "a")];
    let found: Vec<(&str, &str)> = found
        .iter()
        .map(|(name, module)| (name.as_str(), module.as_str()))
        .collect();
    assert_eq!(found, wanted);
}
