//! Decisions of the user about a team's components: added, trusted, updated, switched off and on, removed, locked.
//!
//! Nothing here asks anybody. What the user was shown is named by its digest, and an effect that the version before did
//! not have counts only where it is among those that the user has said yes to.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

use super::pins::{ComponentOrigin, Pin, Pins};
use super::team::{ComponentFingerprint, Inspected, Inspection, Member, io, write};
use super::{Skill, SkillHost, Source, ready_entry};
use crate::imports::store;
use crate::limits;
use crate::lock::{Lock, Locked};
use crate::signature::Signature;
use crate::{FunctionDescriptor, SkillHostError};
use tool_boundary::{CONTRACT, is_name};
use tool_core::api::SkillEntry;
use tool_core::api::{Effect, SkillOrigin};
use tool_sandbox::scratch::{self, ScratchFolder};

/// On which terms a component is pinned. The default: from nowhere, and nothing beyond the version before.
#[derive(Debug, Clone, Default)]
pub struct Terms {
    /// Origin of the component; absent keeps the known one.
    pub origin: Option<ComponentOrigin>,
    /// Effects beyond those of the version before that the user has said yes to.
    pub grown: Vec<Effect>,
    /// It gets at most these; absent is all that it asks for.
    pub within: Option<Vec<Effect>>,
}

/// Differences between a component and the one that is pinned under its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VersionChange {
    /// Version of the one before.
    pub version: String,
    /// Its digest.
    pub digest: String,
    /// Effects that the new one asks for and the one before was not granted.
    pub grown: Vec<Effect>,
    /// Effects that the new one does not ask for any more.
    pub dropped: Vec<Effect>,
    /// Origin of the one before.
    pub origin: Option<ComponentOrigin>,
}

/// A pinned component.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Pinned {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// SHA-256, hexadecimal.
    pub digest: String,
    /// Effects that it is granted.
    pub effects: Vec<Effect>,
    /// Its origin, where that is known.
    pub origin: Option<ComponentOrigin>,
}

/// A component that came from a registry, in a private folder until this is dropped.
#[derive(Debug)]
pub struct Held {
    path: PathBuf,
    _folder: ScratchFolder,
}

