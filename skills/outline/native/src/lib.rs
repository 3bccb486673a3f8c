//! Rust, Go and Java by syntax tree; see `outline`.

#[cfg(target_family = "wasm")]
outline::export_outline!(
    "rust" => (tree_sitter_rust::LANGUAGE, Some(&outline::RUST), ["rust.scm"]),
    "go" => (tree_sitter_go::LANGUAGE, Some(&outline::GO), ["go.scm"]),
    "java" => (tree_sitter_java::LANGUAGE, Some(&outline::JAVA), ["java.scm"]),
);
