//! Kotlin by syntax tree; see `outline`.

#[cfg(target_family = "wasm")]
outline::export_outline!(
    "kotlin" => (tree_sitter_kotlin_ng::LANGUAGE, None, ["kotlin.scm"]),
);
