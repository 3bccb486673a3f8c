//! The guard: `wasi:filesystem` for `/repo`, which is read-only, and `/stage`, which can be written.
//!
//! Every open starts at a root and goes through [`Repository::open_at`], which judges what was opened and not the path
//! that was asked for. A directory handle of the guest is only a path, so it cannot lead elsewhere later. Every open is
//! non-blocking and yields a regular file or a directory. `staging` holds the stage: a private directory in which a
//! guest can make neither links nor special files. `tool-repository` judges names.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, Stat};
use rustix::io::Errno;
use tokio_util::sync::CancellationToken;
use wasmtime::component::{HasSelf, Linker, Resource};
use wasmtime_wasi::p2::bindings::clocks::wall_clock::Datetime;
use wasmtime_wasi::p2::bindings::filesystem::preopens;
use wasmtime_wasi::p2::bindings::filesystem::types::ErrorCode;
use wasmtime_wasi::p2::bindings::sync::filesystem::types::{
    self, Advice, Descriptor as Handle, DescriptorFlags, DescriptorStat, DescriptorType, DirectoryEntry,
    DirectoryEntryStream, Filesize, MetadataHashValue, NewTimestamp, OpenFlags, PathFlags,
};
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, FsError, FsResult};

use crate::CallContext;
use crate::budget::GuestStop;
use crate::files::{HandlePermit, RepositoryFile};
use crate::limits::PATH_BYTES_MAX;
use crate::staging::{StageError, StageFile};
use crate::store::StoreState;
use crate::streams::{GuestOutput, Input};
use tool_core::api::{Effect, ErrorKind};
use tool_repository::path::{join_path, split_path};
use tool_repository::{EntryKind, FileIdentity, OpenError, Repository};

pub(super) fn link_filesystem(linker: &mut Linker<StoreState>) -> wasmtime::Result<()> {
    types::add_to_linker::<StoreState, HasSelf<StoreState>>(linker, |state| state)?;
    preopens::add_to_linker::<StoreState, HasSelf<StoreState>>(linker, |state| state)
}

/// Target of a descriptor of the guest.
enum GuestDescriptor {
    RepositoryDirectory { path: String },
    RepositoryFile { file: RepositoryFile },
    StageDirectory { path: String },
    StageFile { file: StageFile, flags: DescriptorFlags },
}

/// A directory of the repository or of the stage, by its path.
enum Directory {
    Repository(String),
    Stage(String),
}

/// Source of a directory's entries, one at a time.
struct DirectoryEntries {
    entries: rustix::fs::Dir,
    /// Path in the repository; absent for the stage, where nothing is hidden.
    repository: Option<String>,
    /// Names that a private layer decides about. The entries of the directory itself with these names do not count.
    layered: Vec<(String, Option<EntryKind>)>,
    /// Number of layered names that were returned.
    given: usize,
    _slot: HandlePermit,
}

// ---- errors ----

fn trap_guest(error: impl Into<wasmtime::Error>) -> FsError {
    FsError::trap(error)
}

fn refuse_call<T>(code: ErrorCode) -> FsResult<T> {
    Err(code.into())
}

fn translate_errno(errno: Errno) -> ErrorCode {
    match errno {
        Errno::NOENT => ErrorCode::NoEntry,
        Errno::NOTDIR => ErrorCode::NotDirectory,
        Errno::ISDIR => ErrorCode::IsDirectory,
        Errno::EXIST => ErrorCode::Exist,
        Errno::NOTEMPTY => ErrorCode::NotEmpty,
        Errno::LOOP => ErrorCode::Loop,
        Errno::NAMETOOLONG => ErrorCode::NameTooLong,
        Errno::ILSEQ => ErrorCode::IllegalByteSequence,
        Errno::INVAL => ErrorCode::Invalid,
        Errno::ACCESS => ErrorCode::Access,
        Errno::PERM => ErrorCode::NotPermitted,
        Errno::NOSPC => ErrorCode::InsufficientSpace,
        Errno::DQUOT => ErrorCode::Quota,
        Errno::CANCELED => ErrorCode::Interrupted,
        _ => ErrorCode::Io,
    }
}

fn errno_error(errno: Errno) -> FsError {
    translate_errno(errno).into()
}

fn io_error(error: &std::io::Error) -> FsError {
    error
        .raw_os_error()
        .map_or(ErrorCode::Io, |raw| translate_errno(Errno::from_raw_os_error(raw)))
        .into()
}

/// Converts an error of the repository for the guest. Hidden paths and paths outside give the same error, so that the
/// guest cannot tell them apart.
fn open_error(error: &OpenError) -> FsError {
    match error {
        OpenError::NotFound { .. } => ErrorCode::NoEntry.into(),
        OpenError::Denied { .. } | OpenError::NotRegular { .. } => ErrorCode::Access.into(),
        OpenError::IsDirectory { .. } => ErrorCode::IsDirectory.into(),
        OpenError::TooLarge { .. } => ErrorCode::FileTooLarge.into(),
        OpenError::Io { source, .. } => io_error(source),
    }
}

