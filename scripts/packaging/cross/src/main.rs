//! `cross TRIPLE FOLDER COMPONENT.wasm…`: writes `NAME.compiled` of each component into the folder, for another target.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::PathBuf;

use tool_boundary::{embedded, precompile_for};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: cross TRIPLE FOLDER COMPONENT.wasm…";
    let (triple, folder) = (arguments.next().ok_or(usage)?, arguments.next().ok_or(usage)?);
    let mut all = BTreeMap::new();
    for component in arguments.map(PathBuf::from) {
        let name = component.file_stem().and_then(|stem| stem.to_str()).ok_or(usage)?;
        all.insert(name.to_owned(), precompile_for(&triple, &std::fs::read(&component)?)?);
    }
    for (name, code) in &all {
        let base = match embedded::base_of(name) {
            Some(base) => all.get(base).ok_or("a component is missing that others are packed against")?,
            None => &Vec::new(),
        };
        std::fs::write(format!("{folder}/{name}.compiled"), embedded::pack(code, base)?)?;
    }
    Ok(())
}
