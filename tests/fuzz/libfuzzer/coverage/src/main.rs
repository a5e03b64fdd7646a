//! Counts how much of some source files a run of an instrumented program reached.
//!
//! `coverage PROGRAM PROFILE PATH...` reads the coverage map in PROGRAM and the counters in
//! PROFILE, and prints the number of functions, lines and regions in the files at or below the
//! paths, each followed by the share that ran.
//!
//! What has one place in the source counts once, however often it was compiled: the instances of a
//! generic function, and the copies of an inlined one. A closure is a function of its own.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use llvm_profparser::instrumentation_profile::types::InstrumentationProfile;
use llvm_profparser::{CoverageMapping, SourceLocation};

fn main() -> Result<()> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(program), Some(profile)) = (arguments.next(), arguments.next()) else {
        anyhow::bail!("usage: coverage PROGRAM PROFILE PATH...");
    };
    let paths = arguments
        .map(|path| {
            let found = path.canonicalize();
            found.with_context(|| format!("cannot find {}", path.display()))
        })
        .collect::<Result<Vec<_>>>()?;
    let is_chosen = |file: &Path| paths.iter().any(|path| file.starts_with(path));

    let parsed = llvm_profparser::parse(&profile)
        .with_context(|| format!("cannot read {}", profile.display()))?;
    // A function that several crates compiled has several records. A merge adds up their counters;
    // in the profile as parsed, only the last of them is found.
    let mut profile = InstrumentationProfile::default();
    profile.merge(&parsed);

    let programs = [program];
    let report = CoverageMapping::new(&programs, &profile, false)?
        .generate_subreport(|files| files.iter().any(|file| is_chosen(file)))?;
    let [mut functions, mut lines, mut regions] = [Share::default(); 3];
    for (_, file) in report.files.iter().filter(|(path, _)| is_chosen(path)) {
        functions.extend(function_hits(&file.hits_by_function));
        lines.extend(line_hits(&file.hits));
        regions.extend(file.hits.values().map(|hits| *hits > 0));
    }
    ensure!(regions.all > 0, "the program has no code of these files");
    println!("{functions} {lines} {regions}");
    Ok(())
}

/// How many of some things ran.
#[derive(Clone, Copy, Default)]
struct Share {
    all: usize,
    reached: usize,
}

impl Extend<bool> for Share {
    fn extend<T: IntoIterator<Item = bool>>(&mut self, things: T) {
        for is_reached in things {
            self.all += 1;
            self.reached += usize::from(is_reached);
        }
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = 100.0 * self.reached as f64 / self.all as f64;
        write!(f, "{} {percent:.2}%", self.all)
    }
}

type Regions = BTreeMap<SourceLocation, usize>;

/// Whether each function ran. Its instances have different names, and begin at the same place.
fn function_hits(functions: &BTreeMap<String, Regions>) -> impl Iterator<Item = bool> {
    let mut reached = BTreeMap::<_, bool>::new();
    for regions in functions.values() {
        if let Some(first) = regions.keys().next() {
            let place = (first.line_start, first.column_start);
            *reached.entry(place).or_default() |= regions.values().any(|hits| *hits > 0);
        }
    }
    reached.into_values()
}

/// Whether each line with code ran, as llvm-cov decides it: a region that begins in it ran, or the
/// innermost one that it continues.
fn line_hits(regions: &Regions) -> impl Iterator<Item = bool> {
    let mut reached = BTreeMap::<usize, bool>::new();
    let mut continued = BTreeMap::<usize, bool>::new();
    // An inner region comes after those around it, and replaces them.
    let mut inward: Vec<_> = regions.iter().collect();
    inward.sort_by_key(|(region, _)| {
        let end = (region.line_end, region.column_end);
        (region.line_start, region.column_start, Reverse(end))
    });
    for (region, hits) in inward {
        *reached.entry(region.line_start).or_default() |= *hits > 0;
        for line in region.line_start + 1..=region.line_end {
            continued.insert(line, *hits > 0);
        }
    }
    for (line, is_reached) in continued {
        *reached.entry(line).or_default() |= is_reached;
    }
    reached.into_values()
}