impl Held {
    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl SkillHost {
    /// Keeps a component that is no file yet, so that it can be looked at.
    pub fn hold(&self, component: &[u8]) -> Result<Held, SkillHostError> {
        let home = self.folder.parent();
        let folder = scratch::folder(home, "tool-skill-").map_err(|source| io(&self.folder, "made", source))?;
        let path = folder.path().join("pulled.wasm");
        fs::write(&path, component).map_err(|source| io(&path, "written", source))?;
        Ok(Held { path, _folder: folder })
    }

    /// Compares a component with the one that is pinned under its name; nothing where none is.
    pub fn change(&self, shown: &Inspection) -> Result<Option<VersionChange>, SkillHostError> {
        let pins = self.pins()?;
        Ok(pins.skills.get(&shown.name).map(|pin| VersionChange {
            version: pin.descriptor.version.clone(),
            digest: pin.digest.clone(),
            grown: grown(&shown.functions, pin, None),
            dropped: beyond(&pin.descriptor.effects(), &shown.effects),
            origin: pin.origin.clone(),
        }))
    }

    /// Adds the component that was shown: copies it into the team's folder and pins its digest and descriptor. Refused
    /// where the file is no longer the one that was shown.
    pub fn add(&self, shown: &Inspection) -> Result<SkillEntry, SkillHostError> {
        self.add_on(shown, &Terms::default())
    }

    /// Adds the component that was shown, on these terms.
    pub fn add_on(&self, shown: &Inspection, terms: &Terms) -> Result<SkillEntry, SkillHostError> {
        let inspected = self.shown_again(shown)?;
        let target = self.component_path(&inspected.descriptor.name);
        self.pin(inspected, terms, |inspected| {
            write(&target, &inspected.wasm)?;
            copy_signature(&shown.path, &target)?;
            Ok(target.clone())
        })
    }

    /// Trusts the component that was shown where it lies: in the team's folder.
    pub fn trust(&self, shown: &Inspection) -> Result<SkillEntry, SkillHostError> {
        self.trust_on(shown, &Terms::default())
    }

    /// Trusts the component that was shown, on these terms.
    pub fn trust_on(&self, shown: &Inspection, terms: &Terms) -> Result<SkillEntry, SkillHostError> {
        let inspected = self.shown_again(shown)?;
        if self.installed(&inspected.descriptor.name)? != shown.path {
            return Err(SkillHostError::Refused {
                path: shown.path.clone(),
                reason: "it does not lie in the folder of skills under its own name".to_owned(),
            });
        }
        self.pin(inspected, terms, |_| Ok(shown.path.clone()))
    }

    fn shown_again(&self, shown: &Inspection) -> Result<Inspected, SkillHostError> {
        let inspected = self.inspected(&shown.path)?;
        if inspected.inspection.digest != shown.digest {
            return Err(SkillHostError::Changed {
                path: shown.path.clone(),
                shown: shown.digest.clone(),
                found: inspected.inspection.digest,
            });
        }
        // It has no clock and no random numbers by which it could say another thing than the user has read. What is pinned
        // is compared all the same.
        if inspected.inspection == *shown {
            Ok(inspected)
        } else {
            Err(SkillHostError::Refused {
                path: shown.path.clone(),
                reason: "it does not describe itself the same way each time".to_owned(),
            })
        }
    }

    /// Pins a component once `place` has put it where it stays. One that is switched off stays that.
    fn pin(
        &self,
        inspected: Inspected,
        terms: &Terms,
        place: impl FnOnce(&Inspected) -> Result<PathBuf, SkillHostError>,
    ) -> Result<SkillEntry, SkillHostError> {
        let name = inspected.descriptor.name.clone();
        Pins::edit(&self.folder, |pins| {
            let before = pins.skills.get(&name);
            if let Some(before) = before {
                check_grown(&inspected, before, terms)?;
            }
            check_names(&inspected, pins)?;
            if before.is_none() && pins.skills.len() >= limits::TEAM_SKILLS_MAX {
                return Err(SkillHostError::Refused {
                    path: inspected.inspection.path.clone(),
                    reason: format!("there are {} skills already", limits::TEAM_SKILLS_MAX),
                });
            }
            let mut pin = Pin::new(
                inspected.inspection.digest.clone(),
                inspected.descriptor.clone(),
                terms.within.as_deref(),
            );
            pin.origin = terms.origin.clone().or_else(|| before?.origin.clone());
            pin.disabled = before.is_some_and(|before| before.disabled);
            let path = place(&inspected)?;
            pin.stamp = fs::symlink_metadata(&path)
                .ok()
                .map(|metadata| ComponentFingerprint::of(&metadata));
            let skill = Skill::new(
                pin.descriptor.clone(),
                pin.grants(),
                pin.digest.clone(),
                Source::Team(path),
            );
            pins.skills.insert(name.clone(), pin);
            Ok(ready_entry(&skill, SkillOrigin::Team))
        })
    }

    /// Takes a team's component away: its pin, its file and its signature.
    pub fn remove(&self, name: &str) -> Result<(), SkillHostError> {
        if is_name(name) {
            self.clear_store(name, None)?;
        }
        let is_pinned = self.pins()?.skills.contains_key(name);
        let path = match self.installed(name) {
            // Its file may be gone; what was granted goes all the same.
            Err(_) if is_pinned => self.component_path(name),
            path => path?,
        };
        if is_pinned {
            Pins::edit(&self.folder, |pins| {
                pins.skills.remove(name);
                Ok(())
            })?;
        }
        match fs::remove_file(Signature::place(&path)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(io(&path, "removed", error)),
            _ => {}
        }
        match fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(io(&path, "removed", error)),
            _ => Ok(()),
        }
    }

    /// Removes what a skill has kept: in the repository with this root, or in all. True where there was something.
    pub fn clear_store(&self, name: &str, root: Option<&Path>) -> Result<bool, SkillHostError> {
        let home = self.folder.parent().unwrap_or(&self.folder);
        if !is_name(name) {
            return Err(SkillHostError::Unknown { name: name.to_owned() });
        }
        store::clear(home, name, root).map_err(|source| io(home, "cleared", source))
    }

    /// Switches a pinned component off, or on again. What it is and what it may do stays pinned.
    pub fn disable(&self, name: &str, is_disabled: bool) -> Result<(), SkillHostError> {
        Pins::edit(&self.folder, |pins| match pins.skills.get_mut(name) {
            Some(pin) => {
                pin.disabled = is_disabled;
                Ok(())
            }
            None => Err(SkillHostError::Unknown { name: name.to_owned() }),
        })
    }

    /// Everything that is pinned, by name.
    pub fn pinned(&self) -> Result<BTreeMap<String, Pinned>, SkillHostError> {
        let pins = self.pins()?;
        let pinned = pins.skills.iter().map(|(name, pin)| {
            let pinned = Pinned {
                name: name.clone(),
                version: pin.descriptor.version.clone(),
                digest: pin.digest.clone(),
                effects: pin.granted(),
                origin: pin.origin.clone(),
            };
            (name.clone(), pinned)
        });
        Ok(pinned.collect())
    }

