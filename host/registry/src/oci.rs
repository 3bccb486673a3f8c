//! Skills in OCI registries: pushes them, and pulls them by digest.
//!
//! This module opens a connection only because a command of the user names a registry. Sessions, repositories and
//! skills cannot reach it. `oci-client` speaks the protocol for pushes; this module reads with limits. `client`
//! decides which server gets the user's credentials, and `redirects` where a registry may redirect to. The results are
//! bytes with verified digests. `tool-skill` decides whether they are a skill, and what it may do.

mod artifact;
mod client;
mod credentials;
mod redirects;
mod reference;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use oci_client::manifest::{OciDescriptor, OciImageManifest};

use crate::limits;
pub use artifact::ComponentDescription;
use client::{AccessPurpose, RegistryClient, read_body};
pub use credentials::CredentialsError;
pub use reference::{PlaceError, RegistryReference, pin_source};
use tool_config::Environment;
use tool_core::digest::sha256_hex;
use tool_skill::signature::Signature;

/// Limit for a manifest in bytes. The manifest of a skill has 800; registries allow 4 MiB, for images with many
/// layers.
const MANIFEST_BYTES_MAX: u64 = 256 * 1024;

/// Time limit for one exchange with a registry in seconds, for all its requests together. The largest component takes
/// that long at 5 Mbit/s.
const REGISTRY_SECONDS_MAX: u64 = 120;

/// Reason why an exchange with a registry failed.
#[derive(Debug, thiserror::Error)]
pub enum DistributionError {
    /// The registry does not answer, or not in HTTP.
    #[error("`{place}` cannot be reached: {reason}")]
    Unreachable {
        /// Reference as the caller gave it.
        place: String,
        /// Description of the cause.
        reason: String,
    },
    /// The registry does not have it.
    #[error("There is no `{place}`")]
    NotFound {
        /// Reference as the caller gave it.
        place: String,
    },
    /// The registry refused the request.
    #[error("The registry refuses `{place}`: {reason}")]
    Refused {
        /// Reference as the caller gave it.
        place: String,
        /// Description of the cause.
        reason: String,
    },
    /// The registry names a token server that must not be asked.
    #[error("The registry of `{place}` wants credentials sent to `{realm}`, which is not asked in this way")]
    Realm {
        /// Reference as the caller gave it.
        place: String,
        /// Host of the token server.
        realm: String,
    },
    /// The received content has another digest than the requested one.
    #[error("`{place}` is not what was asked for: its digest is {found}, not {wanted}")]
    WrongDigest {
        /// Reference as the caller gave it.
        place: String,
        /// Requested digest.
        wanted: String,
        /// Digest of the received content.
        found: String,
    },
    /// The artifact is not a skill.
    #[error("`{place}` holds no skill: {reason}")]
    NoSkill {
        /// Reference as the caller gave it.
        place: String,
        /// Description of the cause, as the end of a sentence.
        reason: String,
    },
    /// The artifact is larger than the limit.
    #[error("`{place}` has more than {max} bytes")]
    TooLarge {
        /// Reference as the caller gave it.
        place: String,
        /// The limit in bytes.
        max: u64,
    },
    /// The registry exceeded the time limit.
    #[error("`{place}` was given up after {} s", REGISTRY_SECONDS_MAX)]
    TooSlow {
        /// Reference as the caller gave it.
        place: String,
    },
    /// The user's credentials cannot be read.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
}

/// A component from a registry.
#[derive(Debug, Clone)]
pub struct PulledComponent {
    /// Content of the component. Its digest is the one of the layer.
    pub component: Vec<u8>,
    /// Digest of the manifest, of the form `sha256:HEX`.
    pub manifest: String,
}

/// Returns the digest of the manifest that the reference names now.
///
/// # Errors
///
/// The registry does not know it, refuses, or exceeds a limit.
pub async fn resolve_digest(place: &RegistryReference, environment: &Environment) -> Result<String, DistributionError> {
    limit_time(place, async {
        let client = RegistryClient::open(place, environment, AccessPurpose::Pull).await?;
        Ok(pull_manifest(&client, place).await?.1)
    })
    .await
}

/// Pulls a component. A reference with a digest yields exactly that content.
///
/// # Errors
///
/// The registry does not have it, refuses, exceeds a limit or sends other content.
pub async fn pull_component(
    place: &RegistryReference,
    environment: &Environment,
) -> Result<PulledComponent, DistributionError> {
    limit_time(place, async {
        let client = RegistryClient::open(place, environment, AccessPurpose::Pull).await?;
        let (manifest, digest) = pull_manifest(&client, place).await?;
        let layer = artifact::component_layer(&manifest).map_err(|reason| no_skill(place, reason))?;
        Ok(PulledComponent {
            component: pull_blob(&client, place, layer, limits::COMPONENT_BYTES_MAX).await?,
            manifest: digest,
        })
    })
    .await
}

/// Pushes a component and returns the digest of its manifest. The same component always has the same manifest.
///
/// # Errors
///
/// The registry refuses or exceeds a limit.
pub async fn push_component(
    place: &RegistryReference,
    component: &[u8],
    described: &ComponentDescription,
    environment: &Environment,
) -> Result<String, DistributionError> {
    limit_time(place, async {
        let client = RegistryClient::open(place, environment, AccessPurpose::Push).await?;
        let artifact = artifact::of_component(component, described);
        client.push(place, &artifact).await
    })
    .await
}

