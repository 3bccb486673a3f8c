//! Signatures of components, made with a key of the team and checked against the identities that the user names.
//!
//! The signed text has cosign's format and names the SHA-256 of the component: tags, file names and versions can
//! change their meaning. Keys are ECDSA on P-256 as PEM, private ones in PKCS#8 and public ones in
//! SubjectPublicKeyInfo, so that cosign and openssl can sign and check as well. A signature tells who made a
//! component; the user still decides what it may do.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use p256::ecdsa::signature::{Signer, Verifier};
use p256::ecdsa::{Signature as Ecdsa, SigningKey, VerifyingKey};
use p256::elliptic_curve::Generate;
use p256::pkcs8::{DecodePrivateKey, DecodePublicKey, EncodePrivateKey, EncodePublicKey, LineEnding};
use p256::{PublicKey, SecretKey};
use serde::{Deserialize, Serialize};

use super::small_files::{self, LinkPolicy};
use crate::limits;

/// Extension of a signature's file, after the name of its component.
const SUFFIX: &str = "sig";

/// Type of the signed text in cosign.
const KIND: &str = "cosign container image signature";

/// Reason why a component does not count as signed, or a key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SignatureError {
    /// Signatures are required, and no identity is configured.
    #[error("a signature is required, and no identity is configured")]
    NoIdentities,
    /// The component has no signature.
    #[error("`{what}` is not signed, and a signature is required")]
    Missing {
        /// Name of the component.
        what: String,
    },
    /// The signature belongs to another component.
    #[error("the signature of `{what}` by `{identity}` is for another component: {found}")]
    OtherDigest {
        /// Name of the component.
        what: String,
        /// Identity that signed.
        identity: String,
        /// Digest in the signature.
        found: String,
    },
    /// No known key made the signature.
    #[error("`{what}` is not signed by {}", names.join(" or "))]
    Wrong {
        /// Name of the component.
        what: String,
        /// The known identities.
        names: Vec<String>,
    },
    /// The file does not hold a signature.
    #[error("`{}` is no signature: {reason}", path.display())]
    NoSignature {
        /// Path of the file.
        path: PathBuf,
        /// Description of the cause.
        reason: String,
    },
    /// The key is not valid.
    #[error("{what} is no usable key: {reason}")]
    Key {
        /// Name of the key.
        what: String,
        /// Description of the cause.
        reason: String,
    },
    /// A key exists, and is not overwritten.
    #[error("`{}` is there already, and a key is never overwritten", path.display())]
    KeyExists {
        /// Path of the file.
        path: PathBuf,
    },
    /// A file could not be read or written.
    #[error("`{}` could not be {action}", path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// What was tried, as a participle: `read`, `written`.
        action: &'static str,
        /// Error of the file system.
        source: io::Error,
    },
}

/// A signed text with its signature (ASN.1 DER). Do not trust its content before it was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    payload: Vec<u8>,
    signature: Vec<u8>,
}

/// File format of a signature beside a component.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Bundle {
    payload: String,
    signature: String,
}

#[derive(Serialize, Deserialize)]
struct SignedPayload {
    critical: CriticalClaims,
    optional: Option<serde_json::Value>,
}

#[derive(Serialize, Deserialize)]
struct CriticalClaims {
    identity: SignedReference,
    image: ImageClaim,
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Serialize, Deserialize)]
struct SignedReference {
    #[serde(rename = "docker-reference")]
    reference: String,
}

#[derive(Serialize, Deserialize)]
struct ImageClaim {
    #[serde(rename = "docker-manifest-digest")]
    digest: String,
}

/// Creates a new pair of keys: private and public, each as PEM.
///
/// # Errors
///
/// A key cannot be encoded.
pub fn new_keys() -> Result<(String, String), SignatureError> {
    let wrong = |reason: String| SignatureError::Key {
        what: "a new key".to_owned(),
        reason,
    };
    let secret = SecretKey::try_generate().map_err(|error| wrong(error.to_string()))?;
    let private = secret
        .to_pkcs8_pem(LineEnding::LF)
        .map_err(|error| wrong(error.to_string()))?;
    let public = secret.public_key().to_public_key_pem(LineEnding::LF);
    Ok((private.to_string(), public.map_err(|error| wrong(error.to_string()))?))
}

