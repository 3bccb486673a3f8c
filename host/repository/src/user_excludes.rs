//! The user's own ignore file for all repositories: `core.excludesFile` of git's configuration.
//!
//! Configuration and ignore file must belong to the user, the owner of the home directory or root. The configuration of
//! the repository does not count: an archive may have brought it along, and it would replace the user's own rules. Its
//! place for such rules is `.git/info/exclude`.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use globset::{GlobBuilder, escape};
use rustix::fs::{Mode, OFlags};
use tool_core::limits::GIT_CONFIG_BYTES_MAX;

use crate::git_file::read_bounded;
use crate::git_settings::visit_settings;
use crate::root::{canonical_path, find_root, is_trusted_owner, read_owner};
use crate::tracked::GitLayout;

/// Files of the user's configuration, with what they include.
const CONFIG_FILES_MAX: usize = 64;

/// The user's ignore file, and the files that name it.
#[derive(Debug)]
pub(crate) struct UserExcludes {
    home: PathBuf,
    /// The ignore file; `None` if the configuration names none that git would read.
    file: Option<PathBuf>,
    /// Configuration files that were looked for.
    configuration: Vec<PathBuf>,
}

impl UserExcludes {
    /// Reads the configuration of the machine and the user, as it applies to the repository at `root`.
    pub(crate) fn find(root: &Path) -> Option<Self> {
        Some(Self::find_below(
            &std::env::home_dir()?,
            Path::new("/etc/gitconfig"),
            root,
        ))
    }

    fn find_below(home: &Path, system: &Path, root: &Path) -> Self {
        let home = canonical_path(home);
        let folder = home.join(".config/git");
        let own = home.join(".gitconfig");
        let mut excludes = Self {
            home,
            file: Some(folder.join("ignore")),
            configuration: Vec::new(),
        };
        // The last setting counts.
        for file in [system.to_owned(), folder.join("config"), own] {
            excludes.read_config(file, root);
        }
        excludes
    }

    /// The files on which the rules depend.
    pub(crate) fn files(self) -> impl Iterator<Item = PathBuf> {
        self.configuration.into_iter().chain(self.file)
    }

    /// Opens the ignore file. Also returns its name for an answer.
    pub(crate) fn open(&self) -> Option<(File, String)> {
        let file = self.file.as_ref()?;
        Some((self.open_own(file)?, file.to_string_lossy().into_owned()))
    }

    fn read_config(&mut self, file: PathBuf, root: &Path) {
        if self.configuration.len() >= CONFIG_FILES_MAX || self.configuration.contains(&file) {
            return;
        }
        let text = self
            .open_own(&file)
            .and_then(|file| read_bounded(file, GIT_CONFIG_BYTES_MAX));
        let folder = file.parent().unwrap_or(Path::new("/")).to_owned();
        self.configuration.push(file);
        visit_settings(
            &String::from_utf8_lossy(&text.unwrap_or_default()),
            |section, key, value| match (section, key) {
                ("core", "excludesfile") => {
                    // git reads a relative path from the top of the work tree.
                    let file = find_root(root).join(self.expand(value));
                    self.file = Some(file).filter(|_| !value.is_empty());
                }
                ("include", "path") => self.read_config(folder.join(self.expand(value)), root),
                (_, "path") => {
                    let condition = section.strip_prefix("includeif.");
                    if condition.is_some_and(|condition| self.holds(condition, &folder, root)) {
                        self.read_config(folder.join(self.expand(value)), root);
                    }
                }
                _ => {}
            },
        );
    }

    fn expand(&self, path: &str) -> PathBuf {
        match path.strip_prefix("~/") {
            Some(rest) => self.home.join(rest),
            None => PathBuf::from(path),
        }
    }

    /// True if the git directory of `root` is where the condition says. Other conditions do not hold.
    fn holds(&self, condition: &str, folder: &Path, root: &Path) -> bool {
        let (kind, place) = condition.split_once(':').unwrap_or_default();
        let Some(layout) = GitLayout::find(root).filter(|_| matches!(kind, "gitdir" | "gitdir/i")) else {
            return false;
        };
        let below = |folder: &Path, rest: &str| format!("{}/{rest}", escape(&folder.to_string_lossy()));
        let mut glob = match (place.strip_prefix("~/"), place.strip_prefix("./")) {
            (Some(rest), _) => below(&self.home, rest),
            (_, Some(rest)) => below(folder, rest),
            _ if place.starts_with('/') => place.to_owned(),
            _ => format!("**/{place}"),
        };
        if glob.ends_with('/') {
            glob.push_str("**");
        }
        let glob = GlobBuilder::new(&glob)
            .literal_separator(true)
            .case_insensitive(kind == "gitdir/i")
            .build();
        glob.is_ok_and(|glob| glob.compile_matcher().is_match(canonical_path(&layout.git)))
    }

