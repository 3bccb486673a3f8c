//! Packages that npm installs in addition to the requested ones: all that the repository's records list.
//!
//! npm makes the folder of packages match `package.json`, the manifests of workspaces and of packages in the
//! repository, lock files and the folder itself. The model may have written any of these, and which of them npm reads
//! depends on its version. So every file that could be a record counts: the question lists the records that the
//! session has written, and needs the user's answer. An `install` that was allowed beforehand covers only the
//! packages that a call names and those in the user's own records. An answer holds for the files as they were when
//! the user was asked.
//!
//! The question also names packages that the root's `package.json` lists and that are not installed yet. pip and uv
//! get only names, and read no record.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::PoisonError;

use serde_json::Value;

use super::names;
use crate::CallContext;
use crate::imports::recipe;
use tool_boundary::Failure;
use tool_boundary::call_cancelled;
use tool_core::digest::sha256_hex;
use tool_repository::changes::FileChange;
use tool_repository::path;

/// Manifests, lock files and other records of npm that a session has written to and that are compared with what they
/// held; more count as changed. No session of an honest model writes to as many.
const INSTALL_RECORDS_MAX: usize = 1000;

/// Largest record that is compared; a larger one counts as changed. Lock files of thousands of packages have a few MiB.
const INSTALL_RECORD_BYTES_MAX: u64 = 32 * 1024 * 1024;

/// Largest `package.json` whose fields are looked at; a larger one counts as a whole. They have a few KiB, and what is
/// parsed takes ten times as much memory for a moment.
const INSTALL_MANIFEST_BYTES_MAX: usize = 1024 * 1024;

/// Packages that a question about an installation names beside those that were asked for. A longer list is too much to
/// read.
const INSTALL_LISTED_MAX: usize = 100;

/// Longest name with its specifier in such a question: an address with a commit, and room.
const INSTALL_LISTED_CHARS_MAX: usize = 400;

/// Files that npm reads at the root, regardless of their author. From a `yarn.lock` it takes versions and URLs as well.
const OF_ROOT: [&str; 4] = [MANIFEST, "package-lock.json", "npm-shrinkwrap.json", "yarn.lock"];
const MANIFEST: &str = "package.json";

/// Tables of packages that npm installs; since version 7 peer dependencies as well.
const TABLES: [&str; 4] = [
    "dependencies",
    "devDependencies",
    "optionalDependencies",
    "peerDependencies",
];

/// Fields of a manifest that are often edited and do not affect an installation without scripts.
const OF_NO_INSTALLATION: [&str; 7] = [
    "author",
    "description",
    "eslintConfig",
    "jest",
    "keywords",
    "prettier",
    "scripts",
];

/// Records a change of a record before it is in place.
pub(crate) fn note_changes(context: &CallContext, files: &[FileChange]) {
    let mut files: Vec<&FileChange> = files.iter().filter(|file| may_be_record(&file.path)).collect();
    let mut session = lock_files(context);
    files.retain(|file| !session.package_records.contains_key(&file.path));
    for file in files {
        let before = file
            .before
            .as_ref()
            .map(|before| essence_digest(&file.path, &before.content));
        session.package_records.insert(file.path.clone(), before);
    }
}

fn lock_files(context: &CallContext) -> std::sync::MutexGuard<'_, crate::SessionFiles> {
    context.files.lock().unwrap_or_else(PoisonError::into_inner)
}

/// True for every file that npm may read as a manifest, a lock file, a packed package or an installed package.
fn may_be_record(path: &str) -> bool {
    let path = path.to_lowercase();
    let name = path::split_path(&path).1;
    OF_ROOT.contains(&name)
        || name == ".npmrc"
        || [".tgz", ".tar", ".tar.gz"].iter().any(|end| name.ends_with(end))
        || path.split('/').any(|part| part == "node_modules")
}

/// Digest of the parts of a record that affect installations.
fn essence_digest(record: &str, content: &[u8]) -> String {
    let is_manifest = path::split_path(record).1 == MANIFEST;
    let parsed = Some(content).filter(|content| is_manifest && content.len() <= INSTALL_MANIFEST_BYTES_MAX);
    let parsed = parsed.and_then(|content| serde_json::from_slice::<serde_json::Map<_, _>>(content).ok());
    let Some(mut manifest) = parsed else {
        return sha256_hex(content);
    };
    manifest.retain(|key, _| !OF_NO_INSTALLATION.contains(&&**key));
    sha256_hex(Value::Object(manifest).to_string().as_bytes())
}

