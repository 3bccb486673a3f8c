//! Components that the user has trusted: their digests and descriptors, in a file beside them.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::team::{ComponentFingerprint, io, write};
use crate::{Descriptor, SkillHostError};
use tool_core::api::Effect;

/// Components that the user has trusted, by name.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pins {
    pub(super) skills: BTreeMap<String, Pin>,
}

/// One trusted component: the descriptor is part of what was shown, and its effects are all it will ever get. What
/// came later than the first two fields may be absent.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pin {
    pub(super) digest: String,
    pub(super) descriptor: Descriptor,
    /// Effects of the descriptor that it gets; absent where it gets all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    granted: Option<Vec<Effect>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) origin: Option<ComponentOrigin>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) disabled: bool,
    /// The file as it was when it had this digest, so that listing need not read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) stamp: Option<ComponentFingerprint>,
}

/// Origin of a component, where its update looks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ComponentOrigin {
    /// Absolute path of a file, or a place in a registry.
    pub from: String,
    /// Digest of the manifest that the place named then; absent for a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manifest: Option<String>,
}

impl Pin {
    pub(super) fn new(digest: String, descriptor: Descriptor, within: Option<&[Effect]>) -> Self {
        let granted = within.map(|within| {
            let effects = descriptor.effects.iter().copied();
            effects.filter(|effect| within.contains(effect)).collect()
        });
        Self {
            digest,
            descriptor,
            granted,
            origin: None,
            disabled: false,
            stamp: None,
        }
    }

    /// Effects that it gets, where the policy allows them.
    pub(super) fn granted(&self) -> Vec<Effect> {
        // Effects that it has not asked for never count, even if the file lists them.
        let is_asked = |effect: &&Effect| self.descriptor.effects.contains(effect);
        let granted = self.granted.as_deref().unwrap_or(&self.descriptor.effects);
        granted.iter().filter(is_asked).copied().collect()
    }
}

impl Pins {
    pub(super) fn path(folder: &Path) -> PathBuf {
        folder.join("pins.json")
    }

    pub(super) fn read(folder: &Path) -> Result<Self, SkillHostError> {
        let path = Self::path(folder);
        let text = match fs::read(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            text => text.map_err(|source| io(&path, "read", source))?,
        };
        serde_json::from_slice(&text).map_err(|error| SkillHostError::Pins {
            path,
            reason: error.to_string(),
        })
    }

    /// Changes the file. Others that change it at the same time wait.
    pub(super) fn edit<T>(
        folder: &Path,
        change: impl FnOnce(&mut Self) -> Result<T, SkillHostError>,
    ) -> Result<T, SkillHostError> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(|source| io(folder, "made", source))?;
        let path = folder.join("pins.lock");
        let mut options = OpenOptions::new();
        let options = options.create(true).truncate(false).write(true).mode(0o600);
        let lock = options.open(&path).map_err(|source| io(&path, "opened", source))?;
        flock(&lock, FlockOperation::LockExclusive).map_err(|errno| io(&path, "locked", errno.into()))?;
        let mut pins = Self::read(folder)?;
        let result = change(&mut pins)?;
        pins.write(folder)?;
        Ok(result)
    }

    fn write(&self, folder: &Path) -> Result<(), SkillHostError> {
        let path = Self::path(folder);
        let text = serde_json::to_vec_pretty(self).map_err(|error| SkillHostError::Pins {
            path: path.clone(),
            reason: error.to_string(),
        })?;
        write(&path, &text)
    }
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn a_file_of_an_earlier_version_is_read() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let text = r#"{"skills": {"lint": {"digest": "00", "descriptor": {"name": "lint", "version": "1.0.0",
            "description": "", "parameters": {}, "effects": ["read-repository"]}}}}"#;
        fs::write(Pins::path(folder.path()), text).expect("the folder is writable");
        let pins = Pins::read(folder.path()).expect("it is right");
        let pin = &pins.skills["lint"];
        assert_eq!(pin.granted(), [Effect::ReadRepository]);
        assert!(!pin.disabled && pin.origin.is_none());
    }

    #[test]
    fn nothing_is_granted_that_was_not_asked_for() {
        let descriptor = Descriptor {
            name: "lint".to_owned(),
            version: "1.0.0".to_owned(),
            description: String::new(),
            parameters: serde_json::Value::Null,
            effects: vec![Effect::ReadRepository, Effect::ReadGit],
        };
        let pin = |within: Option<&[Effect]>| Pin::new(String::new(), descriptor.clone(), within).granted();
        assert_eq!(pin(None), descriptor.effects);
        assert_eq!(pin(Some(&[Effect::ReadGit, Effect::Install])), [Effect::ReadGit]);
        let mut edited = Pin::new(String::new(), descriptor.clone(), None);
        edited.granted = Some(vec![Effect::Install]);
        assert_eq!(edited.granted(), []);
    }

    #[test]
    fn two_that_change_the_file_lose_nothing() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let pin = |name: &str| {
            let descriptor = Descriptor {
                name: name.to_owned(),
                version: String::new(),
                description: String::new(),
                parameters: serde_json::Value::Null,
                effects: Vec::new(),
            };
            Pin::new(String::new(), descriptor, None)
        };
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
