//! Words of names and texts: how identifiers are split, stemmed and hashed, and which words say nothing.
//!
//! A task and the files are split alike, so that both sides match. These are pure functions over bytes, and they do not
//! allocate, because a whole tree goes through them. `query` and `rank` weigh the words.

/// Words of English that say nothing by themselves.
pub(super) fn is_function_word(word: &[u8]) -> bool {
    #[rustfmt::skip]
    const WORDS: &[&str] = &[
        "a", "about", "after", "all", "also", "always", "am", "an", "and", "any", "are", "as", "at", "be", "because",
        "been", "before", "being", "both", "but", "by", "can", "cannot", "could", "did", "do", "does", "doing",
        "don", "done", "due", "during", "each", "even", "every", "for", "from", "further", "had", "has", "have",
        "he", "her", "here", "him", "his", "how", "i", "if", "in", "into", "is", "it", "its", "just", "may", "me",
        "more", "must", "my", "no", "nor", "not", "now", "of", "off", "on", "once", "only", "or", "other", "our",
        "out", "over", "own", "same", "she", "should", "so", "some", "still", "such", "than", "that", "the", "their",
        "them", "then", "there", "these", "they", "this", "those", "through", "to", "too", "under", "until", "up",
        "us", "very", "was", "we", "were", "what", "when", "where", "which", "while", "whom", "why", "will", "with",
        "within", "without", "would", "you", "your",
    ];
    word.len() == 1 || std::str::from_utf8(word).is_ok_and(|word| WORDS.binary_search(&word).is_ok())
}

/// Words that name an action, not a place. They are in every list of tasks.
pub(super) fn is_common(word: &[u8]) -> bool {
    #[rustfmt::skip]
    const WORDS: &[&str] = &[
        "add", "added", "adding", "adds", "allow", "allows", "avoid", "better", "bug", "bugs", "case", "cases",
        "change", "changed", "changelog", "changes", "chore", "clean", "cleanup", "code", "commit", "correct",
        "correctly", "docs", "docstring", "documentation", "drop", "ensure", "entry", "existing", "extract", "feat",
        "feature", "features", "fix", "fixed", "fixes", "fixing", "follow", "get", "handle", "handling", "implement",
        "implementation", "implemented", "improve", "improved", "improvement", "improvements", "instead", "issue",
        "keep", "like", "main", "make", "makes", "making", "merge", "minor", "missing", "move", "moved", "need",
        "needed", "needs", "new", "note", "old", "one", "perf", "possible", "pr", "prefer", "previous", "previously",
        "proper", "properly", "provide", "refactor", "refactored", "refactoring", "related", "release", "remove",
        "removed", "removes", "removing", "rename", "renamed", "replace", "replaced", "restore", "revert", "review",
        "see", "set", "simplify", "small", "style", "support", "supported", "test", "tests", "tweak", "update",
        "updated", "updates", "use", "used", "uses", "using", "version", "want", "work", "works", "wrong",
    ];
    std::str::from_utf8(word).is_ok_and(|word| WORDS.binary_search(&word).is_ok())
}

pub(super) fn has_inner_capital(run: &str) -> bool {
    let mut previous_lower = false;
    run.chars().any(|c| {
        let found = previous_lower && c.is_uppercase();
        previous_lower = c.is_lowercase();
        found
    })
}

/// A name without its word boundaries, lower case: `process_request`, `processRequest` and `process-request` are one.
pub(super) fn join_words(name: &str) -> String {
    name.chars()
        .filter(|c| c.is_alphanumeric())
        .flat_map(char::to_lowercase)
        .collect()
}

/// Bytes of an identifier that count; longer ones are data.
pub(super) const IDENTIFIER_BYTES_MAX: usize = 64;