/// Digest of a record's present content; an error if it cannot be read, or is too large.
fn current_essence(context: &CallContext, record: &str) -> Result<Option<String>, ()> {
    let state = context.repository.current(record, INSTALL_RECORD_BYTES_MAX);
    let state = state.map_err(|_| ())?;
    Ok(state.map(|state| essence_digest(record, &state.content)))
}

/// Inode and time of the last change of a record, so that a change and its reversal differ from no change; absent for
/// a missing file.
type RecordStamp = Option<(u64, i64, i64)>;

#[allow(
    clippy::useless_conversion,
    clippy::unnecessary_cast,
    reason = "their types differ between systems"
)]
fn record_stamp(context: &CallContext, record: &str) -> RecordStamp {
    let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
    let stat = rustix::fs::statat(context.repository.directory(), record, flags).ok()?;
    Some((stat.st_ino as u64, stat.st_ctime as i64, stat.st_ctime_nsec as i64))
}

/// The records at one moment. Two values are equal if no record was written in between.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ListedRecords(BTreeMap<String, RecordStamp>);

impl ListedRecords {
    fn read(context: &CallContext) -> Self {
        let written: Vec<String> = lock_files(context).package_records.keys().cloned().collect();
        let records = OF_ROOT.map(str::to_owned).into_iter().chain(written);
        Self(
            records
                .map(|record| {
                    let stamp = record_stamp(context, &record);
                    (record, stamp)
                })
                .collect(),
        )
    }

    /// Fails if a record was written since.
    pub(super) fn is_still(&self, context: &CallContext) -> Result<(), Failure> {
        if Self::read(context) == *self {
            Ok(())
        } else {
            Err(Failure::failed(
                "What npm would install has changed since the installation was prepared: a `package.json` or a lock \
                 file was written. Nothing was installed.",
            )
            .with_hint("call again, so that the question is about what they list now"))
        }
    }

    /// After a successful installation, makes the records that it read and wrote the new baseline.
    pub(super) fn settle(&self, context: &CallContext, changes: &[FileChange]) {
        let written: Vec<String> = lock_files(context).package_records.keys().cloned().collect();
        for record in written {
            let recorded = changes.iter().find(|change| change.path == record);
            let settled = match recorded {
                Some(change) => Ok(change
                    .after
                    .as_ref()
                    .map(|after| essence_digest(&record, &after.content))),
                None => current_essence(context, &record),
            };
            let is_meant = || recorded.is_some() || self.0.get(&record) == Some(&record_stamp(context, &record));
            if let Ok(settled) = settled
                && is_meant()
            {
                lock_files(context).package_records.insert(record, settled);
            }
        }
    }
}

/// A package that a manifest lists.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ListedPackage {
    name: String,
    /// Version, range or URL, exactly as written.
    specifier: String,
    table: &'static str,
}

/// Packages that an installation adds to those that its call names.
#[derive(Debug)]
pub(super) struct ExtraPackages {
    pub(super) listed: ListedRecords,
    /// Records that this session has changed.
    changed: Vec<String>,
    /// Packages that the root's manifest lists and that are not installed; absent if it cannot be read.
    missing: Option<Vec<ListedPackage>>,
}

impl ExtraPackages {
    pub(super) fn read(context: &CallContext, names: &[String]) -> Result<Self, Failure> {
        let listed = ListedRecords::read(context);
        let records = lock_files(context).package_records.clone();
        let mut changed = Vec::new();
        for (at, (record, before)) in records.into_iter().enumerate() {
            if context.cancel.is_cancelled() {
                return Err(call_cancelled());
            }
            // Records above the limit count as changed without a check.
            if at >= INSTALL_RECORDS_MAX || current_essence(context, &record) != Ok(before) {
                changed.push(record);
            }
        }
        Ok(Self {
            listed,
            changed,
            missing: find_uninstalled(context, names),
        })
    }

    /// True if the installation would add packages that the user's earlier permission does not cover.
    pub(super) fn is_unseen(&self) -> bool {
        !self.changed.is_empty()
    }

    /// End of the question's title.
    pub(super) fn title(&self) -> String {
        match self.missing.as_ref().map_or(0, Vec::len) {
            0 => String::new(),
            count => format!(", and {count} more that package.json lists"),
        }
    }

