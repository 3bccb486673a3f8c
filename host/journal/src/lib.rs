//! The journal of a session, and its views.
//!
//! The journal is the source of truth. Streams ([`feed`]), history, reports, replays of calls and the conversation
//! for the next turn are views of its lines. This crate runs no skill and opens no connection.

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
pub mod lasting;
pub mod replay;
pub mod report;

/// Limits of this crate.
mod limits {
    pub(crate) use tool_core::limits::*;
    tool_core::time_limits!();
}
