//! Certificate authorities for TLS: those of the machine, and the embedded ones of Mozilla on a machine that has none, such
//! as a minimal container.

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
