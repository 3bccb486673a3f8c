//! Writes a repository's lock file from the installed skills, and compares the two.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::pins::{ComponentOrigin, Pin};
use super::team::{Member, read_component};
use super::{LoadedSkill, SkillHost};
use crate::SkillHostError;
use crate::lock::{LockDifference, LockedSkill, REGISTRY, SkillLock, place_and_digest, without_tag};
use tool_boundary::CONTRACT;
use tool_core::digest::sha256_hex;

/// Skills to put into a lock file.
#[derive(Debug, Clone, Copy)]
pub enum LockChoice<'a> {
    /// These skills, in the versions that the user added last. The file keeps its other skills.
    Names(&'a [String]),
    /// The skills that the file names already.
    Again,
    /// All skills that can be used now, and no others.
    All,
}

/// Function that adds the digest of a manifest to a reference: `(reference, digest)` to the pinned reference.
pub type PinSource = fn(&str, &str) -> String;

impl SkillHost {
    /// Creates the lock file that replaces `known` in this folder. Returns it with the reason for each chosen skill
    /// that could not be locked. `pin_source` adds the digest of a manifest to a reference.
    ///
    /// # Errors
    ///
    /// The pins cannot be read.
    pub fn lock(
        &self,
        folder: &Path,
        known: SkillLock,
        choice: LockChoice<'_>,
        pin_source: PinSource,
    ) -> Result<(SkillLock, Vec<(String, String)>), SkillHostError> {
        let pins = self.pins()?;
        let last = self.members(None);
        let locked = self.members(Some(&known));
        let names: Vec<String> = match choice {
            LockChoice::Names(names) => names.to_vec(),
            LockChoice::Again => known.skills().keys().cloned().collect(),
            LockChoice::All => last.keys().cloned().collect(),
        };
        let mut skills = match choice {
            LockChoice::All => BTreeMap::new(),
            _ => known.skills().clone(),
        };
        let mut left_out = Vec::new();
        for name in names {
            // The user has not chosen a version for this repository that only the lock file of another repository
            // asks for.
            let is_shared = pins.skills.get(&name).is_some_and(|pin| pin.is_shared);
            let members = if is_shared { &locked } else { &last };
            match members.get(&name) {
                Some(Member::Ready(skill)) => {
                    let origin = pins.version(&name, &skill.digest).and_then(|pin| pin.origin.as_ref());
                    let source = origin.and_then(|origin| shareable_source(origin, folder, pin_source));
                    skills.insert(name, locked_as(skill, source));
                }
                Some(Member::Waiting { reason, .. }) => left_out.push((name, reason.clone())),
                None if matches!(choice, LockChoice::Names(_)) => return Err(SkillHostError::Unknown { name }),
                None => left_out.push((name, "it is not there".to_owned())),
            }
        }
        Ok((SkillLock::new(skills), left_out))
    }

    /// Finds the differences between the user's skills and a lock file in this folder.
    pub fn differences(&self, lock: &SkillLock, folder: &Path) -> Vec<LockDifference> {
        let mut differences = lock.differences(&self.entries_in(Some(lock)));
        let pins = self.pins().ok();
        for (name, locked) in lock.skills() {
            let pin = pins.as_ref().and_then(|pins| pins.version(name, &locked.digest));
            let wrong = locked
                .source
                .as_ref()
                .and_then(|source| wrong_source(source, locked, pin, folder));
            differences.extend(wrong.map(|reason| LockDifference::Source {
                name: name.clone(),
                reason,
            }));
        }
        differences
    }
}

fn locked_as(skill: &LoadedSkill, source: Option<String>) -> LockedSkill {
    LockedSkill {
        version: skill.descriptor.version.clone(),
        digest: skill.digest.clone(),
        world: CONTRACT.to_owned(),
        effects: skill.granted.iter().flatten().copied().collect(),
        source,
    }
}

/// Source of a component for other users: a reference to a registry, or a file below the folder of the lock file;
/// `None` for a file elsewhere on this machine.
fn shareable_source(origin: &ComponentOrigin, folder: &Path, pin_source: PinSource) -> Option<String> {
    if let Some(manifest) = &origin.manifest {
        return Some(pin_source(&origin.from, manifest));
    }
    let path = Path::new(&origin.from);
    // Compare canonical paths: a link or `..` could make a file outside of the folder look like one inside.
    let (folder, parent) = (fs::canonicalize(folder).ok()?, fs::canonicalize(path.parent()?).ok()?);
    let inside = parent.strip_prefix(&folder).ok()?.join(path.file_name()?);
    inside.to_str().map(str::to_owned)
}

/// Explains why this source would not provide the locked component, as the end of a sentence. A reference is compared
/// with the one that the component came from, if there is one, without asking the registry.
fn wrong_source(source: &str, locked: &LockedSkill, pin: Option<&Pin>, folder: &Path) -> Option<String> {
    if let Some(named) = place_and_digest(source) {
        let origin = pin?.origin.as_ref()?;
        let from = origin.from.strip_prefix(REGISTRY)?;
        let from = from.split_once('@').map_or(from, |(place, _)| place);
        let manifest = origin.manifest.as_deref()?;
        let is_same = named == (without_tag(from), manifest);
        return (!is_same).then(|| format!("is locked as `{source}`, and it came from `{REGISTRY}{from}@{manifest}`"));
    }
    match read_component(&folder.join(source)) {
        Ok(wasm) if sha256_hex(&wasm) == locked.digest => None,
        Ok(_) => Some(format!(
            "is locked as `{source}`, and that file holds another component"
        )),
        Err(error) => Some(format!(
            "is locked as `{source}`, and that file cannot be read: {error}"
        )),
    }
}
