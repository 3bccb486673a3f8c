//! Shared vocabulary of the engine: wire types, effects, limits, text helpers and redaction rules.
//!
//! Nothing here opens a file or a connection or starts a thread. Every other crate of the engine builds on this one.

#![forbid(unsafe_code)]

pub mod api;
pub mod authors;
pub mod dialogue;
pub mod digest;
pub mod disk;
pub mod limits;
pub mod redaction;
pub mod text;

pub use skill_details::lfs;
