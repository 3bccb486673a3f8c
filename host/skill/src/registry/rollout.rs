//! The user's decisions about a team's components: add, trust, update, disable, enable, remove, lock.
//!
//! This module asks no questions. A digest identifies what the user has seen, and a new effect counts only if the
//! user has granted it.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

use super::pins::{ComponentOrigin, Pin, Pins};
use super::team::{
    ComponentFingerprint, InspectedComponent, Inspection, VERSIONS, io_error, read_component, write_private_file,
};
use super::{LoadedSkill, SkillHost, SkillSource, ready_entry};
use crate::imports::value_store;
use crate::limits;
use crate::signature::{Signature, SignatureError};
use crate::{FunctionDescriptor, SkillHostError};
use tool_boundary::is_name;
use tool_core::api::SkillEntry;
use tool_core::api::{Effect, SkillOrigin};
use tool_core::digest::sha256_hex;
use tool_sandbox::scratch::{self, ScratchFolder};

/// Terms on which a component is pinned. By default it has no origin, and no effects beyond those of the previous
/// version.
#[derive(Debug, Clone, Default)]
pub struct PinTerms {
    /// Origin of the component; absent to keep the known one.
    pub origin: Option<ComponentOrigin>,
    /// Effects beyond those of the previous version that the user has granted.
    pub grown: Vec<Effect>,
    /// Limit for its effects; absent to grant all that it declares.
    pub within: Option<Vec<Effect>>,
    /// True if a repository's lock file asks for it. The user's other version stays the default.
    pub is_for_lock: bool,
}

/// Differences between a component and the pinned version of the same name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VersionChange {
    /// Version of the pinned component.
    pub version: String,
    /// Digest of the pinned component.
    pub digest: String,
    /// Effects that the new component declares and the pinned one was not granted.
    pub grown: Vec<Effect>,
    /// Effects that the new component does not declare any more.
    pub dropped: Vec<Effect>,
    /// Origin of the pinned component.
    pub origin: Option<ComponentOrigin>,
}

/// A pinned component.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PinnedSkill {
    /// Name of the component.
    pub name: String,
    /// Version of the component.
    pub version: String,
    /// SHA-256 of the component, hexadecimal.
    pub digest: String,
    /// Effects that it is granted.
    pub effects: Vec<Effect>,
    /// Origin of the component, if it is known.
    pub origin: Option<ComponentOrigin>,
}

impl PinnedSkill {
    fn new(name: &str, pin: &Pin) -> Self {
        Self {
            name: name.to_owned(),
            version: pin.descriptor.version.clone(),
            digest: pin.digest.clone(),
            effects: pin.granted(),
            origin: pin.origin.clone(),
        }
    }
}

/// A component from a registry, in a private folder that is removed when this is dropped.
#[derive(Debug)]
pub struct PulledCopy {
    path: PathBuf,
    _folder: ScratchFolder,
}

