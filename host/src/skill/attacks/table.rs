//! The attacks by name: what each asks of the guest, what must come of it, and which defences stop it.

use std::time::Duration;

use super::Expected::{Bounded, Busy, Crashed, Denied, Refused, TimedOut};
use super::{Ask, Attack, Play, Wants};
use crate::defence::Defence;
use crate::skill::Limits;

/// Kinds of errors as a guest sees them.
const DENIED: super::Expected = Refused("PermissionDenied");
const READ_ONLY: super::Expected = Refused("ReadOnlyFilesystem");
const NO_DIRECTORY: super::Expected = Refused("NotADirectory");

/// Why attacks that would write into the repository are not seen to succeed.
const NO_WRITER: &str = "nothing in the guard writes to the repository: there is nothing to switch off but the error";

const fn read(name: &'static str, tries: &'static str, asks: &'static [Ask]) -> Attack {
    Attack::calls(name, tries, asks).comes_to(DENIED)
}

const fn write(name: &'static str, tries: &'static str, asks: &'static [Ask]) -> Attack {
    Attack::calls(name, tries, asks).comes_to(READ_ONLY).unseen(NO_WRITER)
}

const fn propose(name: &'static str, tries: &'static str, asks: &'static [Ask]) -> Attack {
    Attack::calls(name, tries, asks).comes_to(Denied)
}

const fn last(name: &'static str, tries: &'static str, asks: &'static [Ask]) -> Attack {
    Attack::calls(name, tries, asks)
        .wants(Wants::Time)
        .comes_to(TimedOut)
        .within(hasty)
}

const fn flood(name: &'static str, tries: &'static str, asks: &'static [Ask], verdict: &'static str) -> Attack {
    Attack::calls(name, tries, asks).comes_to(Bounded(verdict))
}

fn hasty(limits: &mut Limits) {
    limits.wall = Duration::from_millis(300);
}

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

fn small_stage(limits: &mut Limits) {
    limits.staged_bytes = MIB;
    limits.staged_entries = 10;
}

/// How often a race is tried.
const SWAPS: u64 = 1500;

