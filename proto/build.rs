//! Compiles every `.proto` below `proto/` without a protoc binary, and writes their descriptors
//! beside the generated code: the JSON codec and the checks of `required` run on them.
//! Must not know any message by name. Next: `src/lib.rs`, `src/json.rs`.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use protox::prost::Message;
use tonic_prost_build::FileDescriptorSet;

const PROTO_DIR: &str = "proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={PROTO_DIR}");
    let mut files = Vec::new();
    collect(Path::new(PROTO_DIR), &mut files)?;
    files.sort();
    let descriptors = protox::compile(&files, [PROTO_DIR])?;

    let out_dir = PathBuf::from(env::var("OUT_DIR")?);
    let embedded = without_comments(descriptors.clone());
    fs::write(out_dir.join("descriptors.bin"), embedded.encode_to_vec())?;

    let mut config = prost_build::Config::new();
    config.bytes(["."]).btree_map(["."]).enable_type_names().include_file("packages.rs");
    tonic_prost_build::configure()
        .compile_fds_with_config(without_deprecations(descriptors), config)?;
    Ok(())
}

/// All `.proto` files below `folder`.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "proto") {
            files.push(path);
        }
    }
    Ok(())
}

/// Comments are of no use at run time.
fn without_comments(mut descriptors: FileDescriptorSet) -> FileDescriptorSet {
    for file in &mut descriptors.file {
        file.source_code_info = None;
    }
    descriptors
}

/// The marks stay in the embedded descriptors, where they decide which defaults are printed.
/// In Rust they would only warn in code that has to serve old clients.
fn without_deprecations(mut descriptors: FileDescriptorSet) -> FileDescriptorSet {
    for file in &mut descriptors.file {
        let mut messages: Vec<_> = file.message_type.iter_mut().collect();
        while let Some(message) = messages.pop() {
            for field in &mut message.field {
                if let Some(options) = &mut field.options {
                    options.deprecated = None;
                }
            }
            for value in message.enum_type.iter_mut().flat_map(|e| &mut e.value) {
                value.options = None;
            }
            messages.extend(&mut message.nested_type);
        }
    }
    descriptors
}
