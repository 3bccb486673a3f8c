//! What npm installs beside what it is asked for: whatever the repository's records of packages list.
//!
//! npm makes the folder of packages what `package.json`, those of its workspaces and a lock file say, and who wrote that
//! there may be the model. So the records are read before the question, which names what is not there yet, and once more
//! after it: an answer holds for what was read. What they held before the session's first change is kept, because an
//! `install` that was allowed beforehand covers what a call names and what the user's own records list, and nothing
//! that a session puts in between. pip and uv are given names alone and read no record. Nothing is installed here.

mod folders;
mod records;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;
use std::sync::PoisonError;

use super::names;
use crate::limits;
use crate::repository::{EntryKind, path};
use crate::skill::bindings::tool::skill::types::Failure;
use crate::skill::changes::{self, Obstacle};
use crate::skill::imports::failure::{failure, hinted};
use crate::skill::imports::recipe;
use crate::skill::policy::{Decision, Effect};
use crate::skill::stage::digest;
use crate::skill::{CallContext, FileChange};
use records::Entry;

/// Lock files that npm reads at the root; of a `yarn.lock` it takes versions and addresses, too.
const LOCKS: [&str; 3] = ["package-lock.json", "npm-shrinkwrap.json", "yarn.lock"];

/// The records at one moment. Two are equal where nobody has written to any of them in between.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Listed {
    records: BTreeMap<String, Record>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Record {
    digest: String,
    bytes: u64,
    /// Inode and time of the last change: what was written and taken back is not the same.
    stamp: Option<(u64, i64, i64)>,
    entries: BTreeSet<Entry>,
}

impl Record {
    fn of(record: &str, content: &[u8], stamp: Option<(u64, i64, i64)>) -> Result<Self, Failure> {
        let unread = |error| {
            // npm reads some of what is no JSON, such as the marks of a merge.
            let message = format!("It is not known what `{record}` lists: it is not valid JSON ({error}).");
            hinted("failed", message, "mend the file, or let npm make it anew")
        };
        Ok(Self {
            digest: digest(content),
            bytes: content.len() as u64,
            stamp,
            entries: records::entries(record, content).map_err(unread)?,
        })
    }
}

/// Takes note of what the records hold before a session changes anything, where it might install later.
pub(crate) fn note_before(context: &CallContext) {
    // Somebody may come who can be asked.
    let can_ask = true;
    let may_install = context.policy.decide(Effect::Install, can_ask) != Decision::Deny;
    if !may_install || lock(context).listed_before.is_some() {
        return;
    }
    // Where they cannot be read, all that they hold counts as the session's.
    let before = Listed::read(context).unwrap_or_default();
    lock(context).listed_before.get_or_insert(before);
}

fn lock(context: &CallContext) -> std::sync::MutexGuard<'_, crate::skill::SessionFiles> {
    context.files.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Listed {
    fn read(context: &CallContext) -> Result<Self, Failure> {
        let mut listed = Self::default();
        let mut folders = folders::Folders::default();
        let mut places = vec![String::new()];
        while let Some(place) = places.pop() {
            let Some(record) = record_of(context, &place) else {
                continue;
            };
            if listed.add(context, &record)? {
                let entries = &listed.records[&record].entries;
                places.extend(folders.next(context.repository.root(), entries)?);
            }
        }
        for lock in LOCKS {
            listed.add(context, lock)?;
        }
        Ok(listed)
    }

    /// True where the record is there and was not known.
    fn add(&mut self, context: &CallContext, record: &str) -> Result<bool, Failure> {
        if self.records.contains_key(record) {
            return Ok(false);
        }
        let bytes: u64 = self.records.values().map(|record| record.bytes).sum();
        let left = limits::INSTALL_RECORDS_BYTES_MAX - bytes;
        let stamp = stamp(context, record);
        let Some(state) = changes::current(context.repository.handle(), record, left).map_err(unreadable)? else {
            return Ok(false);
        };
        if self.records.len() >= limits::INSTALL_RECORDS_MAX {
            return Err(too_much(&format!("{} files", limits::INSTALL_RECORDS_MAX)));
        }
        let read = Record::of(record, &state.content, stamp)?;
        self.records.insert(record.to_owned(), read);
        Ok(true)
    }

    /// Refuses where anything was written since.
    pub(super) fn is_still(&self, context: &CallContext) -> Result<(), Failure> {
        match Self::read(context)? == *self {
            true => Ok(()),
            false => Err(hinted(
                "failed",
                "What npm would install has changed since the installation was prepared: a `package.json` or a lock \
                 file was written. Nothing was installed.",
                "call again, so that the question is about what they list now",
            )),
        }
    }

    /// After an installation that went well, what it was about and what it recorded is nobody's addition any more.
    pub(super) fn settle(&self, context: &CallContext, changes: &[FileChange]) {
        let mut settled = self.clone();
        for FileChange { path, after, .. } in changes {
            let after = after.as_ref().map(|after| Record::of(path, &after.content, None));
            if let Some(Ok(record)) = after {
                settled.records.insert(path.clone(), record);
            }
        }
        if let Some(before) = &mut lock(context).listed_before {
            *before = settled;
        }
    }

    fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.records.values().flat_map(|record| &record.entries)
    }

    /// Records that are another than they were.
    fn differing(&self, before: &Self) -> Vec<String> {
        let names: BTreeSet<&String> = self.records.keys().chain(before.records.keys()).collect();
        let digest = |listed: &Self, name: &String| Some(listed.records.get(name)?.digest.clone());
        let differing = names
            .into_iter()
            .filter(|name| digest(self, name) != digest(before, name));
        differing.cloned().collect()
    }
}

