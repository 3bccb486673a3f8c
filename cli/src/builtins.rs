//! temporary
use host::skill::Builtin;
pub(crate) static BUILTINS: &[Builtin] = &[];