impl From<StageError> for FsError {
    fn from(error: StageError) -> Self {
        match error {
            StageError::Io(error) => io_error(&error),
            StageError::Stop(error) => trap_guest(error),
        }
    }
}

// ---- paths ----

/// A path that a guest gave, relative to one of its directories.
struct AskedPath {
    /// Path from the root, without empty parts and `.`.
    path: String,
    /// True if it ends in a slash: only a directory fits.
    directory: bool,
}

impl AskedPath {
    /// Refuses an absolute path and one with `..`, before any file is touched.
    fn new(base: &str, path: &str) -> FsResult<Self> {
        if path.len() > PATH_BYTES_MAX {
            return refuse_call(ErrorCode::NameTooLong);
        }
        if path.contains('\0') {
            return refuse_call(ErrorCode::Invalid);
        }
        // `..` is not resolved in the text, because after a link it leads elsewhere than the text says.
        let climbs = path.starts_with('/') || path.split('/').any(|part| part == "..");
        if climbs {
            return refuse_call(ErrorCode::NotPermitted);
        }
        let directory = path.ends_with('/') || path.ends_with("/.");
        let parts = path.split('/').filter(|part| !matches!(*part, "" | "."));
        let mut joined = base.to_owned();
        for part in parts {
            if !joined.is_empty() {
                joined.push('/');
            }
            joined.push_str(part);
        }
        Ok(Self {
            path: joined,
            directory,
        })
    }
}

// ---- descriptors ----

impl StoreState {
    fn repository(&self) -> FsResult<Arc<CallContext>> {
        match self.granted(Effect::ReadRepository) {
            Some(context) => Ok(Arc::clone(context)),
            None => Err(trap_guest(self.stop(Effect::ReadRepository))),
        }
    }

    fn descriptor(&self, handle: &Resource<Handle>) -> FsResult<&GuestDescriptor> {
        self.call.check().map_err(trap_guest)?;
        self.entry(handle).map_err(trap_guest)
    }

    fn directory(&self, handle: &Resource<Handle>) -> FsResult<Directory> {
        match self.descriptor(handle)? {
            GuestDescriptor::RepositoryDirectory { path } => Ok(Directory::Repository(path.clone())),
            GuestDescriptor::StageDirectory { path } => Ok(Directory::Stage(path.clone())),
            _ => refuse_call(ErrorCode::NotDirectory),
        }
    }

    /// A directory of the stage that will be changed; the repository is read-only.
    fn writable(&mut self, handle: &Resource<Handle>, path: &str) -> FsResult<AskedPath> {
        match self.directory(handle)? {
            Directory::Repository(base) => {
                AskedPath::new(&base, path)?;
                refuse_call(ErrorCode::ReadOnly)
            }
            Directory::Stage(base) => {
                let asked = AskedPath::new(&base, path)?;
                self.note_write(true);
                if self.granted(Effect::WriteRepository).is_none() {
                    return Err(trap_guest(self.stop(Effect::WriteRepository)));
                }
                Ok(asked)
            }
        }
    }

    /// Notes for an audit that the guest writes, or wants to.
    fn note_write(&self, writes: bool) {
        if let Some(recorder) = self.call.recorder().filter(|_| writes) {
            recorder.effect(Effect::WriteRepository);
        }
    }

    fn push_descriptor(&mut self, descriptor: GuestDescriptor) -> FsResult<Resource<Handle>> {
        self.push(descriptor).map_err(trap_guest)
    }

    fn open_repository(
        &mut self,
        asked: &AskedPath,
        open_flags: OpenFlags,
        flags: DescriptorFlags,
    ) -> FsResult<GuestDescriptor> {
        if open_flags.intersects(OpenFlags::CREATE | OpenFlags::TRUNCATE | OpenFlags::EXCLUSIVE)
            || flags.contains(DescriptorFlags::WRITE)
        {
            return refuse_call(ErrorCode::ReadOnly);
        }
        let slot = HandlePermit::take(&self.call).map_err(trap_guest)?;
        let opened = self
            .repository()?
            .repository
            .open_within(&asked.path, &self.call.token)
            .map_err(|error| open_error(&error))?;
        match opened.kind {
            EntryKind::Directory => Ok(GuestDescriptor::RepositoryDirectory { path: opened.path }),
            _ if asked.directory || open_flags.contains(OpenFlags::DIRECTORY) => refuse_call(ErrorCode::NotDirectory),
            _ => {
                self.call.note_place(&opened.path, opened.listed);
                self.call.note_served(&opened.path);
                if let Some(recorder) = self.call.recorder() {
                    recorder.read(&opened.path);
                }
                let redactor = &self.repository()?.conversation.redactor;
                let file = RepositoryFile::new(opened.handle, (&opened.path, opened.size), redactor, slot);
                Ok(GuestDescriptor::RepositoryFile {
                    file: file.map_err(|error| io_error(&error))?,
                })
            }
        }
    }

