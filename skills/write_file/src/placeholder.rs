//! Recognises text that stands for omitted code: `// ... existing code ...`, `# rest unchanged`.
//!
//! Only a whole line of comment counts, only if the change also removes lines, and only if the file did not contain
//! it before. Otherwise a model that abbreviates would delete the code that it omitted.

use skill_sdk::Failure;
use skill_sdk::text::{clip, counted};

use crate::diff::TextChange;

/// Marks that open a comment, longest first.
const OPENINGS: &[&str] = &[
    "<!--", "{/*", "{{!", "{#", "<%#", "/*", "(*", "//", "--", "#", ";", "%", "'", "REM ",
];
/// Marks that close a comment.
const CLOSINGS: &[&str] = &["-->", "*/}", "}}", "#}", "%>", "*/", "*)"];

/// Words that occur in placeholders. A comment with any other word is not a placeholder.
const WORDS: &[&str] = &[
    "a",
    "above",
    "all",
    "and",
    "as",
    "before",
    "below",
    "body",
    "brevity",
    "cases",
    "changed",
    "changes",
    "class",
    "classes",
    "code",
    "content",
    "contents",
    "definitions",
    "existing",
    "fields",
    "file",
    "for",
    "function",
    "functions",
    "goes",
    "handlers",
    "here",
    "implementation",
    "imports",
    "is",
    "it",
    "keep",
    "leave",
    "line",
    "lines",
    "logic",
    "method",
    "methods",
    "modified",
    "module",
    "more",
    "needed",
    "no",
    "not",
    "of",
    "omitted",
    "original",
    "other",
    "others",
    "previous",
    "remain",
    "remaining",
    "remains",
    "rest",
    "routes",
    "same",
    "snip",
    "snipped",
    "stay",
    "stays",
    "tests",
    "the",
    "this",
    "to",
    "truncated",
    "unchanged",
    "unmodified",
    "was",
    "with",
    "your",
];
/// Words that make a comment with an ellipsis a placeholder.
const KEYS: &[&str] = &[
    "code",
    "existing",
    "implementation",
    "methods",
    "functions",
    "more",
    "no",
    "omitted",
    "original",
    "other",
    "others",
    "previous",
    "remaining",
    "rest",
    "same",
    "snip",
    "snipped",
    "truncated",
    "unchanged",
    "unmodified",
];
/// Words that make a comment without an ellipsis a placeholder.
const STATES: &[&str] = &["omitted", "unchanged", "unmodified", "snip", "snipped"];
/// Beginnings that make a comment without an ellipsis a placeholder.
const BEGINNINGS: &[&str] = &[
    "rest of",
    "the rest of",
    "existing code",
    "remaining code",
    "your code",
    "keep the rest",
];

/// Such phrases in other languages, at the beginning or with an ellipsis; in lower case.
const PHRASES: &[&str] = &[
    "rest unverändert",
    "rest bleibt",
    "restlicher code",
    "übriger code",
    "bestehender code",
    "vorhandener code",
    "reste inchangé",
    "le reste du",
    "reste du code",
    "code existant",
    "resto del código",
    "código existente",
    "sin cambios",
    "resto do código",
    "resto del codice",
    "codice esistente",
    "остальной код",
    "остальное без изменений",
    "существующий код",
    "其余代码",
    "其他代码",
    "剩余代码",
    "现有代码",
    "省略",
    "保持不变",
    "既存のコード",
    "残りのコード",
    "変更なし",
    "기존 코드",
    "나머지 코드",
];

/// Refuses a change that removes lines and adds a placeholder.
pub(crate) fn check_placeholders(change: &TextChange<'_>) -> Result<(), Failure> {
    let removed = change.removed() as u64;
    if removed == 0 {
        return Ok(());
    }
    let known = |line: &str| change.old.iter().any(|old| old.trim() == line.trim());
    let Some(found) = change.added().find(|line| is_placeholder(line) && !known(line)) else {
        return Ok(());
    };
    let removed = counted(removed, "line", "lines");
    let shown = clip(found.trim(), 120).0;
    let message =
        format!("the new text removes {removed} and has a placeholder where code was: `{shown}`; nothing was changed");
    Err(Failure::invalid(message).with_hint(
        "use `edits` to change only the lines that differ, or give the content without leaving anything out",
    ))
}

