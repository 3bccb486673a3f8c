//! The files of an index on disk: one folder for each repository, private to the user.
//!
//! `catalogue` lists the files; `records-…` holds their profiles and only grows; the module `postings` has the files
//! `postings`, `words` and their segments. A writer replaces the catalogue by a rename, so a reader sees the old or the
//! new one. Records without an entry disappear when a writer copies all others into a new file. It does so if there are
//! many of them, and at once if a file is no longer listed, because it may be a hidden file now. A writer holds a lock;
//! a process that does not get the lock leaves the work to the other. A file that is damaged, belongs to another user
//! or is writable by others counts as absent and is replaced.

use std::collections::{HashMap, HashSet};
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use rustix::fs::{FlockOperation, OFlags, flock};

use super::catalogue::{Catalogue, ContentDigest, FileRecord, RecordExtent};
use super::postings::{self, PostedDocument};
use crate::codec::compute_checksum;
use crate::history::{HISTORY_BYTES_MAX, History};
use tool_repository::{FileIdentity, check_private, open_private};

const CATALOGUE: &str = "catalogue";
const LOCK: &str = "lock";
const HISTORY: &str = "history";
pub(super) const RECORDS: &str = "records-";

/// Catalogues of more bytes are neither written nor read: a million files have some 120 MB.
const CATALOGUE_BYTES_MAX: u64 = 512 * 1024 * 1024;

#[derive(Debug)]
pub(super) struct IndexStore {
    folder: PathBuf,
    /// Identity of the repository's root. An index of another directory at the same path is not used.
    root: FileIdentity,
}

/// Version of a catalogue, or of a list of postings, when it was loaded or written. If the version on disk differs,
/// another process has written the file since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DiskVersion {
    inode: u64,
    bytes: u64,
    changed: (i64, i64),
}

/// A file that is added to an index. The writer fills in the place of its entry. A file without a record has a content
/// whose record is already stored.
#[derive(Debug)]
pub(super) struct IndexedFile {
    pub(super) entry: FileRecord,
    pub(super) record: Option<Arc<[u8]>>,
    /// Its trigrams, unless the postings have them.
    pub(super) trigrams: Option<PostedDocument>,
    /// Its words, unless the postings have them.
    pub(super) words: Option<PostedDocument>,
}

impl IndexedFile {
    /// A file that is in the index already.
    fn from_record(entry: &FileRecord) -> Self {
        Self {
            entry: entry.clone(),
            record: None,
            trigrams: None,
            words: None,
        }
    }
}

pub(super) struct StoredIndex {
    pub(super) catalogue: Catalogue,
    pub(super) version: DiskVersion,
    /// True if some records did not fit.
    pub(super) is_full: bool,
}

/// True if so many records have no entry that writing a new file is better.
fn is_wasteful(base: &Catalogue, kept: &[IndexedFile], added: &[IndexedFile]) -> bool {
    // Files of the same content share a record.
    let places: HashMap<u64, u32> = kept
        .iter()
        .map(|file| (file.entry.place.offset, file.entry.place.bytes))
        .filter(|(_, bytes)| *bytes > 0)
        .collect();
    let live: u64 = places.values().map(|bytes| u64::from(*bytes)).sum();
    let new: u64 = added
        .iter()
        .filter_map(|one| Some(one.record.as_ref()?.len() as u64))
        .sum();
    base.records_bytes.saturating_sub(live) > (live + new) / 16 + WASTE_BYTES_MIN
}

