//! The defences of the sandbox by name, so that a test can switch one off and see what it stopped succeed.
//!
//! An enforcement point asks [`on`], which is `true` as a constant in every build but one with the feature
//! `counterproof`: a test binary of this crate, whose attacks run in processes of their own. `tool` is never built
//! with it, and without debug assertions it does not compile. What a defence stops is told by the tables of attacks
//! (`skill::attacks`, `process::contain::probes`), not here.

#[cfg(all(feature = "counterproof", not(debug_assertions)))]
compile_error!("the feature `counterproof` switches defences off: it is for tests and in no build without assertions");

use serde::{Deserialize, Serialize};

/// In every binary with the feature, and in no other: by it a test knows that `tool` has none of this.
pub const MARKER: &str = "this binary can switch off the defences of its sandbox";

macro_rules! defences {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What stands between an attack and its success. One variant is one thing that could be forgotten.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum Defence {
            $($(#[$doc])* $name,)*
        }

        impl Defence {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)*];
        }
    };
}

defences! {
    // ---- names and opening ----

    /// Names in the table of hidden files.
    HiddenNames,
    /// Letters of another case are the same name.
    CaseFolding,
    /// Another name (hard link) of a hidden file is hidden.
    HiddenIdentity,
    /// Files that are secret by their first bytes.
    HiddenContent,
    /// Symbolic links that leave the repository are not followed.
    LinksOutside,
    /// `..` and absolute paths are no paths of the repository.
    PathsOutside,
    /// What was opened is judged, not what was asked for.
    JudgeOpened,
    /// Opening never waits for the other end.
    NonBlocking,
    /// Only regular files and directories are opened.
    RegularOnly,
    /// A file with a slash behind it is no directory.
    TrailingSlash,
    /// A list shows no hidden entry.
    HiddenInLists,

    // ---- proposals ----

    /// The repository is read-only for a skill.
    ReadOnlyRepository,
    /// A guest makes no links in its stage.
    StageLinks,
    /// No path of the stage leads out of it.
    StagePaths,
    /// Names that no proposal may touch.
    ProtectedNames,
    /// Files that the session has not read are not overwritten.
    UnreadFiles,
    /// A call that did not end well changes nothing.
    FailedCalls,
    /// Effects that are not granted.
    Grants,

    // ---- bounds of a call ----

    /// Its deadline while it computes.
    Deadline,
    /// Its deadline while it waits in a host call.
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
    /// The files that it stages.
    StagedEntries,
    /// The files that it proposes to delete.
    Deletions,
    /// The calls that run at the same time, and those that wait.
    Concurrency,

    // ---- what a guest has none of ----

    /// The network.
    Sockets,
    /// The environment and the arguments of the host.
    Environment,
    /// A fine clock.
    Clock,
    /// Control characters in what it says.
    Cleaning,
}

/// Whether a defence is to be used.
#[cfg(not(feature = "counterproof"))]
#[inline(always)]
pub(crate) const fn on(_: Defence) -> bool {
    true
}

#[cfg(feature = "counterproof")]
pub(crate) use switches::on;
#[cfg(feature = "counterproof")]
pub use switches::{off, switch_off};

#[cfg(feature = "counterproof")]
mod switches {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::Defence;

    #[used]
    static MARK: &str = super::MARKER;

    static OFF: [AtomicBool; Defence::ALL.len()] = [const { AtomicBool::new(false) }; Defence::ALL.len()];

    pub(crate) fn on(defence: Defence) -> bool {
        !OFF[defence as usize].load(Ordering::Relaxed)
    }

    /// Switches these off for the rest of this process, and for the helpers that it starts.
    pub fn switch_off(defences: &[Defence]) {
        for &defence in defences {
            OFF[defence as usize].store(true, Ordering::Relaxed);
        }
    }

    /// Those that are off, for a helper to be told.
    pub fn off() -> Vec<Defence> {
        Defence::ALL.iter().copied().filter(|&defence| !on(defence)).collect()
    }
}
