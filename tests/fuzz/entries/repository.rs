//! Hostile names and ignore files: a hidden file stays hidden under every spelling, and nothing leads out of the root.

use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use tokio_util::sync::CancellationToken;

use super::rules::fold_case;
use super::{EntryKind, Options, Repository, Rules, normalise_path, path, secrets};
use input::Input;

#[path = "../input.rs"]
mod input;

/// Content of every hidden file in the test's tree, and of the file outside.
const CANARY: &[u8] = b"canary: nobody may read this";

/// A path has one form, which never escapes; a hidden one is so in every spelling, and protected besides.
pub fn paths(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let asked = input.text();
    let lines = |text: String| text.lines().map(str::to_owned).collect::<Vec<_>>();
    let (hide, reveal, protect) = (lines(input.text()), lines(input.text()), lines(input.text()));
    if let Ok(normal) = normalise_path(&asked) {
        let is_plain = |part: &str| !matches!(part, "" | "." | "..");
        assert!(normal.is_empty() || normal.split('/').all(is_plain), "{normal:?}");
        assert!(!normal.contains('\0') && !normal.starts_with('/'));
        assert_eq!(normalise_path(&normal).as_deref(), Ok(normal.as_str()));
        let (directory, name) = path::split_path(&normal);
        assert_eq!(path::join_path(directory, name), normal);
        assert!(path::list_ancestors(&normal).all(|above| normal.starts_with(&format!("{above}/"))));
    }
    let folded = fold_case(&asked).into_owned();
    assert_eq!(fold_case(&folded), folded, "folding is done once");
    assert_eq!(fold_case(&asked.to_uppercase()), folded);
    spelled(&Rules::default(), &asked);
    if let Ok(rules) = Rules::new(&hide, &reveal, &protect) {
        spelled(&rules, &asked);
        let table = Rules::default().protected(&asked);
        assert!(
            table.is_none() || rules.protected(&asked).is_some(),
            "to reveal is not to give away"
        );
    }
    let _ = (
        secrets::find_reason(&asked, asked.as_bytes()),
        secrets::is_suspect(&asked),
        secrets::bytes_wanted(&asked),
    );
}

fn spelled(rules: &Rules, asked: &str) {
    let outside = normalise_path(asked).is_err();
    for is_directory in [false, true] {
        let hidden = rules.hidden(asked, is_directory);
        assert!(!outside || hidden.is_some(), "what lies outside is hidden");
        for spelling in [format!("./{asked}"), asked.to_uppercase(), asked.to_lowercase()] {
            // A dot before an absolute path makes another one of it.
            if normalise_path(&spelling).is_ok() && !outside {
                assert_eq!(
                    rules.hidden(&spelling, is_directory),
                    hidden,
                    "{asked:?} as {spelling:?}"
                );
                assert_eq!(
                    rules.protected(&spelling),
                    rules.protected(asked),
                    "{asked:?} as {spelling:?}"
                );
            }
        }
        assert!(
            hidden.is_none() || is_directory || rules.protected(asked).is_some(),
            "hidden, not protected"
        );
    }
    if !outside && rules.hidden(asked, true).is_some() {
        // Only the user's own word takes a file out of a hidden directory, and that for the directory's own name.
        let inside = format!("{asked}/x");
        assert!(
            rules.hidden(&inside, false).is_some(),
            "{inside:?} lies in what is hidden"
        );
    }
}

