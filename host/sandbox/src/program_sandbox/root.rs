//! Builds the root file system of a run: the system's directories for reading, the repository for writing, and private
//! folders for everything else. Nothing else of the machine is visible.
//!
//! The root is built on a small file system that is mounted over `/proc`, since nothing that the run has to see is
//! there, and then replaces `/`.

use std::collections::BTreeMap;
use std::ffi::{CString, OsString};
use std::fs;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};

use super::copy::CopiedTree;
use super::etc_files;
use super::members::within_machine;
use super::outer::{StepContext, StepResult};
use super::spec::{RunSpec, VisiblePath};
use super::tree;
use super::visible_paths::{SYSTEM, system_settings};
use super::{BuildFolder, BuildWrites, LayeredFolder, RunBounds, WrittenFile};
use crate::limits;

/// Where the new root is built.
const NEW: &str = "/proc";

/// Devices without data.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// Entries of `/proc` that can change the machine; they become read-only.
const PROC_READ_ONLY: [&str; 5] = ["sys", "bus", "fs", "irq", "sysrq-trigger"];

/// Entries of `/proc` that reveal the machine; they are hidden. The kernel's command line can hold keys of a hypervisor
/// or an installer, and no test suite needs it.
const PROC_HIDDEN: [&str; 21] = [
    "acpi",
    "asound",
    "cmdline",
    "config.gz",
    "interrupts",
    "kallsyms",
    "kcore",
    "keys",
    "key-users",
    "kmsg",
    "kpagecgroup",
    "kpagecount",
    "kpageflags",
    "latency_stats",
    "pagetypeinfo",
    "sched_debug",
    "scsi",
    "slabinfo",
    "timer_list",
    "tty/driver",
    "vmallocinfo",
];

/// Builds the root and moves there. Returns handles of the file systems that take what the run writes.
pub(super) fn build_root(spec: &RunSpec) -> StepResult<Vec<OwnedFd>> {
    // Otherwise mounts made here could propagate to other namespaces, and theirs to this one.
    rustix::mount::mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
        .at("taking the mounts apart")?;
    let mounts = Mounts::read().at("reading the list of mounts")?;
    mount_tmpfs(
        Path::new(NEW),
        limits::CONTAIN_ROOT_BYTES_MAX,
        limits::CONTAIN_ROOT_INODES_MAX,
    )
    .at("making a root")?;
    let identity = RunIdentity::read();
    for place in SYSTEM {
        mount_system(Path::new(place), &mounts).at("showing the system's directories")?;
    }
    for settings in system_settings() {
        mount_device(Path::new("/dev/null"), &under_new_root(settings), &mounts).at("covering settings")?;
    }
    mount_etc(&mounts, &identity).at("making `/etc`")?;
    mount_devices(&mounts).at("making `/dev`")?;
    let written = mount_places(spec, &mounts)?;
    mount_proc(&mounts).at("making `/proc`")?;
    enter_root().at("moving to the new root")?;
    Ok(written)
}

/// The same path in the new root.
fn under_new_root(path: &Path) -> PathBuf {
    let relative = path.strip_prefix("/").unwrap_or(path);
    Path::new(NEW).join(relative)
}

pub(super) fn mount_tmpfs(place: &Path, bytes: u64, inodes: u64) -> io::Result<()> {
    let options = CString::new(format!("size={bytes},nr_inodes={inodes},mode=0755"))?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    Ok(rustix::mount::mount(
        "tmpfs",
        place,
        "tmpfs",
        flags,
        options.as_c_str(),
    )?)
}

/// Opens a handle through which a file system can be asked for its free space when it has no path any more.
pub(super) fn open_handle(place: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(place, flags, Mode::empty())?)
}

fn create_directory(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o755).create(path)
}

