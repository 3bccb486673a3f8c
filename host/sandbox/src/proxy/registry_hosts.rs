//! Decides which hosts may be reached, and through which proxy. Does no input or output.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use url::Url;

/// A package registry.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RegistryHost {
    /// Lower case, without a final dot and without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// True if it is reached without TLS.
    pub is_plain: bool,
    /// True if the user's own configuration names it. It may then be on this machine or in its network.
    pub is_own: bool,
}

impl RegistryHost {
    /// The host of an address such as `https://mirror.example/simple/`; `None` if the address is not `http` or `https`.
    pub fn from_url(url: &str, is_own: bool) -> Option<Self> {
        let url = Url::parse(url.trim()).ok()?;
        let is_plain = match url.scheme() {
            "http" => true,
            "https" => false,
            _ => return None,
        };
        let place = Self {
            host: fold_host(url.host_str()?),
            port: url.port_or_known_default()?,
            is_plain,
            is_own,
        };
        // A registry that the user has not configured must use TLS.
        (is_own || !is_plain).then_some(place)
    }

    /// A host by its name, reached with TLS.
    pub fn from_host(name: &str) -> Option<Self> {
        Self::from_url(&format!("https://{name}/"), false)
    }

    /// Text for the user: the host, and the port unless it is the default.
    pub fn name(&self) -> String {
        match (self.port, self.is_plain) {
            (443, false) | (80, true) => self.host.clone(),
            (port, _) => format!("{}:{port}", self.host),
        }
    }
}

fn fold_host(host: &str) -> String {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.trim_end_matches('.').to_ascii_lowercase()
}

/// The proxy that the user's environment names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upstream {
    /// Its name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// Value that it expects in `Proxy-Authorization`.
    authorization: Option<String>,
}

impl Upstream {
    /// A proxy that is reached without TLS; others are not supported.
    pub fn from_url(url: &str) -> Option<Self> {
        let text = if url.contains("://") {
            url.trim().to_owned()
        } else {
            format!("http://{}", url.trim())
        };
        let url = Url::parse(&text).ok().filter(|url| url.scheme() == "http")?;
        let password = url.password().unwrap_or_default();
        let has_user = !url.username().is_empty() || !password.is_empty();
        let authorization = has_user.then(|| {
            let pair = format!("{}:{}", decode_percent(url.username()), decode_percent(password));
            format!("Basic {}", BASE64.encode(pair.as_bytes()))
        });
        Some(Self {
            host: fold_host(url.host_str()?),
            port: url.port_or_known_default()?,
            authorization,
        })
    }

    /// Returns the `CONNECT` request for it.
    pub(super) fn connect_request(&self, host: &str, port: u16) -> String {
        let target = format_authority(host, port);
        let authorization = self.header();
        format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{authorization}\r\n")
    }

    /// The header line with its credentials, if it needs any.
    pub(super) fn header(&self) -> String {
        let value = self.authorization.as_deref();
        value.map_or_else(String::new, |value| format!("Proxy-Authorization: {value}\r\n"))
    }
}

/// `host:port`, with brackets around an IPv6 address.
pub(super) fn format_authority(host: &str, port: u16) -> String {
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

fn decode_percent(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        // `from_str_radix` takes a sign, too.
        let is_hex = |digits: &&str| bytes[at] == b'%' && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let digits = text.get(at + 1..at + 3).filter(is_hex);
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                plain.push(byte);
                at += 3;
            }
            None => {
                plain.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&plain).into_owned()
}

/// Everything that an installation may reach.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProxyRoute {
    /// The registries.
    pub places: Vec<RegistryHost>,
    /// Proxy of the user's environment for connections without TLS.
    pub upstream_plain: Option<Upstream>,
    /// Proxy of the user's environment for connections with TLS.
    pub upstream_tls: Option<Upstream>,
    /// `NO_PROXY` of the user's environment.
    pub direct: String,
    /// True if a host without TLS may be sent a body, as git does. Registries get none.
    pub takes_posts: bool,
}

impl ProxyRoute {
    /// A route to these hosts, through the proxies that the user's environment names.
    pub fn to_hosts(places: Vec<RegistryHost>, starter: &BTreeMap<String, String>) -> Self {
        // Programs look at the lower-case name first.
        let value = |names: &[&str]| {
            let spelled = names
                .iter()
                .flat_map(|name| [(*name).to_owned(), name.to_ascii_uppercase()]);
            let mut values = spelled.filter_map(|name| starter.get(&name)).map(|value| value.trim());
            values.find(|value| !value.is_empty())
        };
        Self {
            places,
            upstream_plain: value(&["http_proxy", "all_proxy"]).and_then(Upstream::from_url),
            upstream_tls: value(&["https_proxy", "all_proxy"]).and_then(Upstream::from_url),
            direct: value(&["no_proxy"]).unwrap_or_default().to_owned(),
            takes_posts: false,
        }
    }

    /// Finds a host by name and port. A plain request requires a host without TLS; `CONNECT` serves both kinds.
    pub(super) fn place(&self, host: &str, port: u16, is_plain: bool) -> Option<&RegistryHost> {
        let host = fold_host(host);
        let fits = |place: &&RegistryHost| place.host == host && place.port == port && (place.is_plain || !is_plain);
        self.places.iter().find(fits)
    }

    /// The proxy for a host, if one is to be used.
    pub(super) fn upstream(&self, place: &RegistryHost) -> Option<&Upstream> {
        let upstream = if place.is_plain {
            self.upstream_plain.as_ref()
        } else {
            self.upstream_tls.as_ref()
        };
        upstream.filter(|_| !self.is_direct(&place.host) && !is_loopback(&place.host))
    }

