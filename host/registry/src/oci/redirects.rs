//! Limits for a registry's redirects: never nearer to this machine than the registry itself, and never from TLS to
//! plain HTTP.
//!
//! Registries redirect to other servers for content, and name a token server in a challenge. Neither is trusted: they
//! must not make this machine send requests to itself, to its network, or to the service that gives a virtual machine
//! its secrets.

use std::net::IpAddr;

use reqwest::Url;

use super::{DistributionError, RegistryReference, refused_error};
use tool_core::text::{clean_text, truncate_text};
use tool_sandbox::proxy::is_public;

/// Distance of a host from this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum HostDistance {
    /// This machine, and link-local addresses.
    Machine,
    Network,
    /// The public internet.
    World,
}

impl HostDistance {
    fn of_address(address: IpAddr) -> Self {
        let address = address.to_canonical();
        let is_link_local = match address {
            IpAddr::V4(address) => address.is_link_local() || address.is_broadcast() || address.octets()[0] == 0,
            IpAddr::V6(address) => address.is_unicast_link_local(),
        };
        match address {
            _ if is_link_local || address.is_loopback() || address.is_unspecified() => Self::Machine,
            _ if address.is_multicast() => Self::Machine,
            _ if is_public(address) => Self::World,
            _ => Self::Network,
        }
    }

    /// Distance of the host's nearest address. A host that cannot be resolved here counts as far away: a proxy may
    /// resolve it.
    async fn of_host(url: &Url) -> Self {
        let host = url.host_str().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.');
        if let Ok(address) = host.parse::<IpAddr>() {
            return Self::of_address(address);
        }
        if host.is_empty() || host == "localhost" || host.ends_with(".localhost") {
            return Self::Machine;
        }
        let port = url.port_or_known_default().unwrap_or_default();
        let found = tokio::net::lookup_host((host, port)).await;
        let reach = found
            .into_iter()
            .flatten()
            .map(|address| Self::of_address(address.ip()));
        reach.min().unwrap_or(Self::World)
    }
}

/// Fails unless the registry may send us to this URL.
pub(super) async fn check_redirect(place: &RegistryReference, to: &Url) -> Result<(), DistributionError> {
    let base = Url::parse(&place.base()).map_err(|error| refused_error(place, error.to_string()))?;
    if base.origin() == to.origin() {
        return Ok(());
    }
    let own = HostDistance::of_host(&base).await;
    judge_redirect(own, to, HostDistance::of_host(to).await).map_err(|why| {
        let named = clean_text(truncate_text(to.host_str().unwrap_or_default(), 200)).into_owned();
        refused_error(place, format!("it sends us to `{named}`, {why}"))
    })
}

/// Explains why a registry at the distance `own` may not send us to a host at the distance `reach`.
fn judge_redirect(own: HostDistance, to: &Url, reach: HostDistance) -> Result<(), &'static str> {
    match to.scheme() {
        _ if reach < own => Err("which is nearer to this machine than the registry is"),
        "https" => Ok(()),
        // Plain HTTP is for this machine only, and only a registry on this machine may redirect there.
        "http" if own == HostDistance::Machine && reach == HostDistance::Machine => Ok(()),
        _ => Err("and not by TLS"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).expect("it is an address")
    }

    #[tokio::test]
    async fn addresses_are_as_far_away_as_networks_say() {
        for (reach, hosts) in [
            (
                HostDistance::Machine,
                &[
                    "127.0.0.1",
                    "127.8.9.10",
                    "0.0.0.0",
                    "169.254.169.254",
                    "2130706433",
                    "0x7f.1",
                    "[::1]",
                    "[::]",
                    "[fe80::1]",
                    "[::ffff:127.0.0.1]",
                    "localhost",
                    "a.localhost",
                    "localhost.",
                    "255.255.255.255",
                    "[ff02::1]",
                ][..],
            ),
            (
                HostDistance::Network,
                &[
                    "10.0.0.1",
                    "172.16.0.1",
                    "192.168.1.1",
                    "100.64.0.1",
                    "[fd00::1]",
                    "[::ffff:10.0.0.1]",
                    "[64:ff9b::7f00:1]",
                    "192.0.2.1",
                ],
            ),
            (HostDistance::World, &["8.8.8.8", "100.128.0.1", "[2a04:4e42::223]"]),
        ] {
            for host in hosts {
                let found = HostDistance::of_host(&url(&format!("https://{host}/"))).await;
                assert_eq!(found, reach, "{host}");
            }
        }
    }

    #[test]
    fn a_registry_sends_nobody_nearer_or_out_of_tls() {
        let judged = |own, to: &str, reach| judge_redirect(own, &url(to), reach).is_ok();
        for own in [HostDistance::Machine, HostDistance::Network, HostDistance::World] {
            for reach in [HostDistance::Machine, HostDistance::Network, HostDistance::World] {
                assert_eq!(
                    judged(own, "https://a.example/", reach),
                    reach >= own,
                    "{own:?} {reach:?}"
                );
                let both_here = (own, reach) == (HostDistance::Machine, HostDistance::Machine);
                assert_eq!(judged(own, "http://a.example/", reach), both_here, "{own:?} {reach:?}");
                assert!(!judged(own, "ftp://a.example/", reach));
            }
        }
    }
}
