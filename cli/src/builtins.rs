//! The built-in skills: components, their compiled code and their descriptors, embedded by `build.rs`. Also the guest
//! that attacks the sandbox, and the components that parse source files. These are not listed as skills, and no session
//! can call them.

use tool_skill::{Builtin, EmbeddedOutliner};

/// Every built-in skill, by name.
pub(crate) static BUILTINS: &[Builtin] = include!(concat!(env!("OUT_DIR"), "/builtins.rs"));

/// Components that read source files by syntax tree, for the context engine.
pub(crate) static OUTLINERS: &[EmbeddedOutliner] = include!(concat!(env!("OUT_DIR"), "/outliners.rs"));

/// The guest of `tool doctor --sandbox`, alone.
pub(crate) static HOSTILE: &[Builtin] = include!(concat!(env!("OUT_DIR"), "/hostile.rs"));
