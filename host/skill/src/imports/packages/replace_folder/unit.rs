//! Folders of packages, before and after.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

use super::*;

/// A real folder and one that a run has left, both named `packages`.
struct Pair(tempfile::TempDir);

impl Pair {
    /// Both with the same content.
    fn new(files: &[(&str, &str)]) -> Self {
        let pair = Self(tempfile::tempdir().expect("there is room for a folder"));
        for (path, text) in files {
            pair.write("real", path, text);
            pair.write("left", path, text);
            let modified = fs::metadata(pair.at("real", path))
                .and_then(|file| file.modified())
                .expect("it is there");
            let copy = File::open(pair.at("left", path)).expect("it is there");
            copy.set_modified(modified).expect("it is ours");
        }
        pair
    }

    fn at(&self, side: &str, path: &str) -> PathBuf {
        self.0.path().join(side).join("packages").join(path)
    }

    fn write(&self, side: &str, path: &str, text: &str) {
        let place = self.at(side, path);
        fs::create_dir_all(place.parent().expect("it has one")).expect("folders can be made");
        fs::write(place, text).expect("files can be written");
    }

    fn put(&self, masked: &[&str]) -> Result<PlacedFolder, PlaceError> {
        self.put_until(masked, &CancellationToken::new())
    }

    fn put_until(&self, masked: &[&str], cancel: &CancellationToken) -> Result<PlacedFolder, PlaceError> {
        let open = |side: &str| {
            fs::create_dir_all(self.0.path().join(side)).expect("folders can be made");
            let flags = OFlags::RDONLY | OFlags::DIRECTORY;
            rustix::fs::open(self.0.path().join(side), flags, Mode::empty()).expect("it is there")
        };
        let (real, left) = (
            open("real"),
            open_folder(open("left"), "packages").expect("it is there"),
        );
        let masked = masked.iter().map(PathBuf::from).collect();
        let folder = PackageFolder {
            parent: real.as_fd(),
            name: OsStr::new("packages"),
            masked: &masked,
            cancel,
        };
        place_folder(&folder, &left)
    }

    /// Everything of a side: mode, and content or target.
    fn tree(&self, side: &str) -> BTreeMap<PathBuf, (u32, String)> {
        let base = self.0.path().join(side);
        let (mut todo, mut tree) = (vec![base.clone()], BTreeMap::new());
        while let Some(folder) = todo.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let (path, metadata) = (entry.path(), entry.metadata().expect("it is there"));
                let content = match (metadata.is_dir(), metadata.is_symlink()) {
                    (true, _) => String::new(),
                    (_, true) => fs::read_link(&path).expect("it is one").to_string_lossy().into_owned(),
                    _ => fs::read_to_string(&path).unwrap_or_default(),
                };
                if metadata.is_dir() {
                    todo.push(path.clone());
                }
                let relative = path.strip_prefix(&base).expect("it lies below").to_owned();
                tree.insert(relative, (metadata.mode(), content));
            }
        }
        tree
    }
}

#[test]
fn the_real_folder_becomes_what_was_left_and_only_that_changes() {
    let pair = Pair::new(&[
        ("kept/a.py", "a"),
        ("old/b.py", "b"),
        ("gone.txt", "x"),
        ("turns/c", "c"),
    ]);
    let kept = fs::metadata(pair.at("real", "kept/a.py")).expect("it is there").ino();
    fs::remove_file(pair.at("left", "gone.txt")).expect("it is there");
    fs::remove_dir_all(pair.at("left", "turns")).expect("it is there");
    pair.write("left", "turns", "now a file");
    pair.write("left", "old/b.py", "newer");
    pair.write("left", "new/deep/d.py", "d");
    symlink("../new/deep/d.py", pair.at("left", "new/run")).expect("links can be made");
    fs::set_permissions(pair.at("left", "new/deep/d.py"), PermissionsExt::from_mode(0o4755)).expect("it is ours");
    fs::set_permissions(pair.at("left", "kept"), PermissionsExt::from_mode(0o700)).expect("it is ours");
    let placed = pair.put(&[]).expect("it can be put in place");
    assert_eq!(placed.changed(), 7);
    placed.keep();
    let mut expected = pair.tree("left");
    // Set-user-ID bits are dropped.
    expected
        .get_mut(Path::new("packages/new/deep/d.py"))
        .expect("it is there")
        .0 &= !0o4000;
    assert_eq!(pair.tree("real"), expected);
    assert_eq!(
        fs::metadata(pair.at("real", "kept/a.py")).expect("it is there").ino(),
        kept
    );
    let time = |side| {
        fs::metadata(pair.at(side, "old/b.py"))
            .and_then(|file| file.modified())
            .expect("it is there")
    };
    assert_eq!(time("real"), time("left"));
}

