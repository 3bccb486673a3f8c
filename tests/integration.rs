//! The one integration binary: the real `tool`, its daemon, real repositories, and hostile ones.

mod cli;
mod conformance;
mod model_server;
mod overview;
mod rest;
mod sandbox;
mod skills;
mod support;