/// Pulls the signatures of a component. `digest` is the component's, hexadecimal.
///
/// # Errors
///
/// The registry refuses, exceeds a limit or sends other content. No signatures are not an error.
pub async fn pull_signatures(
    place: &RegistryReference,
    digest: &str,
    environment: &Environment,
) -> Result<Vec<Signature>, DistributionError> {
    let place = &place.of_signatures(digest);
    limit_time(place, async {
        let client = RegistryClient::open(place, environment, AccessPurpose::Pull).await?;
        known_signatures(&client, place).await
    })
    .await
}

/// Adds a signature to those of a component. `digest` is the component's, hexadecimal.
///
/// # Errors
///
/// The registry refuses or exceeds a limit.
pub async fn push_signature(
    place: &RegistryReference,
    digest: &str,
    signature: &Signature,
    environment: &Environment,
) -> Result<(), DistributionError> {
    let place = &place.of_signatures(digest);
    limit_time(place, async {
        let client = RegistryClient::open(place, environment, AccessPurpose::Push).await?;
        let mut all = known_signatures(&client, place).await?;
        if !all.contains(signature) {
            // Keep the newest signatures: a registry full of foreign ones must not exclude this one.
            all.insert(0, signature.clone());
            all.truncate(limits::SIGNATURES_MAX);
        }
        client.push(place, &artifact::of_signatures(&all)).await.map(drop)
    })
    .await
}

async fn known_signatures(
    client: &RegistryClient,
    place: &RegistryReference,
) -> Result<Vec<Signature>, DistributionError> {
    let manifest = match pull_manifest(client, place).await {
        Err(DistributionError::NotFound { .. }) => return Ok(Vec::new()),
        manifest => manifest?.0,
    };
    let mut signatures = Vec::new();
    for (layer, signature) in artifact::signature_layers(&manifest).take(limits::SIGNATURES_MAX) {
        let payload = pull_blob(client, place, layer, limits::SIGNATURE_BYTES_MAX).await?;
        signatures.push(Signature::new(payload, signature));
    }
    Ok(signatures)
}

/// Limits the time for `work`, however slowly a registry answers.
async fn limit_time<T>(
    place: &RegistryReference,
    work: impl Future<Output = Result<T, DistributionError>>,
) -> Result<T, DistributionError> {
    let bound = limits::seconds(REGISTRY_SECONDS_MAX);
    let done = tokio::time::timeout(bound, work).await;
    done.unwrap_or_else(|_| {
        Err(DistributionError::TooSlow {
            place: place.to_string(),
        })
    })
}

/// Pulls the manifest of a reference. Returns it with the digest of the received bytes.
async fn pull_manifest(
    client: &RegistryClient,
    place: &RegistryReference,
) -> Result<(OciImageManifest, String), DistributionError> {
    let response = client.found(place, client.manifest(place).await?)?;
    let bytes = read_body(place, response, MANIFEST_BYTES_MAX).await?;
    let found = digest_of(&bytes);
    check_digest(place, place.digest(), &found)?;
    let manifest = serde_json::from_slice(&bytes)
        .map_err(|error| no_skill(place, format!("its manifest is none of an artifact: {error}")))?;
    Ok((manifest, found))
}

/// Pulls a blob, and checks its size and digest against the manifest.
async fn pull_blob(
    client: &RegistryClient,
    place: &RegistryReference,
    layer: &OciDescriptor,
    max: u64,
) -> Result<Vec<u8>, DistributionError> {
    let too_large = || DistributionError::TooLarge {
        place: place.to_string(),
        max,
    };
    let size = u64::try_from(layer.size).ok().filter(|size| *size <= max);
    let size = size.ok_or_else(too_large)?;
    let response = client.found(place, client.blob(place, &layer.digest).await?)?;
    let bytes = read_body(place, response, size).await?;
    check_digest(place, Some(&layer.digest), &digest_of(&bytes))?;
    Ok(bytes)
}

fn check_digest(place: &RegistryReference, wanted: Option<&str>, found: &str) -> Result<(), DistributionError> {
    match wanted.filter(|wanted| *wanted != found) {
        None => Ok(()),
        Some(wanted) => Err(DistributionError::WrongDigest {
            place: place.to_string(),
            wanted: wanted.to_owned(),
            found: found.to_owned(),
        }),
    }
}

fn refused_error(place: &RegistryReference, reason: impl Into<String>) -> DistributionError {
    DistributionError::Refused {
        place: place.to_string(),
        reason: reason.into(),
    }
}

fn no_skill(place: &RegistryReference, reason: impl Into<String>) -> DistributionError {
    DistributionError::NoSkill {
        place: place.to_string(),
        reason: reason.into(),
    }
}

/// Formats a digest as registries do.
fn digest_of(bytes: &[u8]) -> String {
    format!("sha256:{}", sha256_hex(bytes))
}

type Annotations = BTreeMap<String, String>;
