//! The one integration binary: the real `tool`, its daemon, real repositories, and hostile ones.

mod automation;
mod cli;
mod commands;
mod conformance;
mod edges;
mod help;
mod openapi;
mod overview;
mod providers;
mod rest;
mod sandbox;
mod skills;
mod support;
mod terminal;
