//! Copying a tree: for the fallback without namespaces, and where an overlay does not work.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};

use super::spec::{RunSpec, VisiblePath};
use super::{ProposedFile, RunBounds};

/// Large directories of installed files, whose content refers to its own absolute path: linked, not copied.
const LINKED: [&str; 4] = ["node_modules", ".venv", "venv", "env"];

/// A tree of the machine, without its hidden entries.
#[derive(Debug, Clone, Copy)]
pub(super) struct CopiedTree<'a> {
    pub(super) root: &'a Path,
    /// Relative to the root.
    pub(super) hidden: &'a [OsString],
    /// Files that the run sees with other content.
    pub(super) proposed: &'a [ProposedFile],
    pub(super) bounds: RunBounds,
}

impl RunSpec {
    pub(super) fn tree(&self) -> CopiedTree<'_> {
        CopiedTree {
            root: &self.root,
            hidden: &self.hidden,
            proposed: &self.proposed,
            bounds: self.bounds,
        }
    }
}

/// Copies the repository into the folder of a run in the fallback, beside a home and a folder for temporary files, and
/// points the specification to the copy. Nothing runs yet; `is_wanted` says whether the run has not been stopped.
pub(super) fn stand_in(spec: &mut RunSpec, folder: &Path, is_wanted: &dyn Fn() -> bool) -> io::Result<()> {
    let place = folder.join("tree");
    copy_tree(&spec.tree(), &place, &LINKED, is_wanted)?;
    let linked = LINKED.map(|name| spec.root.join(name));
    // A directory that is itself a link was copied as a link. It may lead anywhere, so it is not made visible.
    let is_folder = |path: &PathBuf| path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
    spec.visible
        .extend(linked.into_iter().filter(is_folder).map(VisiblePath::Place));
    if let Ok(inside) = spec.directory.strip_prefix(&spec.root) {
        spec.directory = place.join(inside);
    }
    // The tests are to import the sources of the copy.
    if let Some(sources) = spec.environment.get_mut("PYTHONPATH")
        && let Ok(inside) = Path::new(sources).strip_prefix(&spec.root)
    {
        *sources = place.join(inside).to_string_lossy().into_owned();
    }
    stand_in_layers(spec, folder)?;
    spec.root = place;
    for (variable, name) in [("HOME", "home"), ("TMPDIR", "tmp")] {
        let folder = folder.join(name);
        fs::DirBuilder::new().mode(0o700).recursive(true).create(&folder)?;
        spec.environment
            .insert(variable.to_owned(), folder.to_string_lossy().into_owned());
    }
    spec.home = Some(folder.join("home"));
    Ok(())
}

/// Makes package caches available in the fallback: links in the private home lead to them, for reading. The run's own
/// files are written beside them.
fn stand_in_layers(spec: &mut RunSpec, folder: &Path) -> io::Result<()> {
    for layer in &spec.layers {
        let inside = spec.home.as_ref().and_then(|home| layer.place.strip_prefix(home).ok());
        for part in &layer.parts {
            let real = layer.place.join(part);
            if let Some(inside) = inside {
                let link = folder.join("home").join(inside).join(part);
                fs::create_dir_all(link.parent().unwrap_or(folder))?;
                symlink(&real, link)?;
            }
            spec.visible.push(VisiblePath::Place(real));
        }
    }
    for file in &spec.files {
        if let Some(inside) = spec.home.as_ref().and_then(|home| file.place.strip_prefix(home).ok()) {
            let place = folder.join("home").join(inside);
            fs::create_dir_all(place.parent().unwrap_or(folder))?;
            fs::write(place, &file.text)?;
        }
    }
    spec.layers.clear();
    spec.files.clear();
    Ok(())
}

/// Copies files, directories and links, without hidden entries. Directories of the root named in `linked` become links
/// to the real ones.
pub(super) fn copy_tree(
    tree: &CopiedTree<'_>,
    to: &Path,
    linked: &[&str],
    is_wanted: &dyn Fn() -> bool,
) -> io::Result<()> {
    let from = tree.root;
    let hidden = tree.hidden.iter().map(|path| from.join(path)).collect::<HashSet<_>>();
    let mut room = CopyBudget {
        bytes: tree.bounds.tree_bytes,
        entries: tree.bounds.tree_inodes,
    };
    fs::DirBuilder::new().mode(0o700).create(to)?;
    let mut folders = vec![(from.to_owned(), to.to_owned())];
    let mut modes = Vec::new();
    while let Some((source, target)) = folders.pop() {
        modes.push((target.clone(), fs::metadata(&source)?.permissions()));
        let entries = match fs::read_dir(&source) {
            // The run could not read it either.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => continue,
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let (real, place, kind) = (entry.path(), target.join(entry.file_name()), entry.file_type()?);
            if hidden.contains(&real) {
                continue;
            }
            check_wanted(is_wanted)?;
            room.take(0)?;
            let is_linked = source == from && linked.iter().any(|name| entry.file_name() == *name);
            if kind.is_dir() && is_linked {
                symlink(&real, place)?;
            } else if kind.is_dir() {
                // Writable for now: the mode of the original may forbid adding entries.
                fs::DirBuilder::new().mode(0o700).create(&place)?;
                folders.push((real, place));
            } else if kind.is_symlink() {
                symlink(fs::read_link(&real)?, place)?;
            } else if kind.is_file() {
                room.take(entry.metadata()?.len())?;
                copy_file(&real, &place, is_wanted)?;
            }
        }
    }
    for removed in tree.proposed.iter().filter(|file| file.content.is_none()) {
        if let Some(place) = find_folder(to, &removed.path)? {
            remove_file(&place)?;
        }
    }
    put_proposed(tree, to)?;
    // Modes are set last, the deepest first, because a directory may be read-only.
    modes
        .into_iter()
        .rev()
        .try_for_each(|(place, mode)| fs::set_permissions(place, mode))
}

