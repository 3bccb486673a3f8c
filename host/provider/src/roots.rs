//! Certificate authorities for TLS: those of the machine, and the embedded ones of Mozilla on a machine that has none, such
//! as a minimal container.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::OnceLock;

use reqwest::{Certificate, ClientBuilder};

/// Makes a client trust the embedded authorities where the machine has none.
pub fn use_roots(builder: ClientBuilder) -> ClientBuilder {
    if machine_has_roots() {
        return builder;
    }
    builder.tls_certs_only(embedded_roots().filter_map(|der| Certificate::from_der(der).ok()))
}

/// The embedded authorities as DER where the machine has none; else nothing.
pub fn missing_roots() -> Vec<Vec<u8>> {
    if machine_has_roots() {
        return Vec::new();
    }
    embedded_roots().map(<[u8]>::to_vec).collect()
}

/// Authorities that the user names: in the settings of a provider, and in the variables of a call.
#[derive(Debug)]
pub(super) struct NamedAuthorities<'a> {
    /// `ca_file`: beside the others.
    own: Option<&'a Path>,
    /// `SSL_CERT_FILE` and `SSL_CERT_DIR` of the caller: in place of the machine's.
    file: Option<&'a Path>,
    directory: Option<&'a Path>,
}

impl<'a> NamedAuthorities<'a> {
    pub(super) fn of(own: Option<&'a Path>, environment: &'a BTreeMap<String, String>) -> Self {
        let path = |name: &str| environment.get(name).filter(|path| !path.is_empty()).map(Path::new);
        Self {
            own,
            file: path("SSL_CERT_FILE"),
            directory: path("SSL_CERT_DIR"),
        }
    }

    /// Makes a client trust them. The error is the end of a sentence.
    pub(super) fn use_in(&self, builder: ClientBuilder) -> Result<ClientBuilder, String> {
        let own = self.own.map_or_else(|| Ok(Vec::new()), |own| load(Some(own), None))?;
        if self.file.is_none() && self.directory.is_none() {
            let builder = use_roots(builder);
            return Ok(if own.is_empty() {
                builder
            } else {
                builder.tls_certs_merge(own)
            });
        }
        Ok(builder.tls_certs_only(load(self.file, self.directory)?.into_iter().chain(own)))
    }
}

/// The certificates of a file and of a directory. The error is the end of a sentence.
fn load(file: Option<&Path>, directory: Option<&Path>) -> Result<Vec<Certificate>, String> {
    let found = rustls_native_certs::load_certs_from_paths(file, directory);
    let certificates = found.certs.iter().filter_map(|der| Certificate::from_der(der).ok());
    let certificates: Vec<Certificate> = certificates.collect();
    if !certificates.is_empty() {
        return Ok(certificates);
    }
    let place = file.or(directory).unwrap_or(Path::new("")).display();
    Err(match found.errors.first() {
        Some(error) => format!("no certificates were read from `{place}` ({error})"),
        None => format!("`{place}` holds no certificate"),
    })
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
