//! The operating system's sandbox around a run: Linux namespaces, seccomp and Landlock, set up by a helper mode of the
//! same binary.
//!
//! The engine starts `/proc/self/exe __contain` and sends on a socket what to run. The outer helper enters new
//! namespaces and starts the inner one as the first process of the new process namespace. The inner one builds a root
//! file system, gives up every right and starts the program; when it ends, the kernel ends everything inside. Where
//! namespaces are refused, a copy of the tree under Landlock and seccomp takes their place. Which programs may run is
//! decided elsewhere. A program that embeds this library without offering the helper mode has no sandbox, and
//! [`detect_sandbox`] says so.

#[cfg(target_os = "linux")]
pub mod calls;
#[cfg(target_os = "linux")]
mod copy;
#[cfg(target_os = "linux")]
mod etc_files;
#[cfg(target_os = "linux")]
mod filter;
mod handover;
#[cfg(target_os = "linux")]
mod init;
#[cfg(target_os = "linux")]
mod members;
#[cfg(target_os = "linux")]
mod memory;
#[cfg(target_os = "linux")]
mod namespaces;
#[cfg(target_os = "linux")]
mod outer;
#[cfg(target_os = "linux")]
mod restrictions;
#[cfg(target_os = "linux")]
mod root;
#[cfg(target_os = "linux")]
mod self_test;
mod spec;
#[cfg(target_os = "linux")]
mod tree;
mod visible_paths;

use std::ffi::OsString;
use std::fmt;
use std::io::{self, Write};
use std::net::{Shutdown, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};

use super::CommandSpec;
use super::proxy::ProxyRoute;
use crate::limits;
use crate::scratch;
use handover::SocketInbox;
#[cfg(target_os = "linux")]
pub(super) use restrictions::give_up_capabilities;
pub(super) use spec::HelperMessage;

/// Memory of all processes of a run together. A machine with less than a third more than this allows three quarters of
/// its memory.
const CONTAIN_MEMORY_BYTES_MAX: u64 = 16 * 1024 * 1024 * 1024;

/// Build output in memory: as much as the build cache may have on the disk.
const CONTAIN_BUILD_BYTES_MAX: u64 = 10 * 1024 * 1024 * 1024;

/// Files of build output in memory: those of ten large projects. The kernel takes a kibibyte for each.
const CONTAIN_BUILD_INODES_MAX: u64 = 1024 * 1024;

/// True for a path in a directory of the system, which every run sees.
pub fn shows_to_runs(place: &Path) -> bool {
    visible_paths::is_system(place)
}

/// Hidden command that starts this binary as the sandbox's helper.
pub const HELPER_COMMAND: &str = "__contain";

/// Argument of the hidden command for a run that does nothing, to try whether a sandbox works.
#[cfg(target_os = "linux")]
const NOTHING: &str = "--nothing";

/// Kind of sandbox around a run, from the weakest to the strongest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sandbox {
    /// No sandbox: the program has the user's rights.
    None,
    /// A copy of the tree under Landlock and seccomp, without any network.
    Landlock,
    /// Namespaces with a root file system of their own, Landlock and seccomp.
    Namespaces,
}

impl Sandbox {
    /// Name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Landlock => "landlock",
            Self::Namespaces => "namespaces",
        }
    }
}

impl fmt::Display for Sandbox {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// Best sandbox of this machine, and why no stronger one works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AvailableSandbox {
    /// The strongest sandbox that works.
    pub sandbox: Sandbox,
    /// Reasons why the stronger ones fail.
    pub refused: Vec<String>,
}

static OFFERED: AtomicBool = AtomicBool::new(false);

/// Declares that this process's binary runs [`run_helper`] for [`HELPER_COMMAND`], and `skill::run_helper` for
/// [`super::helper_process::HELPER_COMMAND`]. Without this call there is no sandbox.
pub fn offer_helper() {
    OFFERED.store(true, Ordering::Relaxed);
}

/// True after [`offer_helper`].
pub(super) fn helper_offered() -> bool {
    OFFERED.load(Ordering::Relaxed)
}

