//! The defences of the sandbox by name, at the points that enforce them.

macro_rules! defences {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What stands between an attack and its success. One variant is one thing that could be forgotten.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Defence {
            $($(#[$doc])* $name,)*
        }
    };
}

defences! {
    // ---- names and opening ----

    /// Names in the table of hidden files.
    HiddenNames,
    /// Letters of another case, and characters that some file systems ignore, make no other name.
    CaseFolding,
    /// Another name (hard link) of a hidden file is hidden.
    HiddenIdentity,
    /// So is one of a hidden file in a directory that no list goes into.
    LeftOutIdentity,
    /// Files that are secret by their first bytes.
    HiddenContent,
    /// Directories of the shape of a git directory.
    GitShape,
    /// The state directory of this program, wherever it lies.
    StateDirectory,
    /// What a symbolic link leads to is judged by its real name.
    RealNames,
    /// Symbolic links that leave the repository are not followed.
    LinksOutside,
    /// A path that is opened leads through no link that was not looked at.
    LinksAtOpening,
    /// `..` and absolute paths of a guest.
    GuardPaths,
    /// `..` and absolute paths, wherever a path of the repository is used.
    RepositoryPaths,
    /// The kernel's word that a path stays beneath the root.
    BeneathRoot,
    /// Opening never waits for the other end.
    NonBlocking,
    /// Only regular files and directories are opened.
    RegularOnly,
    /// A file with a slash behind it is no directory.
    TrailingSlash,
    /// A list shows no hidden entry.
    HiddenInLists,

    // ---- proposals ----

    /// Names that no proposal may touch.
    ProtectedNames,
    /// No proposal makes a directory into a git directory.
    ProposedGitShape,
    /// Names of a proposal have no control characters.
    VisibleNames,
    /// Files that the session has not read as they are, are not overwritten.
    UnreadFiles,
    /// A skill of somebody else has shown a file only where its answer holds it.
    ShownContent,
    /// A call that did not end well changes nothing.
    FailedCalls,
    /// What is not granted is refused to the guest.
    Grants,
    /// What is not granted is not committed.
    GrantsAtCommit,

    // ---- bounds of a call ----

    /// Its deadline while it computes.
    Deadline,
    /// Its deadline at every host call.
    DeadlineInHostCalls,
    /// Its deadline while it waits in one.
    DeadlineOfWaits,
    /// Its linear memory.
    Memory,
    /// The elements of its tables.
    Tables,
    /// Its instances, memories and tables.
    Instances,
    /// Its answer.
    Output,
    /// What one host call or answer copies.
    HostCallBytes,
    /// Its messages in our log.
    Log,
    /// Its random bytes.
    Random,
    /// Its live handles.
    Handles,
    /// Its open files.
    OpenFiles,
    /// What it reads.
    ReadBytes,
    /// The directory entries that it walks.
    Entries,
    /// The bytes that it stages.
    StagedBytes,
    /// The files and directories that it stages.
    StagedEntries,
    /// The files that it proposes to delete.
    Deletions,
    /// The calls that run at the same time, and those that wait.
    Concurrency,
    /// The parts that a schema stands for.
    SchemaParts,
    /// The length of a cursor.
    Cursor,

    // ---- what a guest has none of ----

    /// Sockets.
    Sockets,
    /// What a socket may do, where there was one.
    SocketRights,
    /// The environment of the session's starter.
    Environment,
    /// A fine clock.
    Clock,
    /// Control characters in what it says.
    Cleaning,

    // ---- around a run ----

    /// A root file system of its own.
    OwnRoot,
    /// A `/proc` that shows its own processes.
    OwnProc,
    /// A namespace of processes.
    OwnProcesses,
    /// A network of its own.
    OwnNetwork,
    /// No terminal.
    OwnSession,
    /// An empty home.
    OwnHome,
    /// The real tree lies under a file system that takes what is written.
    CoveredTree,
    /// Hidden entries of the tree are not there.
    HiddenEntries,
    /// What the file systems of a run take.
    BoundedDisks,
    /// The system's directories are for reading.
    ReadOnlySystem,
    /// So is the root.
    ReadOnlyRoot,
    /// So is what of `/proc` changes the machine.
    ReadOnlyProc,
    /// Devices take what is written to them, and no other mode or owner.
    ReadOnlyDevices,
    /// No handle of the helper's, not even as standard input.
    NoInput,
    /// Nothing of the starter's environment.
    ClearedEnvironment,
    /// The first process cannot be looked into.
    NotDumpable,
    /// No capability.
    Capabilities,
    /// Landlock's rules.
    Landlock,
    /// The filter of system calls.
    SystemCalls,
    /// The filter of the newer `clone`, whose flags no filter sees.
    NewerClone,
    /// The filter of files in memory that have no place.
    NamelessFiles,
    /// The filter of socket families.
    SocketFamilies,
    /// Modes and times are changed of files of the run alone.
    Metadata,
    /// Counting processes and memory.
    Counting,
    /// The kernel's bound on processes.
    TaskLimit,
    /// Its bound on addresses.
    AddressLimit,
    /// Its bound on core dumps.
    CoreLimit,
    /// Looking for what a run has left behind.
    Strays,
    /// The process that counts what a run uses cannot be stopped by it.
    Keeper,

    // ---- around an installation ----

    /// The list of places that it may reach.
    ProxyPlaces,
    /// The name of a registry leads to no address of this machine or its network.
    PublicAddresses,
    /// What is neither a file, a folder nor a link is not put in place.
    PackageKinds,
    /// What is hidden from it is neither replaced nor removed.
    HiddenPackages,
    /// No program is put in place that gives its owner's rights away.
    PackageRights,

    // ---- redaction and taint ----

    /// What looks like a key leaves as a placeholder.
    Redaction,
    /// A placeholder becomes the key again only in the file that held it.
    KeysOfTheFile,
    /// After words of others an effect that reaches further needs a fresh yes.
    Taint,
    /// What a repository forbids by its `.tool.toml`.
    RootFile,

    // ---- the server ----

    /// The Host header is one of our names.
    Hosts,
    /// A page's origin is ours or listed.
    Origins,
    /// So is the site that a browser names where it names no origin.
    Sites,
    /// Who asks has the token or is the same user.
    Callers,
    /// The same user by the kernel's table of sockets.
    SocketOwners,
    /// A home is the user's own.
    HomeOwner,

    // ---- around a helper ----

    /// Landlock's rules of a helper that parses hostile input.
    HelperLandlock,
    /// The list of system calls that it may use.
    HelperSystemCalls,
    /// Nothing of its starter's environment.
    HelperEnvironment,
    /// No handle of its starter's.
    HelperHandles,
    /// Its memory.
    HelperMemory,
}

/// Whether a defence is to be used.
#[inline(always)]
pub const fn on(_: Defence) -> bool {
    true
}

/// A bound, or none to speak of where its defence is not used.
pub fn bound<T: Bound>(defence: Defence, value: T) -> T {
    if on(defence) { value } else { T::UNBOUNDED }
}

/// What a bound is counted in.
pub trait Bound {
    /// The value that never limits.
    const UNBOUNDED: Self;
}

impl Bound for u64 {
    const UNBOUNDED: Self = Self::MAX / 2;
}

impl Bound for usize {
    const UNBOUNDED: Self = Self::MAX / 2;
}
