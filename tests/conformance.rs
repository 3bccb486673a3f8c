//! The specification, row by row. `conformance/rows.toml` holds its rows word for word; each has one test here, of the
//! row's name, and `coverage` fails where one of the two is missing.
//!
//! What several rows look at is recorded once (`recorded`, `skills`): the daemon is gone again before the rows are
//! checked, so that they share plain data and nothing that runs.

pub(crate) mod http;
mod recorded;
mod rights;
mod told;
pub(crate) mod world;

mod auth;
mod automation;
mod commands;
mod config;
mod context;
mod coverage;
mod errors;
mod events;
mod limits;
mod logs;
mod operations;
mod providers;
mod resources;
mod routes;
mod service;
mod skills;
mod states;