/// All of them.
pub const ATTACKS: &[Attack] = &[
    // ---- hidden names ----
    read(
        "read_hidden_file",
        "read a hidden file",
        &[Ask::at("read", "/repo/.env")],
    )
    .held_by(&[Defence::HiddenNames]),
    read(
        "read_hidden_copy",
        "read the copy of a hidden file",
        &[Ask::at("read", "/repo/id_rsa.bak")],
    )
    .held_by(&[Defence::HiddenNames]),
    read(
        "read_hidden_case",
        "read a hidden file whose name has another case",
        &[Ask::at("read", "/repo/src/.ENV")],
    )
    .held_by(&[Defence::CaseFolding]),
    read(
        "read_hidden_unicode",
        "read one whose name has characters that some file systems ignore",
        &[Ask::at("read", "/repo/src/.e\u{200c}nv")],
    )
    .held_by(&[Defence::CaseFolding]),
    read(
        "read_hidden_slash",
        "read a hidden file as if it were a directory",
        &[Ask::at("read", "/repo/.env/")],
    )
    .held_by(&[Defence::HiddenNames, Defence::TrailingSlash]),
    read(
        "read_hidden_by_link",
        "read a hidden file by a symbolic link",
        &[Ask::at("read", "/repo/to-hidden")],
    )
    .held_by(&[Defence::RealNames]),
    read(
        "read_hidden_hard_link",
        "read a hidden file by its other name",
        &[Ask::at("read", "/repo/hard")],
    )
    .held_by(&[Defence::HiddenIdentity]),
    read(
        "read_hidden_key",
        "read a private key that has an ordinary name",
        &[Ask::at("read", "/repo/notes.txt")],
    )
    .held_by(&[Defence::HiddenContent]),
    read(
        "read_git_directory",
        "read the git directory",
        &[Ask::at("read", "/repo/.git/config")],
    )
    .held_by(&[Defence::HiddenNames, Defence::GitShape]),
    read(
        "read_git_shape",
        "read a git directory that has another name",
        &[Ask::at("read", "/repo/store/config")],
    )
    .held_by(&[Defence::GitShape]),
    read(
        "read_state",
        "read the state directory of this program",
        &[Ask::at("read", "/repo/state/token")],
    )
    .held_by(&[Defence::StateDirectory]),
    read(
        "stat_hidden",
        "learn whether a hidden file exists",
        &[Ask::at("stat", "/repo/.env")],
    )
    .held_by(&[Defence::HiddenNames]),
    read(
        "stat_hidden_link",
        "learn it of the link alone",
        &[Ask::at("lstat", "/repo/.env")],
    )
    .held_by(&[Defence::HiddenNames]),
    read(
        "tell_hidden_link",
        "learn the name of a hidden file from a link",
        &[Ask::at("readlink", "/repo/to-hidden")],
    )
    .held_by(&[Defence::RealNames]),
    Attack::calls(
        "list_hidden",
        "find a hidden file in a listing",
        &[Ask::new("raw-list")],
    )
    .wants(Wants::Text(".env"))
    .held_by(&[Defence::HiddenInLists]),
    Attack::calls(
        "list_hidden_everywhere",
        "find a hidden file in the list of all files",
        &[Ask::at("list-all", "")],
    )
    .wants(Wants::Text(".env"))
    .held_by(&[Defence::HiddenInLists]),
    // ---- outside ----
    read(
        "read_above",
        "read a file outside by going up",
        &[Ask::at("raw-open", "../outside/secret")],
    )
    .held_by(&[Defence::GuardPaths, Defence::RepositoryPaths, Defence::BeneathRoot]),
    read(
        "read_above_deep",
        "read a file outside by going down and up",
        &[Ask::at("raw-open", "src/../../outside/secret")],
    )
    .held_by(&[Defence::GuardPaths, Defence::RepositoryPaths, Defence::BeneathRoot]),
    read(
        "read_absolute",
        "read a file outside by its whole path",
        &[Ask::at("raw-open", "{outside}/secret")],
    )
    .held_by(&[Defence::GuardPaths, Defence::RepositoryPaths, Defence::BeneathRoot]),
    read(
        "read_link_out",
        "read a file outside by a link",
        &[Ask::at("read", "/repo/out")],
    )
    .held_by(&[Defence::LinksOutside]),
    read(
        "read_link_out_slash",
        "read one by a link with a slash behind it",
        &[Ask::at("read", "/repo/out-directory/secret/")],
    )
    .held_by(&[Defence::LinksOutside, Defence::TrailingSlash]),
    read(
        "read_link_directory",
        "read a file outside by a link of its directory",
        &[Ask::at("read", "/repo/out-directory/secret")],
    )
    .held_by(&[Defence::LinksOutside]),
    read(
        "read_link_absolute",
        "read one by a link that holds a whole path",
        &[Ask::at("read", "/repo/absolute")],
    )
    .held_by(&[Defence::LinksOutside]),
    read(
        "read_link_of_link",
        "read one by a link to a link",
        &[Ask::at("read", "/repo/twice-out")],
    )
    .held_by(&[Defence::LinksOutside]),
    read(
        "list_link_out",
        "list a directory outside",
        &[Ask::at("list", "/repo/out-directory/")],
    )
    .held_by(&[Defence::LinksOutside]),
    read(
        "tell_link_out",
        "learn the host's paths from a link",
        &[Ask::at("readlink", "/repo/absolute")],
    )
    .held_by(&[Defence::LinksOutside]),
    read(
        "read_proc",
        "read the host's environment through `/proc`",
        &[Ask::at("read", "/repo/proc")],
    )
    .held_by(&[Defence::LinksOutside]),
    read(
        "read_proc_root",
        "read a file outside through `/proc`",
        &[Ask::at("read", "/repo/proc-outside/secret")],
    )
    .held_by(&[Defence::LinksOutside]),
    Attack::calls(
        "slash_after_file",
        "take a file for a directory",
        &[Ask::at("read", "/repo/README.md/")],
    )
    .comes_to(NO_DIRECTORY)
    .held_by(&[Defence::TrailingSlash]),
    // ---- swapped while it is opened ----
    Attack::new(
        "swap_file",
        "read a file that becomes a link to the outside while it is opened",
        Play::Swap(
            Ask::at("read-until", "/repo/race.txt").to("SECRET").times(SWAPS),
            "race.txt",
            "bait",
        ),
    )
    .held_by(&[Defence::LinksAtOpening, Defence::BeneathRoot]),
    Attack::new(
        "swap_directory",
        "read from a directory that becomes a link to the outside",
        Play::Swap(
            Ask::at("read-until", "/repo/race/secret").to("SECRET").times(SWAPS),
            "race",
            "bait-directory",
        ),
    )
    .held_by(&[Defence::LinksAtOpening, Defence::BeneathRoot]),
    Attack::new(
        "swap_hidden",
        "read a file that becomes a link to a hidden one",
        Play::Swap(
            Ask::at("read-until", "/repo/race.txt").to("SECRET").times(SWAPS),
            "race.txt",
            "bait-hidden",
        ),
    )
    .held_by(&[Defence::LinksAtOpening]),
    // ---- special files ----
    read(
        "open_fifo",
        "open a FIFO",
        &[Ask::at("open-files", "/repo/pipe").times(1)],
    )
    .held_by(&[Defence::RegularOnly]),
    read(
        "open_fifo_link",
        "open a FIFO by a link",
        &[Ask::at("open-files", "/repo/to-pipe").times(1)],
    )
    .held_by(&[Defence::RegularOnly]),
    Attack::calls(
        "wait_at_fifo",
        "wait at a FIFO for ever",
        &[Ask::at("read", "/repo/pipe")],
    )
    .wants(Wants::Time)
    .comes_to(DENIED)
    .within(hasty)
    .held_by(&[Defence::RegularOnly, Defence::NonBlocking]),
    read(
        "open_socket",
        "open a socket",
        &[Ask::at("open-files", "/repo/socket").times(1)],
    )
    .unseen("the kernel opens no socket as a file"),
    read("read_device", "read a device", &[Ask::at("read-some", "/repo/zero")])
        .held_by(&[Defence::LinksOutside, Defence::RegularOnly]),
    // ---- writing ----
    write(
        "write_repository",
        "write a file of the repository",
        &[Ask::at("write", "/repo/README.md")],
    ),
    write(
        "append_repository",
        "append to a file of the repository",
        &[Ask::at("append", "/repo/README.md")],
    ),
    write(
        "truncate_repository",
        "empty a file of the repository",
        &[Ask::at("truncate", "/repo/README.md")],
    ),
    write(
        "create_repository",
        "make a file in the repository",
        &[Ask::at("create", "/repo/new")],
    ),
    write(
        "remove_repository",
        "remove a file of the repository",
        &[Ask::at("remove", "/repo/README.md")],
    ),
    write(
        "rename_repository",
        "move a file out of the repository",
        &[Ask::at("rename", "/repo/README.md").to("/stage/new")],
    ),
    write(
        "link_repository",
        "give a file of the repository another name",
        &[Ask::at("hard-link", "/repo/README.md").to("/stage/new")],
    ),
    Attack::calls(
        "link_from_stage",
        "propose a link to the outside",
        &[Ask::at("symlink", "/etc/passwd").to("/stage/link")],
    )
    .comes_to(DENIED)
    .unseen("nothing in the stage makes links: there is nothing to switch off but the error"),
    Attack::calls(
        "leave_stage",
        "write beside the stage",
        &[Ask::at("raw-write", "../tool-attack-left-the-stage")],
    )
    .comes_to(DENIED)
    .held_by(&[Defence::GuardPaths]),
    // ---- proposals ----
    propose(
        "propose_protected",
        "change what continuous integration runs",
        &[Ask::at("write-deep", "/stage/.github/workflows/ci.yml")],
    )
    .held_by(&[Defence::ProtectedNames]),
    propose(
        "propose_hook",
        "leave a git hook",
        &[Ask::at("write-deep", "/stage/.git/hooks/pre-commit")],
    )
    .held_by(&[Defence::HiddenNames, Defence::ProtectedNames]),
    propose(
        "propose_hook_case",
        "leave one under a name of another case",
        &[Ask::at("write-deep", "/stage/.GIT/hooks/pre-commit")],
    )
    .held_by(&[Defence::CaseFolding]),
    propose(
        "propose_hidden",
        "make a hidden file",
        &[Ask::at("write", "/stage/.env.local")],
    )
    .held_by(&[Defence::HiddenNames, Defence::ProtectedNames]),
    propose(
        "propose_agent_file",
        "change what steers an agent",
        &[Ask::at("write", "/stage/AGENTS.md")],
    )
    .held_by(&[Defence::ProtectedNames]),
    propose(
        "propose_git_shape",
        "make a directory that git takes for its own",
        &[Ask::at("git-shape", "/stage/fresh")],
    )
    .held_by(&[Defence::ProposedGitShape]),
    propose(
        "propose_control_characters",
        "make a file whose name steers a terminal",
        &[Ask::at("write", "/stage/a\u{1b}[2Jb")],
    )
    .held_by(&[Defence::VisibleNames]),
    propose(
        "propose_through_link",
        "write a file outside by a link of the repository",
        &[Ask::at("write-deep", "/stage/out-directory/new")],
    )
    .held_by(&[Defence::LinksAtOpening, Defence::BeneathRoot]),
    propose(
        "overwrite_unread",
        "overwrite a file that nobody has read",
        &[Ask::at("write", "/stage/README.md")],
    )
    .held_by(&[Defence::UnreadFiles]),
    propose(
        "overwrite_changed",
        "overwrite a file that is not what was read",
        &[
            Ask::at("pretend-shown", "README.md"),
            Ask::at("write", "/stage/README.md"),
        ],
    )
    .held_by(&[Defence::UnreadFiles]),
    propose(
        "delete_unread",
        "delete a file that nobody has read",
        &[Ask::at("delete", "README.md")],
    )
    .held_by(&[Defence::UnreadFiles]),
    propose("delete_hidden", "delete a hidden file", &[Ask::at("delete", ".netrc")]).held_by(&[
        Defence::HiddenNames,
        Defence::ProtectedNames,
        Defence::UnreadFiles,
    ]),
    propose(
        "delete_outside",
        "delete a file outside",
        &[Ask::at("delete", "../outside/secret")],
    )
    .held_by(&[Defence::RepositoryPaths, Defence::BeneathRoot, Defence::UnreadFiles]),
    Attack::calls(
        "fail_after_write",
        "propose something by a call that fails",
        &[Ask::at("fail-after-write", "/stage/new")],
    )
    .held_by(&[Defence::FailedCalls]),
    Attack::calls(
        "crash_after_write",
        "propose something by a call that crashes",
        &[Ask::at("trap-after-write", "/stage/new")],
    )
    .comes_to(Crashed)
    .unseen("a crashed store gives nothing back: there is no code that could commit its stage"),
    propose(
        "write_ungranted",
        "write without the grant",
        &[Ask::at("write", "/stage/new")],
    )
    .without(&["write-repository"])
    .held_by(&[Defence::Grants, Defence::GrantsAtCommit]),
    propose(
        "delete_ungranted",
        "delete without the grant",
        &[Ask::at("delete", "README.md")],
    )
    .without(&["write-repository"])
    .held_by(&[Defence::Grants, Defence::GrantsAtCommit, Defence::UnreadFiles]),
    propose(
        "read_ungranted",
        "read without the grant",
        &[Ask::at("read", "/repo/README.md")],
    )
    .without(&["read-repository"])
    .held_by(&[Defence::Grants]),
    // ---- time ----
    last("spin", "compute for ever", &[Ask::new("spin")]).held_by(&[Defence::Deadline]),
    last(
        "spin_in_host_calls",
        "ask the host for ever",
        &[Ask::new("spin-in-host-calls")],
    )
    .held_by(&[Defence::Deadline, Defence::DeadlineInHostCalls]),
    last("sleep", "sleep for days", &[Ask::new("sleep")]).held_by(&[Defence::DeadlineOfWaits]),
    last(
        "sleep_for_ever",
        "wait for a time that never comes",
        &[Ask::new("sleep-for-ever")],
    )
    .held_by(&[Defence::DeadlineOfWaits]),
    last(
        "wait_in_stream",
        "wait in a stream for ever",
        &[Ask::new("wait-in-stream")],
    )
    .held_by(&[
        Defence::Deadline,
        Defence::DeadlineInHostCalls,
        Defence::DeadlineOfWaits,
    ]),
    Attack::new(
        "crowd",
        "call more often than there are turns",
        Play::Crowd(Ask::new("nap").times(500), 4),
    )
    .wants(Wants::Room)
    .comes_to(Busy)
    .within(|limits| {
        limits.calls_concurrent = 1;
        limits.calls_waiting = 1;
    })
    .held_by(&[Defence::Concurrency]),
    // ---- floods ----
    flood(
        "use_linear_memory",
        "use memory without end",
        &[Ask::new("memory").times(32)],
        "memory",
    )
    .within(|limits| limits.memory_bytes = 16 * MIB)
    .held_by(&[Defence::Memory]),
    flood("use_tables", "use tables without end", &[Ask::new("present")], "tables")
        .within(|limits| limits.table_elements = 1)
        .held_by(&[Defence::Tables]),
    flood(
        "use_instances",
        "use instances without end",
        &[Ask::new("present")],
        "instances",
    )
    .within(|limits| limits.instances = 1)
    .held_by(&[Defence::Instances]),
    flood(
        "use_handles",
        "hold handles without end",
        &[Ask::new("handles").times(200)],
        "handles",
    )
    .within(|limits| limits.handles = 100)
    .held_by(&[Defence::Handles]),
    flood(
        "use_files",
        "hold files open without end",
        &[Ask::at("open-files", "/repo/README.md").times(100)],
        "handles",
    )
    .held_by(&[Defence::OpenFiles]),
    flood(
        "use_random",
        "drain random numbers",
        &[Ask::new("random").times(16)],
        "random",
    )
    .within(|limits| limits.random_bytes = 8 * KIB)
    .held_by(&[Defence::Random]),
    flood(
        "flood_answer",
        "answer without end",
        &[Ask::new("output").times(64 * KIB)],
        "output",
    )
    .within(|limits| limits.output_bytes = 32 * 1024)
    .wants(Wants::Text("xxxxxxxx"))
    .held_by(&[Defence::Output]),
    flood(
        "flood_host_call",
        "make the host copy without end",
        &[Ask::new("output").times(512 * KIB)],
        "output",
    )
    .within(|limits| limits.host_call_bytes = 256 * 1024)
    .wants(Wants::Text("xxxxxxxx"))
    .held_by(&[Defence::HostCallBytes]),
    Attack::calls("flood_log", "fill the log", &[Ask::new("log").times(2_000)])
        .within(|limits| limits.log_bytes = 16 * 1024)
        .wants(Wants::Log(32 * KIB))
        .held_by(&[Defence::Log]),
    Attack::calls(
        "flood_stdout",
        "fill the log by printing",
        &[Ask::new("stdout").times(200)],
    )
    .within(|limits| limits.log_bytes = 16 * 1024)
    .wants(Wants::Log(32 * KIB))
    .held_by(&[Defence::Log]),
    flood(
        "read_without_end",
        "read without end",
        &[Ask::at("reread", "/repo/README.md").times(50)],
        "read",
    )
    .within(|limits| limits.read_bytes = 100)
    .held_by(&[Defence::ReadBytes]),
    flood(
        "walk_without_end",
        "list without end",
        &[Ask::at("walk", "/repo").times(20)],
        "entries",
    )
    .within(|limits| limits.entries = 100)
    .held_by(&[Defence::Entries]),
    flood(
        "stage_bytes",
        "propose without end",
        &[Ask::at("stage-bytes", "/stage/big").times(32)],
        "stage",
    )
    .within(small_stage)
    .held_by(&[Defence::StagedBytes]),
    flood(
        "stage_again",
        "write and remove without end",
        &[Ask::at("stage-again", "/stage/big").times(32)],
        "stage",
    )
    .within(|limits| limits.staged_bytes = MIB)
    .held_by(&[Defence::StagedBytes]),
    flood(
        "stage_hole",
        "propose a file that is one large hole",
        &[Ask::at("stage-hole", "/stage/big").times(2 * MIB)],
        "stage",
    )
    .within(small_stage)
    .held_by(&[Defence::StagedBytes]),
    flood(
        "stage_size",
        "give a proposed file a large size",
        &[Ask::at("stage-size", "/stage/big").times(2 * MIB)],
        "stage",
    )
    .within(small_stage)
    .held_by(&[Defence::StagedBytes]),
    flood(
        "stage_files",
        "propose files without end",
        &[Ask::at("stage-files", "/stage/file").times(20)],
        "stage",
    )
    .within(small_stage)
    .held_by(&[Defence::StagedEntries]),
    flood(
        "stage_directories",
        "make directories without end",
        &[Ask::at("stage-directories", "/stage/place").times(20)],
        "stage",
    )
    .within(small_stage)
    .held_by(&[Defence::StagedEntries]),
    flood(
        "many_deletions",
        "propose deletions without end",
        &[
            Ask::at("shown", "README.md"),
            Ask::at("many-deletions", "README.md").times(20),
        ],
        "stage",
    )
    .within(small_stage)
    .held_by(&[Defence::Deletions]),
    // ---- what a guest has none of ----
    read("make_tcp_socket", "get a socket", &[Ask::new("tcp-socket")])
        .held_by(&[Defence::Sockets, Defence::SocketRights]),
    read(
        "make_udp_socket",
        "get a socket for datagrams",
        &[Ask::new("udp-socket")],
    )
    .held_by(&[Defence::Sockets, Defence::SocketRights]),
    read("connect", "reach a server of this machine", &[Ask::new("connect")])
        .unseen("it gets no socket in the first place, which `make_tcp_socket` shows"),
    read("listen", "be a server", &[Ask::new("bind")])
        .unseen("it gets no socket in the first place, which `make_tcp_socket` shows"),
    Attack::calls("resolve", "ask for the address of a name", &[Ask::new("resolve")])
        .unseen("nothing in the host resolves names for a guest"),
    Attack::calls(
        "read_environment",
        "read the environment of the session",
        &[Ask::new("environment")],
    )
    .comes_to(Refused("none"))
    .held_by(&[Defence::Environment]),
    Attack::calls("read_arguments", "read the host's arguments", &[Ask::new("arguments")])
        .comes_to(Refused("none"))
        .unseen("nothing in the host hands them on"),
    Attack::calls("read_input", "read the host's input", &[Ask::new("stdin")])
        .comes_to(Refused("none"))
        .unseen("nothing in the host hands it on"),
    Attack::calls("start_process", "start a program", &[Ask::new("process")])
        .comes_to(Refused("Unsupported"))
        .unseen("WASI has no such call"),
    Attack::calls("start_thread", "start a thread", &[Ask::new("thread")])
        .comes_to(Refused("Unsupported"))
        .unseen("threads are not built in"),
    Attack::calls("fine_clock", "measure time finely", &[Ask::new("clock")])
        .comes_to(Refused("coarse"))
        .held_by(&[Defence::Clock]),
    Attack::calls(
        "steer_terminal",
        "steer the terminal by its answer",
        &[Ask::new("colours")],
    )
    .wants(Wants::Text("\u{1b}"))
    .held_by(&[Defence::Cleaning]),
    Attack::calls(
        "steer_terminal_by_failing",
        "steer it by a failure",
        &[Ask::new("odd-code")],
    )
    .wants(Wants::Text("\u{1b}"))
    .held_by(&[Defence::Cleaning]),
    Attack::calls(
        "steer_terminal_by_crashing",
        "steer it by its last words",
        &[Ask::new("panic")],
    )
    .comes_to(Crashed)
    .wants(Wants::Text("\u{1b}"))
    .held_by(&[Defence::Cleaning]),
    Attack::calls("end_host", "end the host's process", &[Ask::new("exit")])
        .comes_to(Crashed)
        .unseen("the host's answer to it is the end of the call: there is nothing to switch off"),
    Attack::calls("exhaust_stack", "exhaust the stack", &[Ask::new("overflow")])
        .comes_to(Crashed)
        .unseen("the end of a guest's stack is part of WebAssembly itself"),
];
