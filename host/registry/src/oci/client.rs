//! Connections to one registry: credentials, proxies, and limits for reading.
//!
//! A registry names its token server in a challenge. The user's credentials for the registry are sent there only if
//! the server is the registry itself or a name below it. Any other host gets the credentials that the user has for
//! that host, or none. A sibling name is not enough: `a.example.org` and `b.example.org` may have different owners.
//! Tokens are sent to the registry only. A redirect gets neither tokens nor passwords, and may not lead nearer to
//! this machine than the registry is (`redirects`).
//!
//! `oci-client` does the pushing. It follows redirects without credentials. If a registry wants a name and a
//! password, it asks for the challenge again; a registry that changes its challenge in between already has the
//! password.

use oci_client::client::{Certificate, CertificateEncoding, ClientConfig, ClientProtocol};
use oci_client::errors::OciDistributionError;
use oci_client::secrets::RegistryAuth;
use reqwest::header::{ACCEPT, HeaderMap, HeaderValue, LOCATION, WWW_AUTHENTICATE};
use reqwest::{Client, NoProxy, Proxy, RequestBuilder, Response, StatusCode, Url};
use serde::Deserialize;

use super::artifact::{Artifact, MANIFEST};
use super::credentials::{self, Credentials};
use super::{DistributionError, RegistryReference, digest_of, redirects, refused_error};
use tool_config::Environment;
use tool_core::text::{clean_text, truncate_text};
use tool_provider::{missing_roots, use_crypto, use_roots};

/// Redirects that one blob is followed through. Registries send once, to their storage.
pub(crate) const REGISTRY_REDIRECTS_MAX: usize = 5;

/// Bytes of the answer to a question for a token. Tokens that name many rights have some kilobytes.
pub(crate) const TOKEN_BYTES_MAX: u64 = 64 * 1024;

/// Hosts that are never reached through a proxy.
const LOOPBACK: &str = "localhost,127.0.0.0/8,::1";

/// Purpose of an access to a registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AccessPurpose {
    Pull,
    Push,
}

/// A client with the credentials for one registry.
pub(super) struct RegistryClient {
    http: Client,
    oci: oci_client::Client,
    permission: RequestCredentials,
}

/// Credentials that go with every request.
#[derive(Default)]
struct RequestCredentials {
    auth: Option<RegistryAuth>,
    /// Token server that got no credentials: the user has a login for the registry, but none for this host.
    withheld: Option<String>,
}

impl RegistryClient {
    /// Asks the registry for its challenge, and obtains the credentials that it wants.
    pub(super) async fn open(
        place: &RegistryReference,
        environment: &Environment,
        purpose: AccessPurpose,
    ) -> Result<Self, DistributionError> {
        let http = build_client(place, environment)?;
        let permission = request_permission(&http, place, environment, purpose).await?;
        let oci = oci_client::Client::try_from(client_configuration(place, environment))
            .map_err(|error| convert_error(place, &permission, error))?;
        if let Some(auth) = &permission.auth {
            oci.store_auth_if_needed(place.registry(), auth).await;
        }
        Ok(Self { http, oci, permission })
    }

    pub(super) async fn manifest(&self, place: &RegistryReference) -> Result<Response, DistributionError> {
        let reference = place.reference();
        let name = place.digest().or(place.tag()).unwrap_or("latest");
        let url = format!("{}/v2/{}/manifests/{name}", place.base(), reference.repository());
        let request = self.http.get(url).header(ACCEPT, MANIFEST);
        send_request(place, self.permitted(request)).await
    }

