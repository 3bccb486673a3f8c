//! Where in the repository a manifest sends npm for more: to its workspaces, and to packages that lie here.
//!
//! Patterns are taken widely: a folder that npm leaves out, such as one that a later pattern excepts, is looked into.

use std::collections::BTreeSet;
use std::path::Path;

use super::records::{Entry, WORKSPACES};
use crate::limits;
use crate::repository::{normalise, path};
use crate::skill::bindings::tool::skill::types::Failure;
use crate::skill::imports::failure::hinted;

/// How many folders were looked into.
#[derive(Default)]
pub(super) struct Folders {
    count: usize,
}

impl Folders {
    /// Folders and files, relative to the root, that these entries of a manifest lead to.
    pub(super) fn next(&mut self, root: &Path, entries: &BTreeSet<Entry>) -> Result<Vec<String>, Failure> {
        let mut places = Vec::new();
        for entry in entries {
            match entry.table == WORKSPACES {
                true => self.workspaces(root, &entry.of, &entry.name, &mut places)?,
                false => places.extend(local(root, entry)),
            }
        }
        Ok(places)
    }

    fn workspaces(&mut self, root: &Path, of: &str, pattern: &str, places: &mut Vec<String>) -> Result<(), Failure> {
        let parts = pattern.trim_start_matches(['!', '/']).split('/');
        let parts: Vec<&str> = parts.filter(|part| !matches!(*part, "" | ".")).collect();
        // What is not read here stands for any folder: alternatives with slashes among them, and what else npm knows.
        let is_open = |part: &&str| {
            part.matches('{').count() != part.matches('}').count() || part.contains(['(', '\\']) || part.contains("[:")
        };
        match parts.iter().any(is_open) {
            true => self.matching(root, of, &["**"], places),
            false => self.matching(root, of, &parts, places),
        }
    }

