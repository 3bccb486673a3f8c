//! The daemon of `tool`: it serves sessions to the command line, to pages and to other agents.
//!
//! # Entry points
//!
//! [`daemon::run_daemon`] is the process, [`http::build_router`] its routes. [`tool_session::Sessions`] does the work behind them.
//!
//! # Map
//!
//! [`daemon`] (lock, state file, sockets, start and stop), [`http`] (routes behind one gate), `mcp` (the skills as tools
//! for other agents), [`outline`] (the parser of the context engine), [`contents`] (its index for searches) and [`commit_history`]
//! (its history). `ARCHITECTURE.md` lists the other crates of the engine with their promises.
//!
//! Nothing here prints.

#![forbid(unsafe_code)]

pub mod commit_history;
pub mod contents;
pub mod daemon;
#[cfg(test)]
#[expect(dead_code, reason = "the tests of sessions use the rest")]
#[path = "../../session/src/tests/fakes.rs"]
mod fakes;
#[cfg(any(test, fuzzing))]
#[path = "../../../tests/fuzz/entries/daemon.rs"]
pub mod fuzz;
pub mod http;
mod mcp;
pub mod outline;
#[cfg(test)]
#[expect(dead_code, reason = "the tests of sessions use the rest")]
#[path = "../../session/src/tests/world.rs"]
mod world;

/// Limits of this crate.
mod limits {
    pub(crate) use tool_core::limits::*;
    tool_core::time_limits!();
}