    fn open_stage(
        &mut self,
        asked: &AskedPath,
        open_flags: OpenFlags,
        flags: DescriptorFlags,
    ) -> FsResult<GuestDescriptor> {
        let writes = open_flags.intersects(OpenFlags::CREATE | OpenFlags::TRUNCATE | OpenFlags::EXCLUSIVE)
            || flags.contains(DescriptorFlags::WRITE);
        self.note_write(writes);
        if writes && self.granted(Effect::WriteRepository).is_none() {
            return Err(trap_guest(self.stop(Effect::WriteRepository)));
        }
        if asked.directory && writes {
            return refuse_call(ErrorCode::IsDirectory);
        }
        if asked.directory || open_flags.contains(OpenFlags::DIRECTORY) || self.stage.is_directory(&asked.path) {
            if writes {
                return refuse_call(ErrorCode::IsDirectory);
            }
            self.stage.check_directory(&asked.path)?;
            return Ok(GuestDescriptor::StageDirectory {
                path: asked.path.clone(),
            });
        }
        let slot = HandlePermit::take(&self.call).map_err(trap_guest)?;
        let limits = self.call.limits;
        let file = self.stage.open(&asked.path, open_flags, writes, slot, &limits)?;
        Ok(GuestDescriptor::StageFile { file, flags })
    }

    fn stat_descriptor(&mut self, handle: &Resource<Handle>) -> FsResult<Stat> {
        let path = match self.descriptor(handle)? {
            GuestDescriptor::RepositoryFile { file } => return file.stat().map_err(errno_error),
            GuestDescriptor::RepositoryDirectory { path } => {
                return stat_repository(&self.repository()?.repository, path, &self.call.token);
            }
            GuestDescriptor::StageFile { file, .. } => return Ok(file.stat()?),
            GuestDescriptor::StageDirectory { path } => path.clone(),
        };
        Ok(self.stage.stat(&path)?)
    }

    fn stat_path(&mut self, handle: &Resource<Handle>, flags: PathFlags, path: &str) -> FsResult<Stat> {
        match self.directory(handle)? {
            Directory::Repository(base) => {
                let asked = AskedPath::new(&base, path)?;
                let follow = asked.directory || flags.contains(PathFlags::SYMLINK_FOLLOW);
                let (context, cancel) = (self.repository()?, &self.call.token);
                let stat = if follow {
                    stat_repository(&context.repository, &asked.path, cancel)?
                } else {
                    stat_repository_link(&context.repository, &asked.path, cancel)?
                };
                as_asked(&asked, stat)
            }
            Directory::Stage(base) => {
                let asked = AskedPath::new(&base, path)?;
                let stat = self.stage.stat(&asked.path)?;
                as_asked(&asked, stat)
            }
        }
    }
}

/// Refuses a path that ends in a slash and is not a directory.
fn as_asked(asked: &AskedPath, stat: Stat) -> FsResult<Stat> {
    if asked.directory && FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
        refuse_call(ErrorCode::NotDirectory)
    } else {
        Ok(stat)
    }
}

fn stat_repository(repository: &Repository, path: &str, cancel: &CancellationToken) -> FsResult<Stat> {
    let opened = repository
        .open_within(path, cancel)
        .map_err(|error| open_error(&error))?;
    rustix::fs::fstat(&opened.handle).map_err(errno_error)
}

/// Metadata of the link itself if the path ends in a link whose own name is not hidden.
fn stat_repository_link(repository: &Repository, path: &str, cancel: &CancellationToken) -> FsResult<Stat> {
    let opened = repository.open_within(path, cancel);
    if let Ok(opened) = &opened
        && opened.path == path
    {
        return rustix::fs::fstat(&opened.handle).map_err(errno_error);
    }
    match find_symlink(repository, path, cancel) {
        Some((_, stat)) => Ok(stat),
        None => {
            let opened = opened.map_err(|error| open_error(&error))?;
            rustix::fs::fstat(&opened.handle).map_err(errno_error)
        }
    }
}

/// Metadata of a path that is not opened. Only its directory and its name have to be visible.
fn stat_entry(repository: &Repository, path: &str, cancel: &CancellationToken) -> FsResult<Stat> {
    let (parent, name) = split_path(path);
    if name.is_empty() {
        return stat_repository(repository, path, cancel);
    }
    let parent = repository
        .open_within(parent, cancel)
        .map_err(|error| open_error(&error))?;
    let path = join_path(&parent.path, name);
    let in_tree = || rustix::fs::statat(&parent.handle, name, AtFlags::SYMLINK_NOFOLLOW);
    let found = repository.stat_layered(&path).unwrap_or_else(in_tree);
    let is_directory = found
        .as_ref()
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory);
    // The guest must not learn whether a hidden entry exists.
    match repository.hidden(&path, is_directory) {
        Some(_) => refuse_call(ErrorCode::Access),
        None => found.map_err(errno_error),
    }
}

