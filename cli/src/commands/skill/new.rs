//! `tool skill new`: a small complete project of a skill, in a new folder.
//!
//! This program contains everything that the project needs besides a compiler: the contract, and for Rust the sources
//! of `skill-sdk`, because that crate is not published.

mod lock;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tool_core::api::{ErrorKind, Problem};

use super::{CommandContext, open_registry};
use crate::args::SkillLanguage;
use crate::error::Error;

const CONTRACT: &str = include_str!("../../../../wit/skill.wit");

/// A file of a project and its content, with placeholders such as `{{name}}`.
type ProjectFile = (&'static str, &'static str);

macro_rules! template {
    ($path:literal) => {
        include_str!(concat!("../../../../skills/sdk/templates/", $path))
    };
}

macro_rules! sdk {
    ($path:literal) => {
        (
            concat!("sdk/src/", $path),
            include_str!(concat!("../../../../skills/sdk/src/", $path)),
        )
    };
}

macro_rules! wasi {
    ($path:literal) => {
        (
            concat!("wit/deps/", $path),
            include_str!(concat!("../../../../wit/deps/", $path)),
        )
    };
}

/// Packages that the worlds of the contract import.
const WASI: [ProjectFile; 14] = [
    wasi!("cli/cli.wit"),
    wasi!("clocks/clocks.wit"),
    wasi!("config/store.wit"),
    wasi!("config/world.wit"),
    wasi!("filesystem/filesystem.wit"),
    wasi!("http/http.wit"),
    wasi!("io/io.wit"),
    wasi!("keyvalue/atomic.wit"),
    wasi!("keyvalue/batch.wit"),
    wasi!("keyvalue/store.wit"),
    wasi!("keyvalue/watch.wit"),
    wasi!("keyvalue/world.wit"),
    wasi!("random/random.wit"),
    wasi!("sockets/sockets.wit"),
];

const COMMON: [ProjectFile; 7] = [
    ("README.md", template!("README.md")),
    (".gitignore", "/{{name}}.wasm\n/target/\n__pycache__/\nnode_modules/\n"),
    ("cases.toml", template!("cases.toml")),
    ("wkg.toml", template!("wkg.toml")),
    ("fixture/README.md", template!("fixture/README.md")),
    ("fixture/notes/plan.md", template!("fixture/notes/plan.md")),
    ("fixture/src/app.py", template!("fixture/src/app.py")),
];

const RUST: [ProjectFile; 4] = [
    ("Cargo.toml", template!("rust/Cargo.toml")),
    ("src/lib.rs", template!("rust/src/lib.rs")),
    ("sdk/Cargo.toml", template!("rust/sdk.toml")),
    ("wit/skill.wit", CONTRACT),
];

/// The crate that a skill in Rust is written against, as it is here.
const SDK: [ProjectFile; 13] = [
    sdk!("component.rs"),
    sdk!("exchange.rs"),
    sdk!("files.rs"),
    sdk!("history.rs"),
    sdk!("lib.rs"),
    sdk!("metadata.rs"),
    sdk!("pattern.rs"),
    sdk!("requests.rs"),
    sdk!("runs.rs"),
    sdk!("schema.rs"),
    sdk!("symbols.rs"),
    sdk!("testing.rs"),
    sdk!("text.rs"),
];

const PYTHON: [ProjectFile; 4] = [
    ("app.py", template!("python/app.py")),
    ("fetch.py", template!("python/fetch.py")),
    ("wit/world.wit", template!("python/world.wit")),
    ("wit/deps/skill/skill.wit", CONTRACT),
];

const JS: [ProjectFile; 8] = [
    ("skill.js", template!("js/skill.js")),
    ("answers.js", template!("js/answers.js")),
    ("fetch.js", template!("js/fetch.js")),
    ("sha256.js", template!("js/sha256.js")),
    ("files.js", template!("js/files.js")),
    ("package.json", template!("js/package.json")),
    ("wit/world.wit", template!("js/world.wit")),
    ("wit/deps/skill/skill.wit", CONTRACT),
];

/// Names that no crate can have, or that a dependency has.
const NO_CRATES: [&str; 57] = [
    "abstract",
    "alloc",
    "as",
    "async",
    "await",
    "become",
    "box",
    "break",
    "const",
    "continue",
    "core",
    "crate",
    "do",
    "dyn",
    "else",
    "enum",
    "extern",
    "false",
    "final",
    "fn",
    "for",
    "gen",
    "if",
    "impl",
    "in",
    "let",
    "loop",
    "macro",
    "match",
    "mod",
    "move",
    "mut",
    "override",
    "priv",
    "proc_macro",
    "pub",
    "ref",
    "return",
    "schemars",
    "self",
    "serde",
    "skill_sdk",
    "static",
    "std",
    "struct",
    "super",
    "test",
    "trait",
    "true",
    "try",
    "type",
    "typeof",
    "unsafe",
    "unsized",
    "use",
    "virtual",
    "where",
];

pub(super) fn create_project(
    name: &str,
    language: SkillLanguage,
    folder: Option<&Path>,
    context: &CommandContext,
) -> Result<ExitCode, Error> {
    open_registry(context)?
        .check_new_name(name)
        .map_err(|reason| Error::new(ErrorKind::Usage, format!("`{name}` {reason}")))?;
    if language == SkillLanguage::Rust && NO_CRATES.contains(&name) {
        let message = format!("`{name}` is a name that no crate can have, or that one of its dependencies has");
        return Err(Problem::new(ErrorKind::Usage, message)
            .with_hint(format!("take another one, such as `{name}_it`"))
            .into());
    }
    let folder = folder.map_or_else(|| PathBuf::from(name), Path::to_path_buf);
    make_folder(&folder, &project_files(name, language))?;
    print_next_steps(name, language, &folder, context)?;
    Ok(ExitCode::SUCCESS)
}

