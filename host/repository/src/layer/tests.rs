use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tokio_util::sync::CancellationToken;

use super::*;
use crate::bulk::{ReadBounds, ReadOutcome};
use crate::{EntryKind, OpenError, Options, Repository};

struct Preview {
    place: tempfile::TempDir,
    layer: Arc<Layer>,
    repository: Arc<Repository>,
}

impl Preview {
    /// A preview of a tree with these files.
    fn of(files: &[(&str, &str)]) -> Self {
        let place = tempfile::tempdir().expect("a temporary folder");
        let root = place.path().join("root");
        fs::create_dir(&root).expect("folders can be made");
        for (path, text) in files {
            write(&root, path, text);
        }
        let layer = Layer::create(&place.path().join("layer")).expect("it can be made");
        let options = Options {
            layer: Some(Arc::clone(&layer)),
            ..Options::default()
        };
        let repository = Repository::open(&root, &options).expect("the folder is there");
        Self {
            place,
            layer,
            repository,
        }
    }

    fn put(&self, path: &str, text: Option<&str>) {
        let change = FileChange {
            path: path.to_owned(),
            before: None,
            after: text.map(|text| state(text, 0o644)),
        };
        self.layer.put(&[change]).expect("there is room");
    }

    fn read(&self, path: &str) -> Result<String, String> {
        let read = self.repository.read(path, 1_000);
        read.map(|content| String::from_utf8(content).expect("it is text"))
            .map_err(|error| error.to_string())
    }

    fn listed(&self) -> Vec<String> {
        let list = self
            .repository
            .list(&CancellationToken::new())
            .expect("it can be listed");
        list.files.iter().map(|file| file.path.clone()).collect()
    }

    fn entries(&self, directory: &str) -> Vec<(String, EntryKind)> {
        let list = self.repository.entries(directory, &CancellationToken::new());
        let entries = list.expect("it is a directory").entries;
        entries.into_iter().map(|entry| (entry.path, entry.kind)).collect()
    }
}

fn write(root: &Path, path: &str, text: &str) {
    let place = root.join(path);
    fs::create_dir_all(place.parent().expect("it has a parent")).expect("folders can be made");
    fs::write(place, text).expect("files can be written");
}

fn state(text: &str, mode: u32) -> FileState {
    FileState {
        content: text.as_bytes().to_vec(),
        mode,
    }
}

#[test]
fn a_layer_is_seen_before_the_tree_which_stays_as_it_is() {
    let preview = Preview::of(&[("a.py", "old"), ("b.py", "old"), ("src/c.py", "old")]);
    preview.put("a.py", Some("new"));
    preview.put("b.py", None);
    preview.put("src/deep/d.py", Some("new"));
    assert_eq!(preview.read("a.py"), Ok("new".into()));
    assert_eq!(preview.read("b.py"), Err("`b.py` does not exist".into()));
    assert_eq!(preview.read("src/deep/d.py"), Ok("new".into()));
    assert_eq!(preview.listed(), ["a.py", "src/c.py", "src/deep/d.py"]);
    let src = ("src".to_owned(), EntryKind::Directory);
    assert_eq!(preview.entries(""), [("a.py".to_owned(), EntryKind::File), src]);
    let deep = ("src/deep".to_owned(), EntryKind::Directory);
    assert_eq!(preview.entries("src"), [("src/c.py".to_owned(), EntryKind::File), deep]);
    assert_eq!(
        preview.entries("src/deep"),
        [("src/deep/d.py".to_owned(), EntryKind::File)]
    );
    assert!(preview.repository.is_there("src/deep") && !preview.repository.is_there("b.py"));
    let root = preview.place.path().join("root");
    assert_eq!(fs::read_to_string(root.join("a.py")).expect("it is there"), "old");
    assert!(root.join("b.py").exists() && !root.join("src/deep").exists());
}

#[test]
fn a_bulk_read_takes_the_content_of_the_layer() {
    let preview = Preview::of(&[("a.py", "old"), ("b.py", "kept")]);
    preview.put("a.py", Some("new"));
    preview.put("c.py", Some("made"));
    let cancel = CancellationToken::new();
    let names = preview.repository.names(&cancel).expect("it can be listed");
    let wanted = ReadBounds {
        bytes_max: 1_000,
        text_only: true,
    };
    let mut all = Vec::new();
    for at in 0..names.list().files.len() {
        let read = preview.repository.read_listed(&names, at, wanted, &mut all, &cancel);
        assert_eq!(read.expect("it can be read"), ReadOutcome::Whole);
    }
    assert_eq!(String::from_utf8(all).expect("it is text"), "newkeptmade");
}

