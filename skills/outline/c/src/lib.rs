//! C and C++ by syntax tree; see `outline`.

#[cfg(target_family = "wasm")]
outline::export_outline!(
    "c" => (tree_sitter_c::LANGUAGE, None, ["c.scm"]),
    "cpp" => (tree_sitter_cpp::LANGUAGE, None, ["cpp.scm", "c.scm"]),
);