    /// Requests a blob. The registry may redirect to another server.
    pub(super) async fn blob(&self, place: &RegistryReference, digest: &str) -> Result<Response, DistributionError> {
        let own = format!("{}/v2/{}/blobs/{digest}", place.base(), place.reference().repository());
        let mut response = send_request(place, self.permitted(self.http.get(&own))).await?;
        for _ in 0..REGISTRY_REDIRECTS_MAX {
            if !response.status().is_redirection() {
                return Ok(response);
            }
            let to = response.headers().get(LOCATION).and_then(|to| to.to_str().ok());
            let to = to.and_then(|to| response.url().join(to).ok());
            let to = to.ok_or_else(|| refused_error(place, "it sends us elsewhere and does not say where"))?;
            redirects::check_redirect(place, &to).await?;
            let is_own = Url::parse(&own).is_ok_and(|own| own.origin() == to.origin());
            let request = self.http.get(to);
            response = send_request(place, if is_own { self.permitted(request) } else { request }).await?;
        }
        if response.status().is_redirection() {
            Err(refused_error(
                place,
                format!("it sends us elsewhere more than {REGISTRY_REDIRECTS_MAX} times"),
            ))
        } else {
            Ok(response)
        }
    }

    /// Checks that the response has the requested content.
    pub(super) fn found(&self, place: &RegistryReference, response: Response) -> Result<Response, DistributionError> {
        match response.status() {
            StatusCode::OK => Ok(response),
            StatusCode::NOT_FOUND => Err(DistributionError::NotFound {
                place: place.to_string(),
            }),
            status => Err(refused_error(place, self.permission.refusal(status))),
        }
    }

    /// Adds the credentials to a request.
    fn permitted(&self, request: RequestBuilder) -> RequestBuilder {
        match &self.permission.auth {
            Some(RegistryAuth::Basic(user, password)) => request.basic_auth(user, Some(password)),
            Some(RegistryAuth::Bearer(token)) => request.bearer_auth(token),
            Some(RegistryAuth::Anonymous) | None => request,
        }
    }

    /// Pushes an artifact, its manifest last, and returns the digest of the manifest.
    pub(super) async fn push(
        &self,
        place: &RegistryReference,
        artifact: &Artifact,
    ) -> Result<String, DistributionError> {
        if place.digest().is_some() {
            return Err(refused_error(place, "what is pushed gets its own digest; name a tag"));
        }
        let told = |error| convert_error(place, &self.permission, error);
        let reference = place.reference();
        for (layer, descriptor) in artifact.layers.iter().zip(&artifact.manifest.layers) {
            let pushed = self.oci.push_blob(reference, layer.data.clone(), &descriptor.digest);
            pushed.await.map_err(told)?;
        }
        let config = (artifact.config.data.clone(), &artifact.manifest.config.digest);
        self.oci.push_blob(reference, config.0, config.1).await.map_err(told)?;
        let manifest =
            serde_json::to_vec(&artifact.manifest).map_err(|error| refused_error(place, error.to_string()))?;
        let digest = digest_of(&manifest);
        let kind = HeaderValue::from_static(MANIFEST);
        self.oci
            .push_manifest_raw(reference, manifest, kind)
            .await
            .map_err(told)?;
        Ok(digest)
    }
}

/// Reads the body of a response up to `max` bytes.
pub(super) async fn read_body(
    place: &RegistryReference,
    mut response: Response,
    max: u64,
) -> Result<Vec<u8>, DistributionError> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response
        .chunk()
        .await
        .map_err(|error| unreachable_error(place, error))?
    {
        bytes.extend_from_slice(&chunk);
        if bytes.len() as u64 > max {
            return Err(DistributionError::TooLarge {
                place: place.to_string(),
                max,
            });
        }
    }
    Ok(bytes)
}

/// Builds the client for manifests, tokens and blobs. It follows no redirect. Manifests and tokens have none, and the
/// location of a blob is checked first.
#[expect(
    clippy::disallowed_methods,
    reason = "the one exception, for what a user's command names"
)]
fn build_client(place: &RegistryReference, environment: &Environment) -> Result<Client, DistributionError> {
    use_crypto();
    let mut builder = use_roots(Client::builder())
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .no_proxy()
        .user_agent(USER_AGENT);
    let except = NoProxy::from_string(&no_proxy_hosts(environment, "no_proxy"));
    if let (false, Some(proxy)) = (place.is_loopback(), proxy_of(environment, "https_proxy")) {
        let proxy = Proxy::https(proxy).map_err(|error| unreachable_error(place, error))?;
        builder = builder.proxy(proxy.no_proxy(except));
    }
    builder.build().map_err(|error| unreachable_error(place, error))
}

