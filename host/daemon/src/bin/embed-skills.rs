//! Prepares components for embedding: `embed-skills -o FOLDER SKILL.wasm… [--outliners COMPONENT.wasm…]`.
//!
//! For each skill it writes `NAME.wasm`, the code compiled for every machine of this architecture, the descriptor
//! that the component gave, and its digest; for what reads source files by syntax tree, the code alone. Components and code
//! are deflated. Part of the product's build, no part of the product. What is there already and still right is left alone,
//! so that nothing is built again for it.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use host::skill::{compiler_fingerprint, embedded, precompile, precompile_outliner};
use tool_core::digest::sha256_hex;

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
    let usage = "usage: embed-skills -o FOLDER SKILL.wasm… [--outliners COMPONENT.wasm…]";
    if arguments.next().is_none_or(|first| first != "-o") {
        return Err(usage.into());
    }
    let folder = PathBuf::from(arguments.next().ok_or(usage)?);
    std::fs::create_dir_all(&folder)?;
    let mut embed: fn(&New<'_>) -> Result<(), Box<dyn Error>> = embed_skill;
    for component in arguments {
        if component == "--outliners" {
            embed = embed_outliner;
        } else if let Some(new) = New::of(&folder, Path::new(&component))? {
            embed(&new)?;
            std::fs::write(new.file("stamp"), &new.stamp)?;
        }
    }
    Ok(())
}

/// A component that is not embedded as it is now.
struct New<'a> {
    folder: &'a Path,
    path: &'a Path,
    name: &'a str,
    wasm: Vec<u8>,
    /// Written last: where it fits, everything else does.
    stamp: String,
}

impl<'a> New<'a> {
    fn of(folder: &'a Path, path: &'a Path) -> Result<Option<Self>, Box<dyn Error>> {
        let name = path.file_stem().and_then(|stem| stem.to_str());
        let wasm = std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let digest = sha256_hex(&wasm);
        let new = Self {
            folder,
            path,
            name: name.ok_or("a component has a name")?,
            wasm,
            stamp: format!("{digest} {} deflated", compiler_fingerprint()?),
        };
        let is_there = std::fs::read_to_string(new.file("stamp")).is_ok_and(|old| old == new.stamp);
        Ok((!is_there).then_some(new))
    }

    fn file(&self, extension: &str) -> PathBuf {
        self.folder.join(format!("{}.{extension}", self.name))
    }
}

fn embed_skill(new: &New<'_>) -> Result<(), Box<dyn Error>> {
    let skill = precompile(new.path)?;
    if skill.descriptor.name != new.name {
        return Err(format!("{} calls itself `{}`", new.path.display(), skill.descriptor.name).into());
    }
    std::fs::write(new.file("wasm"), embedded::deflate(&new.wasm)?)?;
    std::fs::write(new.file("compiled"), embedded::deflate(&skill.compiled)?)?;
    std::fs::write(new.file("json"), serde_json::to_string(&skill.descriptor)?)?;
    std::fs::write(new.file("digest"), &skill.digest)?;
    Ok(())
}

fn embed_outliner(new: &New<'_>) -> Result<(), Box<dyn Error>> {
    let compiled = precompile_outliner(&new.wasm).map_err(|error| format!("{}: {error}", new.path.display()))?;
    std::fs::write(new.file("compiled"), compiled)?;
    Ok(())
}