    fn matching(&mut self, root: &Path, folder: &str, parts: &[&str], places: &mut Vec<String>) -> Result<(), Failure> {
        let Some((part, rest)) = parts.split_first() else {
            places.push(folder.to_owned());
            return Ok(());
        };
        if !part.contains(['*', '?', '[', '{']) {
            return match normalise(&path::join(folder, part)) {
                Ok(folder) => self.matching(root, &folder, rest, places),
                Err(_) => Ok(()),
            };
        }
        if *part == "**" {
            self.matching(root, folder, rest, places)?;
        }
        // npm may read what this does not.
        let matcher = globset::Glob::new(part).map(|glob| glob.compile_matcher()).ok();
        let is_match = |name: &str| matcher.as_ref().is_none_or(|matcher| matcher.is_match(name));
        for (name, is_link) in self.inner(root, folder)? {
            let inner = path::join(folder, &name);
            match *part {
                // Links can lead in circles.
                "**" if is_link => self.matching(root, &inner, rest, places)?,
                "**" => self.matching(root, &inner, parts, places)?,
                _ if is_match(&name) => self.matching(root, &inner, rest, places)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Folders in a folder, and links, which may lead to one. Those of packages and of git hold no workspace.
    fn inner(&mut self, root: &Path, folder: &str) -> Result<Vec<(String, bool)>, Failure> {
        self.count += 1;
        if self.count > limits::INSTALL_FOLDERS_MAX {
            let message = format!(
                "The workspaces of `package.json` may lie in more than {} folders.",
                limits::INSTALL_FOLDERS_MAX
            );
            return Err(hinted(
                "limit",
                message,
                "name the folders in `workspaces` more closely",
            ));
        }
        let entries = std::fs::read_dir(root.join(folder)).into_iter().flatten().flatten();
        let folder = |entry: std::fs::DirEntry| {
            let kind = entry
                .file_type()
                .ok()
                .filter(|kind| kind.is_dir() || kind.is_symlink())?;
            Some((entry.file_name().into_string().ok()?, kind.is_symlink()))
        };
        let folders = entries.filter_map(folder);
        Ok(folders
            .filter(|(name, _)| !matches!(&**name, "node_modules" | ".git"))
            .collect())
    }
}

/// The place of a package that lies here, by what is written: `file:../x`, `./x.tgz`.
fn local(root: &Path, entry: &Entry) -> Option<String> {
    let written = ["file:", "link:"]
        .iter()
        .find_map(|kind| entry.specifier.strip_prefix(kind));
    let is_path = |text: &&str| text.starts_with(['.', '/']);
    let place = written.or_else(|| Some(&*entry.specifier).filter(is_path))?;
    let place = place.strip_prefix("//").unwrap_or(place);
    let place = match Path::new(place).strip_prefix(root) {
        Ok(inside) => normalise(inside.to_str()?),
        Err(_) => normalise(&path::join(&entry.of, place)),
    };
    place.ok().filter(|place| !place.is_empty())
}

#[cfg(test)]
mod unit {
    use super::*;

    fn entry(table: &str, name: &str, specifier: &str) -> Entry {
        let [record, of, table, name, specifier] = ["package.json", "", table, name, specifier].map(str::to_owned);
        Entry {
            record,
            of,
            table,
            name,
            specifier,
        }
    }

    fn next(folders: &mut Folders, root: &Path, entry: Entry) -> Result<Vec<String>, Failure> {
        let mut places = folders.next(root, &BTreeSet::from([entry]))?;
        places.sort();
        Ok(places)
    }

    #[test]
    fn a_pattern_is_taken_as_widely_as_it_can_be_meant() {
        let folder = tempfile::tempdir().expect("there is room for a folder");
        let root = folder.path();
        for path in ["packages/a/deep", "packages/b", ".hidden/c", "node_modules/x"] {
            std::fs::create_dir_all(root.join(path)).expect("folders can be made");
        }
        std::os::unix::fs::symlink(root, root.join("packages/around")).expect("links can be made");
        let places =
            |pattern| next(&mut Folders::default(), root, entry(WORKSPACES, pattern, "")).expect("they are few");
        let direct = ["packages/a", "packages/around", "packages/b"];
        assert_eq!(places("packages/*"), direct);
        assert_eq!(places("./packages/*/"), direct);
        assert_eq!(places("!packages/{a,b}"), ["packages/a", "packages/b"]);
        assert_eq!(places("packages/a"), ["packages/a"]);
        assert_eq!(
            places("packages/**"),
            [
                "packages",
                "packages/a",
                "packages/a/deep",
                "packages/around",
                "packages/b"
            ]
        );
        let all = [
            "",
            ".hidden",
            ".hidden/c",
            "packages",
            "packages/a",
            "packages/a/deep",
            "packages/around",
            "packages/b",
        ];
        assert_eq!(places("{packages/a,.hidden/c}"), all);
        assert_eq!(places("+(packages)/a"), all);
        assert_eq!(places("packages/[[:alpha:]]"), all);
        assert_eq!(places("packages/["), direct, "npm may know it");
        assert!(places("../*").is_empty());
    }

    #[test]
    fn packages_that_lie_here_are_found_by_every_spelling() {
        let root = Path::new("/home/ada/x");
        let place = |specifier| local(root, &entry("dependencies", "x", specifier));
        for specifier in [
            "file:lib/x",
            "file:./lib/x",
            "file://./lib/x",
            "link:lib/x",
            "./lib/x",
            "file:/home/ada/x/lib/x",
            "/home/ada/x/lib/x",
        ] {
            assert_eq!(place(specifier).as_deref(), Some("lib/x"), "{specifier}");
        }
        for specifier in [
            "file:../x",
            "^1.0.0",
            "user/repository",
            "npm:x@1",
            "https://x.example/x.tgz",
            ".",
        ] {
            assert_eq!(place(specifier), None, "{specifier}");
        }
    }

    /// `INSTALL_FOLDERS_MAX`.
    #[test]
    fn so_many_folders_are_looked_into() {
        let folder = tempfile::tempdir().expect("there is room for a folder");
        std::fs::create_dir(folder.path().join("a")).expect("folders can be made");
        let mut folders = Folders {
            count: limits::INSTALL_FOLDERS_MAX - 2,
        };
        let all = || entry(WORKSPACES, "**", "");
        assert_eq!(
            next(&mut folders, folder.path(), all()).expect("it is the last"),
            ["", "a"]
        );
        let refused = next(&mut folders, folder.path(), all()).expect_err("they are too many");
        assert_eq!(
            refused.message,
            "The workspaces of `package.json` may lie in more than 20000 folders."
        );
    }
}