impl PulledCopy {
    /// Path of the component.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl SkillHost {
    /// Writes a component to a private folder, so that it can be inspected.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn hold(&self, component: &[u8]) -> Result<PulledCopy, SkillHostError> {
        let home = self.folder.parent();
        let folder =
            scratch::create_folder(home, "tool-skill-").map_err(|source| io_error(&self.folder, "made", source))?;
        let path = folder.path().join("pulled.wasm");
        fs::write(&path, component).map_err(|source| io_error(&path, "written", source))?;
        Ok(PulledCopy { path, _folder: folder })
    }

    /// Compares a component with the pinned one of the same name; `None` if there is none.
    ///
    /// # Errors
    ///
    /// The pins cannot be read.
    pub fn change(&self, shown: &Inspection) -> Result<Option<VersionChange>, SkillHostError> {
        let pins = self.pins()?;
        let same = pins.version(&shown.name, &shown.digest);
        let before = same.or_else(|| pins.skills.get(&shown.name));
        Ok(before.map(|pin| VersionChange {
            version: pin.descriptor.version.clone(),
            digest: pin.digest.clone(),
            grown: grown_effects(&shown.functions, pin, None),
            dropped: new_effects(&pin.descriptor.effects(), &shown.effects),
            origin: pin.origin.clone(),
        }))
    }

    /// Adds the component that the user has seen: copies it to the team's folder, and pins its digest and descriptor.
    ///
    /// # Errors
    ///
    /// The file has changed since, breaks a rule, or cannot be copied.
    pub fn add(&self, shown: &Inspection) -> Result<SkillEntry, SkillHostError> {
        self.add_on(shown, &PinTerms::default())
    }

    /// Adds the component that the user has seen, on these terms.
    ///
    /// # Errors
    ///
    /// As [`Self::add`], or it declares effects that the terms do not grant.
    pub fn add_on(&self, shown: &Inspection, terms: &PinTerms) -> Result<SkillEntry, SkillHostError> {
        self.pin(&self.shown_again(shown)?, terms, false)
    }

    /// Trusts the component that the user has seen in the team's folder.
    ///
    /// # Errors
    ///
    /// The file has changed since, or breaks a rule.
    pub fn trust(&self, shown: &Inspection) -> Result<SkillEntry, SkillHostError> {
        self.trust_on(shown, &PinTerms::default())
    }

    /// Trusts the component that the user has seen, on these terms.
    ///
    /// # Errors
    ///
    /// As [`Self::trust`], or it declares effects that the terms do not grant.
    pub fn trust_on(&self, shown: &Inspection, terms: &PinTerms) -> Result<SkillEntry, SkillHostError> {
        let inspected = self.shown_again(shown)?;
        if self.path_of(&inspected.descriptor.name, &shown.digest) != shown.path {
            return Err(SkillHostError::Refused {
                path: shown.path.clone(),
                reason: "it does not lie in the folder of skills under its own name".to_owned(),
            });
        }
        self.pin(&inspected, terms, true)
    }

    fn shown_again(&self, shown: &Inspection) -> Result<InspectedComponent, SkillHostError> {
        let inspected = self.inspected(&shown.path)?;
        if inspected.inspection.digest != shown.digest {
            return Err(SkillHostError::Changed {
                path: shown.path.clone(),
                shown: shown.digest.clone(),
                found: inspected.inspection.digest,
            });
        }
        // Without a clock and random numbers, the component cannot describe itself differently than before. The
        // pinned values are compared all the same.
        if inspected.inspection == *shown {
            Ok(inspected)
        } else {
            Err(SkillHostError::Refused {
                path: shown.path.clone(),
                reason: "it does not describe itself the same way each time".to_owned(),
            })
        }
    }

    /// Pins a component, and copies it to the team's folder unless it is there. A disabled component stays disabled.
    fn pin(
        &self,
        inspected: &InspectedComponent,
        terms: &PinTerms,
        is_installed: bool,
    ) -> Result<SkillEntry, SkillHostError> {
        let (name, digest) = (&inspected.descriptor.name, &inspected.inspection.digest);
        Pins::edit(&self.folder, |pins| {
            let last = pins.skills.get(name).cloned();
            let before = pins.version(name, digest).or(last.as_ref()).cloned();
            if let Some(before) = &before {
                check_grown(inspected, before, terms)?;
            }
            check_names(inspected, pins)?;
            if last.is_none() && pins.skills.len() >= limits::TEAM_SKILLS_MAX {
                return Err(SkillHostError::Refused {
                    path: inspected.inspection.path.clone(),
                    reason: format!("there are {} skills already", limits::TEAM_SKILLS_MAX),
                });
            }
            let is_other = last.as_ref().is_some_and(|last| last.digest != *digest);
            let goes_beside = if is_installed {
                inspected.inspection.path != self.component_path(name)
            } else {
                terms.is_for_lock && is_other
            };
            let mut pin = Pin::new(digest.clone(), inspected.descriptor.clone(), terms.within.as_deref());
            let known_origin = || before.as_ref()?.origin.clone();
            pin.origin = terms.origin.clone().or_else(known_origin);
            pin.disabled = last.as_ref().is_some_and(|last| last.disabled);
            pin.is_shared = terms.is_for_lock && last.as_ref().is_none_or(|last| last.is_shared);
            let path = if goes_beside {
                self.version_path(digest)
            } else {
                self.component_path(name)
            };
            if !is_installed {
                self.make_versions_folder()?;
                if let Some(last) = last.filter(|_| is_other && !goes_beside) {
                    self.keep_last(pins, name, last)?;
                }
                write_private_file(&path, &inspected.wasm)?;
                copy_signature(&inspected.inspection.path, &path)?;
            }
            pin.stamp = fs::symlink_metadata(&path)
                .ok()
                .map(|metadata| ComponentFingerprint::from_metadata(&metadata));
            let skill = LoadedSkill::new(
                pin.descriptor.clone(),
                pin.grants(),
                pin.digest.clone(),
                SkillSource::Team(path),
            );
            if goes_beside {
                let gone = pins.keep(name, pin);
                gone.iter()
                    .try_for_each(|digest| remove_files(&self.version_path(digest)))?;
            } else {
                pins.skills.insert(name.clone(), pin);
                if pins.forget(name, digest) {
                    remove_files(&self.version_path(digest))?;
                }
            }
            Ok(ready_entry(&skill, SkillOrigin::Team))
        })
    }

    /// Keeps the version that is about to be replaced, for lock files that name it. A file that has changed since it
    /// was pinned is not kept.
    fn keep_last(&self, pins: &mut Pins, name: &str, last: Pin) -> Result<(), SkillHostError> {
        let (from, to) = (self.component_path(name), self.version_path(&last.digest));
        let is_last = read_component(&from).is_ok_and(|wasm| sha256_hex(&wasm) == last.digest);
        if !is_last {
            return Ok(());
        }
        remove_files(&to)?;
        fs::hard_link(&from, &to).map_err(|source| io_error(&to, "written", source))?;
        copy_signature(&from, &to)?;
        let mut kept = last;
        kept.stamp = None;
        let gone = pins.keep(name, kept);
        gone.iter()
            .try_for_each(|digest| remove_files(&self.version_path(digest)))
    }

    fn make_versions_folder(&self) -> Result<(), SkillHostError> {
        let folder = self.folder.join(VERSIONS);
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        made.map_err(|source| io_error(&folder, "made", source))
    }

    /// Removes a team's component in all versions: pins, files and signatures.
    ///
    /// # Errors
    ///
    /// The pins or the files cannot be changed.
    pub fn remove(&self, name: &str) -> Result<(), SkillHostError> {
        if is_name(name) {
            self.clear_store(name, None)?;
        }
        let is_pinned = self.pins()?.skills.contains_key(name);
        let path = match self.installed(name) {
            // The file may be gone; the pin is removed all the same.
            Err(_) if is_pinned => self.component_path(name),
            path => path?,
        };
        let mut others = Vec::new();
        if is_pinned {
            Pins::edit(&self.folder, |pins| {
                pins.skills.remove(name);
                others = pins.versions.remove(name).unwrap_or_default();
                Ok(())
            })?;
        }
        let others = others.iter().map(|pin| self.version_path(&pin.digest));
        others.chain([path]).try_for_each(|path| remove_files(&path))
    }

    /// Removes what a skill has kept: for the repository at this root, or for all. Returns true if there was
    /// something.
    ///
    /// # Errors
    ///
    /// The folder cannot be removed.
    pub fn clear_store(&self, name: &str, root: Option<&Path>) -> Result<bool, SkillHostError> {
        let home = self.folder.parent().unwrap_or(&self.folder);
        if !is_name(name) {
            return Err(SkillHostError::Unknown { name: name.to_owned() });
        }
        value_store::clear_store(home, name, root).map_err(|source| io_error(home, "cleared", source))
    }

    /// Disables a pinned component, or enables it again. The pin stays.
    ///
    /// # Errors
    ///
    /// The component is not pinned, or the pins cannot be changed.
    pub fn disable(&self, name: &str, is_disabled: bool) -> Result<(), SkillHostError> {
        Pins::edit(&self.folder, |pins| match pins.skills.get_mut(name) {
            Some(pin) => {
                pin.disabled = is_disabled;
                Ok(())
            }
            None => Err(SkillHostError::Unknown { name: name.to_owned() }),
        })
    }

    /// All pinned components, by name.
    ///
    /// # Errors
    ///
    /// The pins cannot be read.
    pub fn pinned(&self) -> Result<BTreeMap<String, PinnedSkill>, SkillHostError> {
        let pins = self.pins()?;
        let pinned = pins.skills.iter();
        Ok(pinned
            .map(|(name, pin)| (name.clone(), PinnedSkill::new(name, pin)))
            .collect())
    }

    /// The version of a skill with this digest, if the user has added it.
    ///
    /// # Errors
    ///
    /// The pins cannot be read.
    pub fn pinned_version(&self, name: &str, digest: &str) -> Result<Option<PinnedSkill>, SkillHostError> {
        let pins = self.pins()?;
        Ok(pins.version(name, digest).map(|pin| PinnedSkill::new(name, pin)))
    }

    /// Reads the component that the user has seen.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or has changed since.
    pub fn component(&self, shown: &Inspection) -> Result<Arc<[u8]>, SkillHostError> {
        Ok(self.shown_again(shown)?.wasm)
    }

    /// Path of a component in the team's folder, pinned or not.
    ///
    /// # Errors
    ///
    /// There is no such component.
    pub fn file_of(&self, name: &str) -> Result<PathBuf, SkillHostError> {
        self.installed(name)
    }

    /// Writes a signature beside the version of a skill with this digest.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn write_signature(&self, name: &str, digest: &str, signature: &Signature) -> Result<PathBuf, SignatureError> {
        signature.write_beside(&self.path_of(name, digest))
    }
}