const USER_AGENT: &str = concat!("tool/", env!("CARGO_PKG_VERSION"));

fn der_certificate(data: Vec<u8>) -> Certificate {
    Certificate {
        encoding: CertificateEncoding::Der,
        data,
    }
}

fn client_configuration(place: &RegistryReference, environment: &Environment) -> ClientConfig {
    ClientConfig {
        protocol: if place.is_loopback() {
            ClientProtocol::Http
        } else {
            ClientProtocol::Https
        },
        extra_root_certificates: missing_roots().into_iter().map(der_certificate).collect(),
        use_monolithic_push: true,
        platform_resolver: None,
        user_agent: USER_AGENT,
        https_proxy: proxy_of(environment, "https_proxy"),
        http_proxy: proxy_of(environment, "http_proxy"),
        no_proxy: Some(no_proxy_hosts(environment, "no_proxy")),
        ..ClientConfig::default()
    }
}

/// A proxy from the user's environment; the lower-case variable takes precedence.
fn proxy_of(environment: &Environment, name: &str) -> Option<String> {
    let names = [
        name.to_owned(),
        name.to_uppercase(),
        "all_proxy".to_owned(),
        "ALL_PROXY".to_owned(),
    ];
    names.iter().find_map(|name| environment.get(name)).map(str::to_owned)
}

/// Hosts that are reached without a proxy: this machine, and those that the user names.
fn no_proxy_hosts(environment: &Environment, name: &str) -> String {
    let said = environment.get(name).or_else(|| environment.get(&name.to_uppercase()));
    format!("{LOOPBACK},{}", said.unwrap_or_default())
}

async fn send_request(place: &RegistryReference, request: RequestBuilder) -> Result<Response, DistributionError> {
    request.send().await.map_err(|error| unreachable_error(place, error))
}

/// Authentication scheme in a registry's challenge.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Challenge {
    Basic,
    Bearer { realm: String, service: Option<String> },
}

#[derive(Deserialize)]
struct TokenAnswer {
    #[serde(default)]
    token: Option<String>,
    #[serde(default)]
    access_token: Option<String>,
}

impl RequestCredentials {
    fn from_auth(auth: RegistryAuth) -> Self {
        Self {
            auth: Some(auth),
            withheld: None,
        }
    }

    /// Describes why the registry refused the request.
    fn refusal(&self, status: StatusCode) -> String {
        let is_ours = [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN].contains(&status);
        match self.withheld.as_ref().filter(|_| is_ours) {
            Some(host) => format!("it answers {status}; {}", not_sent(host)),
            None => format!("it answers {status}"),
        }
    }
}

/// Explains that only the user can say that a registry and another host belong together.
fn not_sent(host: &str) -> String {
    format!(
        "its tokens come from `{host}`, and your login for the registry is not sent there: if the two belong together, add \
         an entry for `{host}` to `auths` in docker's config.json"
    )
}

/// Obtains the credentials for every request; none if the registry wants none.
async fn request_permission(
    http: &Client,
    place: &RegistryReference,
    environment: &Environment,
    purpose: AccessPurpose,
) -> Result<RequestCredentials, DistributionError> {
    let response = send_request(place, http.get(format!("{}/v2/", place.base()))).await?;
    match response.status() {
        status if status.is_success() => return Ok(RequestCredentials::default()),
        StatusCode::UNAUTHORIZED => {}
        status => {
            return Err(refused_error(
                place,
                format!("it answers {status} where registries say what they want"),
            ));
        }
    }
    match read_challenge(response.headers()) {
        Some(Challenge::Basic) => {
            let credentials = credentials::find_credentials(place.registry(), environment)?
                .ok_or_else(|| refused_error(place, "it wants a name and a password; log in with `docker login`"))?;
            let password = credentials.password.expose().to_owned();
            Ok(RequestCredentials::from_auth(RegistryAuth::Basic(
                credentials.user,
                password,
            )))
        }
        Some(Challenge::Bearer { realm, service }) => {
            let realm = checked_realm(place, &realm).await?;
            let credentials = credentials::find_credentials(&realm.login, environment)?;
            let is_withheld =
                credentials.is_none() && credentials::find_credentials(place.registry(), environment)?.is_some();
            let withheld = is_withheld.then(|| realm.login.clone());
            let token = request_token(http, place, realm, service, credentials, purpose).await?;
            Ok(RequestCredentials {
                withheld,
                ..RequestCredentials::from_auth(RegistryAuth::Bearer(token))
            })
        }
        None => Err(refused_error(place, "it wants credentials of a kind that is not known")),
    }
}

