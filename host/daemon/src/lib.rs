//! The engine of `tool`: it makes a language model useful on a repository without giving it the machine.
//!
//! # Bird's eye
//!
//! A request arrives over HTTP, becomes a session, and the session's one task does the rest: it resolves the target,
//! lets the context engine pick 4 to 6 files, and runs the tool-call loop between the provider and the skills. Each
//! thing that happens goes into the session's journal first; streams, reports, history and results are views of it.
//!
//! # Entry points
//!
//! [`daemon::run`] is the process, [`http::router`] its routes, [`session::Sessions::start`] an operation,
//! [`turn::run`] the loop, [`skill::SkillHost::call`] the sandbox.
//!
//! # Map
//!
//! This crate holds what serves a request: [`daemon`] (lock, state file, sockets, start and stop), [`http`] (routes behind
//! one gate), `mcp` (the skills as tools for other agents), [`session`] (the owner of a request, and its journal),
//! [`outline`] (the parser of the context engine), [`contents`] (its index for searches) and [`past`] (its history). The other crates of the
//! engine are re-exported under the names of their domains. `ARCHITECTURE.md` lists them with their promises.
//!
//! Nothing here prints.

#![forbid(unsafe_code)]

pub mod contents;
pub mod daemon;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod http;
mod key_command;
mod mcp;
pub mod outline;
pub mod past;
pub mod session;

pub use key_command::key_command;
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
pub use tool_skill as skill;

/// Limits of the engine.
pub mod limits {
    pub use tool_core::limits::*;
    tool_core::time_limits!();
}
