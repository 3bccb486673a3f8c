//! Builds the HTTP client of a provider: TLS, proxies from the environment, and loopback. `http` sends requests with
//! it.

use std::collections::BTreeMap;
use std::sync::Once;

use hyper_util::client::proxy::matcher::Matcher;
use reqwest::{Client, NoProxy, Proxy, Url};

use super::failure::one_line;
use super::receiver::{ReceiverCheck, ReceiverLayer};
use super::roots::NamedAuthorities;
use crate::limits;
use crate::receiver::PROVIDER_CONNECT_SECONDS_MAX;
use tool_config::ProviderSettings;
use tool_core::api::{ErrorKind, Problem};

/// Installs the TLS implementation of this process. Every client needs it first.
pub fn use_crypto() {
    static CRYPTO: Once = Once::new();
    // Fails only if an implementation is already installed, which is just as good.
    CRYPTO.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
}

/// Builds the client for the address of a provider. Loopback is never reached through a proxy.
#[expect(clippy::disallowed_methods, reason = "this is the one place that may")]
pub(super) fn build_client(
    settings: &ProviderSettings,
    environment: &BTreeMap<String, String>,
    check: &ReceiverCheck,
) -> Result<Client, Problem> {
    use_crypto();
    let invalid = |reason: String| {
        Problem::new(
            ErrorKind::InvalidProvider,
            format!("The provider {} cannot be used: {reason}", settings.name.name()),
        )
        .with_hint("set `url` to an address such as http://127.0.0.1:1234/v1")
    };
    let url = Url::parse(&settings.url).map_err(|error| invalid(format!("its `url` is not valid ({error})")))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err(invalid("its `url` must start with http:// or https://".to_owned()));
    }
    let mut builder = Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .no_proxy()
        .connector_layer(ReceiverLayer {
            check: check.clone(),
            proxy: (!is_loopback(&url))
                .then(|| loopback_proxy(&url, environment))
                .flatten(),
        })
        .connect_timeout(limits::seconds(PROVIDER_CONNECT_SECONDS_MAX));
    if is_loopback(&url) && url.scheme() == "http" {
        // A new connection costs 0.1 ms on loopback. On a kept connection many small servers delay each answer by 40
        // ms: they hold the body back until the head is acknowledged (Nagle), and the kernel delays that
        // acknowledgement on an interactive connection.
        builder = builder.pool_max_idle_per_host(0);
    }
    if !is_loopback(&url) {
        for proxy in build_proxies(environment).map_err(invalid)? {
            builder = builder.proxy(proxy);
        }
    }
    if url.scheme() == "http" && environment_proxy(environment, &["http_proxy", "all_proxy"]).is_none() {
        // This client uses no TLS, so a machine without certificates is fine.
        builder = builder.tls_certs_only([]);
    }
    if url.scheme() == "https" {
        let authorities = NamedAuthorities::from_environment(settings.ca_file.as_deref(), environment);
        builder = authorities.use_in(builder).map_err(|reason| {
            Problem::new(
                ErrorKind::InvalidProvider,
                format!("The provider {} cannot be used: {reason}", settings.display_name()),
            )
            .with_hint("`ca_file` and SSL_CERT_FILE name a file with certificates as PEM")
        })?;
    }
    builder
        .build()
        .map_err(|error| invalid(one_line(&error.without_url().to_string())))
}

fn is_loopback(url: &Url) -> bool {
    is_loopback_host(url.host_str().unwrap_or_default().trim_matches(['[', ']']))
}

fn is_loopback_host(host: &str) -> bool {
    let address = host.parse::<std::net::IpAddr>();
    host == "localhost" || host.ends_with(".localhost") || address.is_ok_and(|address| address.is_loopback())
}

/// The value of the first variable that is set; lower case is tried first, as curl does.
fn environment_proxy<'e>(environment: &'e BTreeMap<String, String>, names: &[&str]) -> Option<&'e str> {
    let spelled = names.iter().flat_map(|name| [(*name).to_owned(), name.to_uppercase()]);
    spelled
        .filter_map(|name| environment.get(&name))
        .map(|value| value.trim())
        .find(|value| !value.is_empty())
}

