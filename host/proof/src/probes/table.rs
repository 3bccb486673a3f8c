//! The attempts by name, and the expected result of each.

/// Expected outcome of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpectedEscape {
    /// The system refuses with one of these errors.
    Refused(&'static [&'static str]),
    /// The attempt may believe that it succeeded, but nothing changes outside.
    Nothing,
    /// The attempt is ended because it uses too much, or gets one of these errors.
    Bounded(&'static [&'static str]),
    /// The attempt ends, with everything it started, at its deadline.
    TimedOut,
}

/// One attempt to get out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SandboxAttempt {
    /// Name of the attempt and of its function in the script.
    pub name: &'static str,
    /// Completes "a run tries to …".
    pub tries: &'static str,
    /// Expected result in namespaces.
    pub namespaces: ExpectedEscape,
    /// Expected result in the fallback.
    pub landlock: ExpectedEscape,
}

use ExpectedEscape::{Bounded, Nothing, Refused, TimedOut};

const fn both(name: &'static str, tries: &'static str, expected: ExpectedEscape) -> SandboxAttempt {
    each(name, tries, expected, expected)
}

const fn each(
    name: &'static str,
    tries: &'static str,
    namespaces: ExpectedEscape,
    landlock: ExpectedEscape,
) -> SandboxAttempt {
    SandboxAttempt {
        name,
        tries,
        namespaces,
        landlock,
    }
}

const READ_ONLY: ExpectedEscape = Refused(&["EROFS"]);
const ABSENT: ExpectedEscape = Refused(&["ENOENT"]);
const DENIED: ExpectedEscape = Refused(&["EACCES"]);
const FORBIDDEN: ExpectedEscape = Refused(&["EPERM"]);
const NOBODY: ExpectedEscape = Refused(&["ESRCH"]);
const NO_FAMILY: ExpectedEscape = Refused(&["EAFNOSUPPORT"]);