/// Splits an identifier into lower-case words at underscores and changes of case; where there are several, the joined
/// whole follows, marked by `true`.
pub(super) fn split_identifier(identifier: &[u8], mut word: impl FnMut(&[u8], bool)) {
    let mut whole = [0_u8; IDENTIFIER_BYTES_MAX];
    let mut length = 0;
    let mut start = 0;
    let mut parts = 0;
    let bytes = &identifier[..identifier.len().min(IDENTIFIER_BYTES_MAX)];
    for (at, byte) in bytes.iter().copied().enumerate() {
        let upper = byte.is_ascii_uppercase();
        let before = at.checked_sub(1).map(|at| bytes[at]);
        let next_lower = bytes.get(at + 1).is_some_and(u8::is_ascii_lowercase);
        let boundary = byte == b'_'
            || byte == b'$'
            || upper
                && before.is_some_and(|b| {
                    b.is_ascii_lowercase() || b.is_ascii_digit() || b.is_ascii_uppercase() && next_lower
                });
        if boundary && length > start {
            word(&whole[start..length], false);
            parts += 1;
            start = length;
        }
        if byte != b'_' && byte != b'$' {
            whole[length] = byte.to_ascii_lowercase();
            length += 1;
        }
    }
    if length > start {
        word(&whole[start..length], false);
        parts += 1;
    }
    if parts > 1 {
        word(&whole[..length], true);
    }
}

/// The stem of a lower-case word: a prefix of it, so that nothing is allocated. Crude, and the same for both sides.
pub(super) fn stem_word(word: &[u8]) -> &[u8] {
    if word.len() < 4 || word.iter().any(|byte| !byte.is_ascii_lowercase()) {
        return word;
    }
    let mut word = without_suffix(word);
    if word.len() > 3 && matches!(word.last(), Some(b'e' | b'y' | b'i')) {
        word = &word[..word.len() - 1];
    }
    if word.len() > 5 && word.ends_with(b"at") {
        word = &word[..word.len() - 2];
    }
    match word {
        [.., a, b] if a == b && word.len() > 3 => &word[..word.len() - 1],
        _ => word,
    }
}

/// A word without its first suffix of these. Most words end with another letter than each of them, which is looked at first.
fn without_suffix(word: &[u8]) -> &[u8] {
    if !matches!(word.last(), Some(b's' | b'n' | b'g' | b'd' | b'r')) {
        return word;
    }
    for (suffix, least) in [
        ("ations", 4),
        ("ation", 4),
        ("ings", 3),
        ("ing", 3),
        ("ies", 3),
        ("ers", 4),
        ("ions", 4),
        ("ion", 4),
        ("ed", 3),
        ("er", 4),
        ("es", 3),
        ("s", 3),
    ] {
        if let Some(rest) = word.strip_suffix(suffix.as_bytes())
            && rest.len() >= least
            && !(suffix == "s" && rest.ends_with(b"s"))
        {
            return rest;
        }
    }
    word
}

/// The stems of a text's words, without those that every text uses.
pub(crate) fn stemmed_words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    each_identifier(text.as_bytes(), |identifier| {
        split_identifier(identifier, |word, whole| {
            if !whole && !is_function_word(word) && !is_common(word) {
                words.push(String::from_utf8_lossy(stem_word(word)).into_owned());
            }
        });
    });
    words.sort_unstable();
    words.dedup();
    words
}

/// Hash of a stem, 32 bits. A collision between the few hundred words of a file and the few of a task happens about
/// once in some million files.
pub(super) fn hash(word: &[u8]) -> u32 {
    let mut value = 0xcbf2_9ce4_8422_2325_u64;
    for byte in word {
        value = (value ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    // The upper bits of the product are the good ones.
    (value ^ (value >> 32)) as u32
}

/// Calls `found` for each run of letters, digits and underscores.
pub(super) fn each_identifier(line: &[u8], mut found: impl FnMut(&[u8])) {
    let mut start = None;
    for (at, byte) in line.iter().enumerate() {
        let word = byte.is_ascii_alphanumeric() || *byte == b'_' || *byte >= 0x80;
        match (word, start) {
            (true, None) => start = Some(at),
            (false, Some(from)) => {
                found(&line[from..at]);
                start = None;
            }
            _ => {}
        }
    }
    if let Some(from) = start {
        found(&line[from..]);
    }
}
