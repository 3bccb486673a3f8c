//! Writes the tables of built-in skills and of the attacking guest, from the output of `scripts/build`: see
//! `builtins.rs`.

use std::fmt::Write;
use std::path::{Path, PathBuf};

/// The guest that attacks the sandbox. It is embedded like a skill, but is not in the table of skills.
const HOSTILE: &str = "hostile";

/// Folders beneath `skills/` that are libraries.
const LIBRARIES: [&str; 6] = ["details", "encoding", "sdk", "syntax", "outline", "test_results"];

/// See `embedded::base_of` in `tool-boundary`.
const SKILL_BASE: &str = "search_code";

/// See `SKILL_BASE`.
const OUTLINER_BASE: &str = "outline_python";

/// The components that read source files by syntax tree.
const OUTLINERS: [&str; 8] = [
    "outline_c",
    "outline_csharp",
    "outline_dynamic",
    "outline_kotlin",
    "outline_native",
    "outline_python",
    "outline_script",
    "outline_shell",
];

fn main() {
    println!("cargo::rerun-if-env-changed=TOOL_SKILLS_FOLDER");
    tell_version();
    let out = PathBuf::from(read_variable("OUT_DIR"));
    let tables = skills_folder(&out).and_then(|folder| {
        let hostile = skill_table(&folder, vec![HOSTILE.to_owned()])?;
        Ok([skill_table(&folder, list_skills()?)?, hostile, outliner_table(&folder)?])
    });
    let [builtins, hostile, outliners] = tables.unwrap_or_else(|missing| {
        println!("cargo::error={missing}: run `scripts/build`, which builds the components first");
        ["&[]", "&[]", "&[]"].map(str::to_owned)
    });
    let tables = [
        ("builtins.rs", builtins),
        ("hostile.rs", hostile),
        ("outliners.rs", outliners),
    ];
    for (name, table) in tables {
        std::fs::write(out.join(name), table).expect("cargo makes OUT_DIR writable");
    }
}

/// `tool --version`: version, commit and target of a release. Other builds name no commit, because each new commit
/// would compile the program again.
fn tell_version() {
    println!("cargo::rerun-if-env-changed=TOOL_COMMIT");
    let commit = match read_variable("TOOL_COMMIT") {
        none if none.is_empty() => "development build".to_owned(),
        commit => commit,
    };
    let (version, target) = (read_variable("CARGO_PKG_VERSION"), read_variable("TARGET"));
    println!("cargo::rustc-env=TOOL_VERSION={version} ({commit}, {target})");
}

#[expect(
    clippy::disallowed_methods,
    reason = "a build script is told everything by its environment"
)]
fn read_variable(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

/// `skills` in the target folder. OUT_DIR is in the folder of the profile, next to it.
fn skills_folder(out: &Path) -> Result<PathBuf, String> {
    match read_variable("TOOL_SKILLS_FOLDER") {
        named if !named.is_empty() => Ok(PathBuf::from(named)),
        _ => out
            .ancestors()
            .skip(3)
            .map(|folder| folder.join("skills"))
            .find(|folder| folder.join("list_files.stamp").is_file())
            .ok_or_else(|| "the built-in skills are missing".to_owned()),
    }
}

fn list_skills() -> Result<Vec<String>, String> {
    let sources = Path::new(&read_variable("CARGO_MANIFEST_DIR")).join("../skills");
    println!("cargo::rerun-if-changed={}", sources.display());
    let mut names: Vec<String> = std::fs::read_dir(&sources)
        .map_err(|error| format!("{} cannot be read ({error})", sources.display()))?
        .flatten()
        .filter(|entry| entry.path().join("Cargo.toml").is_file())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| !LIBRARIES.contains(&name.as_str()))
        .collect();
    names.sort_unstable();
    Ok(names)
}

fn skill_table(folder: &Path, names: Vec<String>) -> Result<String, String> {
    let mut table = String::from("&[\n");
    for name in names {
        write_entry(&mut table, folder, &name)?;
    }
    table.push(']');
    Ok(table)
}

fn outliner_table(folder: &Path) -> Result<String, String> {
    let mut table = String::from("&[\n");
    for name in OUTLINERS {
        let compiled = packed_file(folder, name, "compiled", OUTLINER_BASE)?;
        writeln!(
            table,
            "    tool_skill::EmbeddedOutliner {{ name: {name:?}, compiled: {compiled} }},"
        )
        .expect("writing to a string cannot fail");
    }
    table.push(']');
    Ok(table)
}

/// A file that `scripts/build` made for a component.
fn component_file(folder: &Path, name: &str, extension: &str) -> Result<PathBuf, String> {
    let path = folder.join(format!("{name}.{extension}"));
    println!("cargo::rerun-if-changed={}", path.display());
    if path.is_file() {
        Ok(path)
    } else {
        Err(format!("the component `{name}` is missing"))
    }
}

/// A file that `scripts/build` packed: alone for `base` itself, and otherwise against `base`.
fn packed_file(folder: &Path, name: &str, extension: &str, base: &str) -> Result<String, String> {
    let bytes = component_file(folder, name, extension)?;
    if name == base {
        return Ok(format!(
            "tool_skill::embedded::Packed::without_base(include_bytes!({bytes:?}))"
        ));
    }
    let base = component_file(folder, base, extension)?;
    Ok(format!(
        "tool_skill::embedded::Packed {{ bytes: include_bytes!({bytes:?}), base: include_bytes!({base:?}) }}"
    ))
}

fn write_entry(table: &mut String, folder: &Path, name: &str) -> Result<(), String> {
    let file = |extension: &str| component_file(folder, name, extension);
    let packed = |extension: &str| packed_file(folder, name, extension, SKILL_BASE);
    let (wasm, compiled) = (packed("wasm")?, packed("compiled")?);
    let (descriptor, digest) = (file("json")?, file("digest")?);
    write!(
        table,
        "    tool_skill::Builtin {{\n        \
         name: {name:?},\n        \
         digest: include_str!({digest:?}),\n        \
         wasm: {wasm},\n        \
         compiled: {compiled},\n        \
         descriptor: include_str!({descriptor:?}),\n    }},\n"
    )
    .expect("writing to a string cannot fail");
    Ok(())
}