/// The directory that holds a link, and the link's metadata; `None` if the path is not a link or is hidden.
fn find_symlink(repository: &Repository, path: &str, cancel: &CancellationToken) -> Option<(OwnedFd, Stat)> {
    let (parent, name) = split_path(path);
    let parent = repository.open_within(parent, cancel).ok()?;
    if repository.stat_layered(&join_path(&parent.path, name)).is_some() {
        return None;
    }
    let stat = rustix::fs::statat(&parent.handle, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    let is_link = FileType::from_raw_mode(stat.st_mode) == FileType::Symlink;
    let hidden = repository.hidden(&join_path(&parent.path, name), false).is_some();
    (is_link && !hidden).then_some((parent.handle, stat))
}

fn descriptor_type(kind: FileType) -> DescriptorType {
    match kind {
        FileType::RegularFile => DescriptorType::RegularFile,
        FileType::Directory => DescriptorType::Directory,
        FileType::Symlink => DescriptorType::SymbolicLink,
        FileType::Fifo => DescriptorType::Fifo,
        FileType::Socket => DescriptorType::Socket,
        FileType::CharacterDevice => DescriptorType::CharacterDevice,
        FileType::BlockDevice => DescriptorType::BlockDevice,
        FileType::Unknown => DescriptorType::Unknown,
    }
}

fn descriptor_stat(stat: &Stat) -> DescriptorStat {
    let kind = FileType::from_raw_mode(stat.st_mode);
    let modified = Datetime {
        seconds: u64::try_from(stat.st_mtime).unwrap_or(0),
        nanoseconds: u32::try_from(stat.st_mtime_nsec).unwrap_or(0),
    };
    DescriptorStat {
        type_: descriptor_type(kind),
        // The guest must not learn how many other names a file has.
        link_count: 1,
        size: match kind {
            FileType::RegularFile => u64::try_from(stat.st_size).unwrap_or(0),
            _ => 0,
        },
        data_access_timestamp: None,
        data_modification_timestamp: Some(modified),
        status_change_timestamp: None,
    }
}

/// A number that identifies a file without revealing device or inode.
fn metadata_hash(stat: &Stat) -> MetadataHashValue {
    let identity = FileIdentity::from_stat(stat);
    let half = |salt: u64| {
        let mut hasher = DefaultHasher::new();
        (
            salt,
            identity.device,
            identity.inode,
            stat.st_size,
            stat.st_mtime,
            stat.st_mtime_nsec,
        )
            .hash(&mut hasher);
        hasher.finish()
    };
    MetadataHashValue {
        lower: half(1),
        upper: half(2),
    }
}

impl preopens::Host for StoreState {
    fn get_directories(&mut self) -> wasmtime::Result<Vec<(Resource<Handle>, String)>> {
        let mut directories = Vec::new();
        if self.granted(Effect::ReadRepository).is_some() {
            let root = GuestDescriptor::RepositoryDirectory { path: String::new() };
            directories.push((self.push(root)?, "/repo".to_owned()));
        }
        // Declaring the effect is enough: writing without the grant ends the call with `denied`, which explains more
        // than a missing directory.
        if self
            .grants
            .as_ref()
            .is_some_and(|grants| grants.declares(Effect::WriteRepository))
        {
            let root = GuestDescriptor::StageDirectory { path: String::new() };
            directories.push((self.push(root)?, "/stage".to_owned()));
        }
        Ok(directories)
    }
}

impl types::Host for StoreState {
    fn convert_error_code(&mut self, error: FsError) -> wasmtime::Result<types::ErrorCode> {
        Ok(error.downcast()?.into())
    }

    fn filesystem_error_code(
        &mut self,
        error: Resource<wasmtime::Error>,
    ) -> wasmtime::Result<Option<types::ErrorCode>> {
        let error = self.table.get(&error)?;
        Ok(error
            .downcast_ref::<std::io::Error>()
            .and_then(std::io::Error::raw_os_error)
            .map(|raw| translate_errno(Errno::from_raw_os_error(raw)).into()))
    }
}

impl types::HostDescriptor for StoreState {
    fn read_via_stream(&mut self, handle: Resource<Handle>, offset: Filesize) -> FsResult<Resource<DynInputStream>> {
        let input = match self.descriptor(&handle)? {
            GuestDescriptor::RepositoryFile { file } => Input::Repository {
                file: file.clone(),
                offset,
            },
            GuestDescriptor::StageFile { file, .. } => Input::Stage {
                file: file.clone(),
                offset,
            },
            _ => return refuse_call(ErrorCode::IsDirectory),
        };
        self.push(input).map_err(trap_guest)
    }

    fn write_via_stream(&mut self, handle: Resource<Handle>, offset: Filesize) -> FsResult<Resource<DynOutputStream>> {
        let file = self.writable_file(&handle)?;
        self.push(GuestOutput::Stage { file, offset }).map_err(trap_guest)
    }

    fn append_via_stream(&mut self, handle: Resource<Handle>) -> FsResult<Resource<DynOutputStream>> {
        let file = self.writable_file(&handle)?;
        self.push(GuestOutput::Append { file }).map_err(trap_guest)
    }

    fn advise(&mut self, handle: Resource<Handle>, _: Filesize, _: Filesize, _: Advice) -> FsResult<()> {
        self.descriptor(&handle).map(drop)
    }

    fn sync_data(&mut self, handle: Resource<Handle>) -> FsResult<()> {
        self.descriptor(&handle).map(drop)
    }

    fn get_flags(&mut self, handle: Resource<Handle>) -> FsResult<DescriptorFlags> {
        Ok(match self.descriptor(&handle)? {
            GuestDescriptor::RepositoryDirectory { .. } | GuestDescriptor::RepositoryFile { .. } => {
                DescriptorFlags::READ
            }
            GuestDescriptor::StageDirectory { .. } => DescriptorFlags::READ | DescriptorFlags::MUTATE_DIRECTORY,
            GuestDescriptor::StageFile { flags, .. } => *flags,
        })
    }

    fn get_type(&mut self, handle: Resource<Handle>) -> FsResult<DescriptorType> {
        Ok(match self.descriptor(&handle)? {
            GuestDescriptor::RepositoryDirectory { .. } | GuestDescriptor::StageDirectory { .. } => {
                DescriptorType::Directory
            }
            GuestDescriptor::RepositoryFile { .. } | GuestDescriptor::StageFile { .. } => DescriptorType::RegularFile,
        })
    }

    fn set_size(&mut self, handle: Resource<Handle>, size: Filesize) -> FsResult<()> {
        let file = self.writable_file(&handle)?;
        let limits = self.call.limits;
        Ok(self.stage.set_size(&file, size, &limits)?)
    }

    fn set_times(&mut self, handle: Resource<Handle>, _: NewTimestamp, _: NewTimestamp) -> FsResult<()> {
        // A proposal is content; its time is that of the commit.
        self.writable_file(&handle).map(drop)
    }

    fn read(&mut self, handle: Resource<Handle>, len: Filesize, offset: Filesize) -> FsResult<(Vec<u8>, bool)> {
        let bytes = self.host_call_bytes(len);
        let read = match self.descriptor(&handle)? {
            GuestDescriptor::RepositoryFile { file } => file.read_at(bytes, offset),
            GuestDescriptor::StageFile { file, .. } => file.read_at(bytes, offset),
            _ => return refuse_call(ErrorCode::IsDirectory),
        };
        let data = read.map_err(|error| io_error(&error))?;
        self.count_read(data.len()).map_err(trap_guest)?;
        let end = data.is_empty() && bytes > 0;
        Ok((data, end))
    }

    fn write(&mut self, handle: Resource<Handle>, buffer: Vec<u8>, offset: Filesize) -> FsResult<Filesize> {
        let file = self.writable_file(&handle)?;
        let limits = self.call.limits;
        self.stage.write(&file, &buffer, offset, &limits)?;
        Ok(buffer.len() as u64)
    }

    fn read_directory(&mut self, handle: Resource<Handle>) -> FsResult<Resource<DirectoryEntryStream>> {
        let slot = HandlePermit::take(&self.call).map_err(trap_guest)?;
        let entries = match self.directory(&handle)? {
            Directory::Repository(path) => {
                let context = self.repository()?;
                let opened = context.repository.open_within(&path, &self.call.token);
                let opened = opened.map_err(|error| open_error(&error))?;
                let any = format!("{}/.", opened.path);
                self.call.note_listed(&opened.path, std::iter::once(&*any));
                if let Some(recorder) = self.call.recorder() {
                    recorder.listed(&opened.path, false);
                }
                DirectoryEntries {
                    layered: context.repository.layered_names(&opened.path),
                    entries: rustix::fs::Dir::new(opened.handle).map_err(errno_error)?,
                    repository: Some(opened.path),
                    given: 0,
                    _slot: slot,
                }
            }
            Directory::Stage(path) => DirectoryEntries {
                entries: self.stage.entries(&path)?,
                repository: None,
                layered: Vec::new(),
                given: 0,
                _slot: slot,
            },
        };
        self.push(entries).map_err(trap_guest)
    }

    fn sync(&mut self, handle: Resource<Handle>) -> FsResult<()> {
        self.descriptor(&handle).map(drop)
    }

    fn create_directory_at(&mut self, handle: Resource<Handle>, path: String) -> FsResult<()> {
        let asked = self.writable(&handle, &path)?;
        let limits = self.call.limits;
        Ok(self.stage.create_directory(&asked.path, &limits)?)
    }

    fn stat(&mut self, handle: Resource<Handle>) -> FsResult<DescriptorStat> {
        Ok(descriptor_stat(&self.stat_descriptor(&handle)?))
    }

    fn stat_at(&mut self, handle: Resource<Handle>, flags: PathFlags, path: String) -> FsResult<DescriptorStat> {
        Ok(descriptor_stat(&self.stat_path(&handle, flags, &path)?))
    }

    fn set_times_at(
        &mut self,
        handle: Resource<Handle>,
        _: PathFlags,
        path: String,
        _: NewTimestamp,
        _: NewTimestamp,
    ) -> FsResult<()> {
        self.writable(&handle, &path).map(drop)
    }

    fn link_at(
        &mut self,
        handle: Resource<Handle>,
        _: PathFlags,
        old: String,
        new_handle: Resource<Handle>,
        new: String,
    ) -> FsResult<()> {
        self.writable(&new_handle, &new)?;
        self.writable(&handle, &old)?;
        // A proposal consists of files; a link in it could lead to another file.
        refuse_call(ErrorCode::NotPermitted)
    }

    fn open_at(
        &mut self,
        handle: Resource<Handle>,
        _: PathFlags,
        path: String,
        open_flags: OpenFlags,
        flags: DescriptorFlags,
    ) -> FsResult<Resource<Handle>> {
        let descriptor = match self.directory(&handle)? {
            Directory::Repository(base) => self.open_repository(&AskedPath::new(&base, &path)?, open_flags, flags)?,
            Directory::Stage(base) => self.open_stage(&AskedPath::new(&base, &path)?, open_flags, flags)?,
        };
        self.push_descriptor(descriptor)
    }

    fn readlink_at(&mut self, handle: Resource<Handle>, path: String) -> FsResult<String> {
        let Directory::Repository(base) = self.directory(&handle)? else {
            return refuse_call(ErrorCode::Invalid);
        };
        let asked = AskedPath::new(&base, &path)?;
        let context = self.repository()?;
        // The text of a link that leads out, or to a hidden file, would reveal a path that the guest must not know.
        context
            .repository
            .open_within(&asked.path, &self.call.token)
            .map_err(|error| open_error(&error))?;
        let Some((parent, _)) = find_symlink(&context.repository, &asked.path, &self.call.token) else {
            return refuse_call(ErrorCode::Invalid);
        };
        let (_, name) = split_path(&asked.path);
        let target = rustix::fs::readlinkat(&parent, name, Vec::new()).map_err(errno_error)?;
        target.into_string().map_err(|_| ErrorCode::IllegalByteSequence.into())
    }

    fn remove_directory_at(&mut self, handle: Resource<Handle>, path: String) -> FsResult<()> {
        let asked = self.writable(&handle, &path)?;
        Ok(self.stage.remove(&asked.path, AtFlags::REMOVEDIR)?)
    }

    fn rename_at(
        &mut self,
        handle: Resource<Handle>,
        old: String,
        new_handle: Resource<Handle>,
        new: String,
    ) -> FsResult<()> {
        let (old, new) = (self.writable(&handle, &old)?, self.writable(&new_handle, &new)?);
        Ok(self.stage.rename(&old.path, &new.path)?)
    }

    fn symlink_at(&mut self, handle: Resource<Handle>, _: String, new: String) -> FsResult<()> {
        self.writable(&handle, &new)?;
        refuse_call(ErrorCode::NotPermitted)
    }

    fn unlink_file_at(&mut self, handle: Resource<Handle>, path: String) -> FsResult<()> {
        let asked = self.writable(&handle, &path)?;
        if asked.directory {
            return refuse_call(ErrorCode::NotDirectory);
        }
        Ok(self.stage.remove(&asked.path, AtFlags::empty())?)
    }

    fn is_same_object(&mut self, one: Resource<Handle>, other: Resource<Handle>) -> wasmtime::Result<bool> {
        let (Ok(one), Ok(other)) = (self.stat_descriptor(&one), self.stat_descriptor(&other)) else {
            return Ok(false);
        };
        Ok(FileIdentity::from_stat(&one) == FileIdentity::from_stat(&other))
    }

    fn metadata_hash(&mut self, handle: Resource<Handle>) -> FsResult<MetadataHashValue> {
        Ok(metadata_hash(&self.stat_descriptor(&handle)?))
    }

    fn metadata_hash_at(
        &mut self,
        handle: Resource<Handle>,
        flags: PathFlags,
        path: String,
    ) -> FsResult<MetadataHashValue> {
        // The C library asks this for every entry of a listing to make up an inode number. A FIFO among the entries
        // cannot be opened, and must not end the listing.
        if let Directory::Repository(base) = self.directory(&handle)?
            && !flags.contains(PathFlags::SYMLINK_FOLLOW)
        {
            let asked = AskedPath::new(&base, &path)?;
            return Ok(metadata_hash(&stat_entry(
                &self.repository()?.repository,
                &asked.path,
                &self.call.token,
            )?));
        }
        Ok(metadata_hash(&self.stat_path(&handle, flags, &path)?))
    }

    fn drop(&mut self, handle: Resource<Handle>) -> wasmtime::Result<()> {
        self.remove::<GuestDescriptor, _>(&handle)?;
        Ok(())
    }
}

impl StoreState {
    fn writable_file(&self, handle: &Resource<Handle>) -> FsResult<StageFile> {
        match self.descriptor(handle)? {
            GuestDescriptor::StageFile { file, flags } if flags.contains(DescriptorFlags::WRITE) => Ok(file.clone()),
            GuestDescriptor::StageFile { .. } => refuse_call(ErrorCode::BadDescriptor),
            GuestDescriptor::StageDirectory { .. } => refuse_call(ErrorCode::IsDirectory),
            GuestDescriptor::RepositoryFile { .. } | GuestDescriptor::RepositoryDirectory { .. } => {
                refuse_call(ErrorCode::ReadOnly)
            }
        }
    }

    /// Returns the next entry that the guest may see.
    fn next_entry(&mut self, stream: &Resource<DirectoryEntryStream>) -> FsResult<Option<DirectoryEntry>> {
        let max = self.call.limits.entries;
        let call = Arc::clone(&self.call);
        let context = self.grants.as_ref().map(|grants| Arc::clone(&grants.context));
        let listing: &mut DirectoryEntries = self.entry_mut(stream).map_err(trap_guest)?;
        while let Some(entry) = listing.entries.next() {
            call.check().map_err(trap_guest)?;
            call.walked
                .add(1, max, || {
                    GuestStop::limit(format!("{max} directory entries"), ErrorKind::EntriesLimit)
                })
                .map_err(trap_guest)?;
            let entry = entry.map_err(errno_error)?;
            // Component interfaces have no file names that are not UTF-8.
            let Ok(name) = entry.file_name().to_str() else { continue };
            let is_layered = listing.layered.iter().any(|(layered, _)| layered == name);
            if matches!(name, "." | "..") || is_layered {
                continue;
            }
            let kind = match entry.file_type() {
                FileType::Unknown => kind_of(&listing.entries, name)?,
                kind => kind,
            };
            if let (Some(parent), Some(context)) = (&listing.repository, &context) {
                let path = join_path(parent, name);
                let is_hidden = context.repository.hidden(&path, kind == FileType::Directory).is_some();
                if is_hidden {
                    continue;
                }
            }
            return Ok(Some(DirectoryEntry {
                type_: descriptor_type(kind),
                name: name.to_owned(),
            }));
        }
        while let Some((name, kind)) = listing.layered.get(listing.given).cloned() {
            listing.given += 1;
            let is_directory = kind == Some(EntryKind::Directory);
            let path = join_path(listing.repository.as_deref().unwrap_or_default(), &name);
            let is_hidden = |context: &Arc<CallContext>| context.repository.hidden(&path, is_directory).is_some();
            if kind.is_none() || context.as_ref().is_none_or(is_hidden) {
                continue;
            }
            let type_ = if is_directory {
                DescriptorType::Directory
            } else {
                DescriptorType::RegularFile
            };
            return Ok(Some(DirectoryEntry { type_, name }));
        }
        Ok(None)
    }
}

/// Reads the type of an entry on a file system whose listings lack it.
fn kind_of(entries: &rustix::fs::Dir, name: &str) -> FsResult<FileType> {
    let directory = entries.fd().map_err(errno_error)?;
    let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).map_err(errno_error)?;
    Ok(FileType::from_raw_mode(stat.st_mode))
}

