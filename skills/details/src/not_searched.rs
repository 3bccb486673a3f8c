//! Files that a search did not examine, as numbers and in words.

use serde::{Deserialize, Serialize};

/// Counts of files that a search did not examine. Hidden files are not counted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NotSearched {
    /// Files that are not text.
    #[serde(skip_serializing_if = "is_zero")]
    pub binary: u64,
    /// Files above the size limit.
    #[serde(skip_serializing_if = "is_zero")]
    pub large: u64,
    /// Files that could not be read.
    #[serde(skip_serializing_if = "is_zero")]
    pub unreadable: u64,
    /// Directories skipped because of their names or as environments of Python, in which git tracks nothing.
    #[serde(skip_serializing_if = "is_zero")]
    pub skipped_folders: u64,
    /// The first skipped directories.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skipped_named: Vec<String>,
    /// Files and directories that an ignore rule covers and that git does not track.
    #[serde(skip_serializing_if = "is_zero")]
    pub ignored: u64,
    /// Entries whose names are not UTF-8.
    #[serde(skip_serializing_if = "is_zero")]
    pub not_utf8: u64,
    /// Files that git tracks and that a sparse checkout keeps out of the work tree.
    #[serde(skip_serializing_if = "is_zero")]
    pub not_on_disk: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl NotSearched {
    /// True if everything was examined.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// Adds entries that the list of files left out.
    pub fn add_not_listed(&mut self, (skipped, named): (u32, Vec<String>), [ignored, not_utf8, not_on_disk]: [u32; 3]) {
        self.skipped_folders += u64::from(skipped);
        self.skipped_named.extend(named);
        self.ignored += u64::from(ignored);
        self.not_utf8 += u64::from(not_utf8);
        self.not_on_disk += u64::from(not_on_disk);
    }

    /// Adds the counts of another part of the same search.
    pub fn append(&mut self, part: Self) {
        self.binary += part.binary;
        self.large += part.large;
        self.unreadable += part.unreadable;
        let named = (
            u32::try_from(part.skipped_folders).unwrap_or(u32::MAX),
            part.skipped_named,
        );
        self.add_not_listed(named, [0; 3]);
        self.ignored += part.ignored;
        self.not_utf8 += part.not_utf8;
        self.not_on_disk += part.not_on_disk;
    }

    /// Describes what the list of files left out, for an answer without matches. The numbers come first.
    pub fn not_listed(&self) -> Vec<String> {
        let mut words = Vec::new();
        let mut say = |count: u64, one: &str, many: &str, more: &str| {
            if count > 0 {
                words.push(format!("{count} {}{more}", if count == 1 { one } else { many }));
            }
        };
        let mut named = self.skipped_named.join(", ");
        if self.skipped_folders > self.skipped_named.len() as u64 {
            named.push_str(", …");
        }
        let named = format!(" ({named})");
        say(
            self.skipped_folders,
            "folder skipped by name",
            "folders skipped by name",
            &named,
        );
        say(self.ignored, "ignored file or folder", "ignored files and folders", "");
        say(self.not_utf8, "name that is not UTF-8", "names that are not UTF-8", "");
        say(
            self.not_on_disk,
            "tracked file that is not on disk",
            "tracked files that are not on disk",
            "",
        );
        words
    }
}

#[cfg(test)]
mod tests {
    use super::NotSearched;

    #[test]
    fn the_numbers_come_first() {
        let mut counts = NotSearched::default();
        assert!(counts.is_nothing() && counts.not_listed().is_empty());
        counts.add_not_listed((1, vec!["a/build".to_owned()]), [2, 1, 0]);
        counts.append(NotSearched {
            skipped_folders: 1,
            not_on_disk: 3,
            ..NotSearched::default()
        });
        assert_eq!(
            counts.not_listed(),
            [
                "2 folders skipped by name (a/build, …)",
                "2 ignored files and folders",
                "1 name that is not UTF-8",
                "3 tracked files that are not on disk",
            ]
        );
    }
}