    /// Notes in the question: records that the session has changed, and additional packages.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if !self.changed.is_empty() {
            let changed = summarise_names(&self.changed);
            notes.push(format!(
                "changed in this session, and npm installs what they say: {changed}"
            ));
        }
        match self.missing.as_deref() {
            None => notes.push("package.json cannot be read, so its list of packages is unknown".to_owned()),
            Some([]) => notes.push("package.json itself lists nothing else that is not there yet".to_owned()),
            Some(missing) => {
                notes.push("installed as well, because package.json lists it and it is not there yet:".to_owned());
                notes.extend(missing.iter().take(INSTALL_LISTED_MAX).map(package_line));
                if missing.len() > INSTALL_LISTED_MAX {
                    notes.push(format!("    and {} more", missing.len() - INSTALL_LISTED_MAX));
                }
            }
        }
        notes.push("and what these packages, workspaces and lock files ask for".to_owned());
        notes
    }

    /// The failure if the user cannot be asked.
    pub(super) fn refusal(&self) -> Failure {
        let message = format!(
            "npm would install what this session has written into {}, which the user was not asked about.",
            summarise_names(&self.changed),
        );
        Failure::denied(message).with_hint(
            "take the change back and name the packages in the call, which records them by itself; in a session on a \
             terminal the user is asked",
        )
    }
}

/// Packages in the root's manifest that the call does not name and that are not installed.
fn find_uninstalled(context: &CallContext, named: &[String]) -> Option<Vec<ListedPackage>> {
    let bound = INSTALL_MANIFEST_BYTES_MAX as u64;
    let state = context.repository.current(MANIFEST, bound).ok()?;
    let content = state.map(|state| state.content).unwrap_or_default();
    let text = content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&content);
    let manifest: Value = serde_json::from_slice(text).ok()?;
    let is_optional = |name: &str| manifest["peerDependenciesMeta"][name]["optional"] == true;
    let mut missing = Vec::new();
    let mut told = BTreeSet::new();
    for table in TABLES {
        for (name, specifier) in manifest[table].as_object().into_iter().flatten() {
            let specifier = specifier.as_str().map_or_else(|| specifier.to_string(), str::to_owned);
            let is_wanted = table != "peerDependencies" || !is_optional(name);
            let entry = ListedPackage {
                name: name.clone(),
                specifier,
                table,
            };
            let is_beside = is_wanted && !is_named(&entry, named) && !is_there(context.repository.root(), name);
            if is_beside && told.insert((entry.name.clone(), entry.specifier.clone())) {
                missing.push(entry);
            }
        }
    }
    Some(missing)
}

/// True if the call names the package, and the manifest asks only for a version of it from the registry.
fn is_named(entry: &ListedPackage, named: &[String]) -> bool {
    let is_it = |name: &String| name.rfind('@').filter(|&at| at > 0).map_or(&**name, |at| &name[..at]) == entry.name;
    named.iter().any(is_it) && names::is_npm(&format!("{}@{}", entry.name, entry.specifier))
}

/// True if the folder of packages has a package of that name.
fn is_there(root: &Path, name: &str) -> bool {
    // Any other name could be a path that leads elsewhere.
    names::is_npm(name) && root.join("node_modules").join(name).is_dir()
}

/// A package as one line, without control characters and characters that reorder text.
fn package_line(entry: &ListedPackage) -> String {
    let mut text = recipe::quote_argument(&entry.name);
    if !entry.specifier.is_empty() {
        text = format!("{text} {}", recipe::quote_argument(&entry.specifier));
    }
    format!("    {} ({})", cut_package_text(&text), entry.table)
}

fn cut_package_text(text: &str) -> String {
    match text.chars().count() {
        length if length > INSTALL_LISTED_CHARS_MAX => {
            let start: String = text.chars().take(INSTALL_LISTED_CHARS_MAX).collect();
            format!("{start}… ({length} characters)")
        }
        _ => text.to_owned(),
    }
}

/// Lists the first names, and the number of the others.
fn summarise_names(names: &[String]) -> String {
    const SHOWN: usize = 5;
    let shown: Vec<String> = names
        .iter()
        .take(SHOWN)
        .map(|name| format!("`{}`", cut_package_text(&recipe::quote_argument(name))))
        .collect();
    match names.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod unit;