/// True if the line only says that something was omitted.
fn is_placeholder(line: &str) -> bool {
    let line = line.trim();
    // The mark that read_file adds to a cut line.
    if line.contains("… [line cut: ") && line.ends_with(" more bytes]") {
        return true;
    }
    let (body, is_comment) = comment_text(line);
    let body = body.to_lowercase();
    let bare = body.trim_matches(|c: char| ".…[]()<>-".contains(c) || c.is_whitespace());
    let ellipsis = |mark: &&str| {
        body.trim_start_matches(['[', '(']).starts_with(*mark) || body.trim_end_matches([']', ')']).ends_with(*mark)
    };
    let has_ellipsis = ["...", "…"].iter().any(ellipsis);
    if bare.is_empty() {
        return is_comment && has_ellipsis;
    }
    let phrase = |phrase: &&str| bare.starts_with(*phrase) || (has_ellipsis && bare.contains(*phrase));
    if bare.chars().count() <= 60 && PHRASES.iter().any(phrase) {
        return is_comment || has_ellipsis;
    }
    let words: Vec<&str> = bare
        .split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    let holds = |some: &[&str]| words.iter().any(|word| some.contains(word));
    if words.len() > 12 || !words.iter().all(|word| WORDS.contains(word)) {
        return false;
    }
    let is_bracketed = body.starts_with(['[', '(']);
    (has_ellipsis && holds(KEYS))
        || ((is_comment || is_bracketed) && holds(STATES))
        || (is_comment && BEGINNINGS.iter().any(|beginning| bare.starts_with(beginning)))
}

/// The text of a comment that takes the whole line, and whether the line is one.
fn comment_text(line: &str) -> (&str, bool) {
    let opening = OPENINGS.iter().find_map(|mark| line.strip_prefix(mark));
    let Some(mut body) = opening else {
        return (line, false);
    };
    body = body.trim_start_matches(['/', '#', '-', ';', '%', '!', '*']);
    for mark in CLOSINGS {
        body = body.trim_end().strip_suffix(mark).unwrap_or(body);
    }
    (body.trim(), true)
}

#[cfg(test)]
mod tests {
    use super::is_placeholder;

    #[test]
    fn placeholders_are_recognised() {
        for line in [
            "// ... existing code ...",
            "    # ... rest of the function ...",
            "# rest unchanged",
            "# Rest of the file remains unchanged.",
            "/* … */",
            "/* ... other methods ... */",
            "<!-- ... -->",
            "<!-- rest of the file -->",
            "{/* existing code here */}",
            "-- ... (same as before)",
            "# ...",
            "#...",
            "; ... snip ...",
            "// [existing code unchanged]",
            "[... rest of the code ...]",
            "... existing code here ...",
            "(rest of file unchanged)",
            "  // … restlicher Code …",
            "# Rest bleibt unverändert",
            "// ... код без изменений, остальной код ...",
            "// 其余代码保持不变",
            "# 既存のコード",
            "xxxxx… [line cut: 812 more bytes]",
        ] {
            assert!(is_placeholder(line), "{line}");
        }
    }

    #[test]
    fn code_and_real_comments_are_not() {
        for line in [
            "...",
            "    ...",
            "def f(): ...",
            "console.log(...rest);",
            "const [first, ...rest] = list;",
            "// Keeps the rest of the arguments for later use",
            "# Parse the remaining bytes.",
            "# Wait for the other side to close...",
            "fn rest(self) -> Rest {",
            "- ... and many more",
            "# The same as above but for writers",
            "// see https://example.org/...",
            "print('# ...')",
            "#include <rest.h>",
            "* `...args` the other arguments",
            "* ...",
            "# Same as above",
            "// Read the rest of the file.",
            "# Other methods",
            "# TODO: handle more cases...",
            "/* Unchanged since the first version, see the history. */",
            "}",
            "#",
        ] {
            assert!(!is_placeholder(line), "{line}");
        }
    }
}