#[test]
fn what_is_hidden_and_ignored_in_the_tree_is_so_in_the_layer() {
    let preview = Preview::of(&[(".gitignore", "*.log\n/made/\n"), ("a.py", "old")]);
    fs::create_dir(preview.place.path().join("root/.git")).expect("folders can be made");
    fs::write(preview.place.path().join("root/.git/HEAD"), "ref: x").expect("files can be written");
    for path in ["x.log", "made/a.py", "node_modules/b.js"] {
        preview.put(path, Some("text"));
        assert_eq!(preview.read(path), Ok("text".into()), "{path}");
    }
    preview.put(".env", Some("KEY=1"));
    preview.put("key.txt", Some("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n"));
    for path in [".env", "key.txt"] {
        let opened = preview.repository.open_at(path);
        assert!(matches!(opened, Err(OpenError::Denied { .. })), "{path}: {opened:?}");
    }
    assert_eq!(preview.listed(), [".gitignore", "a.py", "key.txt"]);
}

#[test]
fn a_file_behind_a_link_of_the_tree_is_that_of_the_layer() {
    let preview = Preview::of(&[("src/a.py", "old")]);
    let root = preview.place.path().join("root");
    std::os::unix::fs::symlink("src", root.join("link")).expect("links can be made");
    std::os::unix::fs::symlink("src/a.py", root.join("a.py")).expect("links can be made");
    preview.put("src/a.py", Some("new"));
    preview.put("src/b.py", Some("made"));
    assert_eq!(preview.read("link/a.py"), Ok("new".into()));
    assert_eq!(preview.read("link/b.py"), Ok("made".into()));
    assert_eq!(preview.read("a.py"), Ok("new".into()));
    preview.put("src/a.py", None);
    for path in ["link/a.py", "a.py"] {
        assert_eq!(preview.read(path), Err(format!("`{path}` does not exist")));
    }
}

#[test]
fn a_directory_takes_the_place_of_a_file() {
    let preview = Preview::of(&[("a", "old")]);
    preview.put("a", None);
    assert_eq!(preview.repository.current("a/b", 100).ok(), Some(None));
    preview.put("a/b", Some("new"));
    assert_eq!(preview.read("a/b"), Ok("new".into()));
    assert_eq!(preview.entries(""), [("a".to_owned(), EntryKind::Directory)]);
    assert!(matches!(
        preview.repository.current("a", 100),
        Err(Obstacle::NotRegular { .. })
    ));
}

#[test]
fn a_change_comes_whole_or_not_at_all_and_can_be_taken_back() {
    let preview = Preview::of(&[("a.py", "old")]);
    let change = FileChange {
        path: "a.py".to_owned(),
        before: Some(state("old", 0o644)),
        after: Some(state("new", 0o755)),
    };
    preview.layer.put(std::slice::from_ref(&change)).expect("there is room");
    let current = preview.repository.current("a.py", 100).expect("it can be read");
    assert_eq!(current, change.after);
    preview
        .layer
        .take_back(std::slice::from_ref(&change))
        .expect("there is room");
    assert_eq!(
        preview.repository.current("a.py", 100).ok(),
        Some(change.before.clone())
    );
    // Without the folder nothing can be written.
    fs::remove_dir_all(preview.place.path().join("layer")).expect("it is there");
    let refused = preview.layer.put(&[change]).expect_err("there is no room");
    assert!(matches!(refused, Obstacle::Io { .. }), "{refused}");
    assert_eq!(preview.layer.contents().version, 2);
}

#[test]
fn a_layer_is_gone_with_its_folder_and_keeps_modes() {
    let preview = Preview::of(&[]);
    let change = FileChange {
        path: "run.sh".to_owned(),
        before: None,
        after: Some(state("#!/bin/sh\n", 0o755)),
    };
    preview.layer.put(&[change]).expect("there is room");
    let paths = preview.layer.paths();
    let content = paths[0].content.as_ref().expect("it is a file");
    let mode = fs::metadata(content).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
    let Preview {
        place,
        layer,
        repository,
    } = preview;
    drop((layer, repository));
    assert!(!place.path().join("layer").exists());
}
