//! JavaScript and TypeScript by syntax tree; see `outline`.

#[cfg(target_family = "wasm")]
outline::export_outline!(
    "javascript" => (tree_sitter_javascript::LANGUAGE, Some(&outline::SCRIPT), ["javascript.scm", "jsx.scm", "script.scm"]),
    "typescript" => (tree_sitter_typescript::LANGUAGE_TYPESCRIPT, Some(&outline::SCRIPT), ["typescript.scm", "script.scm"]),
    "tsx" => (tree_sitter_typescript::LANGUAGE_TSX, Some(&outline::SCRIPT), ["typescript.scm", "jsx.scm", "script.scm"]),
);
