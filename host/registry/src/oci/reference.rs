//! Reference to a skill in a registry: `oci://HOST[:PORT]/REPOSITORY[:TAG][@sha256:DIGEST]`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use oci_client::Reference;

/// Scheme of all references.
pub(crate) const SCHEME: &str = "oci://";

/// A reference that names its host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryReference(Reference);

/// The text is not a reference.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no place in a registry: {reason}")]
pub struct PlaceError {
    text: String,
    reason: String,
}

impl RegistryReference {
    /// True if the text is meant as a reference, valid or not.
    pub fn is_meant(text: &str) -> bool {
        text.starts_with(SCHEME)
    }

    /// The digest in the reference.
    pub fn digest(&self) -> Option<&str> {
        self.0.digest()
    }

    /// The tag in the reference.
    pub fn tag(&self) -> Option<&str> {
        self.0.tag()
    }

    /// Adds the digest of a manifest: the content can never change then. The tag stays for updates, but only the
    /// digest is pulled.
    #[must_use]
    pub fn pinned(&self, manifest: &str) -> Self {
        let (registry, repository) = (self.0.registry().to_owned(), self.0.repository().to_owned());
        let manifest = manifest.to_owned();
        Self(match self.tag() {
            Some(tag) => Reference::with_tag_and_digest(registry, repository, tag.to_owned(), manifest),
            None => Reference::with_digest(registry, repository, manifest),
        })
    }

    /// The reference that an update follows: the tag without the digest, if there is a tag.
    #[must_use]
    pub fn followed(&self) -> Self {
        let (registry, repository) = (self.0.registry().to_owned(), self.0.repository().to_owned());
        match self.tag() {
            Some(tag) => Self(Reference::with_tag(registry, repository, tag.to_owned())),
            None => self.clone(),
        }
    }

    /// Reference to the signatures of a component. `digest` is the component's, hexadecimal.
    #[must_use]
    pub(super) fn of_signatures(&self, digest: &str) -> Self {
        let (registry, repository) = (self.0.registry().to_owned(), self.0.repository().to_owned());
        Self(Reference::with_tag(
            registry,
            repository,
            format!("sha256-{digest}.sig"),
        ))
    }

    pub(super) fn reference(&self) -> &Reference {
        &self.0
    }

    /// Host of the registry, with its port.
    pub(super) fn registry(&self) -> &str {
        self.0.resolve_registry()
    }

    /// Host without its port.
    pub(super) fn host(&self) -> &str {
        let registry = self.registry();
        registry.rsplit_once(':').map_or(registry, |(host, _)| host)
    }

    /// True for a registry on this machine. Only such a registry may be used without TLS.
    pub(super) fn is_loopback(&self) -> bool {
        let address = self.host().parse::<IpAddr>();
        self.host() == "localhost" || address.is_ok_and(|address| address.is_loopback())
    }

    /// Base URL of the registry.
    pub(super) fn base(&self) -> String {
        let scheme = if self.is_loopback() { "http" } else { "https" };
        format!("{scheme}://{}", self.registry())
    }
}

/// Adds the digest of a manifest to a reference. A text that is not a reference is returned unchanged.
pub fn pin_source(address: &str, manifest: &str) -> String {
    match address.parse::<RegistryReference>() {
        Ok(place) => place.pinned(manifest).to_string(),
        Err(_) => address.to_owned(),
    }
}

impl fmt::Display for RegistryReference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{SCHEME}{}", self.0.whole())
    }
}

impl FromStr for RegistryReference {
    type Err = PlaceError;

    fn from_str(text: &str) -> Result<Self, PlaceError> {
        let wrong = |reason: &str| PlaceError {
            text: text.to_owned(),
            reason: reason.to_owned(),
        };
        let rest = text
            .strip_prefix(SCHEME)
            .ok_or_else(|| wrong("it does not begin with `oci://`"))?;
        let (host, _) = rest
            .split_once('/')
            .ok_or_else(|| wrong("write oci://HOST[:PORT]/REPOSITORY[:TAG]"))?;
        // Without a host the parser assumes docker.io, which the user has not named.
        if !host.contains(['.', ':']) && host != "localhost" {
            return Err(wrong(
                "it names no host; write oci://HOST[:PORT]/REPOSITORY[:TAG], the host with a dot or a port",
            ));
        }
        let reference: Reference = rest.parse().map_err(|error| wrong(&format!("{error}")))?;
        match reference.digest() {
            Some(digest) if !digest.starts_with("sha256:") => Err(wrong("only digests of `sha256:` are known")),
            _ => Ok(Self(reference)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_names_its_host() {
        let digest = format!("sha256:{}", "a".repeat(64));
        let place: RegistryReference = format!("oci://127.0.0.1:5000/team/lint:1.0@{digest}")
            .parse()
            .expect("it is one");
        assert_eq!((place.tag(), place.digest()), (Some("1.0"), Some(digest.as_str())));
        assert!(place.is_loopback());
        assert_eq!(place.base(), "http://127.0.0.1:5000");
        let place: RegistryReference = "oci://example.org/team/lint".parse().expect("it is one");
        assert_eq!(
            (place.base().as_str(), place.to_string().as_str()),
            ("https://example.org", "oci://example.org/team/lint:latest")
        );
        assert_eq!(
            place.pinned(&digest).to_string(),
            format!("oci://example.org/team/lint:latest@{digest}")
        );
        assert_eq!(place.pinned(&digest).followed(), place);
        let untagged: RegistryReference = format!("oci://example.org/team/lint@{digest}")
            .parse()
            .expect("it is one");
        assert_eq!(untagged.pinned(&digest), untagged);
        assert_eq!(untagged.followed(), untagged);
        for text in ["oci://localhost/x", "oci://localhost:1/x", "oci://127.1.2.3/x"] {
            assert!(
                text.parse::<RegistryReference>().is_ok_and(|place| place.is_loopback()),
                "{text}"
            );
        }
        for text in [
            "oci://10.0.0.1/x",
            "oci://localhost.example.org/x",
            "oci://127.0.0.1.example.org/x",
        ] {
            assert!(
                text.parse::<RegistryReference>()
                    .is_ok_and(|place| !place.is_loopback()),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_no_place_says_why() {
        for text in [
            "https://example.org/x",
            "oci://",
            "oci://lint",
            "oci://team/lint",
            "oci://example.org/",
            "oci://example.org/Team",
            "oci://user:pass@example.org/x",
            "oci://example.org/x@sha256:123",
            "oci://example.org/x@md5:00000000000000000000000000000000",
            "oci://example.org/../x",
        ] {
            let error = text.parse::<RegistryReference>().expect_err(text);
            assert!(error.to_string().contains("is no place in a registry: "), "{error}");
        }
    }
}