    /// Opens a file that a stranger cannot have put there. Links are followed: many keep these files elsewhere.
    fn open_own(&self, path: &Path) -> Option<File> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
        let metadata = file.metadata().ok().filter(std::fs::Metadata::is_file)?;
        let user = rustix::process::geteuid().as_raw();
        is_trusted_owner(metadata.uid(), read_owner(&self.home), user).then_some(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(place: &Path, text: &str) {
        std::fs::create_dir_all(place.parent().expect("it has a parent")).expect("the folder is writable");
        std::fs::write(place, text).expect("the folder is writable");
    }

    /// The ignore file that the user's configuration names, relative to the home directory.
    fn named(files: &[(&str, &str)]) -> Option<String> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let home = folder.path().canonicalize().expect("it is there");
        for (name, text) in files {
            write(&home.join(name), &text.replace("HOME", home.to_str().expect("UTF-8")));
        }
        write(&home.join("Work/shop/.git/HEAD"), "ref: refs/heads/main\n");
        let excludes = UserExcludes::find_below(&home, &home.join("system"), &home.join("Work/shop"));
        let file = excludes.file?;
        Some(file.strip_prefix(&home).expect("below home").display().to_string())
    }

    #[test]
    fn the_users_ignore_file_is_the_one_that_git_reads() {
        const SET: &str = "[core]\n\texcludesFile = ~/mine\n";
        let include = |condition: &str| format!("[includeIf \"{condition}\"]\n\tpath = more\n");
        let included = |condition: &str| named(&[(".gitconfig", &include(condition)), ("more", SET)]);
        let mine = Some("mine".to_owned());
        let default = Some(".config/git/ignore".to_owned());
        assert_eq!(named(&[]), default);
        assert_eq!(named(&[("system", SET)]), mine);
        assert_eq!(
            named(&[
                (".config/git/config", SET),
                ("system", "[core]\nexcludesFile = ~/other")
            ]),
            mine
        );
        assert_eq!(
            named(&[
                (".gitconfig", SET),
                (".config/git/config", "[core]\nexcludesFile = ~/other")
            ]),
            mine
        );
        assert_eq!(named(&[(".gitconfig", "[core]\nexcludesFile = HOME/mine")]), mine);
        assert_eq!(
            named(&[(".gitconfig", "[CORE] excludesfile = \"~/mine\" # so\n")]),
            mine
        );
        assert_eq!(
            named(&[(".gitconfig", "[core]\nexcludesFile = ~/my rules\n")]).as_deref(),
            Some("my rules")
        );
        assert_eq!(
            named(&[(".gitconfig", "[core]\nexcludesFile = ~/other\nexcludesFile = ~/mine")]),
            mine
        );
        assert_eq!(
            named(&[(
                ".gitconfig",
                "[other]\nexcludesFile = ~/mine\n[core \"x\"]\nexcludesFile = ~/mine"
            )]),
            default
        );
        assert_eq!(named(&[(".gitconfig", "[core]\nexcludesFile =")]), None);
        let relative = named(&[(".gitconfig", "[core]\nexcludesFile = rules")]);
        assert_eq!(relative.as_deref(), Some("Work/shop/rules"));
        assert_eq!(
            named(&[
                (".gitconfig", "[include]\npath = a"),
                ("a", "[include]\npath = ~/b"),
                ("b", SET)
            ]),
            mine
        );
        assert_eq!(
            named(&[(
                ".gitconfig",
                "[include]\npath = .gitconfig\n[core]\nexcludesFile = ~/mine"
            )]),
            mine
        );
        for condition in [
            "gitdir:~/Work/",
            "gitdir:~/Work/shop/.git",
            "gitdir:Work/",
            "gitdir:./W*/",
            "gitdir/i:~/work/",
            "gitdir:**/shop/**",
        ] {
            assert_eq!(included(condition), mine, "{condition}");
        }
        for condition in [
            "gitdir:~/work/",
            "gitdir:~/Work/shop",
            "gitdir:~/Wo/",
            "onbranch:main",
            "gitdir:[",
            "",
        ] {
            assert_eq!(included(condition), default, "{condition}");
        }
        // A repository's own configuration is not asked.
        assert_eq!(named(&[("Work/shop/.git/config", SET)]), default);
    }
}
