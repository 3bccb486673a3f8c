//! Skills written by the author's guide alone: from an empty folder to a called skill, in every language.
//!
//! The guide is `skills/README.md`, with an example in `skills/example.md`. Their fenced blocks are used as they stand: `sh`
//! is run, a block with a path is that file, and `text` below commands is what the last of them prints. What makes
//! components of Python and JavaScript is fetched by `scripts/fixtures`. A component that was built here before of the same
//! sources is not built again.

mod commands;
mod example;
mod guide;
mod interrupted;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Finished, Home, finish, guest};

/// An author: a home, and a folder that is empty at the beginning.
pub(crate) struct Author {
    pub(crate) home: Home,
    pub(crate) folder: tempfile::TempDir,
}

impl Author {
    pub(crate) fn new() -> Self {
        let author = Self {
            home: Home::offline(),
            folder: tempfile::tempdir().expect("a temporary folder"),
        };
        let toolchains = target().join("fixtures/toolchains");
        std::os::unix::fs::symlink(toolchains, author.home.path().join("toolchains")).expect("links can be made");
        author.take_compiled_code();
        author
    }

    /// Code that was compiled by an earlier run is taken from there: a component in Python takes many seconds. The host
    /// trusts none of it before it has looked at its digest.
    fn take_compiled_code(&self) {
        let cache = self.compiled_code();
        std::fs::create_dir_all(&cache).expect("the home is writable");
        std::fs::set_permissions(&cache, std::os::unix::fs::PermissionsExt::from_mode(0o700)).expect("it is ours");
        copy_new(&target().join(COMPILED), &cache);
    }

    fn compiled_code(&self) -> PathBuf {
        self.home.path().join("cache/skills")
    }

    /// A command of a user who builds software: with their toolchains, and crates that are there already.
    #[expect(
        clippy::disallowed_methods,
        reason = "the compilers of the user are found by the environment"
    )]
    fn with_toolchains(&self, command: &mut Command) {
        let binary = Path::new(env!("CARGO_BIN_EXE_tool"));
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{path}", binary.parent().expect("it lies in a folder").display());
        let home = std::env::var("HOME").unwrap_or_default();
        let rust = |name: &str, folder: &str| std::env::var(name).unwrap_or_else(|_| format!("{home}/{folder}"));
        command
            .env("PATH", path)
            .env("CARGO_HOME", rust("CARGO_HOME", ".cargo"))
            .env("RUSTUP_HOME", rust("RUSTUP_HOME", ".rustup"))
            .env("CARGO_TARGET_DIR", target().join("authoring/cargo"))
            .env("CARGO_NET_OFFLINE", "true");
        if let Ok(toolchain) = std::env::var("RUSTUP_TOOLCHAIN") {
            command.env("RUSTUP_TOOLCHAIN", toolchain);
        }
    }

    /// Runs `tool` in a folder.
    pub(crate) fn tool(&self, folder: &Path, arguments: &[&str]) -> Finished {
        let mut command = self.home.tool(folder, arguments);
        self.with_toolchains(&mut command);
        finish(command.output().expect("the binary runs"))
    }

    /// Runs lines of a shell in a folder; gives what the last of them prints, and the folder where it ended.
    #[expect(clippy::disallowed_methods, reason = "the guide is for people with a shell")]
    pub(crate) fn shell(&self, folder: &Path, lines: &str) -> (String, PathBuf) {
        let mut command = Command::new("bash");
        let (before, last) = lines.trim_end().rsplit_once('\n').unwrap_or(("", lines.trim_end()));
        let script = format!("{before}\necho ---- >&1\n{last}\necho; echo ----; pwd");
        command
            .args(["-euo", "pipefail", "-c", &script])
            .current_dir(folder)
            .env_clear()
            .env("HOME", self.home.path())
            .env("TOOL_HOME", self.home.path())
            .env("TOOL_BACKEND_PORT", "0")
            .stdin(std::process::Stdio::null());
        self.with_toolchains(&mut command);
        let finished = finish(command.output().expect("bash runs")).expect(0);
        let mut parts = finished.stdout.rsplitn(3, "----\n");
        let place = parts.next().expect("it says where it is").trim().into();
        (parts.next().unwrap_or_default().trim_end().to_owned(), place)
    }
}

impl Drop for Author {
    fn drop(&mut self) {
        // Code that is not kept is compiled again by the next run.
        let kept = target().join(COMPILED);
        let _ = std::fs::create_dir_all(&kept);
        copy_new(&self.compiled_code(), &kept);
    }
}

/// Folder of compiled code, in the target folder.
const COMPILED: &str = "authoring/compiled";

/// Copies the files of a folder that the other does not have, each in one step.
fn copy_new(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).into_iter().flatten().flatten() {
        let target = to.join(entry.file_name());
        if !target.exists()
            && let Ok(new) = tempfile::NamedTempFile::new_in(to)
            && std::fs::copy(entry.path(), new.path()).is_ok()
        {
            let _ = new.persist(target);
        }
    }
}

/// The target folder.
fn target() -> PathBuf {
    let guest = guest("echo");
    guest
        .ancestors()
        .nth(3)
        .expect("it lies in target/wasm32-wasip2/skill")
        .to_owned()
}