    fn is_direct(&self, host: &str) -> bool {
        let entries = self
            .direct
            .split([',', ' '])
            .map(str::trim)
            .filter(|entry| !entry.is_empty());
        entries.map(fold_host).any(|entry| {
            let name = entry.trim_start_matches('*').trim_start_matches('.');
            entry == "*" || host == name || host.strip_suffix(name).is_some_and(|rest| rest.ends_with('.'))
        })
    }
}

fn is_loopback(host: &str) -> bool {
    let address = host.parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// True for a globally routable address.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_special = address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_documentation()
        // "This" network, shared address space of providers, protocol assignments, benchmarks, multicast and reserved.
        || a == 0
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && (18..20).contains(&b))
        || a >= 224;
    !is_special
}

/// True for IPv6 addresses of the global range, and for those that embed a public IPv4 address (NAT64, 6to4).
fn is_public_v6(address: Ipv6Addr) -> bool {
    let parts = address.segments();
    let inner = |high: u16, low: u16| Ipv4Addr::from(u32::from(high) << 16 | u32::from(low));
    match parts {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => is_public_v4(inner(high, low)),
        [0x2002, high, low, ..] => is_public_v4(inner(high, low)),
        // Documentation, tunnels, and assignments for protocols.
        [0x2001, 0xdb8, ..] | [0x3fff, ..] => false,
        [0x2001, second, ..] if second < 0x200 => false,
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_of_the_world_are_public() {
        let public = [
            "8.8.8.8",
            "151.101.0.223",
            "2a04:4e42::223",
            "64:ff9b::808:808",
            "2002:808:808::1",
        ];
        let special = [
            "127.0.0.1",
            "127.9.9.9",
            "10.0.0.1",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "0.0.0.0",
            "0.1.2.3",
            "100.64.0.1",
            "192.0.0.1",
            "192.0.2.1",
            "198.18.0.1",
            "198.51.100.1",
            "224.0.0.1",
            "255.255.255.255",
            "240.0.0.1",
            "::1",
            "::",
            "fe80::1",
            "fc00::1",
            "fd12::1",
            "ff02::1",
            "2001:db8::1",
            "::ffff:127.0.0.1",
            "::ffff:8.8.8.8",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "2001:0::1",
            "fec0::1",
            "3fff::1",
        ];
        for (addresses, expected) in [(&public[..], true), (&special[..], false)] {
            for text in addresses {
                assert_eq!(is_public(text.parse().expect("it is an address")), expected, "{text}");
            }
        }
    }

    #[test]
    fn a_place_is_a_name_and_a_port_and_nothing_like_it() {
        let way = ProxyRoute {
            places: vec![
                RegistryHost::from_url("https://Registry.Example./simple/", false).expect("it is one"),
                RegistryHost::from_url("http://127.0.0.1:8081/npm/", true).expect("it is one"),
            ],
            ..ProxyRoute::default()
        };
        let reached = |host, port, is_plain| way.place(host, port, is_plain).is_some();
        assert!(reached("registry.example", 443, false) && reached("REGISTRY.example.", 443, false));
        assert!(reached("127.0.0.1", 8081, true) && reached("127.0.0.1", 8081, false));
        for (host, port, is_plain) in [
            ("registry.example", 80, false),
            ("registry.example", 443, true),
            ("registry.example.evil.example", 443, false),
            ("evil.registry.example", 443, false),
            ("127.0.0.1", 8000, true),
            ("localhost", 8081, true),
            ("", 443, false),
        ] {
            assert!(!reached(host, port, is_plain), "{host}:{port}");
        }
        assert_eq!(
            RegistryHost::from_url("http://registry.example/", false),
            None,
            "nobody configured it"
        );
        assert_eq!(RegistryHost::from_url("file:///wheels", true), None);
        assert_eq!(
            way.places.iter().map(RegistryHost::name).collect::<Vec<_>>(),
            ["registry.example", "127.0.0.1:8081"]
        );
    }

    #[test]
    fn the_proxy_of_the_environment_is_used_but_where_it_is_not_to_be() {
        let upstream = Upstream::from_url("http://ada:p%40ss@proxy.example:3128").expect("it is one");
        insta::assert_snapshot!(upstream.connect_request("registry.example", 443).replace('\r', ""), @r"
        CONNECT registry.example:443 HTTP/1.1
        Host: registry.example:443
        Proxy-Authorization: Basic YWRhOnBAc3M=
        ");
        assert_eq!(decode_percent("p%2B%+f%"), "p+%+f%");
        assert_eq!(
            Upstream::from_url("proxy.example:3128").map(|upstream| upstream.port),
            Some(3128)
        );
        assert_eq!(Upstream::from_url("socks5://proxy.example"), None);
        let way = ProxyRoute {
            upstream_tls: Some(upstream),
            direct: "localhost, .intern.example,mirror.example".to_owned(),
            ..ProxyRoute::default()
        };
        let goes = |host: &str| {
            way.upstream(&RegistryHost::from_url(host, true).expect("it is one"))
                .is_some()
        };
        assert!(goes("https://registry.example") && goes("https://xmirror.example"));
        for host in [
            "https://a.intern.example",
            "https://mirror.example",
            "https://127.0.0.1",
            "http://plain.example",
        ] {
            assert!(!goes(host), "{host}");
        }
    }
}
