//! Agreements of a repository and its user about skills of a team, and violations of them: `skills.lock` and
//! `[skills.identities]`. For `tool doctor` and `tool config`; starts and changes nothing.

use std::path::Path;

use tool_config::SkillsSettings;
use tool_core::api::{ErrorKind, Problem};
use tool_skill::SkillHost;
use tool_skill::lock::{self, SkillLock};
use tool_skill::signature::{Identities, Signature, SignatureError};

use super::lock::{count_skills, invalid_lock};
use super::offer::invalid_identity;
use super::open_registry;
use crate::commands::CommandContext;

pub(in crate::commands) enum AgreementFinding {
    /// It holds; in words.
    Fine(String),
    /// It does not hold. Only a user who requires it is stopped.
    Odd(Problem),
    /// It cannot be parsed, which stops everything that needs it.
    Wrong(Problem),
}

/// Names of the findings in the output.
pub(in crate::commands) const LOCK: &str = lock::NAME;
pub(in crate::commands) const IDENTITIES: &str = "identities";

/// Checks both, with the skills of this home.
pub(in crate::commands) fn check_agreements(
    root: &Path,
    context: &CommandContext,
) -> Vec<(&'static str, AgreementFinding)> {
    // The check of the skills themselves reports this error.
    let Ok(registry) = open_registry(context) else {
        return Vec::new();
    };
    let locked = check_lock(root, &registry).into_iter().map(|finding| (LOCK, finding));
    let signed = check_identities(&registry, context)
        .into_iter()
        .map(|finding| (IDENTITIES, finding));
    locked.chain(signed).collect()
}

fn check_lock(root: &Path, registry: &SkillHost) -> Vec<AgreementFinding> {
    let lock = match SkillLock::read(root) {
        Ok(None) => return Vec::new(),
        Ok(Some(lock)) => lock,
        Err(error) => return vec![AgreementFinding::Wrong(invalid_lock(&error))],
    };
    let differences = registry.differences(&lock, root);
    if differences.is_empty() {
        let (count, are) = count_skills(&lock);
        return vec![AgreementFinding::Fine(format!("{count} {are} as locked"))];
    }
    let odd = differences.iter().map(|difference| {
        let problem = Problem::new(ErrorKind::ConfigDrift, difference.to_string());
        AgreementFinding::Odd(match difference.remedy() {
            Some(remedy) => problem.with_hint(remedy),
            None => problem.with_hint("`tool skill lock` locks what is there"),
        })
    });
    odd.collect()
}

fn check_identities(registry: &SkillHost, context: &CommandContext) -> Vec<AgreementFinding> {
    let (home, environment) = (&context.backend.home, &context.backend.environment);
    // The check of the configuration reports this error.
    let Ok(common) = tool_config::load_common(home, environment) else {
        return Vec::new();
    };
    let SkillsSettings {
        require_signature,
        identities: configured,
        ..
    } = common.skills;
    if configured.is_empty() && !require_signature {
        return Vec::new();
    }
    let identities = match Identities::read_keys(&configured, home) {
        Ok(identities) => identities,
        Err(error) => return vec![AgreementFinding::Wrong(invalid_identity(&error))],
    };
    if identities.is_empty() {
        let message = "a signature is required, and no identity is configured: no skill can be added";
        let hint = "name who may sign in [skills.identities] of config.toml";
        return vec![AgreementFinding::Odd(
            Problem::new(ErrorKind::Signature, message).with_hint(hint),
        )];
    }
    let pinned = registry.pinned().unwrap_or_default();
    let (mut known, mut odd) = (0, Vec::new());
    for (name, pinned) in &pinned {
        let checked = registry
            .file_of(name)
            .ok()
            .map(|file| Signature::read_beside(&file).map(|signature| signature.into_iter().collect::<Vec<_>>()));
        // The check of the skills reports a missing file.
        let Some(checked) = checked else { continue };
        match checked.and_then(|signatures| identities.check(name, &pinned.digest, &signatures)) {
            Ok(_) => known += 1,
            Err(SignatureError::Missing { .. }) if !require_signature => {}
            Err(error) => odd.push(AgreementFinding::Odd(
                Problem::new(ErrorKind::Signature, error.to_string()).with_hint(match error {
                    SignatureError::Missing { .. } => format!("`tool skill sign {name} --key FILE` signs it"),
                    _ => "name its signer in [skills.identities] of config.toml".to_owned(),
                }),
            )),
        }
    }
    let names: Vec<&str> = configured.keys().map(String::as_str).collect();
    let fine = format!(
        "{} may sign; {known} of {} skills signed",
        names.join(", "),
        pinned.len()
    );
    std::iter::once(AgreementFinding::Fine(fine)).chain(odd).collect()
}
