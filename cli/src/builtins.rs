//! The built-in skills: components, their compiled code and their descriptors, embedded by `build.rs`.

use host::skill::Builtin;

/// Every built-in skill, by name.
pub(crate) static BUILTINS: &[Builtin] = include!(concat!(env!("OUT_DIR"), "/builtins.rs"));
