//! The one integration binary: the real `tool`, its daemon, real repositories, and hostile ones.

mod answers;
mod automation;
mod cli;
mod clients;
mod commands;
mod confine;
mod conformance;
mod contain;
mod edges;
mod help;
mod openapi;
mod operations;
mod overview;
mod providers;
mod rest;
mod sandbox;
mod selection;
mod skills;
mod support;
mod terminal;