/// Returns the best sandbox here: tried once with a program that does nothing, then cached.
pub fn detect_sandbox() -> &'static AvailableSandbox {
    static AVAILABLE: OnceLock<AvailableSandbox> = OnceLock::new();
    static UNOFFERED: OnceLock<AvailableSandbox> = OnceLock::new();
    if !OFFERED.load(Ordering::Relaxed) {
        return UNOFFERED.get_or_init(|| AvailableSandbox {
            sandbox: Sandbox::None,
            refused: vec!["this program does not offer the helper".to_owned()],
        });
    }
    AVAILABLE.get_or_init(find_available)
}

#[cfg(target_os = "linux")]
fn find_available() -> AvailableSandbox {
    let mut refused = Vec::new();
    for sandbox in [Sandbox::Namespaces, Sandbox::Landlock] {
        // The result is cached until the program ends, so a machine that was only too busy is tried again.
        match self_test::try_sandbox(sandbox).or_else(|_| self_test::try_sandbox(sandbox)) {
            Ok(()) => return AvailableSandbox { sandbox, refused },
            Err(reason) => refused.push(format!("{sandbox}: {reason}")),
        }
    }
    AvailableSandbox {
        sandbox: Sandbox::None,
        refused,
    }
}

#[cfg(not(target_os = "linux"))]
fn find_available() -> AvailableSandbox {
    AvailableSandbox {
        sandbox: Sandbox::None,
        refused: vec!["only Linux has one".to_owned()],
    }
}

/// Returns the kernel's name and release, for reports on what it allows.
pub fn describe_kernel() -> String {
    let system = rustix::system::uname();
    format!(
        "{} {}",
        system.sysname().to_string_lossy(),
        system.release().to_string_lossy()
    )
}

/// Sandbox and limits of a run.
#[derive(Debug, Clone)]
pub struct Enclosure {
    /// Kind of sandbox; not [`Sandbox::None`].
    pub sandbox: Sandbox,
    /// Real path of the repository. The run sees a private view of it at the same path.
    pub root: PathBuf,
    /// Entries of the repository that the run does not see, relative to the root.
    pub hidden: Vec<OsString>,
    /// Links of the repository that git tracks, relative to the root. A virtual environment behind one of them is the
    /// repository's choice and not the user's. An empty entry stands for every link.
    pub tracked_links: Vec<String>,
    /// This program's state directory, which is never made visible.
    pub state_directory: Option<PathBuf>,
    /// Resource limits of the run.
    pub bounds: RunBounds,
    /// Set for an installation, which requires [`Sandbox::Namespaces`].
    pub installation: Option<Installation>,
    /// Paths of the machine that the run's tools need.
    pub tools: ToolAccess,
}

/// Paths of the machine that the tools of a run need, and the commands before they start. The engine chooses them; a
/// repository cannot.
#[derive(Debug, Clone, Default)]
pub struct ToolAccess {
    /// Names of programs on the `PATH` that the run may start.
    pub programs: Vec<String>,
    /// Folders and files that it may read.
    pub shown: Vec<PathBuf>,
    /// Folders that it may read, with a private layer that takes its writes.
    pub layers: Vec<LayeredFolder>,
    /// Files that are written for the run, in its private home or beside the parts of a layered folder.
    pub files: Vec<WrittenFile>,
    /// Folders of build output.
    pub builds: Vec<BuildFolder>,
    /// Files, relative to the repository, that get the present time, so that build tools see them as changed.
    pub refreshed: Vec<String>,
    /// Files of the repository that the run sees with other content, or not at all.
    pub proposed: Vec<ProposedFile>,
    /// Commands that must succeed before the program starts.
    pub before: Vec<Invocation>,
    /// True: the repository is handed back as the run has left it.
    pub hands_back: bool,
}

/// Parts of a folder, such as a package cache, each with a private layer that takes what the run writes. The run does
/// not see other parts of the folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayeredFolder {
    /// The folder.
    pub place: PathBuf,
    /// Its parts, relative to the folder; an empty path means all of it.
    pub parts: Vec<PathBuf>,
}

/// A file that is written for the run. It hides the user's file at the same path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WrittenFile {
    /// Path of the file in the run.
    pub place: PathBuf,
    /// Its content.
    pub text: String,
}

