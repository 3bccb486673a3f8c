//! The engine of `tool`: it makes a language model useful on a repository without giving it the machine.

pub mod api;
pub mod config;
pub mod context;
pub mod daemon;
pub mod http;
pub mod limits;
pub mod operation;
pub mod process;
pub mod provider;
pub mod repository;
pub mod session;
pub mod skill;
pub mod turn;
