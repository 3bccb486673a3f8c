//! Reaching what a guest has none of.

use super::read;
use crate::attacks::ExpectedRefusal::{Crashed, Refused};
use crate::attacks::{Attack, AttackGoal, GuestRequest};

pub(super) const ATTACKS: &[Attack] = &[
    // ---- what a guest has none of ----
    read("make_tcp_socket", "get a socket", &[GuestRequest::new("tcp-socket")]),
    read(
        "make_udp_socket",
        "get a socket for datagrams",
        &[GuestRequest::new("udp-socket")],
    ),
    read(
        "connect",
        "reach a server of this machine",
        &[GuestRequest::new("connect")],
    ),
    read("listen", "be a server", &[GuestRequest::new("bind")]),
    Attack::calls(
        "resolve",
        "ask for the address of a name",
        &[GuestRequest::new("resolve")],
    ),
    Attack::calls(
        "read_environment",
        "read the environment of the session",
        &[GuestRequest::new("environment")],
    )
    .comes_to(Refused("none")),
    Attack::calls(
        "read_arguments",
        "read the host's arguments",
        &[GuestRequest::new("arguments")],
    )
    .comes_to(Refused("none")),
    Attack::calls("read_input", "read the host's input", &[GuestRequest::new("stdin")]).comes_to(Refused("none")),
    Attack::calls("start_process", "start a program", &[GuestRequest::new("process")]).comes_to(Refused("Unsupported")),
    Attack::calls("start_thread", "start a thread", &[GuestRequest::new("thread")]).comes_to(Refused("Unsupported")),
    Attack::calls("fine_clock", "measure time finely", &[GuestRequest::new("clock")]).comes_to(Refused("coarse")),
    Attack::calls(
        "steer_terminal",
        "steer the terminal by its answer",
        &[GuestRequest::new("colours")],
    )
    .wants(AttackGoal::Text("\u{1b}")),
    Attack::calls(
        "steer_terminal_by_failing",
        "steer it by a failure",
        &[GuestRequest::new("odd-code")],
    )
    .wants(AttackGoal::Text("\u{1b}")),
    Attack::calls(
        "steer_terminal_by_crashing",
        "steer it by its last words",
        &[GuestRequest::new("panic")],
    )
    .comes_to(Crashed)
    .wants(AttackGoal::Text("\u{1b}")),
    Attack::calls(
        "steer_terminal_by_cursor",
        "steer it by what asks for the rest",
        &[GuestRequest::new("cursor")],
    )
    .wants(AttackGoal::Text("\u{1b}")),
    Attack::calls("end_host", "end the host's process", &[GuestRequest::new("exit")]).comes_to(Crashed),
    Attack::calls("exhaust_stack", "exhaust the stack", &[GuestRequest::new("overflow")]).comes_to(Crashed),
];