async fn request_token(
    http: &Client,
    place: &RegistryReference,
    realm: TokenServer,
    service: Option<String>,
    credentials: Option<Credentials>,
    purpose: AccessPurpose,
) -> Result<String, DistributionError> {
    let actions = match purpose {
        AccessPurpose::Pull => "pull",
        AccessPurpose::Push => "pull,push",
    };
    let scope = format!("repository:{}:{actions}", place.reference().repository());
    let mut url = realm.url;
    url.query_pairs_mut().append_pair("scope", &scope);
    if let Some(service) = service {
        url.query_pairs_mut().append_pair("service", &service);
    }
    let request = http.get(url);
    let request = match &credentials {
        Some(credentials) => request.basic_auth(&credentials.user, Some(credentials.password.expose())),
        None => request,
    };
    let response = send_request(place, request).await?;
    if response.status() != StatusCode::OK {
        let hint = match credentials {
            Some(_) => "the login that `docker login` keeps does not do".to_owned(),
            None if realm.login == place.registry() => "log in with `docker login`".to_owned(),
            None => not_sent(&realm.login),
        };
        return Err(refused_error(
            place,
            format!("it gives no token ({}); {hint}", response.status()),
        ));
    }
    let answer = read_body(place, response, TOKEN_BYTES_MAX).await?;
    let token = serde_json::from_slice::<TokenAnswer>(&answer).ok();
    let token = token.and_then(|token| token.token.or(token.access_token));
    // The token becomes a part of a header.
    token
        .filter(|token| !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic()))
        .ok_or_else(|| refused_error(place, "what it gives is no token"))
}

/// Server that issues tokens.
#[derive(Debug)]
struct TokenServer {
    url: Url,
    /// Host whose login is sent: the registry, or the server itself, with its port if it has one.
    login: String,
}

/// Returns the server that issues tokens, if it is safe to ask.
async fn checked_realm(place: &RegistryReference, text: &str) -> Result<TokenServer, DistributionError> {
    let realm = realm_of(place, text)?;
    redirects::check_redirect(place, &realm.url).await?;
    Ok(realm)
}

fn realm_of(place: &RegistryReference, realm: &str) -> Result<TokenServer, DistributionError> {
    let foreign = |host: &str| DistributionError::Realm {
        place: place.to_string(),
        realm: clean_text(truncate_text(host, 200)).into_owned(),
    };
    let url = Url::parse(realm).map_err(|_| foreign(realm))?;
    let base = Url::parse(&place.base()).map_err(|_| foreign(realm))?;
    let (host, own) = (url.host_str().unwrap_or_default(), base.host_str().unwrap_or_default());
    let is_safe = if place.is_loopback() {
        url.scheme() == "http" && host == own && url.port_or_known_default() == base.port_or_known_default()
    } else {
        url.scheme() == "https"
    };
    if !is_safe || host.is_empty() || !url.username().is_empty() || url.password().is_some() {
        return Err(foreign(host));
    }
    let login = match (belongs_to_registry(own, host), url.port()) {
        (true, _) => place.registry().to_owned(),
        (false, Some(port)) => format!("{host}:{port}"),
        (false, None) => host.to_owned(),
    };
    Ok(TokenServer { url, login })
}