/// Writes proposed files into a copy of the tree, or into the upper layer of an overlay, before anything else writes
/// there. A file behind a link is refused, because the link may lead to the user's own files.
pub(super) fn put_proposed(tree: &CopiedTree<'_>, to: &Path) -> io::Result<()> {
    for file in tree.proposed {
        let Some(content) = &file.content else { continue };
        let path = Path::new(&file.path);
        let mut folder = PathBuf::new();
        for part in path.parent().into_iter().flat_map(Path::components) {
            folder.push(part);
            make_folder(&tree.root.join(&folder), &to.join(&folder))?;
        }
        let place = to.join(path);
        // The copy holds the old file, and `create_new` below refuses to follow or replace anything.
        remove_file(&place)?;
        let mut from = fs::File::open(content)?;
        let mut copied = fs::File::create_new(&place)?;
        io::copy(&mut from, &mut copied)?;
        copied.set_permissions(from.metadata()?.permissions())?;
    }
    Ok(())
}

/// Makes a folder with the mode of the real one, if there is none.
fn make_folder(real: &Path, folder: &Path) -> io::Result<()> {
    match fs::symlink_metadata(folder) {
        Ok(metadata) if metadata.is_dir() => return Ok(()),
        // A file or a whiteout gives way to the folder.
        Ok(metadata) if !metadata.is_symlink() => fs::remove_file(folder)?,
        Ok(_) => return Err(io::Error::other("a proposed file lies behind a link")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    fs::DirBuilder::new().mode(0o755).create(folder)?;
    match fs::symlink_metadata(real) {
        Ok(metadata) if metadata.is_dir() => fs::set_permissions(folder, metadata.permissions()),
        _ => Ok(()),
    }
}

/// Finds the path in a copy; `None` if a link or a missing folder is on the way.
fn find_folder(to: &Path, path: &str) -> io::Result<Option<PathBuf>> {
    let path = Path::new(path);
    let mut folder = to.to_owned();
    for part in path.parent().into_iter().flat_map(Path::components) {
        folder.push(part);
        match fs::symlink_metadata(&folder) {
            Ok(metadata) if metadata.is_dir() => {}
            Ok(_) => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    Ok(Some(to.join(path)))
}

/// Removes a file or a link, if there is one.
fn remove_file(place: &Path) -> io::Result<()> {
    match fs::remove_file(place) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Copies a file. One that the user cannot read is left out: the run could not read it either.
fn copy_file(real: &Path, place: &Path, is_wanted: &dyn Fn() -> bool) -> io::Result<()> {
    let from = match fs::File::open(real) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(()),
        opened => opened?,
    };
    let mut to = fs::File::create_new(place)?;
    while io::copy(&mut (&from).take(PIECE_BYTES), &mut to)? > 0 {
        check_wanted(is_wanted)?;
    }
    let metadata = from.metadata()?;
    to.set_permissions(metadata.permissions())?;
    // An installation's unchanged files are recognised by their time.
    to.set_modified(metadata.modified()?)
}

/// Bytes that are copied between two checks whether the run is still wanted: some tens of milliseconds.
const PIECE_BYTES: u64 = 16 * 1024 * 1024;

fn check_wanted(is_wanted: &dyn Fn() -> bool) -> io::Result<()> {
    if is_wanted() {
        Ok(())
    } else {
        Err(io::Error::other("the run was stopped"))
    }
}

/// Space that a copy may still take.
struct CopyBudget {
    bytes: u64,
    entries: u64,
}

impl CopyBudget {
    fn take(&mut self, bytes: u64) -> io::Result<()> {
        let left = self.bytes.checked_sub(bytes).zip(self.entries.checked_sub(1));
        let (bytes, entries) = left.ok_or_else(|| io::Error::other("the repository is too large to be copied"))?;
        *self = Self { bytes, entries };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_copy_holds_everything_but_what_is_hidden() {
        let folder = tempfile::tempdir().expect("there is room for a folder");
        let root = folder.path().join("root");
        fs::create_dir_all(root.join("a/b")).expect("folders can be made");
        fs::create_dir_all(root.join("node_modules/x")).expect("folders can be made");
        fs::write(root.join("a/b/one.txt"), "one").expect("files can be written");
        fs::write(root.join("a/.env"), "KEY=x").expect("files can be written");
        symlink("a/b", root.join("link")).expect("links can be made");
        fs::set_permissions(root.join("a/b"), PermissionsExt::from_mode(0o555)).expect("modes can be set");
        let to = folder.path().join("copy");
        let from = CopiedTree {
            root: &root,
            hidden: &["a/.env".into()],
            proposed: &[],
            bounds: RunBounds::default(),
        };
        let refused = copy_tree(&from, &to, &LINKED, &|| false).expect_err("nobody wants it");
        assert_eq!(refused.to_string(), "the run was stopped");
        crate::scratch::remove_path(&to);
        copy_tree(&from, &to, &LINKED, &|| true).expect("it is small");
        assert_eq!(fs::read_to_string(to.join("link/one.txt")).expect("it is there"), "one");
        assert!(!to.join("a/.env").exists());
        assert_eq!(
            fs::read_link(to.join("node_modules")).expect("it is a link"),
            root.join("node_modules")
        );
        let mode = fs::metadata(to.join("a/b")).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o555);
        crate::scratch::remove_path(folder.path());
    }

    #[test]
    fn a_copy_holds_what_is_proposed_and_nothing_goes_through_a_link() {
        let folder = tempfile::tempdir().expect("there is room for a folder");
        let place = |path: &str| folder.path().join(path);
        fs::create_dir_all(place("root/src")).expect("folders can be made");
        for path in ["root/src/a.py", "root/gone.py", "elsewhere.py"] {
            fs::write(place(path), "old").expect("files can be written");
        }
        symlink(folder.path(), place("root/link")).expect("links can be made");
        fs::write(place("new"), "new").expect("files can be written");
        fs::set_permissions(place("new"), PermissionsExt::from_mode(0o755)).expect("modes can be set");
        let proposed = |path: &str, is_there: bool| ProposedFile {
            path: path.to_owned(),
            content: is_there.then(|| place("new")),
        };
        let copied = |files: &[ProposedFile], to: &str| {
            let from = CopiedTree {
                root: &place("root"),
                hidden: &[],
                proposed: files,
                bounds: RunBounds::default(),
            };
            copy_tree(&from, &place(to), &LINKED, &|| true)
        };
        let files = [
            proposed("src/a.py", true),
            proposed("gone.py", false),
            proposed("gone.py/b.py", true),
            proposed("link/elsewhere.py", false),
        ];
        copied(&files, "copy").expect("it is small");
        for path in ["copy/src/a.py", "copy/gone.py/b.py"] {
            assert_eq!(fs::read_to_string(place(path)).expect("it is there"), "new", "{path}");
        }
        let mode = fs::metadata(place("copy/src/a.py"))
            .expect("it is there")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o755);
        let refused = copied(&[proposed("link/elsewhere.py", true)], "other").expect_err("it lies behind a link");
        assert_eq!(refused.to_string(), "a proposed file lies behind a link");
        assert_eq!(fs::read_to_string(place("elsewhere.py")).expect("it is there"), "old");
    }

    #[test]
    fn a_large_file_keeps_nobody_waiting_who_stopped_the_run() {
        let folder = tempfile::tempdir().expect("there is room for a folder");
        let (root, to) = (folder.path().join("root"), folder.path().join("copy"));
        fs::create_dir(&root).expect("folders can be made");
        let file = fs::File::create(root.join("large")).expect("files can be written");
        file.set_len(3 * PIECE_BYTES).expect("it takes no room");
        let from = CopiedTree {
            root: &root,
            hidden: &[],
            proposed: &[],
            bounds: RunBounds::default(),
        };
        // Wanted before the file and after its first piece.
        let looks = std::cell::Cell::new(0);
        let is_wanted = || looks.replace(looks.get() + 1) < 2;
        let stopped = copy_tree(&from, &to, &LINKED, &is_wanted).expect_err("nobody wants it");
        assert_eq!(stopped.to_string(), "the run was stopped");
        let copied = fs::metadata(to.join("large")).expect("it was begun").len();
        assert_eq!(copied, 2 * PIECE_BYTES);
        fs::remove_dir_all(&to).expect("it can be removed");
        copy_tree(&from, &to, &LINKED, &|| true).expect("it is small enough");
        assert_eq!(
            fs::metadata(to.join("large")).expect("it is there").len(),
            3 * PIECE_BYTES
        );
    }
}
