//! `tool skill keys new` and `sign`.

use std::path::Path;
use std::process::ExitCode;

use tool_core::api::{ErrorKind, Problem};
use tool_skill::signature::{PrivateKey, Signature, SignatureError, write_keys};

use super::push::file_of;
use super::{explain_refusal, open_registry};
use crate::commands::CommandContext;
use crate::error::Error;

pub(super) fn new_keys(stem: &Path, context: &CommandContext) -> Result<ExitCode, Error> {
    let (private, public) = write_keys(stem).map_err(|error| match &error {
        SignatureError::KeyExists { .. } => Problem::new(ErrorKind::Usage, error.to_string())
            .with_hint("give the new pair another name: --out NAME")
            .into(),
        _ => explain_refusal(error),
    })?;
    // A relative path in config.toml is relative to another folder.
    let place = std::fs::canonicalize(&public).map_err(|error| Error::on_file("Key", &public, &error))?;
    context.output.line(&format!(
        "Wrote {}, the private key: it signs, has no password, and only you can read it. Keep it out of commits.\n\
         Wrote {}, the public key. A user who trusts it puts this into config.toml:\n\n  \
         [skills.identities]\n  NAME = {:?}",
        private.display(),
        public.display(),
        place.to_string_lossy()
    ))?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn sign_component(component: &Path, key: &Path, context: &CommandContext) -> Result<ExitCode, Error> {
    let registry = open_registry(context)?;
    let file = file_of(component, &registry)?;
    let key = PrivateKey::read(key).map_err(explain_refusal)?;
    let inspection = registry.inspect(&file).map_err(explain_refusal)?;
    let place = Signature::sign_digest(&inspection.digest, &key)
        .write_beside(&file)
        .map_err(explain_refusal)?;
    context.output.line(&format!(
        "Signed {} {} with the digest {}: {}",
        inspection.name,
        inspection.version,
        inspection.digest,
        place.display()
    ))?;
    Ok(ExitCode::SUCCESS)
}
