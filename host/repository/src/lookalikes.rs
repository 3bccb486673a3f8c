//! Names that a reader confuses: in another Unicode form, with another kind of space, or in another case.
//!
//! A model writes `é` as one character and uses plain spaces, whatever a file's name contains. A path that does not
//! exist is compared with the existing names. No proposal may create two names that look the same.

use rustix::fs::Dir;
use tool_core::text::is_ignorable;
use unicode_normalization::UnicodeNormalization;

use crate::{Repository, fold_case, path};

/// Entries of a directory that are compared.
const ENTRIES_MAX: usize = 100_000;

/// Differences between two names that are ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Likeness {
    /// Unicode form, kind of space, and characters without width.
    Look,
    /// Also upper and lower case.
    Case,
}

/// Answer for a path that does not exist as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RespelledPath {
    /// For each missing name, exactly one existing name looks the same. What is below it may still be missing.
    Path(String),
    /// Existing paths that the path may mean.
    Meant(Vec<String>),
}

impl Repository {
    /// Finds the existing path that `path` may mean. `None` if the path exists, and if no name looks the same.
    pub fn respell(&self, path: &str, likeness: Likeness) -> Option<RespelledPath> {
        let asked = path::normalise_path(path).ok()?;
        let mut found = String::new();
        let mut parts = asked.split('/');
        while let Some(part) = parts.next() {
            let exact = path::join_path(&found, part);
            if self.is_there(&exact) {
                found = exact;
                continue;
            }
            let alike = self.names_alike(&found, part);
            let same: Vec<&String> = match likeness {
                Likeness::Look => alike
                    .iter()
                    .filter(|name| visible_form(name) == visible_form(part))
                    .collect(),
                Likeness::Case => alike.iter().collect(),
            };
            found = match (same.as_slice(), alike.as_slice()) {
                ([name], _) => path::join_path(&found, name),
                // No name looks the same: the rest stays as written.
                (_, []) => {
                    return Some(parts.fold(exact, |above, part| path::join_path(&above, part)))
                        .filter(|found| *found != asked)
                        .map(RespelledPath::Path);
                }
                _ => {
                    let meant = alike.iter().map(|name| path::join_path(&found, name));
                    return Some(RespelledPath::Meant(meant.collect()));
                }
            };
        }
        (found != asked).then_some(RespelledPath::Path(found))
    }

    /// The existing path from which a reader could not tell a new file at `path` apart.
    pub fn find_twin(&self, path: &str) -> Option<String> {
        let missing = path::list_ancestors(path)
            .chain(std::iter::once(path))
            .find(|prefix| !self.is_there(prefix))?;
        let (directory, name) = path::split_path(missing);
        let twin = self.names_alike(directory, name).into_iter().next()?;
        Some(path::join_path(directory, &twin))
    }

    /// Names in a directory that look like `name`, in any case, sorted and without hidden ones.
    fn names_alike(&self, directory: &str, name: &str) -> Vec<String> {
        let wanted = folded_look(name);
        let opened = self.root.open_directory(directory).and_then(Dir::new);
        let in_tree = opened.into_iter().flatten().take(ENTRIES_MAX).flatten();
        let in_tree = in_tree.filter_map(|entry| entry.file_name().to_str().map(str::to_owned).ok());
        let layered = self.layered_names(directory).into_iter().map(|(name, _)| name);
        let mut names: Vec<String> = in_tree
            .chain(layered)
            .filter(|entry| entry != name && folded_look(entry) == wanted)
            .filter(|entry| {
                let path = path::join_path(directory, entry);
                self.is_there(&path) && self.hidden(&path, false).is_none()
            })
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

/// Visible form of a name: one Unicode form, one kind of space and none at an end, no characters without width.
fn visible_form(name: &str) -> String {
    let spaced = |character: char| if character.is_whitespace() { ' ' } else { character };
    name.trim()
        .chars()
        .filter(|&character| !is_ignorable(character))
        .nfc()
        .map(spaced)
        .collect()
}

/// Visible form of a path in lower case: equal for two paths that are easily confused.
pub fn folded_look(name: &str) -> String {
    // Case folding can decompose a composed character.
    fold_case(&visible_form(name)).nfc().collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;
    use crate::Options;

    const NFD: &str = "cafe\u{301}.py";

    fn repository(files: &[&str]) -> (TempDir, std::sync::Arc<Repository>) {
        let folder = TempDir::new().expect("a temporary folder");
        for file in files {
            let place = folder.path().join(file);
            fs::create_dir_all(place.parent().expect("a parent")).expect("directories are made");
            fs::write(place, "x").expect("a file is written");
        }
        let repository = Repository::open(folder.path(), &Options::default()).expect("the root is accepted");
        (folder, repository)
    }

    #[test]
    fn a_path_stands_for_the_one_name_that_looks_like_it() {
        let (_folder, repository) =
            repository(&[NFD, "nb\u{a0}sp.py", "README.md", "Src/A.py", "b.py", "B.py", ".env"]);
        let is = |path: &str| Some(RespelledPath::Path(path.to_owned()));
        for (asked, look, case) in [
            ("caf\u{e9}.py", is(NFD), is(NFD)),
            ("nb sp.py", is("nb\u{a0}sp.py"), is("nb\u{a0}sp.py")),
            ("README.md", None, None),
            ("none.py", None, None),
            (
                "src/a.py",
                Some(RespelledPath::Meant(vec!["Src".to_owned()])),
                is("Src/A.py"),
            ),
            (
                "src/new.py",
                Some(RespelledPath::Meant(vec!["Src".to_owned()])),
                is("Src/new.py"),
            ),
            (".ENV", None, None),
        ] {
            assert_eq!(repository.respell(asked, Likeness::Look), look, "{asked}");
            assert_eq!(repository.respell(asked, Likeness::Case), case, "{asked}");
        }
    }

    #[test]
    fn of_several_names_none_is_chosen() {
        let (_folder, repository) = repository(&["ab.py", "aB.py", "AB.py"]);
        let meant = ["AB.py", "aB.py", "ab.py"].map(str::to_owned).to_vec();
        assert_eq!(
            repository.respell("Ab.py", Likeness::Case),
            Some(RespelledPath::Meant(meant))
        );
        assert_eq!(repository.respell("ab.py", Likeness::Case), None);
    }

    #[test]
    fn a_twin_is_found_on_each_level_of_a_path() {
        let (_folder, repository) = repository(&[NFD, "src/a.py"]);
        assert_eq!(repository.find_twin("caf\u{e9}.py").as_deref(), Some(NFD));
        assert_eq!(repository.find_twin("SRC/b.py").as_deref(), Some("src"));
        for twin in ["src/\u{200b}a.py", "src/a.py\u{a0}", "src/ a.py"] {
            assert_eq!(repository.find_twin(twin).as_deref(), Some("src/a.py"), "{twin:?}");
        }
        for fine in [NFD, "src/a.py", "src/b.py", "new/a.py"] {
            assert_eq!(repository.find_twin(fine), None, "{fine}");
        }
    }
}
