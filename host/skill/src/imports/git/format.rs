//! The format of a git repository, from its configuration: the hash of object names, and how references are stored.

use std::path::Path;

use super::layout;
use crate::limits;
use tool_boundary::Failure;
use tool_repository::git_settings;

/// Settings that change the meaning of a repository's files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::imports) struct RepositoryFormat {
    version: u32,
    /// Keys and values of the section `extensions`, in lower case.
    extensions: Vec<(String, String)>,
}

impl RepositoryFormat {
    /// Reads the format from the `config` of the common git directory.
    pub(in crate::imports) fn read_config(common: &Path) -> Self {
        let text = layout::read_regular_file(&common.join("config"), limits::GIT_CONFIG_BYTES_MAX).unwrap_or_default();
        Self::parse(&String::from_utf8_lossy(&text))
    }

    fn parse(text: &str) -> Self {
        let mut format = Self::default();
        git_settings::visit_settings(text, |section, key, value| match (section, key) {
            ("core", "repositoryformatversion") => format.version = value.parse().unwrap_or_default(),
            ("extensions", _) => format.extensions.push((key.to_owned(), value.to_ascii_lowercase())),
            _ => {}
        });
        format
    }

    /// True if objects are named by SHA-256.
    pub(in crate::imports) fn is_sha256(&self) -> bool {
        self.has("objectformat", "sha256")
    }

    /// True if references are stored in tables (reftable) and not in files.
    pub(in crate::imports) fn has_tables(&self) -> bool {
        self.has("refstorage", "reftable")
    }

    /// git uses the last value of a setting.
    fn has(&self, key: &str, value: &str) -> bool {
        let mut settings = self.extensions.iter().rev();
        settings
            .find(|setting| setting.0 == key)
            .is_some_and(|it| it.1 == value)
    }

    /// Refuses a format that git reads differently. libgit2 refuses some formats itself and misreads others: it reads
    /// the list of extensions only in version 1 of the format, and git reads it in both.
    pub(in crate::imports) fn check(&self) -> Result<(), Failure> {
        for (key, value) in &self.extensions {
            let is_known = match (key.as_str(), value.as_str()) {
                ("noop" | "preciousobjects" | "worktreeconfig" | "relativeworktrees", _) => true,
                ("objectformat", "sha1") | ("refstorage", "files") => true,
                // Version 0 does not have these formats; git refuses such a repository as well.
                ("objectformat", "sha256") | ("refstorage", "reftable") => self.version == 1,
                _ => false,
            };
            if !is_known {
                return Err(Failure::unavailable(format!(
                    "This git repository uses `extensions.{key} = {value}`, which is not understood here."
                ))
                .with_hint("the user has to work with git itself in this repository"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_are_found_however_they_are_written() {
        let text =
            "[core]\n\tobjectformat = no\n[Extensions] objectFormat = sha256 # so\n\tnoop\n; x = y\n[a]\nb = c\n";
        let found = RepositoryFormat::parse(text).extensions;
        let found = found.iter().map(|(key, value)| format!("{key}={value}"));
        assert_eq!(found.collect::<Vec<_>>(), ["objectformat=sha256", "noop=true"]);
    }

    #[test]
    fn a_format_is_read_where_git_would_read_it() {
        let version = |number: u32| format!("[core]\n\trepositoryformatversion = {number}\n");
        for (config, expected) in [
            ("[core]\n\tbare = false\n".to_owned(), Some((false, false))),
            (
                "[extensions]\n\tobjectFormat = SHA1\n\trefStorage = files\n".to_owned(),
                Some((false, false)),
            ),
            (
                version(1) + "[extensions]\nobjectformat = sha256\n",
                Some((true, false)),
            ),
            (
                version(1) + "[extensions]\nrefStorage=\"reftable\"\n",
                Some((false, true)),
            ),
            ("[other]\n\tobjectformat = sha256\n".to_owned(), Some((false, false))),
            (version(0) + "[extensions]\nobjectformat = sha256\n", None),
            (version(1) + "[extensions]\nrefstorage = reftable:///elsewhere\n", None),
            (version(1) + "[extensions]\ncompatObjectFormat = sha1\n", None),
            (version(1) + "[extensions]\ninvented\n", None),
        ] {
            let format = RepositoryFormat::parse(&config);
            let read = format.check().ok().map(|()| (format.is_sha256(), format.has_tables()));
            assert_eq!(read, expected, "{config}");
        }
    }
}
