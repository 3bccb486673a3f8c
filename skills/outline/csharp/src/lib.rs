//! C# by syntax tree; see `outline`.

#[cfg(target_family = "wasm")]
outline::export_outline!(
    "csharp" => (tree_sitter_c_sharp::LANGUAGE, None, ["csharp.scm"]),
);
