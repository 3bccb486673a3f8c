//! A team's components in their folder: finds them, compares them with their pins, and inspects them. `rollout`
//! changes the pins.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::pins::{Pin, Pins};
use super::signed::{CheckedSignature, RequiredSigners};
use super::{LoadedSkill, SkillHost, SkillSource, is_name};
use crate::limits;
use crate::small_files::{self, LinkPolicy};
use crate::{ComponentMetadata, Descriptor, FunctionDescriptor, LockedSkills, SkillHostError};
use tool_boundary::{describe_component, inspect_component};
use tool_core::api::{Effect, SkillState};
use tool_core::digest::sha256_hex;

/// Folder for versions that only lock files name, below the team's folder. Each file is named by its digest.
pub(super) const VERSIONS: &str = "versions";

/// A component in the team's folder, as it was when it was last read.
#[derive(Clone)]
pub(super) struct SeenComponent {
    stamp: ComponentFingerprint,
    digest: String,
    /// Set once the component was found to be pinned, so that its code is loaded once.
    skill: Option<Arc<LoadedSkill>>,
    /// Its signature, once that was checked.
    pub(super) checked: Option<CheckedSignature>,
}

/// Identifies the state of a file, to find out whether it has changed since it was hashed. Its owner cannot set the
/// change time back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ComponentFingerprint {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl ComponentFingerprint {
    pub(super) fn from_metadata(metadata: &fs::Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

/// A component of the team, by its state.
pub(super) enum Member {
    Ready(Arc<LoadedSkill>),
    Waiting {
        digest: String,
        state: SkillState,
        reason: String,
        /// Descriptor that the user has seen, if the component has not changed.
        descriptor: Option<Box<Descriptor>>,
    },
}

/// Description and declared effects of a component that is not trusted yet.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Inspection {
    /// Name of the component.
    pub name: String,
    /// Version of the component.
    pub version: String,
    /// Description by the component's author.
    pub description: String,
    /// Effects that its functions declare, together.
    pub effects: Vec<Effect>,
    /// Functions of the component.
    pub functions: Vec<FunctionDescriptor>,
    /// Facts that the host does not enforce.
    pub metadata: ComponentMetadata,
    /// SHA-256 of the file, hexadecimal.
    pub digest: String,
    /// Size of the file in bytes.
    pub size: u64,
    /// Path of the file.
    pub path: PathBuf,
}

impl Inspection {
    fn new(path: &Path, wasm: &[u8], descriptor: &Descriptor) -> Self {
        Self {
            name: descriptor.name.clone(),
            version: descriptor.version.clone(),
            description: descriptor.description.clone(),
            effects: descriptor.effects(),
            functions: descriptor.functions.clone(),
            metadata: descriptor.metadata.clone(),
            digest: sha256_hex(wasm),
            size: wasm.len() as u64,
            path: path.to_owned(),
        }
    }
}

/// An inspected component, with the data for pinning it.
pub(super) struct InspectedComponent {
    pub(super) inspection: Inspection,
    pub(super) descriptor: Descriptor,
    pub(super) wasm: Arc<[u8]>,
}

impl SkillHost {
    /// Components in the team's folder by name, in the versions that this lock file names.
    pub(super) fn members(&self, lock: Option<&dyn LockedSkills>) -> BTreeMap<String, Member> {
        let mut names: BTreeSet<String> = component_names(&self.folder);
        let pins = self.pins();
        if let Ok(pins) = &pins {
            let is_locked = |name: &&String| pins.locked_version(name, lock).is_some();
            names.extend(pins.versions.keys().filter(is_locked).cloned());
        }
        if names.is_empty() {
            return BTreeMap::new();
        }
        let required = self.signing.required();
        let mut seen = self.team.lock().unwrap_or_else(PoisonError::into_inner);
        seen.retain(|path, _| path.is_file());
        names
            .into_iter()
            .map(|name| {
                let member = self.member(&mut seen, &name, lock, &pins, &required);
                (name, member)
            })
            .collect()
    }

    /// The component of this name, without examining the others.
    pub(super) fn one_member(&self, name: &str, lock: Option<&dyn LockedSkills>) -> Option<Member> {
        let pins = self.pins();
        let is_kept = |pins: &Arc<Pins>| pins.locked_version(name, lock).is_some();
        if !pins.as_ref().is_ok_and(is_kept) {
            let path = self.installed(name).ok()?;
            // Lists skip links as well.
            if path.symlink_metadata().ok()?.is_symlink() {
                return None;
            }
        }
        let required = self.signing.required();
        let mut seen = self.team.lock().unwrap_or_else(PoisonError::into_inner);
        Some(self.member(&mut seen, name, lock, &pins, &required))
    }

