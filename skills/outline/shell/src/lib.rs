//! Bash and Lua by syntax tree; see `outline`.

#[cfg(target_family = "wasm")]
outline::export_outline!(
    "bash" => (tree_sitter_bash::LANGUAGE, None, ["bash.scm"]),
    "lua" => (tree_sitter_lua::LANGUAGE, None, ["lua.scm"]),
);
