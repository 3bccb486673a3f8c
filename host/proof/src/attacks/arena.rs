//! Arena of the attacks: a repository full of traps, and beside it files that must be neither read nor changed.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{CWD, Mode, OFlags, RenameFlags};
use serde_json::Value;
use tempfile::TempDir;

use super::lookup::CarelessLookup;
use super::server::EchoTransport;
use super::{Attack, history};
use tool_core::api::{Operation, PolicyRequest};
use tool_repository::{Options, Repository};
use tool_skill::policy::{EffectCause, Policy};
use tool_skill::{Builtin, CallContext, HostServices, Limits, SkillHost};

/// Content of every file that no answer may reveal.
pub(super) const SECRET: &str = "SECRET";

/// Files, relative to the arena.
const FILES: [(&str, &str); 22] = [
    ("repo/README.md", "hello"),
    ("repo/src/main.rs", "fn main() {}"),
    ("repo/.env", "SECRET=1"),
    ("repo/src/.ENV", "SECRET=2"),
    ("repo/src/.e\u{200c}nv", "SECRET=3"),
    ("repo/id_rsa.bak", "SECRET 4"),
    ("repo/.netrc", "SECRET 5"),
    ("repo/notes.txt", "-----BEGIN RSA PRIVATE KEY-----\nSECRET 6\n"),
    ("repo/.git/config", "SECRET 7"),
    ("repo/.hg/hgrc", "SECRET 13"),
    ("repo/store/config", "SECRET 8"),
    ("repo/store/HEAD", "ref: refs/heads/main\n"),
    ("repo/state/token", "SECRET 9"),
    ("repo/.gitignore", "ignored/\n"),
    ("repo/ignored/.env", "SECRET 11"),
    ("repo/node_modules/p/.npmrc", "SECRET 12"),
    ("repo/race.txt", "inside"),
    ("repo/race/secret", "inside"),
    ("outside/secret", "SECRET 10"),
    (
        "home/config.toml",
        "[providers.hosted]\napi_key = \"SECRET 14\"\n[skills.config.other]\ntoken = \"SECRET 15\"\n",
    ),
    (
        "home/secrets.json",
        r#"{"secrets": {
            "token": {"host": "granted.example.org", "header": "authorization", "value": "SECRET 16"},
            "other": {"host": "granted.example.org", "header": "authorization", "value": "SECRET 17"}}}"#,
    ),
    ("home/store/other/key", "SECRET 18"),
];

/// Empty directories.
const DIRECTORIES: [&str; 2] = ["repo/store/objects", "repo/store/refs"];

/// Symbolic links and their targets; `{outside}` is the real path of the neighbourhood.
const LINKS: [(&str, &str); 14] = [
    ("repo/to-hidden", ".netrc"),
    ("repo/out", "../outside/secret"),
    ("repo/out-directory", "../outside"),
    ("repo/absolute", "{outside}/secret"),
    ("repo/twice-out", "out"),
    ("repo/proc", "/proc/self/environ"),
    ("repo/proc-outside", "/proc/self/root{outside}"),
    ("repo/to-pipe", "pipe"),
    ("repo/zero", "/dev/zero"),
    ("repo/loop", "loop"),
    ("repo/inside", "README.md"),
    ("outside/bait", "{outside}/secret"),
    ("outside/bait-directory", "{outside}"),
    ("outside/bait-hidden", ".netrc"),
];

/// Other spellings of hidden files' names.
const HARD_LINKS: [(&str, &str); 3] = [
    (".env", "hard"),
    ("ignored/.env", "hard-ignored"),
    ("node_modules/p/.npmrc", "hard-skipped"),
];

/// The traps, a host that has only the hostile guest, and a session.
pub(super) struct Arena {
    _folder: TempDir,
    base: PathBuf,
    pub(super) host: Arc<SkillHost>,
    pub(super) context: Arc<CallContext>,
    pub(super) limits: Limits,
}

/// Content of every file of the arena, by path.
pub(super) type ArenaContents = BTreeMap<PathBuf, Vec<u8>>;

impl Arena {
    pub(super) fn new(attack: &Attack, hostile: &'static [Builtin]) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("tool-attack-").tempdir()?;
        let base = folder.path().canonicalize()?;
        lay_traps(&base)?;
        if attack.has_history {
            history::write_repository(&base.join("repo"))?;
        }
        let options = Options {
            state_directory: Some(base.join("repo/state")),
            home: Some(base.join("home")),
            ..Options::default()
        };
        let request = PolicyRequest {
            deny: attack.denied.iter().map(|&effect| effect.to_owned()).collect(),
            ..PolicyRequest::default()
        };
        let repository = Repository::open(&base.join("repo"), &options).map_err(io::Error::other)?;
        let policy = Policy::new(EffectCause::Operation(Operation::Refactor), &request)
            .map_err(|problem| io::Error::other(problem.message))?;
        let context = CallContext {
            environment: BTreeMap::from([("TOKEN".to_owned(), SECRET.to_owned())]),
            ..CallContext::unattended(repository, policy)
        };
        let surroundings = HostServices {
            transport: Some(Arc::new(EchoTransport)),
            symbols: Some(Arc::new(CarelessLookup)),
            ..HostServices::default()
        };
        let mut limits = Limits::default();
        (attack.bounds)(&mut limits);
        Ok(Self {
            host: SkillHost::of_strangers(as_described(hostile, attack), &base.join("home"), limits, surroundings)
                .map_err(io::Error::other)?,
            context: Arc::new(context),
            _folder: folder,
            base,
            limits,
        })
    }

