//! Rust, Go and Java by syntax tree; see `outline`.

#[cfg(target_family = "wasm")]
outline::export_outline!(
    "rust" => (tree_sitter_rust::LANGUAGE, outline::RUST),
    "go" => (tree_sitter_go::LANGUAGE, outline::GO),
    "java" => (tree_sitter_java::LANGUAGE, outline::JAVA),
);
