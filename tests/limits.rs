//! Limits of the daemon, of the sandbox and of work that stops with its caller, and the keys of the configuration.

mod daemon;
mod keys;
mod sandbox;
mod stops;
