//! The specification, row by row. `conformance/rows.toml` holds its rows word for word; each has one test here, of the
//! row's name, and `coverage` fails where one of the two is missing.
//!
//! Sessions that several rows examine are recorded once (`recorded`, `skills`). The daemon is gone before the rows are
//! checked, so the rows share plain data and no process.

pub(crate) mod http;
mod recorded;
pub(crate) mod rights;
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