/// A folder of build output and its path in the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BuildFolder {
    /// Place in the run.
    pub place: PathBuf,
    /// Folder of the machine that the run finds there, outside of every repository; absent for an empty one.
    pub source: Option<PathBuf>,
    /// What happens to the files that the run writes there.
    pub writes: BuildWrites,
}

/// Name of the folder in a [layer](BuildWrites::Layer) that holds its files, as overlayfs calls it.
pub const LAYER_FILES: &str = "upper";

/// What happens to the build output of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BuildWrites {
    /// It is written to the folder of the machine.
    Kept,
    /// It is written to this folder, a layer above the folder of the machine. If the system has no overlays, it is
    /// dropped.
    Layer(PathBuf),
    /// It is written to a layer in memory that ends with the run.
    Dropped,
}

/// A file of the repository that the run sees with other content, or not at all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProposedFile {
    /// Path relative to the repository, normalised.
    pub path: String,
    /// File that holds the content and the mode; absent if the run sees no such file.
    pub content: Option<PathBuf>,
}

/// A program with its arguments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Invocation {
    /// Path of the program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
}

/// Settings of an installation: it may reach the package registries, and the trees that it writes are handed back.
#[derive(Debug, Clone)]
pub struct Installation {
    /// Real path of the folder of packages if it is outside of the repository.
    pub outside: Option<PathBuf>,
    /// Files and folders of the user that the installer's configuration names.
    pub shown: Vec<PathBuf>,
    /// Destinations that it may reach.
    pub way: ProxyRoute,
}

/// Trees as a run has left them. No process writes to them any more.
#[derive(Debug)]
pub struct LeftTrees {
    /// The repository.
    pub repository: OwnedFd,
    /// The folder of packages if it is outside of the repository.
    pub outside: Option<OwnedFd>,
    /// Holds the copy of the fallback, which is removed when this is dropped.
    #[expect(dead_code, reason = "it is kept for what its end does")]
    folder: Option<scratch::ScratchFolder>,
}

/// Resource limits of a contained run. [`Default`] has the engine's limits; probes use smaller ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunBounds {
    /// Bytes that it may write into its repository.
    pub tree_bytes: u64,
    /// Files and directories that it may create there.
    pub tree_inodes: u64,
    /// Bytes of its home, its temporary files and its shared memory together.
    pub scratch_bytes: u64,
    /// Files and directories there.
    pub scratch_inodes: u64,
    /// Bytes of build output that is dropped with the run; at most half of the machine's memory.
    pub build_bytes: u64,
    /// Files and directories there.
    pub build_inodes: u64,
    /// Processes and threads.
    pub tasks: u64,
    /// Memory of all its processes together.
    pub memory_bytes: u64,
}

impl Default for RunBounds {
    fn default() -> Self {
        Self {
            tree_bytes: limits::CONTAIN_TREE_BYTES_MAX,
            tree_inodes: limits::CONTAIN_TREE_INODES_MAX,
            scratch_bytes: limits::CONTAIN_SCRATCH_BYTES_MAX,
            scratch_inodes: limits::CONTAIN_SCRATCH_INODES_MAX,
            build_bytes: CONTAIN_BUILD_BYTES_MAX,
            build_inodes: CONTAIN_BUILD_INODES_MAX,
            tasks: limits::CONTAIN_TASKS_MAX,
            memory_bytes: CONTAIN_MEMORY_BYTES_MAX,
        }
    }
}

/// The daemon's end of a contained run.
#[derive(Debug)]
pub(super) struct RunControl {
    socket: UnixStream,
    inbox: SocketInbox,
    /// True until the listener's handle has arrived.
    awaits_listener: bool,
    /// Working folder of a run in the fallback. It is removed with this value, so this must outlive the run.
    folder: Option<scratch::ScratchFolder>,
}

