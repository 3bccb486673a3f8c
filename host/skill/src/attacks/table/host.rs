//! Reaching what a guest has none of.

use super::read;
use crate::attacks::Expected::{Crashed, Refused};
use crate::attacks::{Ask, Attack, Wants};
use tool_core::defence::Defence;

pub(super) const ATTACKS: &[Attack] = &[
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
    Attack::calls(
        "steer_terminal_by_cursor",
        "steer it by what asks for the rest",
        &[Ask::new("cursor")],
    )
    .wants(Wants::Text("\u{1b}"))
    .held_by(&[Defence::Cleaning]),
    Attack::calls("end_host", "end the host's process", &[Ask::new("exit")])
        .comes_to(Crashed)
        .unseen("the host's answer to it is the end of the call: there is nothing to switch off"),
    Attack::calls("exhaust_stack", "exhaust the stack", &[Ask::new("overflow")])
        .comes_to(Crashed)
        .unseen("the end of a guest's stack is part of WebAssembly itself"),
];
