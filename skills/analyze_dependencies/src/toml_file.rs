//! TOML with line numbers, read up to the first error.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::model::Manifest;

/// A parsed file with line numbers.
pub(crate) struct TomlFile<'a> {
    table: Spanned<DeTable<'a>>,
    lines: Vec<usize>,
    /// Line and message of the first error.
    error: Option<(usize, String)>,
}

/// A value, and the line of its key.
#[derive(Clone, Copy)]
pub(crate) struct TomlItem<'t, 'a> {
    pub(crate) value: &'t DeValue<'a>,
    pub(crate) line: usize,
    file: &'t TomlFile<'a>,
}

impl<'a> TomlFile<'a> {
    /// Parses up to the first error, which [`TomlFile::report`] adds to the manifest.
    pub(crate) fn parse(text: &'a str) -> Self {
        let lines = text.match_indices('\n').map(|(at, _)| at).collect();
        let (table, errors) = DeTable::parse_recoverable(text);
        let mut file = Self {
            table,
            lines,
            error: None,
        };
        file.error = errors.first().map(|error| {
            let (line, column) = error.span().map_or((1, 1), |span| file.place(span.start));
            (
                line,
                format!("column {column}: {}; what follows is not read", error.message()),
            )
        });
        file
    }

    /// Adds the first error to the manifest, and drops what was read after it: there the parser guesses.
    pub(crate) fn report(&self, manifest: &mut Manifest) {
        let Some((first, words)) = &self.error else {
            return;
        };
        manifest.dependencies.retain(|dependency| dependency.line < *first);
        manifest.problems.retain(|(line, _)| line < first);
        manifest.problem(*first, words);
    }

    /// The value at a path of keys.
    pub(crate) fn get<'t>(&'t self, path: &[&str]) -> Option<TomlItem<'t, 'a>> {
        let (first, rest) = path.split_first()?;
        let (key, value) = self.table.get_ref().get_key_value(*first)?;
        let mut item = self.item(key.span().start, value);
        for key in rest {
            item = item.get(key)?;
        }
        Some(item)
    }

    pub(crate) fn entries<'t>(&'t self) -> Vec<(&'t str, TomlItem<'t, 'a>)> {
        self.entries_of(self.table.get_ref())
    }

    fn entries_of<'t>(&'t self, table: &'t DeTable<'a>) -> Vec<(&'t str, TomlItem<'t, 'a>)> {
        let mut entries: Vec<(&str, TomlItem<'_, '_>)> = table
            .iter()
            .map(|(key, value)| (key.get_ref().as_ref(), self.item(key.span().start, value)))
            .collect();
        entries.sort_by_key(|(_, item)| item.line);
        entries
    }

    fn item<'t>(&'t self, at: usize, value: &'t Spanned<DeValue<'a>>) -> TomlItem<'t, 'a> {
        TomlItem {
            value: value.get_ref(),
            line: self.place(at).0,
            file: self,
        }
    }

    /// Line and column of an offset, counted from 1.
    fn place(&self, at: usize) -> (usize, usize) {
        let line = self.lines.partition_point(|&end| end < at);
        let start = line.checked_sub(1).map_or(0, |before| self.lines[before] + 1);
        (line + 1, at.saturating_sub(start) + 1)
    }
}

impl<'t, 'a> TomlItem<'t, 'a> {
    /// The value of a key in a table.
    pub(crate) fn get(&self, key: &str) -> Option<Self> {
        let (key, value) = self.value.as_table()?.get_key_value(key)?;
        Some(self.file.item(key.span().start, value))
    }

    /// Entries of a table, in the order of the file; empty if it is not a table.
    pub(crate) fn entries(&self) -> Vec<(&'t str, Self)> {
        self.value
            .as_table()
            .map(|table| self.file.entries_of(table))
            .unwrap_or_default()
    }

    /// Elements of an array with their lines; empty if it is not an array.
    pub(crate) fn elements(&self) -> Vec<Self> {
        let array = self.value.as_array();
        array
            .into_iter()
            .flatten()
            .map(|value| self.file.item(value.span().start, value))
            .collect()
    }

    pub(crate) fn text(&self) -> Option<&'t str> {
        self.value.as_str()
    }

    /// The string at a key.
    pub(crate) fn text_of(&self, key: &str) -> Option<&'t str> {
        self.get(key)?.text()
    }

    /// True if the key has the value `true`.
    pub(crate) fn is_true(&self, key: &str) -> bool {
        self.get(key).and_then(|item| item.value.as_bool()) == Some(true)
    }
}