impl RunControl {
    /// Returns this end, and the end that becomes the helper's standard input. A thread writes the specification into
    /// it.
    pub(super) fn new(command: &CommandSpec, enclosure: &Enclosure) -> io::Result<(Self, UnixStream)> {
        let folder = match enclosure.sandbox {
            Sandbox::Landlock => Some(scratch::folder_for_programs(
                enclosure.state_directory.as_deref(),
                "tool-run-",
            )?),
            Sandbox::Namespaces | Sandbox::None => None,
        };
        let spec = visible_paths::build_spec(command, enclosure, folder.as_ref().map(scratch::ScratchFolder::path));
        let (own, helpers) = UnixStream::pair()?;
        let text = serde_json::to_vec(&spec).map_err(io::Error::other)?;
        // The text may exceed the socket's buffer, and nothing reads it before the helper runs: writing here would
        // deadlock.
        let mut writer = own.try_clone()?;
        std::thread::Builder::new().name("contain".to_owned()).spawn(move || {
            // An error means that the helper has ended, which its own message explains.
            let _ = spec::send_text(&mut writer, &text);
        })?;
        let control = Self {
            socket: own,
            inbox: SocketInbox::default(),
            awaits_listener: enclosure.installation.is_some(),
            folder,
        };
        Ok((control, helpers))
    }

    /// Asks the program to end.
    pub(super) fn terminate(&self) {
        // An error means that the helper is gone.
        let _ = (&self.socket).write_all(&[spec::TERMINATE]);
    }

    /// Ends everything at once: the helper takes the end of its input as the order to stop.
    pub(super) fn end(&self) {
        let _ = self.socket.shutdown(Shutdown::Write);
    }

    /// True if the kernel ends everything inside together with the helper. In the fallback the helper has to do it.
    pub(super) fn ends_by_itself(&self) -> bool {
        self.folder.is_none()
    }

    /// Gives up a run that was stopped. Its files are removed on a thread, because that may take seconds.
    pub(super) fn abandon(self) {
        // If no thread can start, the closure is dropped here and the files are removed here.
        let _ = std::thread::Builder::new()
            .name("abandon".to_owned())
            .spawn(move || drop(self));
    }

    /// Takes the listener of an installation's own network, once it has arrived.
    pub(super) fn listener(&mut self) -> io::Result<Option<TcpListener>> {
        if !self.awaits_listener {
            return Ok(None);
        }
        self.inbox.receive(&self.socket)?;
        let listener = self.inbox.handles.pop_front().map(TcpListener::from);
        self.awaits_listener = listener.is_none();
        Ok(listener)
    }

    /// Returns the ended helper's last message, and the trees that came with it.
    pub(super) fn said(mut self) -> io::Result<(HelperMessage, Option<LeftTrees>)> {
        self.inbox.receive(&self.socket)?;
        let message = spec::last_message(&self.inbox.bytes)?;
        // If the listener was never taken, its handle is still the first one.
        let mut handles = self.inbox.handles.into_iter().skip(usize::from(self.awaits_listener));
        let folder = self.folder.take();
        let left = handles.next().map(|repository| LeftTrees {
            repository,
            outside: handles.next(),
            folder,
        });
        Ok((message, left))
    }
}

/// Runs the helper, which reads its specification from standard input and never returns to the command line.
#[cfg(target_os = "linux")]
pub fn run_helper(inner: bool) -> std::process::ExitCode {
    if inner { init::main() } else { outer::main() }
}

/// There is no helper on this system.
#[cfg(not(target_os = "linux"))]
pub fn helper(_inner: bool) -> std::process::ExitCode {
    std::process::ExitCode::FAILURE
}

/// Program and argument that start the helper.
pub(super) fn helper_program() -> (&'static Path, &'static str) {
    (Path::new("/proc/self/exe"), HELPER_COMMAND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bounds_of_a_sandbox_are_those_of_limits() {
        let bounds = RunBounds::default();
        assert_eq!(bounds.tree_bytes, limits::CONTAIN_TREE_BYTES_MAX);
        assert_eq!(bounds.tree_inodes, limits::CONTAIN_TREE_INODES_MAX);
        assert_eq!(bounds.scratch_bytes, limits::CONTAIN_SCRATCH_BYTES_MAX);
        assert_eq!(bounds.scratch_inodes, limits::CONTAIN_SCRATCH_INODES_MAX);
        assert_eq!(bounds.tasks, limits::CONTAIN_TASKS_MAX);
        assert_eq!(bounds.memory_bytes, CONTAIN_MEMORY_BYTES_MAX);
    }
}
