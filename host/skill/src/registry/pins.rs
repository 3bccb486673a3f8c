//! Components that the user has trusted, with their digests and descriptors, in a file beside them.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::team::{ComponentFingerprint, io_error, write_private_file};
use crate::{Descriptor, FunctionDescriptor, LockedSkills, SkillHostError};
use tool_core::api::Effect;

/// Limit for the older versions of one skill: more than the lock files of a user's repositories name. Beyond it, the
/// oldest version is removed.
const VERSIONS_MAX: usize = 16;

/// Components that the user has trusted, by name.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pins {
    /// The version of each skill that counts unless a lock file names another one.
    pub(super) skills: BTreeMap<String, Pin>,
    /// Other versions, which lock files may name, in the order in which they were pinned.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) versions: BTreeMap<String, Vec<Pin>>,
    /// Component of each function, computed when the file is read.
    #[serde(skip)]
    components: BTreeMap<String, String>,
}

/// A trusted component. The user has seen the descriptor, and the component never gets effects beyond it. Fields
/// after the first two may be missing in older files.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pin {
    pub(super) digest: String,
    pub(super) descriptor: Descriptor,
    /// Limit for the effects of its functions; absent if each gets all that it declares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    granted: Option<Vec<Effect>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) origin: Option<ComponentOrigin>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) disabled: bool,
    /// True if only lock files have asked for it. Repositories whose lock file does not name it do not use it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_shared: bool,
    /// State of the file when it had this digest, so that lists need not read the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) stamp: Option<ComponentFingerprint>,
}

/// Origin of a component, where updates are looked up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ComponentOrigin {
    /// Absolute path of a file, or a reference to a registry.
    pub from: String,
    /// Digest of the manifest at that time; absent for a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest: Option<String>,
}

impl Pin {
    pub(super) fn new(digest: String, descriptor: Descriptor, within: Option<&[Effect]>) -> Self {
        Self {
            digest,
            descriptor,
            granted: within.map(<[Effect]>::to_vec),
            origin: None,
            disabled: false,
            is_shared: false,
            stamp: None,
        }
    }

    /// Effects of all its functions together, as far as the policy allows them.
    pub(super) fn granted(&self) -> Vec<Effect> {
        let mut effects: Vec<Effect> = self.grants().into_iter().flatten().collect();
        effects.sort_unstable();
        effects.dedup();
        effects
    }

    /// Effects of each function, in the order of the descriptor.
    pub(super) fn grants(&self) -> Vec<Vec<Effect>> {
        let functions = self.descriptor.functions.iter();
        functions.map(|function| self.granted_to(function)).collect()
    }

    /// Effects of the function with this name; empty if there is none.
    pub(super) fn granted_to_name(&self, name: &str) -> Vec<Effect> {
        let function = self.descriptor.function(name);
        function.map_or_else(Vec::new, |function| self.granted_to(function))
    }

    /// Effects that the function does not declare never count, even if the file lists them.
    fn granted_to(&self, function: &FunctionDescriptor) -> Vec<Effect> {
        let is_granted = |effect: &&Effect| self.granted.as_ref().is_none_or(|granted| granted.contains(*effect));
        function.effects.iter().filter(is_granted).copied().collect()
    }
}

impl Pins {
    pub(super) fn pins_path(folder: &Path) -> PathBuf {
        folder.join("pins.json")
    }

    pub(super) fn read(folder: &Path) -> Result<Self, SkillHostError> {
        let path = Self::pins_path(folder);
        let text = match fs::read(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            text => text.map_err(|source| io_error(&path, "read", source))?,
        };
        let mut pins: Self = serde_json::from_slice(&text).map_err(|error| SkillHostError::Pins {
            path,
            reason: error.to_string(),
        })?;
        for (component, pin) in &pins.skills {
            for function in &pin.descriptor.functions {
                // `pin` refuses a name that is taken, so only an edited file has two.
                let component = || component.clone();
                pins.components.entry(function.name.clone()).or_insert_with(component);
            }
        }
        Ok(pins)
    }

    /// Name of the component that serves a function, in the versions that a lock file names.
    pub(super) fn component_of(&self, function: &str, lock: Option<&dyn LockedSkills>) -> Option<&str> {
        let serves = |name: &&String| {
            let version = self.locked_version(name, lock);
            version.is_some_and(|pin| pin.descriptor.function(function).is_some())
        };
        let other = self.versions.keys().find(serves);
        let last = || {
            let name = self.components.get(function)?;
            self.locked_version(name, lock).is_none().then_some(name)
        };
        other.or_else(last).map(String::as_str)
    }

