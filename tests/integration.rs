//! The one integration binary: the real `tool`, its daemon, real repositories, and hostile ones.

mod answers;
mod cli;
mod model_server;
mod overview;
mod rest;
mod sandbox;
mod skills;
mod support;
