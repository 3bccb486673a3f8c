//! Checks whether a pinned component is signed, if the user requires signatures.
//!
//! The check happens before every use, not only when a component is pinned: components that were pinned before
//! signatures were required need one as well, and a key that is withdrawn takes its skills along. The result of a
//! check is reused only while signature, configuration and keys are unchanged.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::pins::Pin;
use super::team::{ComponentFingerprint, SeenComponent};
use crate::signature::{Identities, Signature};
use tool_config::{self, Environment, SkillsSettings};

/// The user's rules for signatures, read again when they change.
pub(super) struct SigningRules {
    home: PathBuf,
    known: Mutex<Option<KnownRules>>,
}

struct KnownRules {
    config: Option<ComponentFingerprint>,
    settings: SkillsSettings,
    keys: Vec<Option<ComponentFingerprint>>,
    required: RequiredSigners,
}

/// Identities whose signatures count; absent if none is required.
#[derive(Clone)]
pub(super) struct RequiredSigners(Option<Arc<Identities>>);

/// A signature that was checked.
#[derive(Clone)]
pub(super) struct CheckedSignature {
    /// Identities that it was checked against; another list needs another check.
    identities: Arc<Identities>,
    /// State of the file of the signature, if there was one.
    stamp: Option<ComponentFingerprint>,
    verdict: Result<(), String>,
}

impl SigningRules {
    /// Creates rules that follow the configuration in this home.
    pub(super) fn new(home: &Path) -> Self {
        Self {
            home: home.to_owned(),
            known: Mutex::default(),
        }
    }

    /// Returns the present rules. If they cannot be read, no component may be used; the error is the end of a
    /// sentence.
    pub(super) fn required(&self) -> Result<RequiredSigners, String> {
        let unknown = |error: String| format!("whether it needs a signature is not known: {error}");
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let config = file_fingerprint(&tool_config::config_path(&self.home));
        let before = known.take().filter(|known| known.config == config);
        let settings = match &before {
            Some(known) => known.settings.clone(),
            None => {
                let common = tool_config::load_common(&self.home, &Environment::default());
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
                let identities = Identities::read_keys(&settings.identities, &self.home);
                RequiredSigners(Some(Arc::new(identities.map_err(|error| unknown(error.to_string()))?)))
            }
            None => RequiredSigners(None),
        };
        *known = Some(KnownRules {
            config,
            settings,
            keys,
            required: required.clone(),
        });
        Ok(required)
    }

    /// Identities that may sign, whether signatures are required or not; `None` if they cannot be read.
    pub(super) fn identities(&self) -> Option<Identities> {
        let common = tool_config::load_common(&self.home, &Environment::default()).ok()?;
        Identities::read_keys(&common.skills.identities, &self.home).ok()
    }

    /// Present state of the files that hold keys.
    fn keys(&self, identities: &BTreeMap<String, String>) -> Vec<Option<ComponentFingerprint>> {
        let files = identities.values().filter(|value| !Identities::is_inline(value));
        files.map(|file| file_fingerprint(&self.home.join(file))).collect()
    }
}

impl RequiredSigners {
    /// Checks that the component has a required signature. The error is the end of a sentence.
    pub(super) fn check(&self, name: &str, path: &Path, pin: &Pin, seen: &mut SeenComponent) -> Result<(), String> {
        let Some(identities) = &self.0 else { return Ok(()) };
        let stamp = file_fingerprint(&Signature::signature_path(path));
        let is_known =
            |checked: &&CheckedSignature| checked.stamp == stamp && Arc::ptr_eq(&checked.identities, identities);
        if let Some(checked) = seen.checked.as_ref().filter(is_known) {
            return checked.verdict.clone();
        }
        let signatures = Signature::read_beside(path);
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

fn file_fingerprint(path: &Path) -> Option<ComponentFingerprint> {
    fs::metadata(path)
        .ok()
        .map(|metadata| ComponentFingerprint::from_metadata(&metadata))
}
