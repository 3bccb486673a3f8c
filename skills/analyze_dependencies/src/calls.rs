//! Finds calls in a program without parsing it: a name, and the text in its parentheses.

pub(crate) struct FoundCall<'t> {
    pub(crate) name: &'static str,
    pub(crate) arguments: &'t str,
    /// First and last line, counted from 1.
    pub(crate) line: usize,
    pub(crate) last_line: usize,
}

impl FoundCall<'_> {
    /// The first string of the arguments after a key.
    pub(crate) fn string_after(&self, key: &str) -> Option<&str> {
        let (_, rest) = self.arguments.split_once(key)?;
        leading_string(rest)
    }
}

/// Calls of some functions, without regard to case. `comment` begins a comment that ends with its line.
pub(crate) fn find_calls<'t>(text: &'t str, comment: &str, names: &[&'static str]) -> Vec<FoundCall<'t>> {
    let mut found: Vec<FoundCall<'t>> = Vec::new();
    // Name, line, offset of the arguments and depth of the open call.
    let mut open: Option<(&'static str, usize, usize, usize)> = None;
    let (mut quote, mut in_comment, mut line) = (None, false, 1);
    for (at, byte) in text.bytes().enumerate() {
        match (quote, byte) {
            (_, b'\n') => {
                line += 1;
                // A string does not span lines, and an apostrophe begins none.
                (quote, in_comment) = (None, false);
            }
            _ if in_comment => {}
            (Some(end), byte) => quote = (byte != end).then_some(end),
            (None, b'"' | b'\'') => quote = Some(byte),
            (None, b'(') => match &mut open {
                Some((_, _, _, depth)) => *depth += 1,
                None => {
                    let before = text[..at].trim_end();
                    let name = names.iter().copied().find(|name| is_call_of(before, name));
                    open = name.map(|name| (name, line, at + 1, 0));
                }
            },
            (None, b')') => match &mut open {
                Some((name, first, start, 0)) => {
                    found.push(FoundCall {
                        name,
                        arguments: &text[*start..at],
                        line: *first,
                        last_line: line,
                    });
                    open = None;
                }
                Some((_, _, _, depth)) => *depth -= 1,
                None => {}
            },
            _ => in_comment = text.as_bytes()[at..].starts_with(comment.as_bytes()),
        }
    }
    found
}

/// True if the text ends with this name.
fn is_call_of(before: &str, name: &str) -> bool {
    let Some(start) = before
        .len()
        .checked_sub(name.len())
        .filter(|start| before.is_char_boundary(*start))
    else {
        return false;
    };
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    before[start..].eq_ignore_ascii_case(name) && !(name.starts_with(is_part) && before[..start].ends_with(is_part))
}

/// The string literal at the beginning of a text.
pub(crate) fn leading_string(text: &str) -> Option<&str> {
    let text = text.trim_start();
    let quote = text.chars().next().filter(|first| matches!(first, '"' | '\''))?;
    let (inside, _) = text[1..].split_once(quote)?;
    (!inside.is_empty()).then_some(inside)
}
