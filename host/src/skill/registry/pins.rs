//! What the user has trusted: digest and descriptor of each component, in a file beside them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::team::{io, write};
use crate::skill::{Descriptor, SkillHostError};

/// What the user has trusted, by name.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pins {
    pub(super) skills: BTreeMap<String, Pin>,
}

/// One trusted component: the descriptor is part of what was shown, and its effects are all it will ever get.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pin {
    pub(super) digest: String,
    pub(super) descriptor: Descriptor,
}

impl Pins {
    fn path(folder: &Path) -> PathBuf {
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

    pub(super) fn write(&self, folder: &Path) -> Result<(), SkillHostError> {
        let path = Self::path(folder);
        let text = serde_json::to_vec_pretty(self).map_err(|error| SkillHostError::Pins {
            path: path.clone(),
            reason: error.to_string(),
        })?;
        write(&path, &text)
    }
}
