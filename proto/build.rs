//! Compiles power.proto without protoc.

use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let files = protox::compile(["rackhand/power/v1/power.proto"], ["proto"])?;
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    std::fs::write(out.join("power.bin"), prost_types_bytes(&files))?;
    tonic_prost_build::configure()
        .codec_path("crate::codec::SmallBufferCodec")
        // It contains a password, so its Debug is written by hand.
        .skip_debug(["rackhand.power.v1.BmcEndpoint"])
        .compile_fds(files)?;
    Ok(())
}

fn prost_types_bytes(files: &impl prost::Message) -> Vec<u8> {
    files.encode_to_vec()
}