/// True if `realm` is the registry itself or a name below it.
fn belongs_to_registry(registry: &str, realm: &str) -> bool {
    let is_name = registry.parse::<std::net::IpAddr>().is_err();
    realm == registry || is_name && realm.ends_with(&format!(".{registry}"))
}

/// Reads the challenge from the headers of a refusal. Tokens take precedence over passwords.
fn read_challenge(headers: &HeaderMap) -> Option<Challenge> {
    let texts = headers.get_all(WWW_AUTHENTICATE).iter();
    let found: Vec<Challenge> = texts.filter_map(|value| one_challenge(value.to_str().ok()?)).collect();
    let is_bearer = |challenge: &&Challenge| matches!(challenge, Challenge::Bearer { .. });
    found.iter().find(is_bearer).or(found.first()).cloned()
}

fn one_challenge(text: &str) -> Option<Challenge> {
    let (kind, rest) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
    match kind.to_ascii_lowercase().as_str() {
        "basic" => Some(Challenge::Basic),
        "bearer" => Some(Challenge::Bearer {
            realm: challenge_parameter(rest, "realm")?,
            service: challenge_parameter(rest, "service"),
        }),
        _ => None,
    }
}

/// The value of `name` in a list of `name="value"` pairs.
fn challenge_parameter(text: &str, name: &str) -> Option<String> {
    let mut rest = text.trim();
    while let Some((key, after)) = rest.split_once('=') {
        let key = key.trim_matches([' ', ',']);
        let (value, left) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => after.split_once(',').unwrap_or((after, "")),
        };
        if key.eq_ignore_ascii_case(name) {
            return Some(value.to_owned());
        }
        rest = left;
    }
    None
}

fn unreachable_error(place: &RegistryReference, error: reqwest::Error) -> DistributionError {
    let error = error.without_url();
    let mut reason = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        reason = format!("{reason}: {cause}");
        source = cause.source();
    }
    DistributionError::Unreachable {
        place: place.to_string(),
        reason: clean_text(truncate_text(&reason, WORDS_BYTES_MAX)).into_owned(),
    }
}

/// Limit for a registry's own message, in bytes.
const WORDS_BYTES_MAX: usize = 300;

