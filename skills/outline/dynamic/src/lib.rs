//! Ruby, PHP and Elixir by syntax tree; see `outline`.

#[cfg(target_family = "wasm")]
outline::export_outline!(
    "ruby" => (tree_sitter_ruby::LANGUAGE, None, ["ruby.scm"]),
    "php" => (tree_sitter_php::LANGUAGE_PHP, None, ["php.scm"]),
    "elixir" => (tree_sitter_elixir::LANGUAGE, None, ["elixir.scm"]),
);
