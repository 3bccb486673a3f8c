//! Values that a manifest names once: properties of Maven and MSBuild, variables of Gradle and sbt.

use std::collections::BTreeMap;

/// Limit for a value in bytes. Longer ones are not versions, and each use repeats the value.
const VALUE_BYTES_MAX: usize = 100;

#[derive(Default)]
pub(crate) struct Properties(BTreeMap<String, String>);

impl Properties {
    pub(crate) fn insert(&mut self, name: &str, value: &str) {
        if !value.is_empty() && value.len() <= VALUE_BYTES_MAX {
            self.0.insert(name.to_owned(), value.to_owned());
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The value, if the whole text is a name between these marks; the text otherwise.
    pub(crate) fn expand<'a>(&'a self, text: &'a str, open: &str, close: &str) -> &'a str {
        let name = text.strip_prefix(open).and_then(|text| text.strip_suffix(close));
        name.and_then(|name| self.get(name)).unwrap_or(text)
    }

    /// Reads lines such as `val name = "value"` and `ext.name = 'value'`.
    pub(crate) fn read_assignments(text: &str) -> Self {
        let mut properties = Self::default();
        for line in text.lines() {
            let Some((name, value)) = line.split_once('=') else {
                continue;
            };
            let name = name.split(':').next().unwrap_or(name).trim();
            let name = name.rsplit([' ', '.']).next().unwrap_or(name);
            let value = value.trim();
            let inside = value.strip_prefix('"').and_then(|value| value.split_once('"'));
            let inside = inside.or_else(|| value.strip_prefix('\'')?.split_once('\''));
            if let Some((value, _)) = inside {
                properties.insert(name, value);
            }
        }
        properties
    }
}