    /// The pins, read again if their file has changed.
    pub(super) fn pins(&self) -> Result<Arc<Pins>, SkillHostError> {
        let stamp = fs::symlink_metadata(Pins::pins_path(&self.folder))
            .ok()
            .map(|metadata| ComponentFingerprint::from_metadata(&metadata));
        let mut known = self.pins.lock().unwrap_or_else(PoisonError::into_inner);
        if let (Some(stamp), Some((known, pins))) = (stamp, &*known)
            && stamp == *known
        {
            return Ok(Arc::clone(pins));
        }
        let pins = Arc::new(Pins::read(&self.folder)?);
        *known = stamp.map(|stamp| (stamp, Arc::clone(&pins)));
        Ok(pins)
    }

    fn member(
        &self,
        seen: &mut BTreeMap<PathBuf, SeenComponent>,
        name: &str,
        lock: Option<&dyn LockedSkills>,
        pins: &Result<Arc<Pins>, SkillHostError>,
        required: &Result<RequiredSigners, String>,
    ) -> Member {
        let waiting = |digest: &str, state, reason: String| Member::Waiting {
            digest: digest.to_owned(),
            state,
            reason,
            descriptor: None,
        };
        if self.is_reserved(name) {
            return waiting(
                "",
                SkillState::Refused,
                "its name is that of a built-in tool".to_owned(),
            );
        }
        let known = pins.as_ref().ok();
        let last = known.and_then(|pins| pins.skills.get(name));
        let (path, pin) = match known.and_then(|pins| pins.locked_version(name, lock)) {
            Some(other) => (&self.version_path(&other.digest), Some(other)),
            None => (&self.component_path(name), last),
        };
        let seen = match hash_component(seen, path, pin) {
            Ok(seen) => seen,
            Err(error) => return waiting("", SkillState::Refused, format!("it cannot be read: {error}")),
        };
        if let Err(error) = pins {
            return waiting(&seen.digest, SkillState::Refused, error.to_string());
        }
        match pin {
            None => {
                let reason = format!("it has not been added; `tool skill trust {name}` shows what it asks for");
                waiting(&seen.digest, SkillState::Untrusted, reason)
            }
            Some(pin) if pin.digest != seen.digest => {
                let reason = format!("its file has changed since it was added; `tool skill trust {name}` looks again");
                waiting(&seen.digest, SkillState::Changed, reason)
            }
            Some(pin) if last.is_some_and(|last| last.disabled) => Member::Waiting {
                digest: seen.digest.clone(),
                state: SkillState::Disabled,
                reason: format!("it is disabled; `tool skill enable {name}` brings it back"),
                descriptor: Some(Box::new(pin.descriptor.clone())),
            },
            Some(pin) => {
                let signed = required
                    .clone()
                    .and_then(|required| required.check(name, path, pin, seen));
                if let Err(reason) = signed {
                    return Member::Waiting {
                        digest: seen.digest.clone(),
                        state: SkillState::Unsigned,
                        reason,
                        descriptor: Some(Box::new(pin.descriptor.clone())),
                    };
                }
                let granted = pin.grants();
                let fits = |skill: &&Arc<LoadedSkill>| skill.descriptor == pin.descriptor && skill.granted == granted;
                if let Some(skill) = seen.skill.as_ref().filter(fits) {
                    return Member::Ready(Arc::clone(skill));
                }
                let source = SkillSource::Team(path.to_owned());
                let skill = LoadedSkill::new(pin.descriptor.clone(), granted, pin.digest.clone(), source);
                seen.skill = Some(Arc::clone(&skill));
                Member::Ready(skill)
            }
        }
    }

    /// Inspects a component without trusting it: checks and compiles it, and asks for its descriptor with every
    /// capability denied.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or the component breaks a rule.
    pub fn inspect(&self, file: &Path) -> Result<Inspection, SkillHostError> {
        self.inspect_until(file, &CancellationToken::new())
    }

    /// Like [`Self::inspect`], but can be cancelled: compiling may take many seconds.
    ///
    /// # Errors
    ///
    /// As [`Self::inspect`].
    pub fn inspect_until(&self, file: &Path, cancel: &CancellationToken) -> Result<Inspection, SkillHostError> {
        Ok(self.inspected_until(file, cancel)?.inspection)
    }

    /// Inspects the component of this name in the team's folder, in the version with this digest if one is given.
    ///
    /// # Errors
    ///
    /// As [`Self::inspect`], or there is no such component.
    pub fn inspect_installed(&self, name: &str, digest: Option<&str>) -> Result<Inspection, SkillHostError> {
        let path = match digest {
            Some(digest) => self.path_of(name, digest),
            None => self.installed(name)?,
        };
        let inspection = self.inspect(&path)?;
        if inspection.name == name {
            Ok(inspection)
        } else {
            Err(SkillHostError::Refused {
                path,
                reason: format!("it calls itself `{0}`; name the file `{0}.wasm`", inspection.name),
            })
        }
    }