fn unreadable(obstacle: Obstacle) -> Failure {
    match obstacle {
        Obstacle::TooLarge { .. } => {
            let mebibytes = limits::INSTALL_RECORDS_BYTES_MAX / (1024 * 1024);
            too_much(&format!("{mebibytes} MiB"))
        }
        obstacle => failure("denied", format!("{obstacle}.")),
    }
}

fn too_much(what: &str) -> Failure {
    let message = format!("The records of packages that npm reads here are more than {what}.");
    hinted("limit", message, "the user has to install it with npm")
}

/// The record of a folder, or a package that lies in the repository as one file. What is hidden or outside is none: a
/// session does not write there.
fn record_of(context: &CallContext, place: &str) -> Option<String> {
    if place.is_empty() {
        return Some("package.json".to_owned());
    }
    let opened = context.repository.open_at(place).ok()?;
    Some(match opened.kind {
        EntryKind::Directory => path::join(&opened.path, "package.json"),
        _ => opened.path,
    })
}

#[allow(
    clippy::useless_conversion,
    clippy::unnecessary_cast,
    reason = "their types differ between systems"
)]
fn stamp(context: &CallContext, record: &str) -> Option<(u64, i64, i64)> {
    let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
    let stat = rustix::fs::statat(context.repository.directory(), record, flags).ok()?;
    Some((stat.st_ino as u64, stat.st_ctime as i64, stat.st_ctime_nsec as i64))
}

/// What an installation brings beside what its call names.
#[derive(Debug)]
pub(super) struct Beside {
    pub(super) listed: Listed,
    /// What this session has put into the records.
    added: Vec<Entry>,
    /// What else is not there yet.
    missing: Vec<Entry>,
    /// Records that this session has changed.
    changed: Vec<String>,
}

impl Beside {
    pub(super) fn read(context: &CallContext, names: &[String]) -> Result<Self, Failure> {
        let listed = Listed::read(context)?;
        let before = lock(context).listed_before.clone();
        Ok(Self::new(context.repository.root(), listed, before.as_ref(), names))
    }

    fn new(root: &Path, listed: Listed, before: Option<&Listed>, names: &[String]) -> Self {
        let known: Option<HashSet<_>> = before.map(|before| before.entries().map(Entry::essence).collect());
        let locked = Locked::of(&listed);
        let (mut added, mut missing, mut told) = (Vec::new(), Vec::new(), HashSet::new());
        // A manifest says more plainly what a lock file repeats.
        let (manifests, locks): (Vec<&Entry>, _) = listed.entries().partition(|entry| entry.is_of_manifest());
        for entry in manifests
            .into_iter()
            .chain(locks)
            .filter(|entry| !is_named(entry, names))
        {
            let is_added = known.as_ref().is_some_and(|known| !known.contains(&entry.essence()));
            let is_missing = || entry.is_of_manifest() && !(is_there(root, entry) && locked.agrees(entry));
            if (is_added || is_missing()) && told.insert((&entry.name, &entry.specifier)) {
                if is_added { &mut added } else { &mut missing }.push(entry.clone());
            }
        }
        Self {
            added,
            missing,
            changed: before.map(|before| listed.differing(before)).unwrap_or_default(),
            listed,
        }
    }

    /// True where something would be installed that nobody has seen who allowed installations beforehand.
    pub(super) fn is_unseen(&self) -> bool {
        !self.added.is_empty()
    }

