//! Sessions.
pub mod approvals;
pub mod feed;
pub mod history;
pub mod journal;
pub mod report;
