//! Outbound connections, except those to models: skills in OCI registries, clones of repositories, and requests of
//! skills.

#![forbid(unsafe_code)]

pub mod clone;
pub mod oci;
pub mod skill_http;

/// Limits of this crate.
mod limits {
    pub(crate) use tool_core::limits::*;
    tool_core::time_limits!();
}