/// Makes a directory or an empty file to mount on.
fn mount_point(place: &Path, is_directory: bool) -> io::Result<()> {
    if is_directory {
        return create_directory(place);
    }
    if let Some(parent) = place.parent() {
        create_directory(parent)?;
    }
    match fs::OpenOptions::new().write(true).create_new(true).open(place) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Makes `path` visible for reading at the same path.
fn mount_readonly(path: &Path, mounts: &Mounts) -> io::Result<()> {
    let place = under_new_root(path);
    mount_point(&place, fs::metadata(path)?.is_dir())?;
    // A bind mount takes over the flags of its source, and the kernel ignores `RDONLY` in the same call: each mount is
    // remounted. A flag that the source has may not be dropped in a user namespace.
    rustix::mount::mount_bind_recursive(path, &place)?;
    for (mount, kept) in mounts.at_and_beneath(path) {
        let flags = kept | MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
        match rustix::mount::mount_remount(under_new_root(&mount), flags, "") {
            // Another mount hides this one, and that one is remounted too.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOENT) if mount != path => {}
            other => other?,
        }
    }
    Ok(())
}

/// Makes a directory of the system visible, or the link in its place.
fn mount_system(path: &Path, mounts: &Mounts) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(metadata) if metadata.is_symlink() => create_link(path, &fs::read_link(path)?),
        Ok(_) => mount_readonly(path, mounts),
    }
}

fn create_link(path: &Path, target: &Path) -> io::Result<()> {
    let place = under_new_root(path);
    if let Some(parent) = place.parent() {
        create_directory(parent)?;
    }
    match symlink(target, place) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// User and group of the run, with the machine's names for them.
struct RunIdentity {
    passwd: String,
    group: String,
}

impl RunIdentity {
    /// The lines of root, the user and `nobody`; of the groups also 5, `tty`, which owns terminals.
    fn read() -> Self {
        let user = rustix::process::geteuid().as_raw();
        let group = rustix::process::getegid().as_raw();
        Self {
            passwd: select_lines("/etc/passwd", &[0, user, 65534]),
            group: select_lines("/etc/group", &[0, 5, group, 65534]),
        }
    }
}

/// Selects the lines whose third field is one of `wanted`.
fn select_lines(path: &str, wanted: &[u32]) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let is_wanted = |line: &&str| {
        let id = line.split(':').nth(2).and_then(|field| field.parse::<u32>().ok());
        id.is_some_and(|id| wanted.contains(&id))
    };
    text.lines().filter(is_wanted).map(|line| format!("{line}\n")).collect()
}

fn mount_etc(mounts: &Mounts, identity: &RunIdentity) -> io::Result<()> {
    let place = under_new_root(Path::new("/etc"));
    create_directory(&place)?;
    for shown in etc_files::list_mounted() {
        mount_system(&shown, mounts)?;
    }
    for settings in etc_files::php_settings(Path::new("/etc")) {
        let folder = under_new_root(&settings.folder);
        create_directory(&folder)?;
        for (name, text) in settings.files {
            fs::write(folder.join(name), text)?;
        }
    }
    for (name, text) in [
        ("passwd", identity.passwd.as_str()),
        ("group", identity.group.as_str()),
        ("hostname", "sandbox\n"),
        ("hosts", "127.0.0.1 localhost sandbox\n::1 localhost\n"),
        ("resolv.conf", ""),
    ] {
        fs::write(place.join(name), text)?;
    }
    Ok(())
}

/// Mounts a device of the machine at `place`. It can be written to; its mode and owner are the machine's.
fn mount_device(source: &Path, place: &Path, mounts: &Mounts) -> io::Result<()> {
    // Read-only applies to the device's file, not to what is written through it.
    rustix::mount::mount_bind(source, place)?;
    let kept = mounts.at_and_beneath(source)[0].1;
    let flags = kept | MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NOEXEC;
    Ok(rustix::mount::mount_remount(place, flags, "")?)
}