/// Converts an error of the client, and keeps one line of the registry's message.
fn convert_error(
    place: &RegistryReference,
    permission: &RequestCredentials,
    error: OciDistributionError,
) -> DistributionError {
    let words = |text: &str| clean_text(truncate_text(text.trim(), WORDS_BYTES_MAX)).replace('\n', " ");
    match error {
        OciDistributionError::RequestError(error) => unreachable_error(place, error),
        OciDistributionError::ImageManifestNotFoundError(_) | OciDistributionError::ServerError { code: 404, .. } => {
            DistributionError::NotFound {
                place: place.to_string(),
            }
        }
        OciDistributionError::UnauthorizedError { .. } | OciDistributionError::AuthenticationFailure(_) => {
            match &permission.withheld {
                Some(host) => refused_error(place, format!("it does not allow this; {}", not_sent(host))),
                None => refused_error(place, "it does not allow this to who is logged in"),
            }
        }
        OciDistributionError::ServerError { code, message, .. } => {
            refused_error(place, words(&format!("it answers {code}: {message}")))
        }
        OciDistributionError::RegistryError { envelope, .. } => refused_error(place, words(&envelope.to_string())),
        error => refused_error(place, words(&error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(text: &str) -> RegistryReference {
        text.parse().expect("it is a place")
    }

    #[tokio::test]
    async fn a_challenge_leads_nowhere_nearer_than_the_registry_is() {
        for (registry, to, is_asked) in [
            ("oci://8.8.8.8/x", "https://8.8.8.8/token", true),
            ("oci://8.8.8.8/x", "https://8.8.4.4/token", true),
            ("oci://8.8.8.8/x", "https://10.0.0.1/token", false),
            ("oci://8.8.8.8/x", "https://127.0.0.1/token", false),
            ("oci://8.8.8.8/x", "https://169.254.169.254/token", false),
            ("oci://10.0.0.1/x", "https://10.0.0.2/token", true),
            ("oci://10.0.0.1/x", "https://localhost/token", false),
        ] {
            let asked = checked_realm(&place(registry), to).await;
            assert_eq!(asked.is_ok(), is_asked, "{registry} {to}");
        }
    }

    #[test]
    fn a_login_that_was_not_sent_is_told_where_it_would_have_helped() {
        let withheld = RequestCredentials {
            withheld: Some("auth.example.org".to_owned()),
            ..RequestCredentials::default()
        };
        for status in [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN] {
            let told = withheld.refusal(status);
            assert!(told.contains("entry for `auth.example.org` to `auths`"), "{told}");
            assert!(!RequestCredentials::default().refusal(status).contains("auths"));
        }
        assert!(!withheld.refusal(StatusCode::BAD_GATEWAY).contains("auths"));
    }

    #[test]
    fn a_login_goes_to_its_own_host_and_below_it_alone() {
        let login = |registry: &str, realm: &str| realm_of(&place(registry), realm).map(|realm| realm.login);
        for (registry, realm, whose) in [
            ("oci://ghcr.example/x", "https://ghcr.example/token", "ghcr.example"),
            (
                "oci://registry.example.org/x",
                "https://registry.example.org:8443/token",
                "registry.example.org",
            ),
            ("oci://example.org/x", "https://auth.example.org/token", "example.org"),
            (
                "oci://127.0.0.1:5000/x",
                "http://127.0.0.1:5000/token",
                "127.0.0.1:5000",
            ),
            // Every other host gets the login that the user keeps for it.
            (
                "oci://registry.example.org/x",
                "https://auth.example.org/token",
                "auth.example.org",
            ),
            (
                "oci://registry.example.org/x",
                "https://example.org/jwt/auth",
                "example.org",
            ),
            ("oci://a.co.uk/x", "https://b.co.uk/token", "b.co.uk"),
            ("oci://a.b.co.uk/x", "https://auth.c.co.uk/token", "auth.c.co.uk"),
            (
                "oci://example.org/x",
                "https://evilexample.org/token",
                "evilexample.org",
            ),
            ("oci://example.org/x", "https://evil.org:444/token", "evil.org:444"),
            (
                "oci://10.0.0.1/x",
                "https://11.10.0.0.1.example/token",
                "11.10.0.0.1.example",
            ),
        ] {
            assert_eq!(
                login(registry, realm).ok().as_deref(),
                Some(whose),
                "{registry} {realm}"
            );
        }
        for (registry, realm) in [
            ("oci://registry.example.org/x", "http://registry.example.org/token"),
            ("oci://registry.example.org/x", "https://u:p@registry.example.org/token"),
            ("oci://127.0.0.1:5000/x", "http://127.0.0.1:5001/token"),
            ("oci://127.0.0.1:5000/x", "https://evil.org/token"),
            ("oci://registry.example.org/x", "file:///etc/passwd"),
            ("oci://registry.example.org/x", "no address"),
        ] {
            let refused = login(registry, realm);
            assert!(
                matches!(refused, Err(DistributionError::Realm { .. })),
                "{registry} {realm}"
            );
        }
    }

    #[test]
    fn challenges_are_read_as_registries_write_them() {
        let bearer = |realm: &str, service: Option<&str>| {
            Some(Challenge::Bearer {
                realm: realm.to_owned(),
                service: service.map(str::to_owned),
            })
        };
        assert_eq!(one_challenge("Basic realm=\"x\""), Some(Challenge::Basic));
        assert_eq!(
            one_challenge("Bearer realm=\"https://a.b/t?x=1,2\",service=\"a.b\",scope=\"s\""),
            bearer("https://a.b/t?x=1,2", Some("a.b"))
        );
        assert_eq!(
            one_challenge("bearer Realm=https://a.b/t"),
            bearer("https://a.b/t", None)
        );
        for text in [
            "Bearer",
            "Bearer service=\"x\"",
            "Bearer realm=\"x",
            "Digest realm=\"x\"",
            "",
        ] {
            assert_eq!(one_challenge(text), None, "{text}");
        }
    }
}
