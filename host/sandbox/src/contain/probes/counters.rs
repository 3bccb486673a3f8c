//! How each attempt was seen to succeed: with which defences off, or why it cannot be seen.
//!
//! Where the machine itself refuses an attempt to everybody, which the test finds out without any sandbox, it counts as
//! not available there.

use tool_core::defence::Counter::{self, Fallback, Off, Unseen};
use tool_core::defence::Defence;

/// Reading and reaching what a root of the run's own hides.
const ROOT: Counter = Off(&[Defence::OwnRoot]);
const SYSTEM: Counter = Off(&[Defence::ReadOnlySystem, Defence::Landlock]);
const OWN_ROOT: Counter = Off(&[Defence::ReadOnlyRoot, Defence::Landlock]);
const PROC: Counter = Off(&[Defence::ReadOnlyProc]);
const CALLS: Counter = Off(&[Defence::SystemCalls]);
const CALLS_AND_RIGHTS: Counter = Off(&[Defence::SystemCalls, Defence::Capabilities]);
const MOUNTS: Counter = Off(&[Defence::SystemCalls, Defence::Capabilities, Defence::Landlock]);
const NETWORK: Counter = Off(&[Defence::OwnNetwork]);
const DISKS: Counter = Off(&[Defence::BoundedDisks]);
const TREE: Counter = Off(&[Defence::CoveredTree]);
const HIDDEN: Counter = Off(&[Defence::HiddenEntries]);

/// What only the fallback has to keep apart, because nothing of it is the run's own there.
const SHARED: Counter = Fallback(&[Defence::SystemCalls]);
/// A process of root's has rights that one without them has no power over.
const SHARED_OF_ROOT: Counter = Fallback(&[Defence::SystemCalls, Defence::Capabilities]);
const METADATA: Counter = Fallback(&[Defence::Metadata]);

/// Without a namespace of processes its own `/proc` cannot be mounted, and everything on the machine would be counted.
const PROCESSES: Counter = Off(&[
    Defence::OwnProcesses,
    Defence::OwnRoot,
    Defence::OwnProc,
    Defence::Counting,
    Defence::Strays,
]);

const MACHINE_ROOT: Counter = Unseen("the kernel gives it to the machine's root alone, and to no namespace");

