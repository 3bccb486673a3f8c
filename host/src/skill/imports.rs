//! What the host does for a skill beyond WASI: one module an interface of `wit/skill.wit`.
//!
//! The caller has checked that the effect is granted to this call. Where the policy says `ask`, the import asks, because
//! only here it is known what exactly would happen.

mod consent;
mod failure;
mod git;
pub(crate) mod git_commit;
pub(crate) mod git_read;
pub(crate) mod packages;
mod recipe;
pub(crate) mod tests;