/// Writes a new pair of keys: `NAME.key` for its owner alone, and `NAME.pub`. Returns both paths.
///
/// # Errors
///
/// A file exists already, or cannot be written.
pub fn write_keys(stem: &Path) -> Result<(PathBuf, PathBuf), SignatureError> {
    let (private, public) = new_keys()?;
    let place = |extension: &str| {
        let mut name = stem.as_os_str().to_owned();
        name.push(extension);
        PathBuf::from(name)
    };
    let (key, shown) = (place(".key"), place(".pub"));
    for path in [&key, &shown] {
        if path.symlink_metadata().is_ok() {
            return Err(SignatureError::KeyExists { path: path.clone() });
        }
    }
    create_file(&key, private.as_bytes(), 0o600)?;
    create_file(&shown, public.as_bytes(), 0o644).inspect_err(|_| {
        // Remove the private key: half of a pair is useless, and would prevent the next attempt.
        let _ = std::fs::remove_file(&key);
    })?;
    Ok((key, shown))
}

fn create_file(path: &Path, content: &[u8], mode: u32) -> Result<(), SignatureError> {
    let mut options = OpenOptions::new();
    let file = options.write(true).create_new(true).mode(mode).open(path);
    let write = |mut file: File| {
        file.write_all(content)?;
        file.sync_all()
    };
    file.and_then(write).map_err(|source| io_error(path, source))
}

fn io_error(path: &Path, source: io::Error) -> SignatureError {
    SignatureError::Io {
        path: path.to_owned(),
        action: "written",
        source,
    }
}

/// A key for signing.
pub struct PrivateKey(SigningKey);

impl PrivateKey {
    /// Reads a private key from a PEM file.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or does not hold such a key.
    pub fn read(path: &Path) -> Result<Self, SignatureError> {
        let text = read_text(path)?;
        let wrong = |reason: &str| SignatureError::Key {
            what: format!("`{}`", path.display()),
            reason: reason.to_owned(),
        };
        if text.contains("BEGIN ENCRYPTED") {
            return Err(wrong("it is encrypted, and only keys without a password are read"));
        }
        if text.contains("BEGIN EC PRIVATE KEY") {
            return Err(wrong("it is not PKCS#8; `openssl pkcs8 -topk8 -nocrypt` makes it that"));
        }
        let secret = SecretKey::from_pkcs8_pem(&text)
            .map_err(|_| wrong("it is no private key on P-256 in PKCS#8 as PEM; `tool skill keys new` makes one"))?;
        Ok(Self(SigningKey::from(secret)))
    }
}

impl Signature {
    /// Creates a signature from its parts, without a check.
    pub fn new(payload: Vec<u8>, signature: Vec<u8>) -> Self {
        Self { payload, signature }
    }

    /// Signs a component. `digest` is its SHA-256, hexadecimal.
    pub fn sign_digest(digest: &str, key: &PrivateKey) -> Self {
        let payload = SignedPayload {
            critical: CriticalClaims {
                identity: SignedReference {
                    reference: String::new(),
                },
                image: ImageClaim {
                    digest: format!("sha256:{digest}"),
                },
                kind: KIND.to_owned(),
            },
            optional: None,
        };
        let payload = serde_json::to_vec(&payload).expect("it has string keys only");
        let signature: Ecdsa = key.0.sign(&payload);
        Self {
            signature: signature.to_der().as_bytes().to_vec(),
            payload,
        }
    }

    /// Path of the signature of a component.
    pub fn signature_path(component: &Path) -> PathBuf {
        let mut name = component.as_os_str().to_owned();
        name.push(".");
        name.push(SUFFIX);
        PathBuf::from(name)
    }

