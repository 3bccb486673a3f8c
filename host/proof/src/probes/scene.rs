//! Scene of the attempts: a repository, its neighbourhood and a listener on every kind of socket; and the judgement.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal};
use tokio_util::sync::CancellationToken;

use tool_core::limits;
use tool_sandbox::program_sandbox::{
    BuildFolder, BuildWrites, Enclosure, LayeredFolder, RunBounds, Sandbox, ToolAccess,
};
use tool_sandbox::{CommandSpec, RunEnd, RunLimits, RunOutput, environment, run_contained};

use super::{ExpectedEscape, SandboxAttempt};
use crate::ProbeOutcome;

const SCRIPT: &str = include_str!("attempts.py");

/// The system's Python. The attempts need nothing else, and the Python on the user's `PATH` may be a script.
pub(crate) fn find_python() -> Option<PathBuf> {
    let path = BTreeMap::from([("PATH".to_owned(), "/usr/bin:/usr/local/bin:/bin".to_owned())]);
    environment::find_programs(&path, "python3").into_iter().next()
}

pub(super) fn play_attempt(
    attempt: &SandboxAttempt,
    sandbox: Sandbox,
    python: &Path,
    cancel: &CancellationToken,
) -> ProbeOutcome {
    let result = SandboxScene::new().and_then(|scene| scene.play(attempt, sandbox, python, cancel));
    result.unwrap_or_else(|error| ProbeOutcome::NotAvailable(error.to_string()))
}

/// Limits of the attempts, low enough to be reached quickly and to do no harm if a bound does not hold.
pub(crate) const BOUNDS: RunBounds = RunBounds {
    tree_bytes: 16 * 1024 * 1024,
    tree_inodes: 1000,
    scratch_bytes: 16 * 1024 * 1024,
    scratch_inodes: 1000,
    build_bytes: 16 * 1024 * 1024,
    build_inodes: 1000,
    tasks: 64,
    memory_bytes: 128 * 1024 * 1024,
};

/// A repository, its neighbourhood, and a listener on every kind of socket.
struct SandboxScene {
    _folder: tempfile::TempDir,
    repository: PathBuf,
    outside: PathBuf,
    home: PathBuf,
    /// The environment of another project.
    project: PathBuf,
    /// Build output: `own` belongs to the repository, `other` does not.
    builds: PathBuf,
    /// A name that no other scene has.
    abstract_name: String,
    tcp: TcpListener,
    /// The same port on IPv6, if the machine has it.
    tcp6: Option<TcpListener>,
    udp: UdpSocket,
    sockets: Vec<UnixListener>,
    messages: UnixDatagram,
    /// Key of shared memory that does not exist.
    key: i32,
    /// A text in the command line of processes that an attempt leaves behind.
    mark: String,
}

const KEPT: [(&str, &str); 3] = [
    ("kept.txt", "kept\n"),
    ("sub/inner.txt", "inner\n"),
    (".env", "KEY=not for tests\n"),
];

/// Parts of package caches in the home that a run can see.
const CACHES: [(&str, &str); 3] = [(".cargo", "registry"), (".m2", "repository"), (".gradle", "caches")];

/// Files with credentials beside package caches, in the home.
const CREDENTIALS: [&str; 8] = [
    ".cargo/credentials.toml",
    ".cargo/config.toml",
    ".m2/settings.xml",
    ".m2/settings-security.xml",
    ".gradle/gradle.properties",
    ".gem/credentials",
    ".composer/auth.json",
    ".nuget/NuGet/NuGet.Config",
];

/// Programs of version managers, which are on the `PATH`, in the home.
const MANAGERS: [&str; 3] = [
    ".nvm/versions/node/v20/bin/node",
    ".linuxbrew/bin/node",
    ".pyenv/shims/python3",
];

/// Settings and data beside those programs, in the home.
const SETTINGS: [&str; 6] = [
    ".nvm/versions/node/v20/etc/npmrc",
    ".nvm/versions/node/v20/lib/node_modules/npm/npmrc",
    ".linuxbrew/etc/redis.conf",
    ".linuxbrew/var/mysql/users.ibd",
    ".pyenv/versions/3.12/pip.conf",
    ".pyenv/pip.conf",
];