    /// The version of a skill that a lock file names, if it is not the default one.
    pub(super) fn locked_version(&self, name: &str, lock: Option<&dyn LockedSkills>) -> Option<&Pin> {
        let digest = lock?.digest(name)?;
        let is_last = self.skills.get(name).is_some_and(|pin| pin.digest == digest);
        let mut others = self.versions.get(name)?.iter();
        others.find(|pin| pin.digest == digest && !is_last)
    }

    /// The version of a skill with this digest.
    pub(super) fn version(&self, name: &str, digest: &str) -> Option<&Pin> {
        let others = self.versions.get(name).into_iter().flatten();
        let mut all = self.skills.get(name).into_iter().chain(others);
        all.find(|pin| pin.digest == digest)
    }

    /// Adds a version beside the default one. Returns the digests of versions that were removed for it.
    pub(super) fn keep(&mut self, name: &str, pin: Pin) -> Vec<String> {
        let versions = self.versions.entry(name.to_owned()).or_default();
        versions.retain(|other| other.digest != pin.digest);
        versions.push(pin);
        let beyond = versions.len().saturating_sub(VERSIONS_MAX);
        versions.drain(..beyond).map(|pin| pin.digest).collect()
    }

    /// Removes a version beside the default one. Returns false if there is none.
    pub(super) fn forget(&mut self, name: &str, digest: &str) -> bool {
        let Some(versions) = self.versions.get_mut(name) else {
            return false;
        };
        let before = versions.len();
        versions.retain(|pin| pin.digest != digest);
        let is_known = versions.len() < before;
        if versions.is_empty() {
            self.versions.remove(name);
        }
        is_known
    }

    /// Changes the file under a lock; other writers wait.
    pub(super) fn edit<T>(
        folder: &Path,
        change: impl FnOnce(&mut Self) -> Result<T, SkillHostError>,
    ) -> Result<T, SkillHostError> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(|source| io_error(folder, "made", source))?;
        let path = folder.join("pins.lock");
        let mut options = OpenOptions::new();
        let options = options.create(true).truncate(false).write(true).mode(0o600);
        let lock = options
            .open(&path)
            .map_err(|source| io_error(&path, "opened", source))?;
        flock(&lock, FlockOperation::LockExclusive).map_err(|errno| io_error(&path, "locked", errno.into()))?;
        let mut pins = Self::read(folder)?;
        let result = change(&mut pins)?;
        pins.write(folder)?;
        Ok(result)
    }

    fn write(&self, folder: &Path) -> Result<(), SkillHostError> {
        let path = Self::pins_path(folder);
        let text = serde_json::to_vec_pretty(self).map_err(|error| SkillHostError::Pins {
            path: path.clone(),
            reason: error.to_string(),
        })?;
        write_private_file(&path, &text)
    }
}

#[cfg(test)]
mod unit {
    use super::*;

    fn descriptor(name: &str, effects: &[Effect]) -> Descriptor {
        Descriptor {
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            description: String::new(),
            functions: vec![FunctionDescriptor {
                name: name.to_owned(),
                description: String::new(),
                parameters: serde_json::Value::Null,
                effects: effects.to_vec(),
                metadata: Default::default(),
            }],
            metadata: Default::default(),
        }
    }

    #[test]
    fn nothing_is_granted_that_was_not_asked_for() {
        let asked = [Effect::ReadRepository, Effect::ReadGit];
        let pin = |within: Option<&[Effect]>| Pin::new(String::new(), descriptor("lint", &asked), within).granted();
        assert_eq!(pin(None), asked);
        assert_eq!(pin(Some(&[Effect::ReadGit, Effect::Install])), [Effect::ReadGit]);
        assert_eq!(pin(Some(&[Effect::Install])), []);
    }

    #[test]
    fn each_function_gets_what_it_asked_for_and_no_more() {
        let mut both = descriptor("read", &[Effect::ReadRepository]);
        let write = descriptor("write", &[Effect::ReadRepository, Effect::WriteRepository]);
        both.functions.extend(write.functions);
        let pin = Pin::new(String::new(), both, Some(&[Effect::WriteRepository]));
        assert_eq!(pin.grants(), [vec![], vec![Effect::WriteRepository]]);
    }

    #[test]
    fn two_that_change_the_file_lose_nothing() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let pin = |name: &str| Pin::new(String::new(), descriptor(name, &[]), None);
        std::thread::scope(|scope| {
            for name in ["a", "b", "c", "d"] {
                let folder = folder.path();
                scope.spawn(move || {
                    for number in 0..5 {
                        let name = format!("{name}{number}");
                        let edited = Pins::edit(folder, |pins| {
                            pins.skills.insert(name.clone(), pin(&name));
                            Ok(())
                        });
                        edited.expect("the folder is writable");
                    }
                });
            }
        });
        assert_eq!(Pins::read(folder.path()).expect("it is right").skills.len(), 20);
    }
}
