//! Prepares components for embedding: `embed-skills -o FOLDER SKILL.wasm… [--outliners COMPONENT.wasm…]`.
//!
//! For each skill it writes `NAME.wasm`, the code compiled for every machine of this architecture, the component's
//! descriptor and its digest. For an outliner it writes the code alone. Components and code are packed (`embedded`).
//! This program is part of the build, not of the product. Files that are up to date are not written, so that the
//! build does not repeat the steps that depend on them.

use std::error::Error;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tool_core::digest::sha256_hex;
use tool_skill::embedded::{Packed, base_of, pack_component};
use tool_skill::{compiler_fingerprint, precompile_outliner, precompile_skill};

fn main() -> ExitCode {
    match embed_skills() {
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

fn embed_skills() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let usage = "usage: embed-skills -o FOLDER SKILL.wasm… [--outliners COMPONENT.wasm…]";
    if arguments.next().is_none_or(|first| first != "-o") {
        return Err(usage.into());
    }
    let folder = PathBuf::from(arguments.next().ok_or(usage)?);
    std::fs::create_dir_all(&folder)?;
    let mut is_outliner = false;
    let mut components = Vec::new();
    for argument in arguments {
        if argument == "--outliners" {
            is_outliner = true;
        } else {
            components.push((PathBuf::from(argument), is_outliner));
        }
    }
    // Components that others are packed against come first.
    components.sort_by_key(|(path, _)| path.file_stem().and_then(OsStr::to_str).and_then(base_of).is_some());
    for (path, is_outliner) in &components {
        let Some(new) = OutdatedComponent::find_outdated(&folder, path)? else {
            continue;
        };
        let embed = if *is_outliner { embed_outliner } else { embed_skill };
        embed(&new)?;
        std::fs::write(new.file("stamp"), &new.stamp)?;
    }
    Ok(())
}

/// A component that is embedded already.
struct BaseComponent {
    name: &'static str,
    wasm: Vec<u8>,
}

/// A component whose embedded files are out of date.
struct OutdatedComponent<'a> {
    folder: &'a Path,
    path: &'a Path,
    name: &'a str,
    wasm: Vec<u8>,
    /// Component that this one is packed against.
    base: Option<BaseComponent>,
    /// Written last: if the stamp is up to date, the other files are as well.
    stamp: String,
}

impl<'a> OutdatedComponent<'a> {
    fn find_outdated(folder: &'a Path, path: &'a Path) -> Result<Option<Self>, Box<dyn Error>> {
        let name = path
            .file_stem()
            .and_then(OsStr::to_str)
            .ok_or("a component has a name")?;
        let read = |path: &Path| std::fs::read(path).map_err(|error| format!("{}: {error}", path.display()));
        let wasm = read(path)?;
        let base = match base_of(name) {
            Some(name) => Some(BaseComponent {
                name,
                wasm: read(&path.with_file_name(name).with_extension("wasm"))?,
            }),
            None => None,
        };
        let against = base
            .as_ref()
            .map_or("nothing".to_owned(), |base| sha256_hex(&base.wasm));
        let new = Self {
            folder,
            path,
            name,
            stamp: format!(
                "{} {} packed against {against}",
                sha256_hex(&wasm),
                compiler_fingerprint()?
            ),
            wasm,
            base,
        };
        let is_there = std::fs::read_to_string(new.file("stamp")).is_ok_and(|old| old == new.stamp);
        Ok((!is_there).then_some(new))
    }

    fn file(&self, extension: &str) -> PathBuf {
        self.folder.join(format!("{}.{extension}", self.name))
    }

    fn write_wasm(&self) -> io::Result<()> {
        let base = self.base.as_ref().map(|base| &*base.wasm).unwrap_or_default();
        std::fs::write(self.file("wasm"), pack_component(&self.wasm, base)?)
    }

    fn write_compiled(&self, compiled: &[u8]) -> io::Result<()> {
        let base = match &self.base {
            Some(base) => {
                let bytes = std::fs::read(self.folder.join(base.name).with_extension("compiled"))?;
                Packed::without_base(bytes.leak()).unpack()?
            }
            None => Vec::new(),
        };
        std::fs::write(self.file("compiled"), pack_component(compiled, &base)?)
    }
}

fn embed_skill(new: &OutdatedComponent<'_>) -> Result<(), Box<dyn Error>> {
    let skill = precompile_skill(new.path)?;
    if skill.descriptor.name != new.name {
        return Err(format!("{} calls itself `{}`", new.path.display(), skill.descriptor.name).into());
    }
    new.write_wasm()?;
    new.write_compiled(&skill.compiled)?;
    std::fs::write(new.file("json"), serde_json::to_string(&skill.descriptor)?)?;
    std::fs::write(new.file("digest"), &skill.digest)?;
    Ok(())
}

fn embed_outliner(new: &OutdatedComponent<'_>) -> Result<(), Box<dyn Error>> {
    let compiled = precompile_outliner(&new.wasm).map_err(|error| format!("{}: {error}", new.path.display()))?;
    Ok(new.write_compiled(&compiled)?)
}