/// All of them.
pub const ATTEMPTS: &[SandboxAttempt] = &[
    each("write_system", "write into `/usr`", READ_ONLY, DENIED),
    each("write_etc", "write into `/etc`", READ_ONLY, DENIED),
    each("write_root", "write into `/`", READ_ONLY, DENIED),
    each(
        "write_interpreter",
        "write into the interpreter's folder",
        Refused(&["EROFS", "EACCES"]),
        DENIED,
    ),
    each("write_outside", "write beside the repository", ABSENT, DENIED),
    each("write_home", "leave something in the home directory", Nothing, DENIED),
    each(
        "write_package_cache",
        "leave a package in a package cache",
        Nothing,
        DENIED,
    ),
    each(
        "change_package_cache",
        "change a package in a package cache",
        Nothing,
        DENIED,
    ),
    each(
        "read_cache_credentials",
        "read the files with credentials beside the package caches",
        ABSENT,
        DENIED,
    ),
    each(
        "read_manager_settings",
        "read settings and data of version managers",
        ABSENT,
        DENIED,
    ),
    each(
        "read_other_environment",
        "read another project's environment, which the repository names as its own",
        ABSENT,
        DENIED,
    ),
    each(
        "read_other_builds",
        "read the build output of another repository",
        ABSENT,
        DENIED,
    ),
    each(
        "write_other_builds",
        "leave build output for another repository",
        ABSENT,
        DENIED,
    ),
    both("change_repository", "change files of the repository", Nothing),
    both("delete_repository", "delete the repository", Nothing),
    both("read_hidden", "read a hidden file", ABSENT),
    both("read_hidden_link", "read a hidden file by its other name", ABSENT),
    both("read_git", "read the git directory", ABSENT),
    both("uncover_hidden", "uncover a hidden file by replacing it", ABSENT),
    each("read_outside", "read a file outside of the repository", ABSENT, DENIED),
    each("read_through_link", "read a file outside by a link", ABSENT, DENIED),
    each(
        "read_through_proc",
        "read a file outside through `/proc`",
        Refused(&["ENOENT", "EACCES"]),
        DENIED,
    ),
    each("read_parent", "read a file outside by going up", ABSENT, ABSENT),
    each("read_shadow", "read the machine's passwords", ABSENT, DENIED),
    both("open_by_handle", "open files by their handle", FORBIDDEN),
    each("make_device", "make a device", FORBIDDEN, Refused(&["EPERM", "EACCES"])),
    each(
        "change_device",
        "change the mode of a device",
        Refused(&["EROFS", "EPERM"]),
        FORBIDDEN,
    ),
    each(
        "change_proc",
        "change the mode of a file of the kernel's",
        Refused(&["EROFS", "EPERM"]),
        FORBIDDEN,
    ),
    each(
        "change_program",
        "change the mode of a program of the system",
        Refused(&["EROFS", "EPERM"]),
        FORBIDDEN,
    ),
    each(
        "change_mode_outside",
        "change the mode of a file outside",
        ABSENT,
        FORBIDDEN,
    ),
    each("change_mode_by_link", "the same by a link", ABSENT, FORBIDDEN),
    each("change_mode_by_handle", "the same by a handle", ABSENT, FORBIDDEN),
    each("change_mode_by_proc", "the same through `/proc`", ABSENT, FORBIDDEN),
    each(
        "change_times_outside",
        "change the times of a file outside",
        ABSENT,
        FORBIDDEN,
    ),
    each(
        "change_owner_outside",
        "change the owner of a file outside",
        ABSENT,
        Nothing,
    ),
    each(
        "change_attributes_outside",
        "change the attributes of a file outside",
        ABSENT,
        Refused(&["ENOTSUP", "EOPNOTSUPP"]),
    ),
    both(
        "hold_lease",
        "keep others from writing to a program of the system",
        FORBIDDEN,
    ),
    both("leave_root", "change its root directory", FORBIDDEN),
    both("keep_rights", "keep capabilities", FORBIDDEN),
    both("inherit_handles", "find open handles", Refused(&["EBADF"])),
    both("inherit_environment", "find keys in the environment", ABSENT),
    both("new_user_namespace", "enter a new user namespace", FORBIDDEN),
    both(
        "clone_user_namespace",
        "start a process in a new user namespace",
        FORBIDDEN,
    ),
    both(
        "clone3_user_namespace",
        "the same by the newer call",
        Refused(&["ENOSYS"]),
    ),
    both("join_namespace", "join a namespace", FORBIDDEN),
    both("mount", "mount a file system", FORBIDDEN),
    both("mount_anew", "mount one by the newer calls", FORBIDDEN),
    both("unmount", "unmount the cover of the repository", FORBIDDEN),
    each(
        "write_kernel_settings",
        "change a setting of the kernel",
        Refused(&["EROFS", "EACCES"]),
        DENIED,
    ),
    each(
        "write_sysrq",
        "command the kernel",
        Refused(&["EROFS", "EACCES", "ENOENT"]),
        Refused(&["EACCES", "ENOENT"]),
    ),
    both(
        "read_kernel_memory",
        "read the kernel's memory",
        Refused(&["ENOENT", "EACCES", "EPERM"]),
    ),
    each(
        "read_kernel_tables",
        "read what the kernel shows to root alone",
        ABSENT,
        Nothing,
    ),
    each(
        "read_kernel_settings",
        "read how the kernel was started",
        ABSENT,
        Nothing,
    ),
    both("trace", "trace another process", FORBIDDEN),
    both("trace_me", "trace at all", FORBIDDEN),
    both("read_memory", "read memory by process", FORBIDDEN),
    both(
        "write_first_process",
        "write the first process's memory",
        Refused(&["EROFS", "EACCES", "EPERM"]),
    ),
    both("take_handle", "take a handle of another process", FORBIDDEN),
    each("signal_outside", "signal a process outside", NOBODY, FORBIDDEN),
    each("see_outside", "see a process outside", ABSENT, Nothing),
    each(
        "read_outside_environment",
        "read the environment of a process outside",
        ABSENT,
        DENIED,
    ),
    both("stop_keeper", "stop who counts what it uses", FORBIDDEN),
    each("limit_outside", "limit a process outside", NOBODY, FORBIDDEN),
    each(
        "slow_outside",
        "take priority from a process outside",
        NOBODY,
        FORBIDDEN,
    ),
    each("place_outside", "move a process outside", NOBODY, FORBIDDEN),
    each(
        "starve_outside",
        "keep a process outside from the disk",
        NOBODY,
        FORBIDDEN,
    ),
    each("shared_memory", "share memory with the machine", Nothing, FORBIDDEN),
    each("message_queue", "share a queue with the machine", Nothing, FORBIDDEN),
    both("use_keys", "use the kernel's keyrings", FORBIDDEN),
    both("add_key", "add a key", FORBIDDEN),
    both("use_io_uring", "use io_uring", FORBIDDEN),
    both(
        "use_unlisted_calls",
        "use system calls that are not on the list",
        Refused(&["ENOSYS"]),
    ),
    both("load_bpf", "use BPF", FORBIDDEN),
    both("watch_performance", "use performance counters", FORBIDDEN),
    both("handle_faults", "handle page faults", FORBIDDEN),
    both("change_personality", "switch address randomisation off", FORBIDDEN),
    both("load_module", "load a kernel module", FORBIDDEN),
    each(
        "type_into_terminal",
        "type into a terminal",
        FORBIDDEN,
        Refused(&["EPERM", "EACCES"]),
    ),
    each(
        "open_terminal",
        "open the user's terminal",
        Refused(&["ENXIO"]),
        Refused(&["ENXIO", "EACCES"]),
    ),
    each(
        "reach_host",
        "reach a server of this machine",
        Refused(&["ECONNREFUSED"]),
        NO_FAMILY,
    ),
    each(
        "reach_host_udp",
        "reach one by UDP",
        Refused(&["ECONNREFUSED"]),
        NO_FAMILY,
    ),
    each(
        "reach_host_ipv6",
        "reach one by IPv6",
        Refused(&["ECONNREFUSED", "EADDRNOTAVAIL"]),
        NO_FAMILY,
    ),
    each("reach_out", "reach the network", Refused(&["ENETUNREACH"]), NO_FAMILY),
    each("reach_out_udp", "reach it by UDP", Refused(&["ENETUNREACH"]), NO_FAMILY),
    each(
        "reach_abstract",
        "reach an abstract socket",
        Refused(&["ECONNREFUSED"]),
        NO_FAMILY,
    ),
    each("reach_socket", "reach a socket by its path", ABSENT, NO_FAMILY),
    each(
        "take_abstract_name",
        "take an abstract name of the machine",
        Nothing,
        FORBIDDEN,
    ),
    each(
        "reach_socket_by_pair",
        "reach one by a pair of sockets",
        ABSENT,
        NO_FAMILY,
    ),
    each("reach_backend", "reach the backend by its socket", ABSENT, NO_FAMILY),
    each(
        "reach_backend_by_proc",
        "reach the backend through `/proc`",
        Refused(&["ENOENT", "EACCES"]),
        NO_FAMILY,
    ),
    both(
        "reach_backend_by_streams",
        "reach the backend by an end of a connected pair",
        Nothing,
    ),
    both(
        "reach_backend_inherited",
        "reach the backend by an inherited socket",
        Refused(&["EBADF"]),
    ),
    each(
        "reach_socket_inside",
        "reach a socket that lies in the repository",
        ABSENT,
        NO_FAMILY,
    ),
    both("use_packets", "see packets", NO_FAMILY),
    each("use_raw", "send raw packets", FORBIDDEN, NO_FAMILY),
    both("use_vsock", "reach the hypervisor", NO_FAMILY),
    both("use_netlink", "speak to the kernel's audit", NO_FAMILY),
    each(
        "fill_tree",
        "fill the disk through the repository",
        Bounded(&["ENOSPC"]),
        Nothing,
    ),
    each(
        "fill_temporary",
        "fill it through temporary files",
        Bounded(&["ENOSPC"]),
        DENIED,
    ),
    each(
        "fill_package_cache",
        "fill the disk through a package cache",
        Bounded(&["ENOSPC"]),
        DENIED,
    ),
    each("fill_memory_disk", "fill shared memory", Bounded(&["ENOSPC"]), DENIED),
    each("fill_names", "make files without end", Bounded(&["ENOSPC"]), Nothing),
    both("fork_bomb", "fork without end", Bounded(&["EAGAIN"])),
    both("use_memory", "use memory without end", Bounded(&["ENOMEM"])),
    both(
        "hold_memory_unseen",
        "hold memory that no process may read",
        Bounded(&["ENOMEM"]),
    ),
    both(
        "hold_memory_in_tables",
        "hold memory in the kernel's tables of pages",
        Bounded(&["ENOMEM"]),
    ),
    both(
        "hold_memory_in_memfd",
        "hold memory in files that have no place",
        Refused(&["ENOSYS"]),
    ),
    both(
        "hold_memory_shared",
        "hold memory that processes share",
        Bounded(&["ENOMEM"]),
    ),
    each(
        "hold_memory_segments",
        "hold memory in segments of no process",
        Bounded(&["ENOMEM"]),
        FORBIDDEN,
    ),
    both("use_addresses", "map more than a process may", Refused(&["ENOMEM"])),
    both("dump_core", "leave a core dump", FORBIDDEN),
    both("outlive", "leave a process behind", Nothing),
    both("outlast", "go on when its time is over", TimedOut),
];
