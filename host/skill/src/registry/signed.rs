//! Whether a pinned component counts as signed, where the user requires that.
//!
//! It is looked at before a component may be used, not only when it is pinned: what was pinned before a signature was
//! required needs one as well, and a key that no longer counts takes its skills along. Nothing that is written down of an
//! earlier look is believed: the signature beside the component is checked against its digest, again wherever the
//! signature, the configuration or a key is another one than at the last look.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::pins::Pin;
use super::team::{ComponentFingerprint, Seen};
use crate::signature::{Identities, Signature};
use tool_config::{self, Environment, SkillsSettings};

/// Signature rules of the user, read again where they have changed.
pub(super) struct Signing {
    home: PathBuf,
    known: Mutex<Option<Known>>,
}

struct Known {
    config: Option<ComponentFingerprint>,
    settings: SkillsSettings,
    keys: Vec<Option<ComponentFingerprint>>,
    required: Required,
}

/// Identities whose signatures count, where one is required.
#[derive(Clone)]
pub(super) struct Required(Option<Arc<Identities>>);

/// A signature that was looked at.
#[derive(Clone)]
pub(super) struct CheckedSignature {
    /// Against these; another list of them is another look.
    identities: Arc<Identities>,
    /// The file that it lay in, where there was one.
    stamp: Option<ComponentFingerprint>,
    verdict: Result<(), String>,
}

impl Signing {
    /// That of the configuration in this home.
    pub(super) fn new(home: &Path) -> Self {
        Self {
            home: home.to_owned(),
            known: Mutex::default(),
        }
    }

    /// Returns the current rules. If they cannot be known, nothing may be used; the error is the end of a sentence.
    pub(super) fn required(&self) -> Result<Required, String> {
        let unknown = |error: String| format!("whether it needs a signature is not known: {error}");
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let config = stamp(&tool_config::path(&self.home));
        let before = known.take().filter(|known| known.config == config);
        let settings = match &before {
            Some(known) => known.settings.clone(),
            None => {
                let common = tool_config::common(&self.home, &Environment::default());
                common.map_err(|problem| unknown(problem.message))?.skills
            }
        };
        let keys = if settings.require_signature {
            self.keys(&settings.identities)
        } else {
            Vec::new()
        };
        let required = match before.filter(|known| known.keys == keys) {
            Some(known) => known.required,
            None if settings.require_signature => {
                let identities = Identities::read(&settings.identities, &self.home);
                Required(Some(Arc::new(identities.map_err(|error| unknown(error.to_string()))?)))
            }
            None => Required(None),
        };
        *known = Some(Known {
            config,
            settings,
            keys,
            required: required.clone(),
        });
        Ok(required)
    }

    /// Identities that may sign, whether that is required or not; none where that cannot be known.
    pub(super) fn identities(&self) -> Option<Identities> {
        let common = tool_config::common(&self.home, &Environment::default()).ok()?;
        Identities::read(&common.skills.identities, &self.home).ok()
    }

    /// The files that hold keys, as they are now.
    fn keys(&self, identities: &BTreeMap<String, String>) -> Vec<Option<ComponentFingerprint>> {
        let files = identities.values().filter(|value| !Identities::is_inline(value));
        files.map(|file| stamp(&self.home.join(file))).collect()
    }
}

impl Required {
    /// An error, as the end of a sentence, unless the component is signed as it has to be.
    pub(super) fn check(&self, name: &str, path: &Path, pin: &Pin, seen: &mut Seen) -> Result<(), String> {
        let Some(identities) = &self.0 else { return Ok(()) };
        let stamp = stamp(&Signature::place(path));
        let is_known =
            |checked: &&CheckedSignature| checked.stamp == stamp && Arc::ptr_eq(&checked.identities, identities);
        if let Some(checked) = seen.checked.as_ref().filter(is_known) {
            return checked.verdict.clone();
        }
        let signatures = Signature::beside(path);
        let verdict = signatures.and_then(|signature| {
            let signatures: Vec<Signature> = signature.into_iter().collect();
            identities.check(name, &pin.digest, &signatures).map(drop)
        });
        let verdict = verdict.map_err(|error| {
            format!("{error}; sign it with `tool skill sign {name} --key FILE`, or add it again with its signature")
        });
        seen.checked = Some(CheckedSignature {
            identities: Arc::clone(identities),
            stamp,
            verdict: verdict.clone(),
        });
        verdict
    }
}

fn stamp(path: &Path) -> Option<ComponentFingerprint> {
    fs::metadata(path)
        .ok()
        .map(|metadata| ComponentFingerprint::of(&metadata))
}