fn build_proxies(environment: &BTreeMap<String, String>) -> Result<Vec<Proxy>, String> {
    let except = environment_proxy(environment, &["no_proxy"]).and_then(NoProxy::from_string);
    let mut proxies = Vec::new();
    if let Some(url) = environment_proxy(environment, &["http_proxy", "all_proxy"]) {
        proxies.push(Proxy::http(url));
    }
    if let Some(url) = environment_proxy(environment, &["https_proxy", "all_proxy"]) {
        proxies.push(Proxy::https(url));
    }
    proxies
        .into_iter()
        .map(|proxy| match proxy {
            Ok(proxy) => Ok(proxy.no_proxy(except.clone())),
            Err(_) => Err("a proxy of the environment is not a valid address".to_owned()),
        })
        .collect()
}

/// Host and port of the proxy on loopback through which a URL is reached.
fn loopback_proxy(url: &Url, environment: &BTreeMap<String, String>) -> Option<(String, u16)> {
    let value = |names: &[&str]| environment_proxy(environment, names).unwrap_or_default().to_owned();
    let matcher = Matcher::builder()
        .http(value(&["http_proxy", "all_proxy"]))
        .https(value(&["https_proxy", "all_proxy"]))
        .no(value(&["no_proxy"]))
        .build();
    let proxy = matcher.intercept(&url.as_str().parse().ok()?)?;
    let host = proxy.uri().host()?.trim_matches(['[', ']']).to_owned();
    let default_port = match proxy.uri().scheme_str() {
        Some("https") => 443,
        Some("http") | None => 80,
        Some(_) => 1080,
    };
    is_loopback_host(&host).then(|| (host, proxy.uri().port_u16().unwrap_or(default_port)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn loopback_is_recognised_in_every_spelling() {
        for (url, expected) in [
            ("http://127.0.0.1:1234/v1", true),
            ("http://127.8.9.1", true),
            ("http://[::1]:1234", true),
            ("http://localhost:1234/v1", true),
            ("http://model.localhost", true),
            ("http://192.168.1.4", false),
            ("https://localhost.example.com", false),
        ] {
            assert_eq!(
                is_loopback(&Url::parse(url).expect("the URL is valid")),
                expected,
                "{url}"
            );
        }
    }

    #[test]
    fn a_proxy_on_loopback_is_found_where_it_is_used() {
        let found = |url: &str, pairs: &[(&str, &str)]| {
            let url = Url::parse(url).expect("the URL is valid");
            loopback_proxy(&url, &environment(pairs)).map(|(host, port)| format!("{host} {port}"))
        };
        let url = "https://models.example/v1";
        let local = ("https_proxy", "http://me:secret@127.0.0.1:3128");
        assert_eq!(found(url, &[local]).as_deref(), Some("127.0.0.1 3128"));
        assert_eq!(
            found(url, &[("ALL_PROXY", "socks5h://localhost")]).as_deref(),
            Some("localhost 1080")
        );
        assert_eq!(found(url, &[("all_proxy", "http://[::1]")]).as_deref(), Some("::1 80"));
        assert_eq!(found(url, &[local, ("no_proxy", "example")]), None);
        assert_eq!(found(url, &[("https_proxy", "http://proxy.example:3128")]), None);
        assert_eq!(found("http://models.example/v1", &[local]), None);
    }

    #[test]
    fn proxies_come_from_the_given_environment_only() {
        let count = |pairs: &[(&str, &str)]| build_proxies(&environment(pairs)).map(|proxies| proxies.len());
        assert_eq!(count(&[]), Ok(0));
        assert_eq!(count(&[("HTTPS_PROXY", "http://proxy:3128"), ("NO_PROXY", "x")]), Ok(1));
        assert_eq!(count(&[("all_proxy", "http://proxy:3128")]), Ok(2));
        assert!(count(&[("https_proxy", "http://[")]).is_err());
    }
}
