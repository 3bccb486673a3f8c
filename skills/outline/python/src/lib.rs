//! Python by syntax tree; see `outline`.

#[cfg(target_family = "wasm")]
outline::export_outline!("python" => (tree_sitter_python::LANGUAGE, Some(&outline::PYTHON), ["python.scm"]));