    /// Reads the signature beside a component; `None` if there is none.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or does not hold a signature.
    pub fn read_beside(component: &Path) -> Result<Option<Self>, SignatureError> {
        let path = Self::signature_path(component);
        if path.symlink_metadata().is_err() {
            return Ok(None);
        }
        let text = read_text(&path)?;
        let wrong = |reason: &str| SignatureError::NoSignature {
            path: path.clone(),
            reason: reason.to_owned(),
        };
        let bundle: Bundle = serde_json::from_str(&text).map_err(|error| wrong(&error.to_string()))?;
        let part = |text: &str| {
            BASE64
                .decode(text.trim())
                .map_err(|_| wrong("its parts are not base64"))
        };
        Ok(Some(Self {
            payload: part(&bundle.payload)?,
            signature: part(&bundle.signature)?,
        }))
    }

    /// Content of the file of a signature.
    pub fn to_text(&self) -> String {
        let bundle = Bundle {
            payload: BASE64.encode(&self.payload),
            signature: BASE64.encode(&self.signature),
        };
        let text = serde_json::to_string_pretty(&bundle).expect("it has string keys only");
        text + "\n"
    }

    /// Writes the signature beside a component, and replaces an existing one. Returns its path.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn write_beside(&self, component: &Path) -> Result<PathBuf, SignatureError> {
        let path = Self::signature_path(component);
        let attempt = || -> io::Result<()> {
            let folder = component.parent().filter(|folder| !folder.as_os_str().is_empty());
            // Every user may read the file, as far as the umask allows.
            let mut file = tempfile::Builder::new()
                .permissions(PermissionsExt::from_mode(0o666))
                .tempfile_in(folder.unwrap_or(Path::new(".")))?;
            file.write_all(self.to_text().as_bytes())?;
            file.as_file().sync_all()?;
            file.persist(&path)?;
            Ok(())
        };
        attempt().map_err(|source| io_error(&path, source))?;
        Ok(path)
    }

    /// Text that was signed.
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// Signature in DER.
    pub fn signature(&self) -> &[u8] {
        &self.signature
    }

    /// Digest in the signed text, if this key has signed it.
    fn digest_by(&self, key: &VerifyingKey) -> Option<String> {
        let signature = Ecdsa::from_der(&self.signature).ok()?;
        key.verify(&self.payload, &signature).ok()?;
        let payload: SignedPayload = serde_json::from_slice(&self.payload).ok()?;
        (payload.critical.kind == KIND).then_some(payload.critical.image.digest)
    }
}

/// Identities whose signatures count, by name.
#[derive(Debug, Clone, Default)]
pub struct Identities(BTreeMap<String, VerifyingKey>);

impl Identities {
    /// Reads the keys of the configuration: each is PEM, or a file relative to `home`.
    ///
    /// # Errors
    ///
    /// A key cannot be read or parsed.
    pub fn read_keys(configured: &BTreeMap<String, String>, home: &Path) -> Result<Self, SignatureError> {
        let mut identities = BTreeMap::new();
        for (name, value) in configured {
            let text = if Self::is_inline(value) {
                value.clone()
            } else {
                read_text(&home.join(value))?
            };
            let key = PublicKey::from_public_key_pem(text.trim()).map_err(|_| SignatureError::Key {
                what: format!("`[skills.identities] {name}`"),
                reason: "it is no public key on P-256 as PEM, nor a file with one".to_owned(),
            })?;
            identities.insert(name.clone(), VerifyingKey::from(key));
        }
        Ok(Self(identities))
    }

    /// True for a configured key that is PEM, and not the path of a file.
    pub fn is_inline(value: &str) -> bool {
        value.contains("-----BEGIN")
    }

    /// True if no identity is configured.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Finds the identity that signed a component. `digest` is its SHA-256, hexadecimal; `what` names it in errors.
    ///
    /// # Errors
    ///
    /// There is no valid signature of a known identity.
    pub fn check(&self, what: &str, digest: &str, signatures: &[Signature]) -> Result<String, SignatureError> {
        if self.0.is_empty() {
            return Err(SignatureError::NoIdentities);
        }
        if signatures.is_empty() {
            return Err(SignatureError::Missing { what: what.to_owned() });
        }
        let wanted = format!("sha256:{digest}");
        let mut other = None;
        for signature in signatures.iter().take(limits::SIGNATURES_MAX) {
            for (name, key) in &self.0 {
                match signature.digest_by(key) {
                    Some(found) if found == wanted => return Ok(name.clone()),
                    Some(found) => other = Some((name.clone(), found)),
                    None => {}
                }
            }
        }
        Err(match other {
            Some((identity, found)) => SignatureError::OtherDigest {
                what: what.to_owned(),
                identity,
                found,
            },
            None => SignatureError::Wrong {
                what: what.to_owned(),
                names: self.0.keys().map(|name| format!("`{name}`")).collect(),
            },
        })
    }
}