fn mount_devices(mounts: &Mounts) -> io::Result<()> {
    let place = under_new_root(Path::new("/dev"));
    create_directory(&place)?;
    for name in DEVICES {
        let source = Path::new("/dev").join(name);
        if source.exists() {
            mount_point(&place.join(name), false)?;
            mount_device(&source, &place.join(name), mounts)?;
        }
    }
    for (name, target) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
        ("ptmx", "pts/ptmx"),
    ] {
        symlink(target, place.join(name))?;
    }
    create_directory(&place.join("pts"))?;
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    // Terminals of the run's own. Without them, only tests that open a terminal fail.
    let _ = rustix::mount::mount(
        "devpts",
        place.join("pts"),
        "devpts",
        flags,
        c"newinstance,ptmxmode=0666,mode=0620",
    );
    Ok(())
}

/// What is mounted in the tree. Sorted by depth, so that a mount inside another comes after it.
enum RootMount<'a> {
    Private(String),
    Visible(&'a VisiblePath),
    /// A tree that the run may write to, and the name of the folder that is used to cover it.
    Covered(CopiedTree<'a>, String),
    /// A folder of build output, and its number.
    Build(&'a BuildFolder, usize),
}

/// Mounts private folders, visible paths and the repository.
fn mount_places(spec: &RunSpec, mounts: &Mounts) -> StepResult<Vec<OwnedFd>> {
    let scratch = Path::new(NEW).join(".scratch");
    create_directory(&scratch).at("making private places")?;
    mount_tmpfs(&scratch, spec.bounds.scratch_bytes, spec.bounds.scratch_inodes).at("making private places")?;
    let mut pieces: BTreeMap<(usize, PathBuf), RootMount<'_>> = BTreeMap::new();
    let mut add = |path: &Path, piece| {
        pieces.insert((path.components().count(), path.to_owned()), piece);
    };
    for visible in &spec.visible {
        add(visible.path(), RootMount::Visible(visible));
    }
    for (path, name) in [
        ("/tmp", "tmp"),
        ("/var/tmp", "var-tmp"),
        ("/run", "run"),
        ("/dev/shm", "shm"),
    ] {
        add(Path::new(path), RootMount::Private(name.to_owned()));
    }
    if let Some(home) = &spec.home {
        add(home, RootMount::Private("home".to_owned()));
    }
    add(&spec.root, RootMount::Covered(spec.tree(), ".tree".to_owned()));
    let layered: Vec<(PathBuf, &LayeredFolder)> = spec
        .layers
        .iter()
        .flat_map(|layer| layer.parts.iter().map(move |part| (layer.place.join(part), layer)))
        .collect();
    for (number, (part, layer)) in layered.iter().enumerate() {
        if *part != layer.place {
            add(&layer.place, RootMount::Private(format!("layer-{number}")));
        }
    }
    for (number, (part, _)) in layered.iter().enumerate() {
        let tree = CopiedTree {
            root: part,
            hidden: &[],
            proposed: &[],
            bounds: spec.bounds,
        };
        add(part, RootMount::Covered(tree, format!(".layer-{number}")));
    }
    for (number, build) in spec.builds.iter().enumerate() {
        add(&build.place, RootMount::Build(build, number));
    }
    if let Some(outside) = spec
        .installation
        .as_ref()
        .and_then(|install| install.outside.as_deref())
    {
        let tree = CopiedTree {
            root: outside,
            hidden: &[],
            proposed: &[],
            bounds: spec.bounds,
        };
        add(outside, RootMount::Covered(tree, ".packages".to_owned()));
    }
    let mut written = vec![open_handle(&scratch).at("making private places")?];
    let is_layered = |build: &BuildFolder| build.writes != BuildWrites::Kept || build.source.is_none();
    let layers = spec.builds.iter().any(is_layered);
    let build_layers = Path::new(NEW).join(".builds");
    if layers {
        let (bounds, step) = (within_machine(spec.bounds), "mounting the build cache");
        create_directory(&build_layers).at(step)?;
        mount_tmpfs(&build_layers, bounds.build_bytes, bounds.build_inodes).at(step)?;
        written.push(open_handle(&build_layers).at(step)?);
    }
    for ((_, path), piece) in pieces {
        match piece {
            RootMount::Private(name) => mount_private(&path, &scratch.join(name)).at("making private places")?,
            RootMount::Visible(VisiblePath::Place(_)) => {
                mount_readonly(&path, mounts).at("showing what the program needs")?
            }
            RootMount::Visible(VisiblePath::Link { target, .. }) => {
                create_link(&path, target).at("showing what the program needs")?;
            }
            RootMount::Covered(tree, work) => {
                create_directory(&under_new_root(&path)).at("covering the repository")?;
                written.push(tree::cover_tree(
                    &tree,
                    &under_new_root(&path),
                    &Path::new(NEW).join(work),
                )?);
            }
            RootMount::Build(build, number) => {
                mount_build(build, &build_layers.join(number.to_string()), spec, mounts)?;
            }
        }
    }
    for file in &spec.files {
        write_file(file).at("writing settings of tools")?;
    }
    if layers {
        rustix::mount::unmount(&build_layers, UnmountFlags::DETACH).at("mounting the build cache")?;
        fs::remove_dir(&build_layers).at("mounting the build cache")?;
    }
    rustix::mount::unmount(&scratch, UnmountFlags::DETACH).at("making private places")?;
    fs::remove_dir(&scratch).at("making private places")?;
    // Some programs still use the old path.
    create_link(Path::new("/var/run"), Path::new("/run")).at("making private places")?;
    Ok(written)
}

/// Writes a file of the run's own. No mounted file has this path: only parts of its folder are mounted.
fn write_file(file: &WrittenFile) -> io::Result<()> {
    let place = under_new_root(&file.place);
    if let Some(folder) = place.parent() {
        create_directory(folder)?;
    }
    let mut opened = fs::OpenOptions::new().write(true).create_new(true).open(place)?;
    opened.write_all(file.text.as_bytes())
}

/// Mounts a folder of build output. `work` is a path on the file system that is dropped with the run.
fn mount_build(build: &BuildFolder, work: &Path, spec: &RunSpec, mounts: &Mounts) -> StepResult<()> {
    let step = "mounting the build cache";
    let Some(place) = make_build_place(&build.place, spec).at(step)? else {
        return Ok(());
    };
    if let BuildWrites::Layer(layer) = &build.writes
        && tree::mount_layer(build.source.as_deref(), layer, &place, &work.with_extension("layer")).is_ok()
    {
        return Ok(());
    }
    let source = match (&build.source, &build.writes) {
        (Some(source), BuildWrites::Kept) => source,
        (Some(source), BuildWrites::Layer(_) | BuildWrites::Dropped) => {
            create_directory(work).at(step)?;
            let tree = CopiedTree {
                root: source,
                hidden: &[],
                proposed: &[],
                bounds: RunBounds {
                    tree_bytes: spec.bounds.build_bytes,
                    tree_inodes: spec.bounds.build_inodes,
                    ..spec.bounds
                },
            };
            return tree::cover_within(&tree, &place, work);
        }
        (None, _) => {
            create_directory(work).at(step)?;
            return rustix::mount::mount_bind(work, &place).at(step);
        }
    };
    rustix::mount::mount_bind(source, &place).at(step)?;
    let kept = mounts.at_and_beneath(source)[0].1;
    let flags = kept | MountFlags::BIND | MountFlags::NOSUID | MountFlags::NODEV;
    rustix::mount::mount_remount(place, flags, "").at(step)
}

/// Makes the folder that build output is mounted on. If a link of the repository has that path, the run gets no build
/// cache: folders would be made behind the link.
fn make_build_place(path: &Path, spec: &RunSpec) -> io::Result<Option<PathBuf>> {
    let place = under_new_root(path);
    let Ok(inside) = path.strip_prefix(&spec.root) else {
        create_directory(&place)?;
        return Ok(Some(place));
    };
    let mut folder = under_new_root(&spec.root);
    for part in inside.components() {
        folder.push(part);
        match fs::symlink_metadata(&folder) {
            Ok(metadata) if metadata.is_dir() => {}
            Ok(_) => return Ok(None),
            Err(_) => fs::DirBuilder::new().mode(0o755).create(&folder)?,
        }
    }
    Ok(Some(place))
}

fn mount_private(path: &Path, source: &Path) -> io::Result<()> {
    // World-writable as on any machine; the run has only one user.
    let mode = if path.starts_with("/tmp") || path.starts_with("/var/tmp") || path.starts_with("/dev/shm") {
        0o1777
    } else {
        0o755
    };
    fs::DirBuilder::new().mode(0o755).create(source)?;
    fs::set_permissions(source, std::os::unix::fs::PermissionsExt::from_mode(mode))?;
    create_directory(&under_new_root(path))?;
    Ok(rustix::mount::mount_bind(source, under_new_root(path))?)
}

/// Mounts `/proc` and removes what could change the machine. This is the last mount, because the kernel allows a new
/// `/proc` only while a complete one is visible. If the user is root, the modes of `/proc` would let the run write to
/// the machine's settings, so all of it becomes read-only.
fn mount_proc(mounts: &Mounts) -> io::Result<()> {
    let place = under_new_root(Path::new("/proc"));
    create_directory(&place)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    rustix::mount::mount("proc", &place, "proc", flags, None)?;
    for name in PROC_READ_ONLY {
        let path = place.join(name);
        if path.exists() {
            rustix::mount::mount_bind(&path, &path)?;
            rustix::mount::mount_remount(&path, flags | MountFlags::BIND | MountFlags::RDONLY, "")?;
        }
    }
    let empty = under_new_root(Path::new("/var/empty"));
    create_directory(&empty)?;
    for name in PROC_HIDDEN
        .map(OsString::from)
        .into_iter()
        .chain(list_root_only(&place)?)
    {
        let path = place.join(name);
        match fs::symlink_metadata(&path) {
            Ok(metadata) if metadata.is_dir() => {
                rustix::mount::mount_bind(&empty, &path)?;
                rustix::mount::mount_remount(&path, flags | MountFlags::BIND | MountFlags::RDONLY, "")?;
            }
            Ok(_) => mount_device(Path::new("/dev/null"), &path, mounts)?,
            Err(_) => {}
        }
    }
    if rustix::process::geteuid().is_root() {
        rustix::mount::mount_remount(&place, flags | MountFlags::BIND | MountFlags::RDONLY, "")?;
    }
    Ok(())
}

/// Entries of `/proc` that only the machine's root may read: a run of root could read them too. The kernel gains such
/// entries every few releases, so they are found by their mode and not by their name.
fn list_root_only(proc: &Path) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(proc)? {
        let entry = entry?;
        // A process may have ended since. Its folder can be read by every user.
        let mode = entry.metadata().map_or(0, |metadata| metadata.mode());
        let is_listed = PROC_HIDDEN.iter().any(|&name| entry.file_name() == name);
        if mode & 0o404 == 0o400 && !is_listed {
            names.push(entry.file_name());
        }
    }
    Ok(names)
}

/// Makes the new root `/`, detaches the old one, and makes the new one read-only.
fn enter_root() -> io::Result<()> {
    rustix::process::chdir(NEW)?;
    // With the same path for both, the old root is stacked over the new one and detached from there; no folder for it
    // is needed.
    rustix::process::pivot_root(".", ".")?;
    rustix::mount::unmount(".", UnmountFlags::DETACH)?;
    rustix::process::chdir("/")?;
    let flags = MountFlags::BIND | MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
    Ok(rustix::mount::mount_remount("/", flags, "")?)
}

/// The mounts of the old root, with the flags that the kernel forbids to drop.
struct Mounts(Vec<(PathBuf, MountFlags)>);

impl Mounts {
    fn read() -> io::Result<Self> {
        let text = fs::read("/proc/self/mountinfo")?;
        let lines = text.split(|&byte| byte == b'\n');
        Ok(Self(lines.filter_map(parse_mount).collect()))
    }

    /// The mount that holds `path`, as if it were mounted at `path`, and every mount beneath it.
    fn at_and_beneath(&self, path: &Path) -> Vec<(PathBuf, MountFlags)> {
        let holder = self.0.iter().filter(|(place, _)| path.starts_with(place));
        // Of two at the same path, the later one hides the other.
        let (_, flags) = holder
            .max_by_key(|(place, _)| place.components().count())
            .map_or((Path::new("/"), MountFlags::empty()), |(place, flags)| {
                (place.as_path(), *flags)
            });
        let beneath = self
            .0
            .iter()
            .filter(|(place, _)| place != path && place.starts_with(path));
        std::iter::once((path.to_owned(), flags))
            .chain(beneath.cloned())
            .collect()
    }
}

/// Parses a line of `mountinfo`: `36 35 98:0 /sub /mount/point rw,nosuid,relatime …`
fn parse_mount(line: &[u8]) -> Option<(PathBuf, MountFlags)> {
    let mut fields = line.split(|&byte| byte == b' ').skip(4);
    let place = unescape_path(fields.next()?);
    let options = std::str::from_utf8(fields.next()?).ok()?;
    let flags = options.split(',').map(|option| match option {
        "nosuid" => MountFlags::NOSUID,
        "nodev" => MountFlags::NODEV,
        "noexec" => MountFlags::NOEXEC,
        "noatime" => MountFlags::NOATIME,
        "nodiratime" => MountFlags::NODIRATIME,
        "relatime" => MountFlags::RELATIME,
        "nosymfollow" => MountFlags::NOSYMFOLLOW,
        _ => MountFlags::empty(),
    });
    Some((place, flags.fold(MountFlags::empty(), |all, flag| all | flag)))
}

/// Decodes a path in which the kernel has written a blank or the like as `\040`.
fn unescape_path(text: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        let octal = after.get(..3).filter(|_| byte == b'\\');
        let value = octal.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        match value {
            Some(value) => {
                bytes.push(value);
                rest = &after[3..];
            }
            None => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    PathBuf::from(std::ffi::OsStr::from_bytes(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_read_with_what_the_kernel_keeps() {
        let line = b"36 35 98:0 /sub /mnt/my\\040disk rw,nosuid,noexec,relatime shared:1 - ext4 /dev/sda1 rw";
        let (place, flags) = parse_mount(line).expect("it is one");
        assert_eq!(place, Path::new("/mnt/my disk"));
        assert_eq!(flags, MountFlags::NOSUID | MountFlags::NOEXEC | MountFlags::RELATIME);
        assert!(parse_mount(b"").is_none());
    }

    #[test]
    fn a_place_has_the_flags_of_the_mount_that_it_lies_on() {
        let mounts = Mounts(vec![
            (PathBuf::from("/"), MountFlags::RELATIME),
            (PathBuf::from("/usr"), MountFlags::NODEV),
            (PathBuf::from("/usr/local"), MountFlags::NOSUID),
        ]);
        let found = mounts.at_and_beneath(Path::new("/usr"));
        assert_eq!(
            found,
            [
                (PathBuf::from("/usr"), MountFlags::NODEV),
                (PathBuf::from("/usr/local"), MountFlags::NOSUID)
            ]
        );
        assert_eq!(mounts.at_and_beneath(Path::new("/opt"))[0].1, MountFlags::RELATIME);
    }
}
