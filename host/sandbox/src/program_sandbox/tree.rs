//! The repository as a run sees it: the real tree, which is never written to, under a bounded file system that takes
//! the run's writes. Hidden files are left out.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, XattrFlags};
use rustix::mount::{MountFlags, UnmountFlags};

use super::copy::CopiedTree;
use super::outer::{StepContext, StepResult};
use super::{LAYER_FILES, copy, root};

/// Shows a tree of the machine at `place`, with a bounded file system of its own. `work` is a folder that exists only
/// for this. Returns a handle of the file system that takes what the run writes.
pub(super) fn cover_tree(tree: &CopiedTree<'_>, place: &Path, work: &Path) -> StepResult<OwnedFd> {
    let step = "covering the repository";
    fs::DirBuilder::new().mode(0o700).create(work).at(step)?;
    root::mount_tmpfs(work, tree.bounds.tree_bytes, tree.bounds.tree_inodes).at(step)?;
    let handle = root::open_handle(work).at(step)?;
    cover_within(tree, place, work)?;
    rustix::mount::unmount(work, UnmountFlags::DETACH).at(step)?;
    fs::remove_dir(work).at(step)?;
    Ok(handle)
}

/// Shows a tree of the machine at `place`. `work` is a folder on the file system that takes what the run writes.
pub(super) fn cover_within(tree: &CopiedTree<'_>, place: &Path, work: &Path) -> StepResult<()> {
    let step = "covering the repository";
    if overlay_tree(tree, place, work).is_err() {
        // Before Linux 6.6, tmpfs has no user extended attributes, in which overlayfs notes that a directory was
        // replaced.
        let all = work.join("all");
        copy::copy_tree(tree, &all, &[], &|| true).at("copying the repository")?;
        rustix::mount::mount_bind(&all, place).at(step)?;
    }
    Ok(())
}

fn overlay_tree(tree: &CopiedTree<'_>, place: &Path, work: &Path) -> io::Result<()> {
    let [lower, upper, index] = ["lower", "upper", "index"].map(|name| work.join(name));
    for folder in [&lower, &upper, &index] {
        fs::DirBuilder::new().mode(0o700).create(folder)?;
    }
    // Fails early if overlayfs could not store its attributes.
    rustix::fs::setxattr(&index, "user.overlay.test", b"y", XattrFlags::empty())?;
    // Under a short path, because the mount options cannot hold every path.
    rustix::mount::mount_bind_recursive(tree.root, &lower)?;
    copy_mode(tree.root, &upper)?;
    for path in tree.hidden {
        add_whiteout(tree.root, &upper, Path::new(path))?;
    }
    // Nothing but these folders exists yet, so no link can lead elsewhere.
    for removed in tree.proposed.iter().filter(|file| file.content.is_none()) {
        add_whiteout(tree.root, &upper, Path::new(&removed.path))?;
    }
    copy::put_proposed(tree, &upper)?;
    mount_overlay([&lower, &upper, &index], "", place)
}

/// Mounts `layer`, a folder of the machine that takes the run's writes, over `tree` or over nothing, at `place`. `work`
/// is the path of a new folder.
pub(super) fn mount_layer(tree: Option<&Path>, layer: &Path, place: &Path, work: &Path) -> io::Result<()> {
    fs::DirBuilder::new().mode(0o700).create(work)?;
    // overlayfs requires both folders of the layer on one mount.
    rustix::mount::mount_bind(layer, work)?;
    let [lower, upper, index] = ["lower", LAYER_FILES, "index"].map(|name| work.join(name));
    for folder in [&lower, &upper, &index] {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    if let Some(tree) = tree {
        rustix::mount::mount_bind_recursive(tree, &lower)?;
        copy_mode(tree, &upper)?;
    }
    // A layer is dropped with its session, so no write has to reach the disk. overlayfs marks a `volatile` layer and
    // refuses to mount a marked one again, because a crash may have lost writes. Here a crash ends the session, so the
    // mark is removed.
    match fs::remove_dir_all(index.join("work/incompat")) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => mount_overlay([&lower, &upper, &index], ",volatile", place),
    }
}

fn mount_overlay([lower, upper, index]: [&Path; 3], further: &str, place: &Path) -> io::Result<()> {
    let options = format!(
        "lowerdir={},upperdir={},workdir={},userxattr{further}",
        lower.display(),
        upper.display(),
        index.display()
    );
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    rustix::mount::mount("overlay", place, "overlay", flags, CString::new(options)?.as_c_str())?;
    Ok(())
}

/// Hides an entry of the real tree.
fn add_whiteout(real: &Path, upper: &Path, path: &Path) -> io::Result<()> {
    let mut folder = PathBuf::new();
    for part in path.parent().into_iter().flat_map(Path::components) {
        folder.push(part);
        match fs::DirBuilder::new().create(upper.join(&folder)) {
            Ok(()) => copy_mode(&real.join(&folder), &upper.join(&folder))?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            // An entry above it is hidden, and so this one is too.
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    match rustix::fs::mknodat(CWD, upper.join(path), FileType::CharacterDevice, Mode::empty(), 0) {
        Err(rustix::io::Errno::EXIST | rustix::io::Errno::NOTDIR) => Ok(()),
        other => Ok(other?),
    }
}

/// Gives a folder the mode of the real one.
fn copy_mode(real: &Path, folder: &Path) -> io::Result<()> {
    let metadata = fs::symlink_metadata(real)?;
    fs::set_permissions(folder, PermissionsExt::from_mode(metadata.mode() & 0o7777))
}