/// Reads a key or a signature: a short text.
fn read_text(path: &Path) -> Result<String, SignatureError> {
    small_files::read_text(path, limits::SIGNATURE_BYTES_MAX, LinkPolicy::Followed).map_err(|source| {
        SignatureError::Io {
            path: path.to_owned(),
            action: "read",
            source,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

    /// A signing key in a file, and the identities that know it by a name.
    fn key(name: &str) -> (PrivateKey, Identities) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (private, public) = write_keys(&folder.path().join(name)).expect("the folder is writable");
        let configured = [(name.to_owned(), public.display().to_string())].into();
        let identities = Identities::read_keys(&configured, Path::new("/")).expect("it was just made");
        (PrivateKey::read(&private).expect("it was just made"), identities)
    }

    /// The field that cosign has for a manifest's digest holds that of the component's bytes: the same wherever it
    /// lies.
    #[test]
    fn what_is_signed_is_the_digest_of_the_components_bytes_and_nothing_else() {
        let (ada, _) = key("ada");
        let payload: serde_json::Value =
            serde_json::from_slice(Signature::sign_digest(DIGEST, &ada).payload()).expect("it is JSON");
        assert_eq!(
            payload,
            serde_json::json!({
                "critical": {
                    "identity": {"docker-reference": ""},
                    "image": {"docker-manifest-digest": format!("sha256:{DIGEST}")},
                    "type": "cosign container image signature",
                },
                "optional": null,
            })
        );
    }

    #[test]
    fn parts_that_are_no_base64_are_refused_and_space_around_them_is_not() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let component = folder.path().join("x.wasm");
        let (ada, adas) = key("ada");
        let text = Signature::sign_digest(DIGEST, &ada).to_text();
        let bundle: Bundle = serde_json::from_str(&text).expect("it was just made");
        let read = |payload: &str| {
            let bundle = Bundle {
                payload: payload.to_owned(),
                signature: bundle.signature.clone(),
            };
            let text = serde_json::to_string(&bundle).expect("it has string keys only");
            std::fs::write(Signature::signature_path(&component), text).expect("the folder is writable");
            Signature::read_beside(&component)
        };
        let found = read(&format!(" {}\n", bundle.payload)).expect("it is one");
        let found = found.expect("it is there");
        assert_eq!(adas.check("x", DIGEST, &[found]).ok().as_deref(), Some("ada"));
        for wrong in ["Z", "Zg=", "Zg", "====", "Zg==Zg==", "Zm9v!A==", "Zh==", "Zm 9v"] {
            let refused = read(wrong).map(drop);
            assert!(
                matches!(refused, Err(SignatureError::NoSignature { .. })),
                "{wrong} {refused:?}"
            );
        }
    }

    #[test]
    fn a_signature_counts_for_its_digest_and_its_key_alone() {
        let ((ada, adas), (_, bobs)) = (key("ada"), key("bob"));
        let signature = Signature::sign_digest(DIGEST, &ada);
        assert_eq!(
            adas.check("x", DIGEST, std::slice::from_ref(&signature))
                .ok()
                .as_deref(),
            Some("ada")
        );
        let told = |result: Result<String, SignatureError>| result.expect_err("it does not count").to_string();
        let other = "ff".repeat(32);
        assert_eq!(
            told(adas.check("x", &other, std::slice::from_ref(&signature))),
            format!("the signature of `x` by `ada` is for another component: sha256:{DIGEST}")
        );
        assert_eq!(
            told(bobs.check("x", DIGEST, std::slice::from_ref(&signature))),
            "`x` is not signed by `bob`"
        );
        assert_eq!(
            told(adas.check("x", DIGEST, &[])),
            "`x` is not signed, and a signature is required"
        );
        assert_eq!(
            told(Identities::default().check("x", DIGEST, &[signature])),
            "a signature is required, and no identity is configured"
        );
    }

    #[test]
    fn every_changed_byte_of_a_signature_is_noticed() {
        let (ada, adas) = key("ada");
        let signature = Signature::sign_digest(DIGEST, &ada);
        for at in 0..signature.payload.len() {
            let mut changed = signature.clone();
            changed.payload[at] ^= 1;
            assert!(adas.check("x", DIGEST, &[changed]).is_err(), "payload {at}");
        }
        for at in 0..signature.signature.len() {
            let mut changed = signature.clone();
            changed.signature[at] ^= 1;
            assert!(adas.check("x", DIGEST, &[changed]).is_err(), "signature {at}");
        }
    }

    #[test]
    fn so_many_signatures_are_looked_at() {
        let ((ada, adas), (bob, _)) = (key("ada"), key("bob"));
        let mut signatures = vec![Signature::sign_digest(DIGEST, &bob); limits::SIGNATURES_MAX - 1];
        signatures.push(Signature::sign_digest(DIGEST, &ada));
        assert!(adas.check("x", DIGEST, &signatures).is_ok());
        signatures.insert(0, Signature::sign_digest(DIGEST, &bob));
        assert!(adas.check("x", DIGEST, &signatures).is_err());
    }

    #[test]
    fn a_signature_lies_beside_its_component_and_is_short() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let component = folder.path().join("lint.wasm");
        assert_eq!(Signature::read_beside(&component).ok(), Some(None));
        let signature = Signature::sign_digest(DIGEST, &key("ada").0);
        let place = signature.write_beside(&component).expect("the folder is writable");
        assert!(place.ends_with("lint.wasm.sig"));
        // As any new file of the user's, which the mask of the tests' process narrows.
        let plain = folder.path().join("plain");
        std::fs::write(&plain, "").expect("the folder is writable");
        let mode = |path: &Path| path.metadata().expect("it is there").permissions().mode();
        assert_eq!(mode(&place), mode(&plain));
        assert_eq!(Signature::read_beside(&component).ok(), Some(Some(signature)));
        for wrong in ["", "{}", "{\"payload\": \"!\", \"signature\": \"\"}"] {
            std::fs::write(&place, wrong).expect("the folder is writable");
            assert!(
                matches!(
                    Signature::read_beside(&component),
                    Err(SignatureError::NoSignature { .. })
                ),
                "{wrong}"
            );
        }
        let long = " ".repeat(usize::try_from(limits::SIGNATURE_BYTES_MAX).expect("it is small") + 1);
        std::fs::write(&place, long).expect("the folder is writable");
        assert!(matches!(
            Signature::read_beside(&component),
            Err(SignatureError::Io { .. })
        ));
    }

    #[test]
    fn keys_are_for_their_owner_and_overwrite_nothing() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a temporary folder");
        let stem = folder.path().join("team");
        let (private, public) = write_keys(&stem).expect("the folder is writable");
        let mode = |path: &Path| path.metadata().expect("it is there").permissions().mode() & 0o777;
        assert_eq!(mode(&private), 0o600);
        let before = std::fs::read(&public).expect("it is there");
        let there =
            |path: &Path| matches!(write_keys(&stem), Err(SignatureError::KeyExists { path: of }) if of == path);
        assert!(there(&private));
        assert_eq!(std::fs::read(&public).expect("it is there"), before);
        let kept = folder.path().join("kept");
        std::fs::rename(&private, &kept).expect("both are ours");
        assert!(there(&public) && !private.exists(), "no half of a pair is left");
        std::fs::rename(&kept, &private).expect("both are ours");
        let told = PrivateKey::read(&public)
            .err()
            .expect("it is the public one")
            .to_string();
        assert!(told.contains("tool skill keys new"), "{told}");
    }
}
