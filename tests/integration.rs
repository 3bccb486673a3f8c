//! The one integration binary: the real `tool`, its daemon, real repositories, and hostile ones.

mod answers;
mod automation;
mod browser;
mod cli;
mod clients;
mod commands;
mod conformance;
mod contain;
mod door;
mod edges;
mod help;
mod installs;
mod lifecycle;
mod openapi;
mod operations;
mod overview;
mod providers;
mod rest;
mod sandbox;
mod secrets;
mod selection;
mod skills;
mod support;
mod terminal;