#[test]
fn the_first_packages_make_the_folder() {
    let pair = Pair::new(&[]);
    pair.write("left", "a/index.js", "a");
    let placed = pair.put(&[]).expect("it can be put in place");
    assert!(placed.take_back());
    assert!(!pair.at("real", "").exists());
    pair.put(&[]).expect("it can be put in place").keep();
    assert_eq!(pair.tree("real"), pair.tree("left"));
}

#[test]
fn what_was_put_in_place_can_be_taken_back() {
    let pair = Pair::new(&[("kept/a.py", "a"), ("gone/b.py", "b"), ("other.txt", "x")]);
    let before = pair.tree("real");
    fs::remove_dir_all(pair.at("left", "gone")).expect("it is there");
    pair.write("left", "other.txt", "changed");
    pair.write("left", "new/c.py", "c");
    fs::set_permissions(pair.at("left", "kept"), PermissionsExt::from_mode(0o700)).expect("it is ours");
    let placed = pair.put(&[]).expect("it can be put in place");
    assert_ne!(pair.tree("real"), before);
    assert!(placed.take_back());
    assert_eq!(pair.tree("real"), before);
}

#[test]
fn what_the_run_could_not_see_stays() {
    let pair = Pair::new(&[("x/code.js", "x"), ("y/code.js", "y")]);
    for name in ["x/.npmrc", "y/.env", ".env"] {
        pair.write("real", name, "secret");
    }
    fs::remove_dir_all(pair.at("left", "x")).expect("it is there");
    pair.write("left", "y/.env", "forged");
    let masked = ["x/.npmrc", "y/.env", ".env"];
    pair.put(&masked).expect("it can be put in place").keep();
    for name in masked {
        assert_eq!(
            fs::read_to_string(pair.at("real", name)).expect("it is there"),
            "secret",
            "{name}"
        );
    }
    assert!(!pair.at("real", "x/code.js").exists());
}

#[test]
fn what_is_no_file_is_refused_and_nothing_changes() {
    let pair = Pair::new(&[("a.py", "a")]);
    pair.write("left", "a.py", "changed");
    pair.write("left", "b/c.py", "c");
    let before = pair.tree("real");
    rustix::fs::mkfifoat(rustix::fs::CWD, pair.at("left", "b/pipe"), Mode::RWXU).expect("it can be made");
    let error = pair.put(&[]).err().expect("nobody installs a FIFO");
    assert_eq!(error.to_string(), "`b/pipe` is neither a file, a folder nor a link");
    assert_eq!(pair.tree("real"), before);
}

#[test]
fn links_out_of_the_folder_are_links_and_are_not_followed() {
    let pair = Pair::new(&[("a/x", "x")]);
    let outside = pair.0.path().join("outside");
    fs::create_dir(&outside).expect("folders can be made");
    fs::remove_dir_all(pair.at("left", "a")).expect("it is there");
    symlink(&outside, pair.at("left", "a")).expect("links can be made");
    pair.put(&[]).expect("it can be put in place").keep();
    assert_eq!(fs::read_link(pair.at("real", "a")).expect("it is a link"), outside);
    // The next installation finds the link, and writes beside it, not through it.
    fs::remove_file(pair.at("left", "a")).expect("it is there");
    pair.write("left", "a/evil", "x");
    pair.put(&[]).expect("it can be put in place").keep();
    assert_eq!(fs::read_dir(&outside).expect("it is there").count(), 0);
    assert!(pair.at("real", "a/evil").is_file());
    assert!(!pair.at("real", "a").is_symlink());
}