/// In the order of the attempts.
pub(super) const COUNTERS: &[(&str, Counter)] = &[
    ("write_system", SYSTEM),
    ("write_etc", OWN_ROOT),
    ("write_root", OWN_ROOT),
    ("write_interpreter", SYSTEM),
    ("write_outside", Off(&[Defence::OwnRoot, Defence::Landlock])),
    ("write_home", Off(&[Defence::OwnHome])),
    ("change_repository", TREE),
    ("delete_repository", TREE),
    ("read_hidden", HIDDEN),
    ("read_hidden_link", HIDDEN),
    ("read_git", HIDDEN),
    (
        "uncover_hidden",
        Unseen("what is removed from an overlay leaves a mark that hides what lies under it: no setting changes that"),
    ),
    ("read_outside", ROOT),
    ("read_through_link", ROOT),
    ("read_through_proc", Off(&[Defence::OwnRoot, Defence::NotDumpable])),
    ("read_parent", ROOT),
    ("read_shadow", ROOT),
    ("open_by_handle", MACHINE_ROOT),
    ("make_device", MACHINE_ROOT),
    ("change_device", Off(&[Defence::ReadOnlyDevices])),
    ("change_proc", PROC),
    ("change_program", METADATA),
    ("change_mode_outside", METADATA),
    ("change_mode_by_link", METADATA),
    ("change_mode_by_handle", METADATA),
    ("change_mode_by_proc", METADATA),
    ("change_times_outside", METADATA),
    ("change_owner_outside", SHARED),
    ("change_attributes_outside", SHARED),
    ("hold_lease", CALLS),
    ("leave_root", CALLS_AND_RIGHTS),
    ("keep_rights", Off(&[Defence::Capabilities])),
    ("inherit_handles", Off(&[Defence::NoInput])),
    ("inherit_environment", Off(&[Defence::ClearedEnvironment])),
    ("new_user_namespace", CALLS),
    ("clone_user_namespace", CALLS),
    ("clone3_user_namespace", Off(&[Defence::NewerClone])),
    ("join_namespace", CALLS_AND_RIGHTS),
    ("mount", MOUNTS),
    ("mount_anew", CALLS_AND_RIGHTS),
    ("unmount", MOUNTS),
    ("write_kernel_settings", PROC),
    ("write_sysrq", PROC),
    ("read_kernel_memory", MACHINE_ROOT),
    ("read_kernel_tables", ROOT),
    ("read_kernel_settings", ROOT),
    ("trace", CALLS),
    ("trace_me", CALLS),
    ("read_memory", CALLS),
    (
        "write_first_process",
        Off(&[Defence::NotDumpable, Defence::ReadOnlyProc]),
    ),
    ("take_handle", Off(&[Defence::SystemCalls, Defence::NotDumpable])),
    (
        "signal_outside",
        Off(&[
            Defence::OwnProcesses,
            Defence::OwnRoot,
            Defence::OwnProc,
            Defence::Counting,
            Defence::Landlock,
        ]),
    ),
    (
        "see_outside",
        Off(&[Defence::OwnRoot, Defence::OwnProc, Defence::Counting]),
    ),
    (
        "read_outside_environment",
        Fallback(&[Defence::Landlock, Defence::Capabilities]),
    ),
    ("stop_keeper", Fallback(&[Defence::Keeper])),
    ("limit_outside", SHARED),
    ("slow_outside", SHARED_OF_ROOT),
    ("place_outside", SHARED_OF_ROOT),
    ("starve_outside", SHARED_OF_ROOT),
    ("shared_memory", SHARED),
    ("message_queue", Fallback(&[Defence::SystemCalls, Defence::Landlock])),
    ("use_keys", CALLS),
    ("add_key", CALLS),
    ("use_io_uring", CALLS),
    ("load_bpf", MACHINE_ROOT),
    ("watch_performance", CALLS),
    ("handle_faults", CALLS),
    ("change_personality", CALLS),
    ("load_module", MACHINE_ROOT),
    ("type_into_terminal", CALLS),
    ("open_terminal", Off(&[Defence::OwnSession])),
    ("reach_host", NETWORK),
    ("reach_host_udp", NETWORK),
    ("reach_host_ipv6", NETWORK),
    (
        "reach_out",
        Unseen("whether somebody answers is up to the network; `reach_out_udp` goes the same way"),
    ),
    ("reach_out_udp", NETWORK),
    ("reach_abstract", Off(&[Defence::OwnNetwork, Defence::Landlock])),
    ("reach_socket", ROOT),
    ("take_abstract_name", SHARED),
    ("reach_socket_by_pair", Fallback(&[Defence::SocketFamilies])),
    ("reach_backend", ROOT),
    ("reach_backend_by_proc", Off(&[Defence::OwnRoot, Defence::OwnProc])),
    (
        "reach_backend_by_streams",
        Unseen("the kernel connects a stream once and sends nothing of it elsewhere: no setting changes that"),
    ),
    (
        "reach_backend_inherited",
        Unseen("handles are closed at the start of a program; `inherit_handles` shows what happens where one is not"),
    ),
    ("reach_socket_inside", Off(&[Defence::CoveredTree])),
    ("use_packets", Off(&[Defence::SocketFamilies, Defence::Capabilities])),
    ("use_raw", Off(&[Defence::Capabilities])),
    ("use_vsock", Off(&[Defence::SocketFamilies])),
    ("use_netlink", Off(&[Defence::SocketFamilies])),
    ("fill_tree", DISKS),
    ("fill_temporary", DISKS),
    ("fill_memory_disk", DISKS),
    ("fill_names", DISKS),
    ("fork_bomb", Off(&[Defence::Counting, Defence::TaskLimit])),
    ("use_memory", Off(&[Defence::Counting])),
    ("hold_memory_unseen", Off(&[Defence::Counting])),
    ("hold_memory_in_tables", Off(&[Defence::Counting])),
    ("hold_memory_in_memfd", Off(&[Defence::NamelessFiles])),
    ("hold_memory_shared", Off(&[Defence::Counting])),
    ("hold_memory_segments", Off(&[Defence::Counting])),
    ("use_addresses", Off(&[Defence::AddressLimit])),
    ("dump_core", Off(&[Defence::CoreLimit])),
    ("outlive", PROCESSES),
    ("outlast", PROCESSES),
];
