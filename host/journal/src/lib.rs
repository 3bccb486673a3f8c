//! The journal of a session, and everything that is read from it.
//!
//! The journal is the truth: streams ([`feed`]), history, reports, replays of calls and the conversation that a later turn
//! goes on with are views of its lines. Nothing here runs a skill or opens a connection.

#![forbid(unsafe_code)]

#[cfg(test)]
extern crate self as tool_journal;

pub mod conversation;
pub mod feed;
#[cfg(test)]
mod fixtures;
pub mod history;
pub mod ids;
pub mod journal;
pub mod replay;
pub mod report;

/// Limits of this crate.
mod limits {
    pub(crate) use tool_core::limits::*;
    tool_core::time_limits!();
}