impl IndexStore {
    pub(super) fn new(indexes: &Path, name: &str, root: FileIdentity) -> Self {
        Self {
            folder: indexes.join(name),
            root,
        }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(super) fn root(&self) -> FileIdentity {
        self.root
    }

    /// Loads the catalogue, and opens its records.
    pub(super) fn load(&self) -> Option<(Catalogue, DiskVersion)> {
        check_private(&fs::symlink_metadata(&self.folder).ok()?).ok()?;
        let file = open_private(&self.folder.join(CATALOGUE)).ok()?;
        let version = DiskVersion::from_metadata(&file.metadata().ok()?);
        if version.bytes > CATALOGUE_BYTES_MAX {
            return None;
        }
        let mut bytes = Vec::with_capacity(usize::try_from(version.bytes).ok()?);
        file.take(CATALOGUE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
        let mut catalogue = Catalogue::decode(&bytes, self.root)?;
        let records = open_private(&self.records(catalogue.generation)).ok()?;
        if records.metadata().ok()?.len() < catalogue.records_bytes {
            return None;
        }
        catalogue.records = Some(Arc::new(records));
        self.note_use();
        Some((catalogue, version))
    }

    pub(super) fn load_history(&self) -> Option<History> {
        check_private(&fs::symlink_metadata(&self.folder).ok()?).ok()?;
        let file = open_private(&self.folder.join(HISTORY)).ok()?;
        if file.metadata().ok()?.len() > HISTORY_BYTES_MAX {
            return None;
        }
        let mut bytes = Vec::new();
        file.take(HISTORY_BYTES_MAX).read_to_end(&mut bytes).ok()?;
        History::decode(&bytes, self.root)
    }

    /// Replaces the history on disk. Returns false while another writer holds the lock. A history above the limit is
    /// not written.
    pub(super) fn write_history(&self, history: &History) -> io::Result<bool> {
        let Some(_lock) = self.lock()? else { return Ok(false) };
        let bytes = history.encode(self.root);
        if bytes.len() as u64 > HISTORY_BYTES_MAX {
            return Ok(true);
        }
        let mut file = tempfile::NamedTempFile::new_in(&self.folder)?;
        file.write_all(&bytes)?;
        file.persist(self.folder.join(HISTORY))?;
        Ok(true)
    }

    /// Returns the version of the catalogue on disk.
    pub(super) fn version(&self) -> Option<DiskVersion> {
        let metadata = fs::symlink_metadata(self.folder.join(CATALOGUE)).ok()?;
        Some(DiskVersion::from_metadata(&metadata))
    }

    /// Takes the lock of a writer; `None` if another writer holds it.
    pub(super) fn lock(&self) -> io::Result<Option<File>> {
        make_private(&self.folder)?;
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .custom_flags(flags.bits().cast_signed())
            .open(self.folder.join(LOCK))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                let _ = file.set_modified(SystemTime::now());
                Ok(Some(file))
            }
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Writes the files of `base` that `keeps` accepts, together with `added`. The caller holds the lock and says in
    /// `on_disk` whether `base` is the version on disk.
    pub(super) fn write(
        &self,
        base: &Catalogue,
        on_disk: bool,
        keeps: impl Fn(&str) -> bool,
        added: Vec<IndexedFile>,
        bytes_max: u64,
    ) -> io::Result<StoredIndex> {
        let replaced: HashSet<&str> = added.iter().map(|one| &*one.entry.path).collect();
        let old = base.entries.iter().filter(|entry| !replaced.contains(&*entry.path));
        let (kept, gone): (Vec<&FileRecord>, Vec<&FileRecord>) = old.partition(|entry| keeps(&entry.path));
        let kept: Vec<IndexedFile> = kept.into_iter().map(IndexedFile::from_record).collect();
        let is_appended = on_disk && gone.is_empty() && !is_wasteful(base, &kept, &added);
        let writer = if is_appended {
            RecordWriter::open_for_append(self, base, bytes_max)?
        } else {
            RecordWriter::create_file(self, base, bytes_max)?
        };
        let path = writer.path.clone();
        let written = self.write_with(writer, added, kept);
        if written.is_err() {
            // Unused bytes would keep a full disk full.
            let _ = if is_appended {
                let records = OpenOptions::new().write(true).open(&path);
                records.and_then(|records| records.set_len(base.records_bytes))
            } else {
                fs::remove_file(&path)
            };
        }
        written
    }

    fn write_with(
        &self,
        mut writer: RecordWriter<'_>,
        added: Vec<IndexedFile>,
        kept: Vec<IndexedFile>,
    ) -> io::Result<StoredIndex> {
        writer.reserve(added.iter().chain(&kept));
        // New files come first: if a stored record is damaged, the new one replaces it under every path.
        for one in added.into_iter().chain(kept) {
            writer.take(one)?;
        }
        let is_full = writer.is_full;
        let catalogue = writer.finish()?;
        let version = self.publish(&catalogue)?;
        Ok(StoredIndex {
            catalogue,
            version,
            is_full,
        })
    }

    fn publish(&self, catalogue: &Catalogue) -> io::Result<DiskVersion> {
        let bytes = catalogue.encode(self.root);
        if bytes.len() as u64 > CATALOGUE_BYTES_MAX {
            return Err(io::Error::other("the list of files is too large to be kept"));
        }
        let mut file = tempfile::NamedTempFile::new_in(&self.folder)?;
        file.write_all(&bytes)?;
        let file = file.persist(self.folder.join(CATALOGUE))?;
        self.remove_old_records(catalogue.generation);
        Ok(DiskVersion::from_metadata(&file.metadata()?))
    }

    /// Removes records of other generations, and temporary files of a writer that died.
    fn remove_old_records(&self, generation: u64) {
        let current = records_name(generation);
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let is_ours = name == CATALOGUE || name == LOCK || name == HISTORY || postings::is_postings_file(&name);
            if !is_ours && *name != current {
                // The file may be gone by now, or be a folder that `tool` did not make.
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    fn records(&self, generation: u64) -> PathBuf {
        self.folder.join(records_name(generation))
    }

    /// Sets the time of last use, by which `prune_indexes` removes indexes.
    fn note_use(&self) {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let mut options = OpenOptions::new();
        options.write(true).custom_flags(flags.bits().cast_signed());
        if let Ok(lock) = options.open(self.folder.join(LOCK)) {
            let _ = lock.set_modified(SystemTime::now());
        }
    }
}

/// Fewer unused bytes than this do not justify a new file.
pub(super) const WASTE_BYTES_MIN: u64 = 256 * 1024;

fn records_name(generation: u64) -> String {
    format!("{RECORDS}{generation:016x}")
}

/// Writes records and collects the entries of the next catalogue.
struct RecordWriter<'a> {
    base: &'a Catalogue,
    /// True if new records go to the end of the file of `base`; false if all go to a new file.
    appends: bool,
    file: BufWriter<File>,
    path: PathBuf,
    generation: u64,
    end: u64,
    live: u64,
    /// Contents that have a record in `base` and are still to be placed, and the bytes of these records. A new record
    /// must not take their room.
    waiting: HashSet<ContentDigest>,
    reserved: u64,
    bytes_max: u64,
    is_full: bool,
    entries: Vec<FileRecord>,
    /// Places of the contents so far.
    places: HashMap<ContentDigest, RecordExtent>,
}

impl<'a> RecordWriter<'a> {
    fn open_for_append(store: &IndexStore, base: &'a Catalogue, bytes_max: u64) -> io::Result<Self> {
        let path = store.records(base.generation);
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let mut file = OpenOptions::new()
            .write(true)
            .custom_flags(flags.bits().cast_signed())
            .open(&path)?;
        // Bytes after the end are left from a writer that died.
        file.set_len(base.records_bytes)?;
        file.seek(SeekFrom::End(0))?;
        Ok(Self::new(base, true, file, path, base.generation, bytes_max))
    }

    fn create_file(store: &IndexStore, base: &'a Catalogue, bytes_max: u64) -> io::Result<Self> {
        let (generation, _) = uuid::Uuid::new_v4().as_u64_pair();
        let path = store.records(generation);
        let file = OpenOptions::new()
            .create_new(true)
            .write(true)
            .mode(0o600)
            .open(&path)?;
        Ok(Self::new(base, false, file, path, generation, bytes_max))
    }

    fn new(base: &'a Catalogue, appends: bool, file: File, path: PathBuf, generation: u64, bytes_max: u64) -> Self {
        Self {
            base,
            appends,
            file: BufWriter::new(file),
            path,
            generation,
            end: if appends { base.records_bytes } else { 0 },
            live: 0,
            waiting: HashSet::new(),
            reserved: 0,
            bytes_max,
            is_full: false,
            entries: Vec::new(),
            places: HashMap::new(),
        }
    }

    /// Reserves room for the stored records of these files.
    fn reserve<'b>(&mut self, files: impl Iterator<Item = &'b IndexedFile>) {
        for IndexedFile { entry, .. } in files.filter(|file| file.entry.place != RecordExtent::NONE) {
            if let Some(place) = self.base.place_of(&entry.digest)
                && self.waiting.insert(entry.digest)
            {
                self.reserved += u64::from(place.bytes);
            }
        }
    }

    /// Adds a file. If there is no room for its new record, the file keeps the stored one or has none. A file whose
    /// stored record cannot be read is left out.
    fn take(&mut self, one: IndexedFile) -> io::Result<()> {
        let mut entry = one.entry;
        if entry.place != RecordExtent::NONE {
            entry.place = match self.place(&entry.digest, one.record.as_deref())? {
                Some(place) => place,
                None if self.is_full => RecordExtent::NONE,
                None => return Ok(()),
            };
        }
        self.entries.push(entry);
        Ok(())
    }

    /// Returns the place of a content's record; `None` if there is no record or no room for it.
    fn place(&mut self, digest: &ContentDigest, record: Option<&[u8]>) -> io::Result<Option<RecordExtent>> {
        if let Some(place) = self.places.get(digest) {
            return Ok(Some(*place));
        }
        let known = self.base.place_of(digest);
        if self.waiting.remove(digest) {
            self.reserved -= known.map_or(0, |place| u64::from(place.bytes));
        }
        let record = record.filter(|record| self.has_room(record.len() as u64));
        let bytes = match (record, known) {
            (Some(record), _) => record.len() as u64,
            (None, Some(place)) if self.has_room(place.bytes.into()) => place.bytes.into(),
            _ => return Ok(None),
        };
        let place = match (record, known) {
            (Some(record), _) => self.put(record)?,
            (None, Some(place)) if self.appends || place.bytes == 0 => place,
            (None, Some(place)) => match self.base.record(place) {
                Some(record) => self.put(&record)?,
                None => return Ok(None),
            },
            (None, None) => return Ok(None),
        };
        self.live += bytes;
        self.places.insert(*digest, place);
        Ok(Some(place))
    }

    /// True if a record of this size fits beside those that are placed or reserved.
    fn has_room(&mut self, bytes: u64) -> bool {
        let fits = self.live + self.reserved + bytes <= self.bytes_max;
        self.is_full |= !fits;
        fits
    }

    fn put(&mut self, record: &[u8]) -> io::Result<RecordExtent> {
        self.file.write_all(record)?;
        let place = RecordExtent {
            offset: self.end,
            bytes: u32::try_from(record.len()).map_err(io::Error::other)?,
            checksum: compute_checksum(record),
        };
        self.end += record.len() as u64;
        Ok(place)
    }

    fn finish(mut self) -> io::Result<Catalogue> {
        self.file.flush()?;
        self.entries.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        let records = match (self.appends, &self.base.records) {
            (true, Some(records)) => Arc::clone(records),
            _ => Arc::new(open_private(&self.path)?),
        };
        Ok(Catalogue::new(self.entries, self.generation, self.end, Some(records)))
    }
}

impl DiskVersion {
    pub(super) fn from_metadata(metadata: &fs::Metadata) -> Self {
        Self {
            inode: metadata.ino(),
            bytes: metadata.len(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// Removes the least recently used indexes above the limits. The index `current` stays in any case.
pub(super) fn prune_indexes(indexes: &Path, current: &str, count_max: usize, bytes_max: u64) {
    let mut found: Vec<(bool, SystemTime, u64, PathBuf)> = Vec::new();
    for entry in fs::read_dir(indexes).into_iter().flatten().flatten() {
        let path = entry.path();
        let used = fs::symlink_metadata(path.join(LOCK)).and_then(|lock| lock.modified());
        let files = fs::read_dir(&path).into_iter().flatten().flatten();
        let bytes = files.filter_map(|file| Some(file.metadata().ok()?.len())).sum();
        found.push((
            entry.file_name() == current,
            used.unwrap_or(SystemTime::UNIX_EPOCH),
            bytes,
            path,
        ));
    }
    found.sort_unstable();
    let mut count = found.len();
    let mut bytes: u64 = found.iter().map(|one| one.2).sum();
    for (is_current, _, size, path) in found {
        if is_current || count <= count_max && bytes <= bytes_max {
            break;
        }
        // Readers continue with the files that they hold open; the next writer makes a new index.
        let _ = fs::remove_dir_all(path);
        count -= 1;
        bytes -= size;
    }
}

/// Makes the folder of an index and the one above it, and fails if another user made one of them. The state directory
/// must exist.
fn make_private(folder: &Path) -> io::Result<()> {
    let above = folder.parent().unwrap_or(Path::new("/"));
    for folder in [above, folder] {
        match DirBuilder::new().mode(0o700).create(folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => made?,
        }
        check_private(&fs::symlink_metadata(folder)?)?;
    }
    Ok(())
}
