//! JavaScript and TypeScript by syntax tree; see `outline`.

#[cfg(target_family = "wasm")]
outline::export_outline!(
    "javascript" => (tree_sitter_javascript::LANGUAGE, outline::SCRIPT),
    "typescript" => (tree_sitter_typescript::LANGUAGE_TYPESCRIPT, outline::SCRIPT),
    "tsx" => (tree_sitter_typescript::LANGUAGE_TSX, outline::SCRIPT),
);