    /// Puts the real paths into a text of the table.
    pub(super) fn filled(&self, text: &str) -> String {
        text.replace("{outside}", &self.base.join("outside").to_string_lossy())
    }

    /// Swaps a name of the repository with one of the neighbourhood atomically.
    pub(super) fn swap(&self, inside: &str, outside: &str) -> io::Result<()> {
        let (inside, outside) = (
            self.base.join("repo").join(inside),
            self.base.join("outside").join(outside),
        );
        Ok(rustix::fs::renameat_with(
            CWD,
            inside,
            CWD,
            outside,
            RenameFlags::EXCHANGE,
        )?)
    }

    /// Releases a reader that waits at the FIFO.
    pub(super) fn open_pipe(&self) {
        // Opening a FIFO for writing without waiting succeeds only if a reader waits, which is the only case that
        // matters.
        let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        drop(rustix::fs::open(self.base.join("repo/pipe"), flags, Mode::empty()));
    }

    /// Everything in the arena except what a race moves around.
    pub(super) fn listing(&self) -> io::Result<ArenaContents> {
        let mut found = ArenaContents::new();
        for place in ["repo", "outside"] {
            list_folder(&self.base.join(place), &mut found)?;
        }
        Ok(found)
    }

    /// Returns a path relative to the arena, as reports show it.
    pub(super) fn shown(&self, path: &Path) -> String {
        path.strip_prefix(&self.base).unwrap_or(path).display().to_string()
    }
}

/// The guest, with the schema of the attack if it has one. The schema is leaked, a few kilobytes for each attack.
fn as_described(hostile: &'static [Builtin], attack: &Attack) -> &'static [Builtin] {
    let Some(schema) = attack.schema else { return hostile };
    let builtins = hostile.iter().map(|builtin| {
        let mut descriptor: Value = serde_json::from_str(builtin.descriptor).unwrap_or_default();
        descriptor["functions"][0]["parameters"] = schema();
        Builtin {
            descriptor: descriptor.to_string().leak(),
            ..*builtin
        }
    });
    builtins.collect::<Vec<_>>().leak()
}

fn lay_traps(base: &Path) -> io::Result<()> {
    let outside = base.join("outside");
    for (path, content) in FILES {
        let path = base.join(path);
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(path, content)?;
    }
    for path in DIRECTORIES {
        fs::create_dir_all(base.join(path))?;
    }
    for (path, target) in LINKS {
        symlink(target.replace("{outside}", &outside.to_string_lossy()), base.join(path))?;
    }
    let repo = base.join("repo");
    for (hidden, other) in HARD_LINKS {
        fs::hard_link(repo.join(hidden), repo.join(other))?;
    }
    make_pipe(&repo.join("pipe"))?;
    // The socket's file remains when the listener is dropped.
    drop(std::os::unix::net::UnixListener::bind(repo.join("socket"))?);
    Ok(())
}

#[cfg(target_os = "linux")]
fn make_pipe(path: &Path) -> io::Result<()> {
    let mode = Mode::RUSR | Mode::WUSR;
    Ok(rustix::fs::mknodat(CWD, path, rustix::fs::FileType::Fifo, mode, 0)?)
}

#[cfg(not(target_os = "linux"))]
fn make_pipe(_path: &Path) -> io::Result<()> {
    let message = "the attacks need a FIFO, and this build can make none";
    Err(io::Error::new(io::ErrorKind::Unsupported, message))
}

fn list_folder(folder: &Path, found: &mut ArenaContents) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (path, name) = (entry.path(), entry.file_name());
        let is_swapped = ["race", "bait"]
            .iter()
            .any(|start| name.as_encoded_bytes().starts_with(start.as_bytes()));
        if is_swapped {
            continue;
        }
        let kind = entry.file_type()?;
        if kind.is_dir() {
            list_folder(&path, found)?;
        }
        let content = match kind {
            _ if kind.is_file() => fs::read(&path)?,
            _ if kind.is_symlink() => fs::read_link(&path)?.into_os_string().into_encoded_bytes(),
            _ => Vec::new(),
        };
        found.insert(path, content);
    }
    Ok(())
}