    pub(super) fn inspected(&self, file: &Path) -> Result<InspectedComponent, SkillHostError> {
        self.inspected_until(file, &CancellationToken::new())
    }

    fn inspected_until(&self, file: &Path, cancel: &CancellationToken) -> Result<InspectedComponent, SkillHostError> {
        let wasm = read_component(file).map_err(|source| io_error(file, "read", source))?;
        let refused = |reason| SkillHostError::Refused {
            path: file.to_owned(),
            reason,
        };
        let surface = inspect_component(&wasm).map_err(refused)?;
        let component = self
            .compiled(
                &sha256_hex(&wasm),
                Arc::clone(&wasm),
                &file.display().to_string(),
                &|_| (),
                cancel,
            )
            .map_err(refused)?;
        let descriptor = describe_component(self.runtime, &component, &surface, self.limits).map_err(refused)?;
        if self.is_reserved(&descriptor.name) {
            let reason = format!("its name, `{}`, is that of a built-in tool", descriptor.name);
            return Err(refused(reason));
        }
        let is_taken = |function: &&FunctionDescriptor| self.is_reserved(&function.name);
        if let Some(function) = descriptor.functions.iter().find(is_taken) {
            let reason = format!(
                "the name of its function `{}` is that of a built-in tool",
                function.name
            );
            return Err(refused(reason));
        }
        Ok(InspectedComponent {
            inspection: Inspection::new(file, &wasm, &descriptor),
            descriptor,
            wasm,
        })
    }

    /// Path of a component in the team's folder.
    pub(super) fn installed(&self, name: &str) -> Result<PathBuf, SkillHostError> {
        let path = self.component_path(name);
        if is_name(name) && path.is_file() {
            Ok(path)
        } else {
            Err(SkillHostError::Unknown { name: name.to_owned() })
        }
    }

    pub(super) fn component_path(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.wasm"))
    }

    /// Path of a version beside the default one.
    pub(super) fn version_path(&self, digest: &str) -> PathBuf {
        self.folder.join(VERSIONS).join(format!("{digest}.wasm"))
    }

    /// Path of the version of a skill with this digest.
    pub(super) fn path_of(&self, name: &str, digest: &str) -> PathBuf {
        let is_other = self.pins().is_ok_and(|pins| {
            let is_last = pins.skills.get(name).is_some_and(|pin| pin.digest == digest);
            !is_last && pins.version(name, digest).is_some()
        });
        if is_other {
            self.version_path(digest)
        } else {
            self.component_path(name)
        }
    }
}

/// Replaces a whole file, with mode 0600.
pub(super) fn write_private_file(path: &Path, content: &[u8]) -> Result<(), SkillHostError> {
    let attempt = || -> std::io::Result<()> {
        let folder = path.parent().unwrap_or(Path::new("/"));
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(content)?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        Ok(())
    };
    attempt().map_err(|source| io_error(path, "written", source))
}

pub(super) fn io_error(path: &Path, action: &'static str, source: std::io::Error) -> SkillHostError {
    SkillHostError::Io {
        path: path.to_owned(),
        action,
        source,
    }
}

/// Names of the components in a folder, from their file names.
fn component_names(folder: &Path) -> BTreeSet<String> {
    let Ok(entries) = fs::read_dir(folder) else {
        return BTreeSet::new();
    };
    entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().to_str()?.strip_suffix(".wasm")?.to_owned();
            (is_name(&name) && entry.file_type().ok()?.is_file()).then_some(name)
        })
        .take(limits::TEAM_SKILLS_MAX)
        .collect()
}

/// Hashes a component, unless it has not changed since it was hashed here or pinned. A digest that relies on the
/// fingerprint of the file is good enough for lists; the bytes are hashed before code is loaded.
fn hash_component<'a>(
    seen: &'a mut BTreeMap<PathBuf, SeenComponent>,
    path: &Path,
    pin: Option<&Pin>,
) -> std::io::Result<&'a mut SeenComponent> {
    let stamp = ComponentFingerprint::from_metadata(&fs::symlink_metadata(path)?);
    if seen.get(path).is_none_or(|seen| seen.stamp != stamp) {
        let digest = match pin.filter(|pin| pin.stamp == Some(stamp)) {
            Some(pin) => pin.digest.clone(),
            None => sha256_hex(&read_component(path)?),
        };
        let new = SeenComponent {
            stamp,
            digest,
            skill: None,
            checked: None,
        };
        seen.insert(path.to_owned(), new);
    }
    seen.get_mut(path).ok_or_else(|| std::io::ErrorKind::NotFound.into())
}

/// Reads a component up to the size limit.
pub(super) fn read_component(path: &Path) -> std::io::Result<Arc<[u8]>> {
    Ok(small_files::read_bytes(path, limits::COMPONENT_BYTES_MAX, LinkPolicy::Followed)?.into())
}