/// Module of another project, whose environment the repository names as its own.
const OTHER_MODULE: &str = "lib/python3.12/site-packages/private.py";

/// Content that no attempt may reveal.
const SECRET: &str = "not for tests";

impl SandboxScene {
    fn new() -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        let base = folder.path().canonicalize()?;
        let [repository, outside, home, builds] =
            ["repository", "outside", "home", "builds"].map(|name| base.join(name));
        let folders = [
            repository.join("sub"),
            repository.join(".git"),
            builds.join("own"),
            builds.join("other"),
        ];
        for place in folders.iter().chain([&outside, &home]) {
            fs::create_dir_all(place)?;
        }
        for (cache, part) in CACHES {
            fs::create_dir_all(home.join(cache).join(part))?;
            fs::write(home.join(cache).join(part).join("package"), "kept\n")?;
        }
        let write = |place: PathBuf, text: &str| {
            place.parent().map_or(Ok(()), fs::create_dir_all)?;
            fs::write(place, text)
        };
        for place in CREDENTIALS.iter().chain(&SETTINGS).chain(&MANAGERS) {
            write(home.join(place), SECRET)?;
        }
        let project = base.join("project");
        write(project.join(OTHER_MODULE), SECRET)?;
        write(project.join("bin/python3"), "")?;
        write(project.join("pyvenv.cfg"), "home = /usr/bin\n")?;
        let named = format!("home = {}\n", project.join("bin").display());
        write(repository.join(".venv/pyvenv.cfg"), &named)?;
        fs::write(builds.join("other/left"), SECRET)?;
        for (name, text) in KEPT {
            fs::write(repository.join(name), text)?;
        }
        fs::write(repository.join(".git/HEAD"), SECRET)?;
        fs::hard_link(repository.join(".env"), repository.join("other-name.txt"))?;
        fs::write(outside.join("token"), SECRET)?;
        let number = uuid::Uuid::new_v4();
        let abstract_name = format!("tool-probe-{number}");
        let sockets = vec![
            UnixListener::bind(outside.join("socket"))?,
            UnixListener::bind(outside.join("backend.sock"))?,
            UnixListener::bind(repository.join("server.sock"))?,
            UnixListener::bind_addr(&SocketAddr::from_abstract_name(&abstract_name)?)?,
        ];
        let tcp = TcpListener::bind("127.0.0.1:0")?;
        let udp = UdpSocket::bind("127.0.0.1:0")?;
        let tcp6 = TcpListener::bind(("::1", tcp.local_addr()?.port())).ok();
        for listener in std::iter::once(&tcp).chain(&tcp6) {
            listener.set_nonblocking(true)?;
        }
        udp.set_nonblocking(true)?;
        for socket in &sockets {
            socket.set_nonblocking(true)?;
        }
        let messages = UnixDatagram::bind(outside.join("messages"))?;
        messages.set_nonblocking(true)?;
        Ok(Self {
            _folder: folder,
            repository,
            outside,
            home,
            project,
            builds,
            abstract_name,
            tcp,
            tcp6,
            udp,
            sockets,
            messages,
            // With key 0 (`IPC_PRIVATE`) each process would get its own memory.
            key: (number.as_fields().0 >> 1 | 1).cast_signed(),
            mark: format!("left by {number}"),
        })
    }

    /// Makes the attempt and returns whether the sandbox held, and why.
    fn play(
        &self,
        attempt: &SandboxAttempt,
        sandbox: Sandbox,
        python: &Path,
        cancel: &CancellationToken,
    ) -> io::Result<ProbeOutcome> {
        let expected = match sandbox {
            Sandbox::Landlock => attempt.landlock,
            _ => attempt.namespaces,
        };
        let (before, beside) = (list_tree(&self.repository)?, list_tree(&self.outside)?);
        let (at_home, others) = (list_tree(&self.home)?, list_tree(&self.builds.join("other"))?);
        let run = self.run(attempt, sandbox, expected, python, cancel);
        let left = self.end_what_is_left();
        let has_shared = self.clear_shared_memory();
        let run = run?;
        let said = run.output.lines().last().unwrap_or_default().to_owned();
        if before != list_tree(&self.repository)? {
            return Ok(ProbeOutcome::GotOut(format!("the real tree has changed ({said})")));
        }
        if beside != list_tree(&self.outside)? {
            return Ok(ProbeOutcome::GotOut(format!("a file outside has changed ({said})")));
        }
        if at_home != list_tree(&self.home)? {
            return Ok(ProbeOutcome::GotOut(format!(
                "something in the home directory has changed ({said})"
            )));
        }
        if others != list_tree(&self.builds.join("other"))? {
            return Ok(ProbeOutcome::GotOut(format!(
                "the build output of another repository has changed ({said})"
            )));
        }
        if has_shared {
            return Ok(ProbeOutcome::GotOut(format!(
                "it shared memory with the machine ({said})"
            )));
        }
        Ok(self.judge(expected, &run, &said, left))
    }

    fn run(
        &self,
        attempt: &SandboxAttempt,
        sandbox: Sandbox,
        expected: ExpectedEscape,
        python: &Path,
        cancel: &CancellationToken,
    ) -> io::Result<RunOutput> {
        let known = serde_json::json!({
            "sandbox": sandbox,
            "repository": self.repository,
            "outside": self.outside,
            "home": self.home,
            "builds": self.builds,
            "credentials": CREDENTIALS,
            "settings": SETTINGS,
            "module": self.project.join(OTHER_MODULE),
            "abstract": self.abstract_name,
            "tcp": self.tcp.local_addr()?.port(),
            "udp": self.udp.local_addr()?.port(),
            "process": std::process::id(),
            "mark": self.mark,
            "key": self.key,
            "tree_mib": BOUNDS.tree_bytes >> 20,
            "scratch_mib": BOUNDS.scratch_bytes >> 20,
            "memory_mib": BOUNDS.memory_bytes >> 20,
            "inodes": BOUNDS.tree_inodes,
            "tasks": BOUNDS.tasks,
        });
        let programs = MANAGERS
            .iter()
            .filter_map(|program| Some(self.home.join(program).parent()?.to_owned()));
        let path = ["/usr/bin", "/bin"].map(PathBuf::from).into_iter().chain(programs);
        let path = std::env::join_paths(path).map_err(io::Error::other)?;
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let variables = [
            ("PROBE", known.to_string()),
            ("HOME", text(&self.home)),
            ("PATH", path.to_string_lossy().into_owned()),
            ("VIRTUAL_ENV", text(&self.repository.join(".venv"))),
        ];
        let command = CommandSpec {
            program: python.to_owned(),
            arguments: ["-I", "-c", SCRIPT, attempt.name].map(str::to_owned).to_vec(),
            directory: self.repository.clone(),
            environment: variables.map(|(name, value)| (name.to_owned(), value)).into(),
        };
        let seconds = if expected == ExpectedEscape::TimedOut {
            1
        } else {
            limits::CONTAIN_PROBE_SECONDS_MAX
        };
        let limits = RunLimits::within(Duration::from_secs(seconds));
        let enclosure = Enclosure {
            sandbox,
            root: self.repository.clone(),
            hidden: [".env", ".git", "other-name.txt", "server.sock"]
                .map(Into::into)
                .to_vec(),
            tracked_links: Vec::new(),
            state_directory: Some(self.outside.clone()),
            bounds: BOUNDS,
            installation: None,
            tools: self.tools(),
        };
        run_contained(&command, &enclosure, &limits, cancel, &|_| {}).map_err(io::Error::other)
    }

    /// The folders that a recipe gives to a run: package caches of the home, and the build output of the repository.
    fn tools(&self) -> ToolAccess {
        let layers = CACHES.map(|(cache, part)| LayeredFolder {
            place: self.home.join(cache),
            parts: vec![part.into()],
        });
        ToolAccess {
            layers: layers.to_vec(),
            builds: vec![BuildFolder {
                place: self.repository.join("built"),
                source: Some(self.builds.join("own")),
                writes: BuildWrites::Kept,
            }],
            ..ToolAccess::default()
        }
    }

    fn judge(&self, expected: ExpectedEscape, run: &RunOutput, said: &str, left: usize) -> ProbeOutcome {
        let got_out = |how: &str| ProbeOutcome::GotOut(how.to_owned());
        if run.output.contains(SECRET) {
            return got_out("a secret was read");
        }
        if self.was_reached() {
            return got_out("a process outside was reached");
        }
        if left > 0 {
            return got_out("a process was left, and has been ended now");
        }
        let is_one_of = |errors: &[&str]| errors.iter().any(|error| said == format!("refused: {error}"));
        let is_held = match expected {
            ExpectedEscape::Refused(errors) => run.end == RunEnd::Exited(0) && is_one_of(errors),
            ExpectedEscape::Nothing => run.end == RunEnd::Exited(0),
            ExpectedEscape::Bounded(errors) => {
                let is_ended = matches!(
                    run.end,
                    RunEnd::TaskLimit | RunEnd::MemoryLimit | RunEnd::StorageLimit { .. }
                );
                is_ended || is_one_of(errors)
            }
            ExpectedEscape::TimedOut => run.end == RunEnd::TimedOut,
        };
        let detail = match run.end {
            RunEnd::Exited(0) => said.to_owned(),
            end => format!("{end:?} {said}").trim_end().to_owned(),
        };
        match is_held {
            true => ProbeOutcome::Held(detail),
            false if said.starts_with("did: ") => ProbeOutcome::GotOut(detail),
            false => ProbeOutcome::Odd(detail),
        }
    }

    fn was_reached(&self) -> bool {
        let tcp = std::iter::once(&self.tcp).chain(&self.tcp6);
        tcp.into_iter().any(|listener| listener.accept().is_ok())
            || self.udp.recv(&mut [0; 16]).is_ok()
            || self.messages.recv(&mut [0; 16]).is_ok()
            || self.sockets.iter().any(|socket| socket.accept().is_ok())
    }

    /// Removes shared memory that was left. True if there was some.
    fn clear_shared_memory(&self) -> bool {
        let all = fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default();
        let numbers = all.lines().filter_map(|line| {
            let mut fields = line.split_ascii_whitespace();
            Some((fields.next()?.parse::<i32>().ok()?, fields.next()?.parse::<i32>().ok()?))
        });
        let Some((_, id)) = numbers.into_iter().find(|(key, _)| *key == self.key) else {
            return false;
        };
        #[expect(unsafe_code, reason = "no safe function for it")]
        // SAFETY: removing takes no structure. An error means that it is gone.
        unsafe {
            libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut());
        }
        true
    }

    /// Ends every process of this scene that is left, and returns their number.
    fn end_what_is_left(&self) -> usize {
        let all = fs::read_dir("/proc").into_iter().flatten().flatten();
        let ended = all.filter_map(|entry| {
            let pid = Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)?;
            // The handle is opened before the check: the number may be reused by another process, the handle stays with
            // this one.
            let handle = rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()?;
            let is_ours = ["cmdline", "environ"].iter().any(|name| {
                let text = fs::read(entry.path().join(name)).unwrap_or_default();
                String::from_utf8_lossy(&text).contains(&self.mark)
            });
            (is_ours && rustix::process::pidfd_send_signal(&handle, Signal::KILL).is_ok()).then_some(())
        });
        ended.count()
    }
}

/// Kind and mode, inode, times of content and of metadata, and content of an entry.
type EntryState = (u32, u64, i64, i64, Vec<u8>);

/// Every entry of a tree.
fn list_tree(root: &Path) -> io::Result<BTreeMap<PathBuf, EntryState>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            let content = if metadata.is_file() {
                fs::read(entry.path())?
            } else {
                Vec::new()
            };
            if metadata.is_dir() {
                folders.push(entry.path());
            }
            let (mode, inode) = (metadata.mode(), metadata.ino());
            found.insert(
                entry.path(),
                (mode, inode, metadata.mtime_nsec(), metadata.ctime_nsec(), content),
            );
        }
    }
    Ok(found)
}
