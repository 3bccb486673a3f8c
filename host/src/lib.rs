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
//! # Map, in reading order
//!
//! - [`api`]: the wire types of HTTP and SSE, which the command line shares.
//! - [`config`]: defaults, file, environment and flags, resolved once a session.
//! - [`limits`]: every bound, each with its reason.
//! - [`defence`]: the names of what stands in an attack's way, for the test that takes it away.
//! - [`daemon`]: lock, state file, token, start and stop.
//! - [`http`]: routes by resource behind one gate.
//! - `mcp`: the skills as tools for other agents, over lines and over HTTP.
//! - [`session`]: the owner of a request, its journal and what is made of it.
//! - [`operation`]: the four operations: their targets, their prompts, and what their answers cite and propose.
//! - [`context`]: which files matter, and what of them goes to the model.
//! - [`turn`]: the tool-call loop, which knows neither HTTP nor wasmtime.
//! - [`distribution`]: skills in OCI registries, pushed and pulled by digest.
//! - [`provider`]: one neutral event model over every wire, and the embedded analyst.
//! - [`skill`]: the sandbox boundary: components, guard, limits, policy, proposals and their commit.
//! - [`repository`]: one root, one table of hidden and protected names, one way to open a file.
//! - [`room`]: what disks still take, and what helps where one is full.
//! - `scratch`: private folders for the time of one call.
//! - `socket_owner`: the users that receive what is sent to a server on this machine.
//! - [`redaction`]: strings that look like keys, and the placeholders that leave in their place.
//! - [`process`]: running a test runner or an installer, and the operating system's sandbox around it.
//!
//! # What is nowhere else
//!
//! Only [`skill`] names wasmtime. Only [`provider`] opens outbound connections, for
//! installations [`process`], by a proxy that reaches package registries, and [`distribution`] where a command of the
//! user's names a registry of skills. Only [`process`] and the daemon's start
//! spawn a process. Only [`config`] reads the environment. Nothing here prints. Dependencies point one way: `http`,
//! `mcp`, `session`, `turn`, then `context`, `provider` and `skill`, then `repository`.

pub mod api;
pub mod config;
pub mod context;
pub mod daemon;
pub mod defence;
pub mod distribution;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod http;
pub mod limits;
mod mcp;
pub mod operation;
pub mod process;
pub mod provider;
pub mod redaction;
pub mod repository;
pub mod room;
mod scratch;
pub mod session;
pub mod skill;
mod socket_owner;
pub mod turn;
mod waiting;