#[test]
fn folders_within_folders_without_end_are_refused() {
    let pair = Pair::new(&[("a.py", "a")]);
    pair.write("left", &format!("{}x", "d/".repeat(DEPTH_MAX + 4)), "x");
    let error = pair.put(&[]).err().expect("nobody installs that");
    assert_eq!(error.to_string(), "the installation left too many files");
    assert_eq!(pair.tree("real").len(), 2);
}

/// The names of stages in the real folder.
fn stages(pair: &Pair) -> Vec<OsString> {
    let entries = fs::read_dir(pair.at("real", "")).expect("it is there").flatten();
    let names = entries.map(|entry| entry.file_name());
    names.filter(|name| is_stage(name)).collect()
}

#[test]
fn what_a_killed_process_left_is_kept_until_new_packages_are_in_place() {
    let pair = Pair::new(&[("a.py", "old")]);
    pair.write("left", "a.py", "newer");
    // Killed when names had been changed: what was replaced lies in the stage, and nowhere else.
    drop(pair.put(&[]).expect("it can be put in place"));
    let left = stages(&pair);
    assert_eq!(left.len(), 1);
    let old = pair.at("real", "").join(&left[0]).join("old-0");
    let is_there = || fs::read_to_string(&old).is_ok_and(|text| text == "old");
    assert!(is_there());

    // The next one fails, and the one after it is taken back: it is still there.
    rustix::fs::mkfifoat(rustix::fs::CWD, pair.at("left", "pipe"), Mode::RWXU).expect("it can be made");
    pair.put(&[]).err().expect("nobody installs a FIFO");
    assert!(is_there());
    fs::remove_file(pair.at("left", "pipe")).expect("it is there");
    pair.write("left", "b.py", "b");
    assert!(pair.put(&[]).expect("it can be put in place").take_back());
    assert!(is_there());

    // Only when one has gone well it is swept away.
    let placed = pair.put(&[]).expect("it can be put in place");
    assert!(is_there());
    placed.keep();
    assert_eq!(stages(&pair), [""; 0]);
    assert_eq!(pair.tree("real"), pair.tree("left"));
}

#[test]
fn nothing_is_put_in_place_for_a_session_that_has_ended() {
    let pair = Pair::new(&[("a.py", "a"), ("b.py", "b")]);
    pair.write("left", "a.py", "other");
    fs::remove_file(pair.at("left", "b.py")).expect("it is there");
    let before = pair.tree("real");
    let cancel = CancellationToken::new();
    cancel.cancel();
    // With something to copy, and with names to change alone.
    let error = pair.put_until(&[], &cancel).err().expect("it is over");
    assert_eq!(error.to_string(), "the call was cancelled");
    pair.write("left", "a.py", "a");
    pair.put_until(&[], &cancel).err().expect("it is over");
    assert_eq!(pair.tree("real"), before);
}

#[test]
fn the_stage_of_another_installation_under_way_is_let_alone() {
    let pair = Pair::new(&[("a.py", "a")]);
    pair.write("left", "a.py", "newer");
    let other = pair.put(&[]).expect("it can be put in place");
    pair.write("left", "b.py", "b");
    pair.put(&[]).expect("it can be put in place").keep();
    assert_eq!(stages(&pair).len(), 1);
    other.keep();
    assert_eq!(stages(&pair), [""; 0]);
}

#[test]
fn what_a_run_calls_a_stage_is_not_put_in_place() {
    let pair = Pair::new(&[("a.py", "a")]);
    pair.write("left", &format!("{STAGE}1/new-0"), "x");
    pair.put(&[]).expect("it can be put in place").keep();
    assert_eq!(stages(&pair), [""; 0]);
}
