//! Certificate authorities for TLS: those of the machine, or the embedded ones of Mozilla if the machine has none, as
//! in a minimal container.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::OnceLock;

use reqwest::{Certificate, ClientBuilder};

/// Makes a client trust the embedded authorities if the machine has none.
pub fn use_roots(builder: ClientBuilder) -> ClientBuilder {
    if machine_has_roots() {
        return builder;
    }
    builder.tls_certs_only(embedded_roots().filter_map(|der| Certificate::from_der(der).ok()))
}

/// Makes a client trust the authorities that `SSL_CERT_FILE` and `SSL_CERT_DIR` of a calling command name, else those of
/// [`use_roots`].
///
/// # Errors
///
/// The end of a sentence, where no certificate could be read.
pub fn use_authorities(
    builder: ClientBuilder,
    environment: &BTreeMap<String, String>,
) -> Result<ClientBuilder, String> {
    NamedAuthorities::from_environment(None, environment).use_in(builder)
}

/// The embedded authorities as DER if the machine has none; otherwise empty.
pub fn missing_roots() -> Vec<Vec<u8>> {
    if machine_has_roots() {
        return Vec::new();
    }
    embedded_roots().map(<[u8]>::to_vec).collect()
}

/// Authorities that the user names: in the settings of a provider, and in the variables of a call.
#[derive(Debug)]
pub(super) struct NamedAuthorities<'a> {
    /// `ca_file`: trusted in addition to the others.
    own: Option<&'a Path>,
    /// `SSL_CERT_FILE` of the caller, and the list `SSL_CERT_DIR`: trusted instead of the machine's.
    file: Option<&'a Path>,
    directories: Vec<&'a Path>,
}

impl<'a> NamedAuthorities<'a> {
    pub(super) fn from_environment(own: Option<&'a Path>, environment: &'a BTreeMap<String, String>) -> Self {
        let value = |name: &str| environment.get(name).map(String::as_str).unwrap_or_default();
        let directories = value("SSL_CERT_DIR").split(':').filter(|path| !path.is_empty());
        Self {
            own,
            file: Some(value("SSL_CERT_FILE"))
                .filter(|path| !path.is_empty())
                .map(Path::new),
            directories: directories.map(Path::new).collect(),
        }
    }

    /// Makes a client trust them. The error is the end of a sentence.
    pub(super) fn use_in(&self, builder: ClientBuilder) -> Result<ClientBuilder, String> {
        let own = match self.own {
            Some(own) => load_certificates(Some(own), &[])?,
            None => Vec::new(),
        };
        if self.file.is_none() && self.directories.is_empty() {
            let builder = use_roots(builder);
            return Ok(if own.is_empty() {
                builder
            } else {
                builder.tls_certs_merge(own)
            });
        }
        Ok(builder.tls_certs_only(load_certificates(self.file, &self.directories)?.into_iter().chain(own)))
    }
}

/// The certificates of a file and of directories, at least one. The error is the end of a sentence.
fn load_certificates(file: Option<&Path>, directories: &[&Path]) -> Result<Vec<Certificate>, String> {
    let files = file.map(|file| (file, Some(file), None));
    let directories = directories.iter().map(|&directory| (directory, None, Some(directory)));
    let (mut certificates, mut reasons) = (Vec::new(), Vec::new());
    for (place, file, directory) in files.into_iter().chain(directories) {
        let found = rustls_native_certs::load_certs_from_paths(file, directory);
        certificates.extend(found.certs.iter().filter_map(|der| Certificate::from_der(der).ok()));
        let why = found
            .errors
            .first()
            .map(|error| format!(" ({error})"))
            .unwrap_or_default();
        reasons.push(format!("no certificates were read from `{}`{why}", place.display()));
    }
    if certificates.is_empty() {
        return Err(reasons.join(", "));
    }
    Ok(certificates)
}

/// True where the machine has authorities, or where `SSL_CERT_FILE` or `SSL_CERT_DIR` names some that cannot be read: a user
/// who names authorities wants no others.
fn machine_has_roots() -> bool {
    static HAS_ROOTS: OnceLock<bool> = OnceLock::new();
    *HAS_ROOTS.get_or_init(|| {
        let found = rustls_native_certs::load_native_certs();
        !found.certs.is_empty() || !found.errors.is_empty()
    })
}

fn embedded_roots() -> impl Iterator<Item = &'static [u8]> {
    webpki_root_certs::TLS_SERVER_ROOT_CERTS.iter().map(AsRef::as_ref)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_embedded_authority_can_be_used() {
        super::super::use_crypto();
        let usable = embedded_roots().filter_map(|der| Certificate::from_der(der).ok());
        let usable: Vec<Certificate> = usable.collect();
        assert!(usable.len() > 100 && usable.len() == embedded_roots().count());
        let client = ClientBuilder::new().tls_certs_only(usable).build();
        assert!(client.is_ok(), "{client:?}");
    }
}