impl types::HostDirectoryEntryStream for StoreState {
    fn read_directory_entry(&mut self, stream: Resource<DirectoryEntryStream>) -> FsResult<Option<DirectoryEntry>> {
        self.next_entry(&stream)
    }

    fn drop(&mut self, stream: Resource<DirectoryEntryStream>) -> wasmtime::Result<()> {
        self.remove::<DirectoryEntries, _>(&stream)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use wasmtime::{Engine, Store};
    use wasmtime_wasi::p2::bindings::filesystem::preopens::Host as _;

    use super::types::HostDescriptor as _;
    use super::*;
    use crate::budget::CallBudget;
    use crate::policy::{EffectCause, Policy};
    use crate::store::{CallGrants, open_store};
    use crate::{Limits, NoServices, Services};
    use tool_core::api::{Operation, PolicyRequest};
    use tool_repository::Options;

    /// A call with these effects, and its handles of `/repo` and `/stage`.
    fn open_call(root: &std::path::Path, effects: &[Effect]) -> (Store<StoreState>, [u32; 2]) {
        let call = CallBudget::new("demo", Limits::default(), &CancellationToken::new());
        let repository = Repository::open(root, &Options::default()).expect("the folder is there");
        let policy = Policy::new(EffectCause::Operation(Operation::Refactor), &PolicyRequest::default());
        let context = CallContext::unattended(repository, policy.expect("the request is valid"));
        let services: Arc<dyn Services> = Arc::new(NoServices);
        let grants = CallGrants::new(&Arc::new(context), &services, effects, effects);
        let mut store = open_store(&Engine::default(), &call, Some(grants));
        let folders = store.data_mut().get_directories().expect("there are two");
        let handles = [folders[0].0.rep(), folders[1].0.rep()];
        (store, handles)
    }

    fn open(
        state: &mut StoreState,
        folder: u32,
        path: &str,
        how: OpenFlags,
        flags: DescriptorFlags,
    ) -> FsResult<Resource<Handle>> {
        state.open_at(
            Resource::new_borrow(folder),
            PathFlags::empty(),
            path.to_owned(),
            how,
            flags,
        )
    }

    const BOTH: [Effect; 2] = [Effect::ReadRepository, Effect::WriteRepository];

    #[test]
    fn a_directory_of_the_stage_is_told_from_a_file() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (mut store, [_, stage]) = open_call(folder.path(), &BOTH);
        let state = store.data_mut();
        let (none, read, write) = (OpenFlags::empty(), DescriptorFlags::READ, DescriptorFlags::WRITE);
        open(state, stage, "a", OpenFlags::CREATE, write).expect("it can be made");
        state
            .create_directory_at(Resource::new_borrow(stage), "d".to_owned())
            .expect("it can be made");
        let mut told = |path, how, flags| match open(state, stage, path, how, flags) {
            Ok(_) => "opened".to_owned(),
            Err(error) => error.downcast().expect("the guest gets a code").name().to_owned(),
        };
        for path in ["d", "d/"] {
            assert_eq!(told(path, none, read), "opened");
            assert_eq!(told(path, OpenFlags::DIRECTORY, read), "opened");
            for how in [OpenFlags::CREATE, OpenFlags::TRUNCATE, OpenFlags::EXCLUSIVE] {
                assert_eq!(told(path, how, read), "is-directory", "{path} {how:?}");
            }
            assert_eq!(told(path, none, write), "is-directory", "{path}");
        }
        assert_eq!(told("a", none, read), "opened");
        assert_eq!(told("a/", none, read), "not-directory");
        assert_eq!(told("a", OpenFlags::DIRECTORY, read), "not-directory");
    }

