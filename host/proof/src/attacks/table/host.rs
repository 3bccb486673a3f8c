//! Reaching what a guest has none of.

use super::read;
use crate::attacks::Expected::{Crashed, Refused};
use crate::attacks::{Ask, Attack, Wants};

pub(super) const ATTACKS: &[Attack] = &[
    // ---- what a guest has none of ----
    read("make_tcp_socket", "get a socket", &[Ask::new("tcp-socket")]),
    read(
        "make_udp_socket",
        "get a socket for datagrams",
        &[Ask::new("udp-socket")],
    ),
    read("connect", "reach a server of this machine", &[Ask::new("connect")]),
    read("listen", "be a server", &[Ask::new("bind")]),
    Attack::calls("resolve", "ask for the address of a name", &[Ask::new("resolve")]),
    Attack::calls(
        "read_environment",
        "read the environment of the session",
        &[Ask::new("environment")],
    )
    .comes_to(Refused("none")),
    Attack::calls("read_arguments", "read the host's arguments", &[Ask::new("arguments")]).comes_to(Refused("none")),
    Attack::calls("read_input", "read the host's input", &[Ask::new("stdin")]).comes_to(Refused("none")),
    Attack::calls("start_process", "start a program", &[Ask::new("process")]).comes_to(Refused("Unsupported")),
    Attack::calls("start_thread", "start a thread", &[Ask::new("thread")]).comes_to(Refused("Unsupported")),
    Attack::calls("fine_clock", "measure time finely", &[Ask::new("clock")]).comes_to(Refused("coarse")),
    Attack::calls(
        "steer_terminal",
        "steer the terminal by its answer",
        &[Ask::new("colours")],
    )
    .wants(Wants::Text("\u{1b}")),
    Attack::calls(
        "steer_terminal_by_failing",
        "steer it by a failure",
        &[Ask::new("odd-code")],
    )
    .wants(Wants::Text("\u{1b}")),
    Attack::calls(
        "steer_terminal_by_crashing",
        "steer it by its last words",
        &[Ask::new("panic")],
    )
    .comes_to(Crashed)
    .wants(Wants::Text("\u{1b}")),
    Attack::calls(
        "steer_terminal_by_cursor",
        "steer it by what asks for the rest",
        &[Ask::new("cursor")],
    )
    .wants(Wants::Text("\u{1b}")),
    Attack::calls("end_host", "end the host's process", &[Ask::new("exit")]).comes_to(Crashed),
    Attack::calls("exhaust_stack", "exhaust the stack", &[Ask::new("overflow")]).comes_to(Crashed),
];