    fn count(&self) -> usize {
        self.added.len() + self.missing.len()
    }

    /// The end of the question's title.
    pub(super) fn title(&self) -> String {
        match self.count() {
            0 => String::new(),
            count => format!(", and {count} more that the repository lists"),
        }
    }

    /// For the user who is asked: what comes as well, what the session added first.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if !self.changed.is_empty() {
            notes.push(format!(
                "changed in this session: {}",
                counted(&self.changed, String::as_str)
            ));
        }
        if self.count() == 0 {
            notes.push("package.json lists nothing else that is not there yet".to_owned());
            return notes;
        }
        notes.push("installed as well, because the repository lists it and it is new or not there yet:".to_owned());
        let added = self.added.iter().map(|entry| line(entry, "; new in this session"));
        let lines = added.chain(self.missing.iter().map(|entry| line(entry, "")));
        notes.extend(lines.take(limits::INSTALL_LISTED_MAX));
        if self.count() > limits::INSTALL_LISTED_MAX {
            notes.push(format!("    and {} more", self.count() - limits::INSTALL_LISTED_MAX));
        }
        notes
    }

    /// Where nobody can be asked.
    pub(super) fn refusal(&self) -> Failure {
        let message = format!(
            "npm would also install what this session has put into {}, which nobody was asked about: {}.",
            counted(&self.changed, String::as_str),
            counted(&self.added, |entry| &entry.name),
        );
        hinted(
            "denied",
            message,
            "take the change back, or name each of them in the call, which counts where its version is the registry's; \
             in a session on a terminal the user is asked",
        )
    }
}

/// True where the call names the package and the record asks for nothing but a version of it from the registry.
fn is_named(entry: &Entry, named: &[String]) -> bool {
    let is_it = |name: &String| name.rfind('@').filter(|&at| at > 0).map_or(&**name, |at| &name[..at]) == entry.name;
    entry.is_dependency() && named.iter().any(is_it) && names::is_npm(&format!("{}@{}", entry.name, entry.specifier))
}

/// True where a package of that name lies in the folder of packages.
fn is_there(root: &Path, entry: &Entry) -> bool {
    let name = entry.package();
    let folders = [root.to_owned(), root.join(&entry.of)];
    // Any other name leads elsewhere.
    names::is_npm(name)
        && folders
            .iter()
            .any(|folder| folder.join("node_modules").join(name).is_dir())
}

/// What lock files note of manifests as they were when they were installed.
struct Locked<'a> {
    folders: HashSet<&'a str>,
    noted: HashSet<(&'a str, &'a str, &'a str)>,
}

impl<'a> Locked<'a> {
    fn of(listed: &'a Listed) -> Self {
        let entries = listed.entries().filter(|entry| !entry.is_of_manifest());
        let entries: Vec<&Entry> = entries.filter(|entry| entry.is_dependency()).collect();
        Self {
            folders: entries.iter().map(|entry| &*entry.of).collect(),
            noted: entries
                .iter()
                .map(|entry| (&*entry.of, &*entry.name, &*entry.specifier))
                .collect(),
        }
    }

    /// True where the lock file notes the same, or nothing at all of this manifest; of overrides it never does.
    fn agrees(&self, entry: &Entry) -> bool {
        let is_noted = || self.noted.contains(&(&*entry.of, &*entry.name, &*entry.specifier));
        !entry.is_dependency() || !self.folders.contains(&*entry.of) || is_noted()
    }
}

/// One line, on which nothing acts on a terminal or stands in another order.
fn line(entry: &Entry, more: &str) -> String {
    let mut text = recipe::quoted(&entry.name);
    if !entry.specifier.is_empty() {
        text = format!("{text} {}", recipe::quoted(&entry.specifier));
    }
    let place = bounded(&recipe::quoted(&entry.record));
    format!("    {} ({place}, {}{more})", bounded(&text), entry.table)
}

fn bounded(text: &str) -> String {
    match text.chars().count() {
        length if length > limits::INSTALL_LISTED_CHARS_MAX => {
            let start: String = text.chars().take(limits::INSTALL_LISTED_CHARS_MAX).collect();
            format!("{start}… ({length} characters)")
        }
        _ => text.to_owned(),
    }
}

/// Names in a sentence: the first few, and how many more.
fn counted<T>(items: &[T], name: impl Fn(&T) -> &str) -> String {
    const SHOWN: usize = 5;
    let shown: Vec<String> = items
        .iter()
        .take(SHOWN)
        .map(|item| format!("`{}`", bounded(&recipe::quoted(name(item)))))
        .collect();
    match items.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod unit;
