//! Trees of files to search and to rank.

use std::fmt::Write;

/// Python modules that import each other, with twelve functions each: paths and texts.
pub(crate) fn modules(count: usize) -> Vec<(String, String)> {
    let module = |at: usize| {
        let mut text = format!("from app.part{} import module{}\n\n", at * 7 % 40, at * 31 % count);
        for function in 0..12 {
            let _ = writeln!(
                text,
                "def handle_{}_{function}(request, session):\n    value = request.field_{}\n    return value\n\n",
                at % 97,
                at * function % 211
            );
        }
        (format!("app/part{}/module{at}.py", at % 40), text)
    };
    (0..count).map(module).collect()
}
