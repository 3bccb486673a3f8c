//! Prepares components for embedding: `embed-skills -o FOLDER COMPONENT.wasm…`.
//!
//! For each component it writes `NAME.wasm`, the code compiled for every machine of this architecture, the descriptor
//! that the component gave, and its digest. Part of the product's build, no part of the product. What is there already
//! and still right is left alone, so that nothing is built again for it.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use host::skill::{compiler_fingerprint, precompile};
use sha2::{Digest, Sha256};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            #[expect(clippy::print_stderr, reason = "a step of the build tells why it failed")]
            {
                eprintln!("error: {error}");
            }
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let usage = "usage: embed-skills -o FOLDER COMPONENT.wasm…";
    if arguments.next().is_none_or(|first| first != "-o") {
        return Err(usage.into());
    }
    let folder = PathBuf::from(arguments.next().ok_or(usage)?);
    std::fs::create_dir_all(&folder)?;
    for component in arguments {
        embed(&folder, Path::new(&component))?;
    }
    Ok(())
}

fn embed(folder: &Path, component: &Path) -> Result<(), Box<dyn Error>> {
    let name = component
        .file_stem()
        .and_then(|stem| stem.to_str())
        .ok_or("a component has a name")?;
    let file = |extension: &str| folder.join(format!("{name}.{extension}"));
    let wasm = std::fs::read(component).map_err(|error| format!("{}: {error}", component.display()))?;
    let digest: String = Sha256::digest(&wasm).iter().map(|byte| format!("{byte:02x}")).collect();
    // Written last: where it fits, everything else does.
    let stamp = format!("{digest} {}", compiler_fingerprint()?);
    if std::fs::read_to_string(file("stamp")).is_ok_and(|old| old == stamp) {
        return Ok(());
    }
    let embedded = precompile(component)?;
    if embedded.descriptor.name != name {
        return Err(format!("{} calls itself `{}`", component.display(), embedded.descriptor.name).into());
    }
    std::fs::write(file("wasm"), &wasm)?;
    std::fs::write(file("compiled"), &embedded.compiled)?;
    std::fs::write(file("json"), serde_json::to_string(&embedded.descriptor)?)?;
    std::fs::write(file("digest"), &embedded.digest)?;
    std::fs::write(file("stamp"), stamp)?;
    Ok(())
}
