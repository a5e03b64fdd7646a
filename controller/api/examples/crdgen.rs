//! Writes the CRDs that we ship. `hack/codegen` runs it; see there.

use std::error::Error;
use std::fs;
use std::path::Path;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use rackhand_api::crds;

#[path = "../tests/render/mod.rs"]
mod render;

fn write(folder: &Path, crds: &[CustomResourceDefinition]) -> Result<(), Box<dyn Error>> {
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
    for (name, text) in render::folder(crds)? {
        fs::write(folder.join(name), text)?;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args_os().nth(1).ok_or("usage: crdgen FOLDER")?;
    let folder = Path::new(&folder);
    write(folder, &crds::own())?;
    write(&folder.join("standalone"), &crds::standalone())?;
    write(&folder.join("nodes"), &crds::nodes())
}
