//! Test that a folder imports only what the table of layers in ARCHITECTURE.md allows.

use std::{collections::BTreeSet, fs, path::Path};

/// The folders, each with the folders that it may import.
fn layers() -> Vec<(&'static str, BTreeSet<&'static str>)> {
    let page = include_str!("../../../ARCHITECTURE.md");
    let (_, section) = page.split_once("### Layers of the controller").unwrap();
    let (section, _) = section.split_once("\n#").unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let layers = rows.map(|row| {
        let cells: Vec<&str> = row.split('|').collect();
        let folder = cells[1].trim().trim_matches(['`', '/']);
        (folder, cells[3].split('`').skip(1).step_by(2).collect())
    });
    layers.collect()
}

/// The source files below a folder, joined.
fn read_all(folder: &Path) -> String {
    let entries = fs::read_dir(folder).unwrap().map(|e| e.unwrap().path());
    entries
        .map(|path| match path.is_dir() {
            true => read_all(&path),
            false => fs::read_to_string(path).unwrap(),
        })
        .collect()
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

#[test]
fn folders_import_only_lower_layers() {
    let layers = layers();
    assert_eq!(layers.len(), 10);
    for (at, (folder, allowed)) in layers.iter().enumerate() {
        let source = read_all(
            &Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("src")
                .join(folder),
        );
        let below: BTreeSet<_> = layers[..at].iter().map(|(name, _)| *name).collect();
        let imports = imports(&source);
        let others = layers
            .iter()
            .map(|(name, _)| *name)
            .filter(|name| name != folder);
        let imported: BTreeSet<_> = others.filter(|name| imports.contains(name)).collect();
        assert_eq!(imported, *allowed, "imports of {folder}/");
        assert!(
            imported.is_subset(&below),
            "{folder}/ imports a folder that is not below it"
        );
    }
}
