//! Output in the log of a CI job, where a runner reads commands from the lines that a step prints.
//!
//! GitHub's runner takes a line that begins with `::`, blanks aside, for a command, and `##[` anywhere in a line; those of
//! Azure and TeamCity read `##vso[` and `##teamcity[`. Text of a model or of a repository must not become one. The only
//! commands that this program prints itself are [`Annotation`]s, whose text is escaped.

use std::fmt::{self, Write};

use tool_core::text::is_invisible;

/// Lines that no runner takes for a command: `::` at the beginning becomes `: :`, and `##[` becomes `## [`.
pub(crate) fn without_commands(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for line in text.split_inclusive(['\n', '\r']) {
        let start = line.find(|character| !is_skipped(character)).unwrap_or(line.len());
        let (blanks, rest) = line.split_at(start);
        safe.push_str(blanks);
        let rest = match rest.strip_prefix("::") {
            Some(rest) => {
                safe.push_str(": :");
                rest
            }
            None => rest,
        };
        push_without_brackets(rest, &mut safe);
    }
    safe
}

/// Characters before a command that some runner may skip: blanks in the sense of Unicode, and invisible ones.
fn is_skipped(character: char) -> bool {
    character.is_whitespace() || is_invisible(character)
}

/// Appends a text, with a blank before the bracket of each `##WORD[`.
fn push_without_brackets(text: &str, safe: &mut String) {
    let mut rest = text;
    while let Some(at) = rest.find("##") {
        let end = rest[at..].find(|c| c != '#').map_or(rest.len(), |length| at + length);
        let (before, after) = rest.split_at(end);
        safe.push_str(before);
        let word = after.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(after.len());
        let (word, behind) = after.split_at(word);
        safe.push_str(word);
        if behind.starts_with('[') {
            safe.push(' ');
        }
        rest = behind;
    }
    safe.push_str(rest);
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnnotationLevel {
    Warning,
    Error,
}

/// A remark that GitHub shows beside a line of a change, or at the job as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Annotation {
    pub(crate) level: AnnotationLevel,
    pub(crate) title: String,
    pub(crate) message: String,
    /// Path from the root of the workspace, first and last line.
    pub(crate) place: Option<(String, u64, u64)>,
}

/// The workflow command, on one line.
impl fmt::Display for Annotation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self.level {
            AnnotationLevel::Warning => "::warning ",
            AnnotationLevel::Error => "::error ",
        })?;
        if let Some((path, first, last)) = &self.place {
            write!(
                formatter,
                "file={},line={first},endLine={last},",
                EscapedText::property(path)
            )?;
        }
        write!(
            formatter,
            "title={}::{}",
            EscapedText::property(&self.title),
            EscapedText::message(&self.message)
        )
    }
}

struct EscapedText<'t> {
    text: &'t str,
    is_property: bool,
}

impl<'t> EscapedText<'t> {
    fn property(text: &'t str) -> Self {
        Self {
            text,
            is_property: true,
        }
    }

    fn message(text: &'t str) -> Self {
        Self {
            text,
            is_property: false,
        }
    }
}

impl fmt::Display for EscapedText<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in super::clean_output(self.text).chars() {
            match character {
                '%' => formatter.write_str("%25")?,
                '\r' => formatter.write_str("%0D")?,
                '\n' => formatter.write_str("%0A")?,
                ':' if self.is_property => formatter.write_str("%3A")?,
                ',' if self.is_property => formatter.write_str("%2C")?,
                other => formatter.write_char(other)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_begins_with_a_command() {
        for (text, safe) in [
            ("::set-env name=A::b", ": :set-env name=A::b"),
            (" \t::x\r::y\n\u{a0}\u{feff}::z", " \t: :x\r: :y\n\u{a0}\u{feff}: :z"),
            ("a::b and path::to", "a::b and path::to"),
            (
                "x ##[error]a ##vso[task]b ###teamcity[c]",
                "x ## [error]a ##vso [task]b ###teamcity [c]",
            ),
            ("####[x]", "#### [x]"),
            ("# [link](a) ## Heading", "# [link](a) ## Heading"),
        ] {
            assert_eq!(without_commands(text), safe);
        }
    }

    #[test]
    fn the_text_of_an_annotation_stays_inside_of_it() {
        let annotation = Annotation {
            level: AnnotationLevel::Warning,
            title: "a,line=9::b".to_owned(),
            message: "50 %\n::error::c\u{1b}[2J".to_owned(),
            place: Some(("src/a:b,c.py".to_owned(), 3, 5)),
        };
        assert_eq!(
            annotation.to_string(),
            "::warning file=src/a%3Ab%2Cc.py,line=3,endLine=5,title=a%2Cline=9%3A%3Ab::50 %25%0A::error::c[2J"
        );
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_made_harmless(text in "([:#\\[\\]a \t\n\r\u{a0}\u{200b}]|::|##\\[|##vso\\[){0,40}") {
            let safe = without_commands(&text);
            for line in safe.split(['\n', '\r']) {
                let shown = line.trim_start_matches(is_skipped);
                proptest::prop_assert!(!shown.starts_with("::"), "{:?}", line);
            }
            proptest::prop_assert!(!safe.contains("##[") && !safe.contains("##vso["), "{:?}", safe);
            // Only blanks were added.
            let bare = |text: &str| text.replace(' ', "");
            proptest::prop_assert_eq!(bare(&safe), bare(&text));
        }
    }
}
