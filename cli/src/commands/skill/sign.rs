//! `tool skill keys new` and `sign`.

use std::path::Path;
use std::process::ExitCode;

use host::skill::signature::{PrivateKey, Signature, write_keys};

use super::push::file_of;
use super::{refused, registry};
use crate::commands::Context;
use crate::error::Error;

/// Writes a new pair of keys.
pub(super) fn new_keys(stem: &Path, context: &Context) -> Result<ExitCode, Error> {
    let (private, public) = write_keys(stem).map_err(refused)?;
    context.output.line(&format!(
        "Wrote {}, which signs, and {}, which goes into [skills.identities] of config.toml.",
        private.display(),
        public.display()
    ))?;
    Ok(ExitCode::SUCCESS)
}

/// Signs the digest of a component.
pub(super) fn sign(component: &Path, key: &Path, context: &Context) -> Result<ExitCode, Error> {
    let registry = registry(context)?;
    let file = file_of(component, &registry)?;
    let key = PrivateKey::read(key).map_err(refused)?;
    let inspection = registry.inspect(&file).map_err(refused)?;
    let place = Signature::of(&inspection.digest, &key)
        .write_beside(&file)
        .map_err(refused)?;
    context.output.line(&format!(
        "Signed {} {} with the digest {}: {}",
        inspection.name,
        inspection.version,
        inspection.digest,
        place.display()
    ))?;
    Ok(ExitCode::SUCCESS)
}