/// Refuses effects that neither the previous version nor the terms grant.
fn check_grown(inspected: &InspectedComponent, before: &Pin, terms: &PinTerms) -> Result<(), SkillHostError> {
    let grown = grown_effects(&inspected.descriptor.functions, before, terms.within.as_deref());
    let grown = new_effects(&grown, &terms.grown);
    if grown.is_empty() {
        Ok(())
    } else {
        Err(SkillHostError::Grown {
            name: inspected.descriptor.name.clone(),
            effects: grown,
        })
    }
}

/// Effects of a function that the function of this name was not granted before, sorted. An effect that only another
/// function of the component had is new.
fn grown_effects(functions: &[FunctionDescriptor], before: &Pin, within: Option<&[Effect]>) -> Vec<Effect> {
    let mut all = Vec::new();
    for function in functions {
        let asked = function.effects.iter().copied();
        let asked: Vec<Effect> = asked
            .filter(|effect| within.is_none_or(|within| within.contains(effect)))
            .collect();
        all.extend(new_effects(&asked, &before.granted_to_name(&function.name)));
    }
    all.sort_unstable();
    all.dedup();
    all
}

/// Refuses a function whose name calls a function of another pinned component.
fn check_names(inspected: &InspectedComponent, pins: &Pins) -> Result<(), SkillHostError> {
    let descriptor = &inspected.descriptor;
    for function in &descriptor.functions {
        let taken = pins
            .component_of(&function.name, None)
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

fn new_effects(all: &[Effect], known: &[Effect]) -> Vec<Effect> {
    all.iter().copied().filter(|effect| !known.contains(effect)).collect()
}

/// Copies a component's signature, or removes the signature of an earlier component.
fn copy_signature(from: &Path, to: &Path) -> Result<(), SkillHostError> {
    let target = Signature::signature_path(to);
    match Signature::read_beside(from) {
        Ok(Some(signature)) => write_private_file(&target, signature.to_text().as_bytes()),
        _ => remove_file(&target),
    }
}

/// Removes a component and its signature, if they exist.
fn remove_files(component: &Path) -> Result<(), SkillHostError> {
    remove_file(&Signature::signature_path(component))?;
    remove_file(component)
}

fn remove_file(path: &Path) -> Result<(), SkillHostError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(io_error(path, "removed", error)),
        _ => Ok(()),
    }
}
