//! The one integration binary: the real `tool`, its daemon, real repositories, and hostile ones.

mod automation;
mod cli;
mod commands;
mod help;
mod conformance;
mod model_server;
mod overview;
mod rest;
mod sandbox;
mod skills;
mod support;
mod terminal;
