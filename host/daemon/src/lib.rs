//! The daemon of `tool`: it serves sessions to the command line, to pages and to other agents.
//!
//! # Entry points
//!
//! [`daemon::run`] is the process, [`http::router`] its routes. [`tool_session::Sessions`] does the work behind them.
//!
//! # Map
//!
//! [`daemon`] (lock, state file, sockets, start and stop), [`http`] (routes behind one gate), `mcp` (the skills as tools
//! for other agents), [`outline`] (the parser of the context engine), [`contents`] (its index for searches) and [`past`]
//! (its history). `ARCHITECTURE.md` lists the other crates of the engine with their promises.
//!
//! Nothing here prints.

#![forbid(unsafe_code)]

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
pub mod past;
#[cfg(test)]
#[expect(dead_code, reason = "the tests of sessions use the rest")]
#[path = "../../session/src/tests/world.rs"]
mod world;

pub use tool_analyst as analyst;
pub use tool_config as config;
pub use tool_context as context;
pub use tool_context::operation;
pub use tool_core::disk;
pub use tool_core::{api, digest, redaction, text};
pub use tool_provider as provider;
pub use tool_provider::turn;
pub use tool_repository as repository;
pub use tool_sandbox as process;
pub use tool_sandbox::room;
pub use tool_session as session;
pub use tool_session::key_command;
pub use tool_skill as skill;

/// Limits of the engine.
pub mod limits {
    pub use tool_core::limits::*;
    tool_core::time_limits!();
}
