//! Skills in OCI registries: pushed, and pulled by digest.
//!
//! This module opens a connection only because a command of the user names a registry: no session, no repository and no
//! skill leads here. `oci-client` speaks the protocol where something is pushed. This module reads within bounds. `client`
//! decides who gets the user's credentials, and `reach` where a registry may send us. What comes back are bytes whose
//! digests were checked. `tool-skill` decides whether they are a skill, and what it may do.

mod artifact;
mod client;
mod credentials;
mod place;
mod reach;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use oci_client::manifest::{OciDescriptor, OciImageManifest};

use crate::limits;
pub use artifact::Described;
use client::{Purpose, RegistryClient, body};
pub use credentials::CredentialsError;
pub use place::{PlaceError, RegistryReference, pin_source};
use tool_config::Environment;
use tool_core::digest::sha256_hex;
use tool_skill::signature::Signature;

/// Bytes of a manifest. One of a skill has 800; registries allow 4 MiB, for images of many layers.
const MANIFEST_BYTES_MAX: u64 = 256 * 1024;

/// Time for one exchange with a registry, all requests of it together. The largest component takes as long at 5 Mbit/s.
const REGISTRY_SECONDS_MAX: u64 = 120;

/// Why a registry did not give or take what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum DistributionError {
    /// The registry does not answer, or not in HTTP.
    #[error("`{place}` cannot be reached: {reason}")]
    Unreachable {
        /// As it was asked for.
        place: String,
        /// In words.
        reason: String,
    },
    /// There is none.
    #[error("There is no `{place}`")]
    NotFound {
        /// As it was asked for.
        place: String,
    },
    /// The registry does not want to.
    #[error("The registry refuses `{place}`: {reason}")]
    Refused {
        /// As it was asked for.
        place: String,
        /// In words.
        reason: String,
    },
    /// It names a token server that is never asked, regardless of its owner.
    #[error("The registry of `{place}` wants credentials sent to `{realm}`, which is not asked in this way")]
    Realm {
        /// As it was asked for.
        place: String,
        /// The host that would get them.
        realm: String,
    },
    /// The digest of the received content differs from the requested one.
    #[error("`{place}` is not what was asked for: its digest is {found}, not {wanted}")]
    WrongDigest {
        /// As it was asked for.
        place: String,
        /// The requested digest.
        wanted: String,
        /// The digest of the received content.
        found: String,
    },
    /// It is something else.
    #[error("`{place}` holds no skill: {reason}")]
    NoSkill {
        /// As it was asked for.
        place: String,
        /// Why, as a sentence's end.
        reason: String,
    },
    /// It is too large.
    #[error("`{place}` has more than {max} bytes")]
    TooLarge {
        /// As it was asked for.
        place: String,
        /// The bound.
        max: u64,
    },
    /// It took too long.
    #[error("`{place}` was given up after {} s", REGISTRY_SECONDS_MAX)]
    TooSlow {
        /// As it was asked for.
        place: String,
    },
    /// The user's credentials cannot be read.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
}

/// A component out of a registry.
#[derive(Debug, Clone)]
pub struct Pulled {
    /// Its bytes, whose digest is the one of the layer.
    pub component: Vec<u8>,
    /// Digest of the manifest that named them: `sha256:` and hexadecimal.
    pub manifest: String,
}

/// The digest of the manifest that a place names now.
pub async fn resolve(place: &RegistryReference, environment: &Environment) -> Result<String, DistributionError> {
    within(place, async {
        let client = RegistryClient::open(place, environment, Purpose::Pull).await?;
        Ok(manifest(&client, place).await?.1)
    })
    .await
}

/// Pulls a component. Where the place names a digest, nothing else is taken.
pub async fn pull(place: &RegistryReference, environment: &Environment) -> Result<Pulled, DistributionError> {
    within(place, async {
        let client = RegistryClient::open(place, environment, Purpose::Pull).await?;
        let (manifest, digest) = manifest(&client, place).await?;
        let layer = artifact::component_layer(&manifest).map_err(|reason| no_skill(place, reason))?;
        Ok(Pulled {
            component: blob(&client, place, layer, limits::COMPONENT_BYTES_MAX).await?,
            manifest: digest,
        })
    })
    .await
}

/// Pushes a component, and gives the digest of its manifest. The same component always makes the same manifest.
pub async fn push(
    place: &RegistryReference,
    component: &[u8],
    described: &Described,
    environment: &Environment,
) -> Result<String, DistributionError> {
    within(place, async {
        let client = RegistryClient::open(place, environment, Purpose::Push).await?;
        let artifact = artifact::of_component(component, described);
        client.push(place, &artifact).await
    })
    .await
}

/// The signatures of the component with this digest (hexadecimal) that lie beside it.
pub async fn signatures(
    place: &RegistryReference,
    digest: &str,
    environment: &Environment,
) -> Result<Vec<Signature>, DistributionError> {
    let place = &place.of_signatures(digest);
    within(place, async {
        let client = RegistryClient::open(place, environment, Purpose::Pull).await?;
        known_signatures(&client, place).await
    })
    .await
}

/// Puts a signature beside the component with this digest, with those that are there.
pub async fn push_signature(
    place: &RegistryReference,
    digest: &str,
    signature: &Signature,
    environment: &Environment,
) -> Result<(), DistributionError> {
    let place = &place.of_signatures(digest);
    within(place, async {
        let client = RegistryClient::open(place, environment, Purpose::Push).await?;
        let mut all = known_signatures(&client, place).await?;
        if !all.contains(signature) {
            // The newest ones are kept: a registry that is full of strangers' must not keep this one out.
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
    let manifest = match manifest(client, place).await {
        Err(DistributionError::NotFound { .. }) => return Ok(Vec::new()),
        manifest => manifest?.0,
    };
    let mut signatures = Vec::new();
    for (layer, signature) in artifact::signature_layers(&manifest).take(limits::SIGNATURES_MAX) {
        let payload = blob(client, place, layer, limits::SIGNATURE_BYTES_MAX).await?;
        signatures.push(Signature::new(payload, signature));
    }
    Ok(signatures)
}

/// Gives up after a while, however slowly a registry talks.
async fn within<T>(
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

/// The manifest that a place names, and its digest, which is that of the bytes that came.
async fn manifest(
    client: &RegistryClient,
    place: &RegistryReference,
) -> Result<(OciImageManifest, String), DistributionError> {
    let response = client.found(place, client.manifest(place).await?)?;
    let bytes = body(place, response, MANIFEST_BYTES_MAX).await?;
    let found = digest_of(&bytes);
    check_digest(place, place.digest(), &found)?;
    let manifest = serde_json::from_slice(&bytes)
        .map_err(|error| no_skill(place, format!("its manifest is none of an artifact: {error}")))?;
    Ok((manifest, found))
}

/// A blob whose size and digest are those that its manifest says.
async fn blob(
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
    let bytes = body(place, response, size).await?;
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

fn refused(place: &RegistryReference, reason: impl Into<String>) -> DistributionError {
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

/// As registries write it.
fn digest_of(bytes: &[u8]) -> String {
    format!("sha256:{}", sha256_hex(bytes))
}

/// Names and values that go with an artifact.
type Annotations = BTreeMap<String, String>;
