//! Writes the manifests that are made from types. `hack/codegen` runs it; see there.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::Path;

use rackhand_api::{crds, policies};

#[path = "../tests/render/mod.rs"]
mod render;

/// Writes these files into a folder that holds generated files only.
fn replace(folder: &Path, files: BTreeMap<String, String>) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(folder)?;
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "yaml")
        {
            fs::remove_file(path)?;
        }
    }
    write(folder, files)
}

fn write(folder: &Path, files: BTreeMap<String, String>) -> Result<(), Box<dyn Error>> {
    for (name, text) in files {
        fs::write(folder.join(name), text)?;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let deploy = std::env::args_os().nth(1).ok_or("usage: codegen DEPLOY")?;
    let deploy = Path::new(&deploy);
    let folder = deploy.join("crds");
    replace(&folder, render::folder(&crds::own())?)?;
    replace(
        &folder.join("standalone"),
        render::folder(&crds::standalone())?,
    )?;
    replace(&folder.join("nodes"), render::folder(&crds::nodes())?)?;
    write(
        &deploy.join("kustomize/admission"),
        render::policies(&policies::files())?,
    )?;
    let folder = deploy.join("kustomize/persons");
    fs::create_dir_all(&folder)?;
    write(&folder, render::policies(&policies::persons())?)
}