/// Creates a folder with these files. It must not exist, so that nothing is overwritten.
fn make_folder(folder: &Path, files: &[(String, String)]) -> Result<(), Error> {
    let failed = |error: io::Error| Error::on_file("Skill", folder, &error);
    if let Some(parent) = folder.parent() {
        fs::create_dir_all(parent).map_err(failed)?;
    }
    fs::create_dir(folder).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            Problem::new(ErrorKind::Usage, format!("`{}` is there already", folder.display()))
                .with_hint("take another name, or another folder with --dir")
                .into()
        }
        _ => failed(error),
    })?;
    let write = |(path, content): &(String, String)| {
        let path = folder.join(path);
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(path, content)
    };
    files.iter().try_for_each(write).map_err(|error| {
        // Half a project would block the next attempt. The folder was created here.
        let _ = fs::remove_dir_all(folder);
        failed(error)
    })
}

fn project_files(name: &str, language: SkillLanguage) -> Vec<(String, String)> {
    let (own, source, contract): (&[ProjectFile], _, _) = match language {
        SkillLanguage::Rust => (&RUST, "src/lib.rs", "wit/skill.wit"),
        SkillLanguage::Python => (&PYTHON, "app.py", "wit/deps/skill/skill.wit"),
        SkillLanguage::Js => (&JS, "skill.js", "wit/deps/skill/skill.wit"),
    };
    // In Rust, the contract is the package itself.
    let package = match language {
        SkillLanguage::Rust => "",
        SkillLanguage::Python | SkillLanguage::Js => "\"tool:skill\" = { path = \"wit/deps/skill\" }\n",
    };
    let filled = |text: &str| {
        text.replace("{{name}}", name)
            .replace("{{type}}", &type_name(name))
            .replace("{{version}}", env!("CARGO_PKG_VERSION"))
            .replace("{{language}}", language.name())
            .replace("{{source}}", source)
            .replace("{{contract}}", contract)
            .replace("{{package}}", package)
    };
    let templates = COMMON.iter().chain(own);
    let mut files: Vec<(String, String)> = templates
        .map(|(path, text)| ((*path).to_owned(), filled(text)))
        .collect();
    files.extend(WASI.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())));
    if language == SkillLanguage::Rust {
        files.extend(
            SDK.iter()
                .map(|(path, text)| ((*path).to_owned(), with_contract(path, text))),
        );
        files.push(("Cargo.lock".to_owned(), lock::of_project(name)));
    }
    files
}

/// A source of the crate, with the path of the contract in the project: both the crate and, by its macros, the skill
/// generate bindings from it.
fn with_contract(path: &str, text: &str) -> String {
    let place = if path.ends_with("component.rs") {
        "../wit"
    } else {
        "wit"
    };
    text.replace("path: \"../../wit\"", &format!("path: \"{place}\""))
}

/// `todo_list` as `TodoListSkill`: the suffix avoids collisions with imported names.
fn type_name(name: &str) -> String {
    let part = |part: &str| {
        let mut letters = part.chars();
        letters
            .next()
            .map(|first| first.to_ascii_uppercase().to_string() + letters.as_str())
    };
    let parts: String = name.split('_').filter_map(part).collect();
    format!("{parts}Skill")
}

fn print_next_steps(name: &str, language: SkillLanguage, folder: &Path, context: &CommandContext) -> Result<(), Error> {
    let folder = folder.display();
    context
        .output
        .line(&format!("Made {folder}, a skill in {}.", language.name()))?;
    context.output.line(&format!(
        "\n  cd {folder}\n  tool skill build\n  tool skill test\n  tool skill add {name}.wasm\n  tool skill call {name}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_project_has_an_unfilled_place_or_a_path_of_the_workspace() {
        for language in [SkillLanguage::Rust, SkillLanguage::Python, SkillLanguage::Js] {
            for (path, text) in project_files("todo_list", language) {
                assert!(!text.contains("{{n") && !text.contains("{{t"), "{path}: {text}");
                assert!(!text.contains("../../wit"), "{path}");
            }
        }
    }

    #[test]
    fn a_project_has_every_package_that_the_contract_imports() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../wit/deps");
        let packages = fs::read_dir(folder).expect("it is there");
        let sources = packages.flat_map(|package| fs::read_dir(package.expect("it can be listed").path()));
        let count = sources.map(Iterator::count).sum::<usize>();
        assert_eq!(count, WASI.len(), "each file of {folder} is one of `WASI`");
    }

    #[test]
    fn types_are_named_after_the_skill() {
        assert_eq!(type_name("todo_list"), "TodoListSkill");
        assert_eq!(type_name("a__1_"), "A1Skill");
    }

    #[test]
    fn what_is_there_is_left_alone() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let folder = home.path().join("deep/todo");
        let file = [("a/b.txt".to_owned(), "new".to_owned())];
        make_folder(&folder, &file).expect("it is new");
        fs::write(folder.join("a/b.txt"), "mine").expect("it is writable");
        assert!(make_folder(&folder, &file).is_err());
        assert_eq!(fs::read_to_string(folder.join("a/b.txt")).expect("it is there"), "mine");
        // A file in the place of a folder: what was begun goes again.
        let clash = [("a".to_owned(), String::new()), ("a/b".to_owned(), String::new())];
        let other = home.path().join("other");
        assert!(make_folder(&other, &clash).is_err());
        assert!(!other.exists());
    }
}
