//! The one integration binary: the real `tool`, its daemon, real repositories, and hostile ones.

mod cli;
mod clients;
mod overview;
mod providers;
mod rest;
mod sandbox;
mod skills;
mod support;