/// Whatever a skill asks to open: what it gets is a file or a directory of the tree, none that is hidden.
pub fn opening(bytes: &[u8]) {
    static TREE: LazyLock<FuzzTree> = LazyLock::new(FuzzTree::new);
    let asked = String::from_utf8_lossy(bytes);
    let repository = &TREE.repository;
    let Ok(opened) = repository.open_at(&asked) else {
        assert!(
            repository.read(&asked, 1024).is_err(),
            "what is refused once is refused again"
        );
        return;
    };
    assert_eq!(normalise_path(&opened.path).as_deref(), Ok(opened.path.as_str()));
    let is_directory = opened.kind == EntryKind::Directory;
    assert_eq!(
        repository.hidden(&opened.path, is_directory),
        None,
        "{asked:?} is hidden"
    );
    if is_directory {
        let listed = repository
            .entries(&opened.path, &CancellationToken::new())
            .expect("it was opened");
        assert!(
            listed.entries.iter().all(|entry| !entry.path.contains("secret")),
            "{asked:?} shows what is hidden"
        );
        return;
    }
    let mut content = Vec::new();
    let file = fs::File::from(opened.handle);
    file.take(4096)
        .read_to_end(&mut content)
        .expect("a file of the tree can be read");
    assert!(!content.starts_with(CANARY), "{asked:?} leads to what nobody may read");
}

/// Ignore files only ever leave out: no text of one adds a file, shows a hidden one, or stalls a walk.
pub fn ignores(bytes: &[u8]) {
    static TREE: LazyLock<FuzzTree> = LazyLock::new(FuzzTree::new);
    let mut input = Input::new(bytes);
    let root = TREE.repository.root();
    for place in [".gitignore", ".ignore", "dir/.gitignore"] {
        fs::write(root.join(place), input.part()).expect("the tree can be written");
    }
    let repository = open(root);
    let list = repository
        .list(&CancellationToken::new())
        .expect("the tree can be walked");
    assert!(list.complete && list.files.windows(2).all(|pair| pair[0].path < pair[1].path));
    for entry in &list.files {
        assert!(TREE.visible.contains(&entry.path), "{:?} is listed", entry.path);
    }
}

/// A tree with one of everything, and a secret beside it.
struct FuzzTree {
    repository: Arc<Repository>,
    visible: Vec<String>,
    _place: tempfile::TempDir,
}

impl FuzzTree {
    fn new() -> Self {
        let place = tempfile::tempdir().expect("a temporary folder");
        let root = place.path().join("root");
        let write = |path: &str, content: &[u8]| {
            let path = root.join(path);
            fs::create_dir_all(path.parent().expect("it lies in the root")).expect("it can be made");
            fs::write(path, content).expect("it can be written");
        };
        let visible = ["a.py", "b.md", "dir/c.py", "dir/sub/d.py", "env.example", "ä.py"];
        for path in visible {
            write(path, b"x = 1\n");
        }
        for path in [
            ".env",
            "dir/.env.secret",
            ".git/secret",
            "secret.key",
            "dir/id_rsa",
            ".aws/secret",
        ] {
            write(path, CANARY);
        }
        write(".git/HEAD", b"ref: refs/heads/main\n");
        fs::write(place.path().join("outside"), CANARY).expect("it can be written");
        for (link, target) in [
            ("out", "../outside"),
            ("up", ".."),
            ("hide", ".env"),
            ("dir/git", "../.git"),
            ("loop", "loop"),
            ("proc", "/proc/self/root"),
            ("in", "dir/c.py"),
        ] {
            symlink(target, root.join(link)).expect("it can be made");
        }
        fs::hard_link(root.join(".env"), root.join("twin")).expect("it can be made");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            root.join("fifo"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .expect("it can be made");
        let ignore_files = [".gitignore", ".ignore", "dir/.gitignore"];
        Self {
            repository: open(&root),
            visible: visible
                .iter()
                .chain(&ignore_files)
                // A list shows names: another name of a hidden file is one, and refused only where it is opened.
                .chain(&["twin"])
                .map(|&path| path.to_owned())
                .collect(),
            _place: place,
        }
    }
}

fn open(root: &Path) -> Arc<Repository> {
    Repository::open(root, &Options::default()).expect("a root")
}

#[cfg(test)]
#[path = "../replay.rs"]
mod replay;

#[cfg(test)]
mod tests {
    super::replay::replay_targets!("../..", ignores opening paths);
}