    #[test]
    fn a_read_is_at_its_end_only_where_nothing_is_left() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(folder.path().join("a"), "abc").expect("the folder is writable");
        let (mut store, [repository, _]) = open_call(folder.path(), &BOTH);
        let state = store.data_mut();
        let file = open(state, repository, "a", OpenFlags::empty(), DescriptorFlags::READ).expect("it is there");
        let mut read = |len, offset| {
            let read = types::HostDescriptor::read(state, Resource::new_borrow(file.rep()), len, offset);
            read.expect("it can be read")
        };
        assert_eq!(read(2, 0), (b"ab".to_vec(), false));
        assert_eq!(read(0, 0), (Vec::new(), false));
        assert_eq!(read(0, 3), (Vec::new(), false));
        assert_eq!(read(1, 3), (Vec::new(), true));
        assert_eq!(read(2, 3), (Vec::new(), true));
    }

    #[test]
    fn what_is_removed_from_the_stage_is_gone() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (mut store, [_, stage]) = open_call(folder.path(), &BOTH);
        let state = store.data_mut();
        open(state, stage, "a", OpenFlags::CREATE, DescriptorFlags::WRITE).expect("it can be made");
        state
            .create_directory_at(Resource::new_borrow(stage), "d".to_owned())
            .expect("it can be made");
        assert!(state.stage.is_directory("d") && !state.stage.is_directory("a"));
        state
            .unlink_file_at(Resource::new_borrow(stage), "a".to_owned())
            .expect("it is there");
        state
            .remove_directory_at(Resource::new_borrow(stage), "d".to_owned())
            .expect("it is there");
        for path in ["a", "d"] {
            assert!(state.stage.stat(path).is_err(), "{path}");
        }
    }

    #[test]
    fn errors_of_the_system_keep_their_meaning() {
        let known = [
            (Errno::NOENT, ErrorCode::NoEntry),
            (Errno::NOTDIR, ErrorCode::NotDirectory),
            (Errno::ISDIR, ErrorCode::IsDirectory),
            (Errno::EXIST, ErrorCode::Exist),
            (Errno::NOTEMPTY, ErrorCode::NotEmpty),
            (Errno::LOOP, ErrorCode::Loop),
            (Errno::NAMETOOLONG, ErrorCode::NameTooLong),
            (Errno::ILSEQ, ErrorCode::IllegalByteSequence),
            (Errno::INVAL, ErrorCode::Invalid),
            (Errno::ACCESS, ErrorCode::Access),
            (Errno::PERM, ErrorCode::NotPermitted),
            (Errno::NOSPC, ErrorCode::InsufficientSpace),
            (Errno::DQUOT, ErrorCode::Quota),
            (Errno::CANCELED, ErrorCode::Interrupted),
            (Errno::BADF, ErrorCode::Io),
        ];
        for (errno, expected) in known {
            assert_eq!(translate_errno(errno) as u8, expected as u8, "{errno:?}");
        }
    }
}