    /// The bytes of the component that was shown.
    pub fn component(&self, shown: &Inspection) -> Result<Arc<[u8]>, SkillHostError> {
        Ok(self.shown_again(shown)?.wasm)
    }

    /// The file of a component in the team's folder, pinned or not.
    pub fn file_of(&self, name: &str) -> Result<PathBuf, SkillHostError> {
        self.installed(name)
    }

    /// Returns a lock file for this folder with the skills that can be used now, and the reason for each one left out.
    /// `pin_source` adds the digest of a manifest to an address in a registry.
    pub fn lock(&self, folder: &Path, pin_source: PinSource) -> Result<(Lock, Vec<(String, String)>), SkillHostError> {
        let pins = self.pins()?;
        let (mut skills, mut left_out) = (BTreeMap::new(), Vec::new());
        for (name, member) in self.members() {
            match member {
                Member::Ready(skill) => {
                    let origin = pins.skills.get(&name).and_then(|pin| pin.origin.as_ref());
                    let locked = Locked {
                        version: skill.descriptor.version.clone(),
                        digest: skill.digest.clone(),
                        world: CONTRACT.to_owned(),
                        effects: skill.granted.iter().flatten().copied().collect(),
                        source: source(origin, folder, pin_source),
                    };
                    skills.insert(name, locked);
                }
                Member::Waiting { reason, .. } => left_out.push((name, reason)),
            }
        }
        Ok((Lock::new(skills), left_out))
    }
}

/// Adds the digest of a manifest to an address in a registry: `(address, digest)` to the pinned address.
pub type PinSource = fn(&str, &str) -> String;

/// Source of a component for others: a place in a registry, or a file below the folder of the lock file. A file
/// elsewhere on this machine is none.
fn source(origin: Option<&ComponentOrigin>, folder: &Path, pin_source: PinSource) -> Option<String> {
    let origin = origin?;
    if let Some(manifest) = &origin.manifest {
        return Some(pin_source(&origin.from, manifest));
    }
    let path = Path::new(&origin.from);
    // Canonical paths: a link or `..` cannot make a file outside the folder look like one inside.
    let (folder, parent) = (fs::canonicalize(folder).ok()?, fs::canonicalize(path.parent()?).ok()?);
    let inside = parent.strip_prefix(&folder).ok()?.join(path.file_name()?);
    inside.to_str().map(str::to_owned)
}

/// Refuses effects that the version before was not granted and that the user has not said yes to.
fn check_grown(inspected: &Inspected, before: &Pin, terms: &Terms) -> Result<(), SkillHostError> {
    let grown = grown(&inspected.descriptor.functions, before, terms.within.as_deref());
    let grown = beyond(&grown, &terms.grown);
    if grown.is_empty() {
        Ok(())
    } else {
        Err(SkillHostError::Grown {
            name: inspected.descriptor.name.clone(),
            effects: grown,
        })
    }
}

/// Effects that a function asks for and that the function of this name was not granted before, sorted. An effect that
/// only another function of the component had is new.
fn grown(functions: &[FunctionDescriptor], before: &Pin, within: Option<&[Effect]>) -> Vec<Effect> {
    let mut all = Vec::new();
    for function in functions {
        let asked = function.effects.iter().copied();
        let asked: Vec<Effect> = asked
            .filter(|effect| within.is_none_or(|within| within.contains(effect)))
            .collect();
        all.extend(beyond(&asked, &before.granted_to_name(&function.name)));
    }
    all.sort_unstable();
    all.dedup();
    all
}

/// Refuses a function whose name calls a function of another component that the user has added.
fn check_names(inspected: &Inspected, pins: &Pins) -> Result<(), SkillHostError> {
    let descriptor = &inspected.descriptor;
    for function in &descriptor.functions {
        let taken = pins
            .component_of(&function.name)
            .filter(|owner| *owner != descriptor.name);
        if let Some(owner) = taken {
            return Err(SkillHostError::Refused {
                path: inspected.inspection.path.clone(),
                reason: format!(
                    "the name of its function `{}` is taken by the skill `{owner}`; `tool skill remove {owner}` frees it",
                    function.name
                ),
            });
        }
    }
    Ok(())
}

/// Effects in the first list and not in the second.
fn beyond(all: &[Effect], known: &[Effect]) -> Vec<Effect> {
    all.iter().copied().filter(|effect| !known.contains(effect)).collect()
}

/// Copies a component's signature, or removes the one that an earlier component left.
fn copy_signature(from: &Path, to: &Path) -> Result<(), SkillHostError> {
    let target = Signature::place(to);
    match Signature::beside(from) {
        Ok(Some(signature)) => write(&target, signature.to_text().as_bytes()),
        _ => match fs::remove_file(&target) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(io(&target, "removed", error)),
            _ => Ok(()),
        },
    }
}
