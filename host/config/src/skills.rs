//! `[skills]`: signatures, and what the user grants a team's skills: settings, secrets, and hosts that are not public.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use tool_core::api::{HostName, SecretName};

/// `[skills]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SkillsSettings {
    /// A skill of the team can be added, trusted, updated, synchronised and used only with a signature of one of the
    /// identities.
    pub require_signature: bool,
    /// Public keys by the names of their owners: PEM, or the path of a PEM file relative to the home.
    pub identities: BTreeMap<String, String>,
    /// Settings by the name of the skill that reads them.
    pub config: BTreeMap<String, Map<String, Value>>,
    /// Secrets, each with the variable that holds its value.
    pub secrets: BTreeMap<SecretName, SecretSettings>,
    /// Origins of hosts that are not public, or have no TLS.
    pub hosts: BTreeMap<HostName, HostOrigin>,
}

/// `[skills.secrets.NAME]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SecretSettings {
    /// The only host that gets the secret.
    pub host: HostName,
    /// The only header field that contains the secret.
    #[serde(default = "default_header")]
    pub header: String,
    /// Environment variable with the value.
    pub variable: String,
}

/// Header field of a secret unless the user names another.
pub const DEFAULT_SECRET_HEADER: &str = "authorization";

fn default_header() -> String {
    DEFAULT_SECRET_HEADER.to_owned()
}

/// Origin at which a host is reached: scheme, host and port of a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostOrigin(String);

impl HostOrigin {
    /// The URL, without a slash at its end.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for HostOrigin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for HostOrigin {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let url = text.strip_suffix('/').unwrap_or(&text);
        let authority = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
        let is_authority = |authority: &str| {
            let is_odd = |letter: char| letter.is_whitespace() || letter.is_control() || "/?#@\\".contains(letter);
            !authority.is_empty() && !authority.contains(is_odd)
        };
        if authority.is_some_and(is_authority) {
            Ok(Self(url.to_owned()))
        } else {
            Err(serde::de::Error::custom(format!(
                "`{text}` is no origin of a host: write https://HOST[:PORT] or http://HOST[:PORT]"
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str) -> Result<SkillsSettings, String> {
        toml::from_str(text).map_err(|error| error.message().to_owned())
    }

    #[test]
    fn settings_secrets_and_hosts_are_read() {
        let read = settings(
            "[config.tickets]\nproject = \"CORE\"\nlimit = 5\n\
             [secrets.tickets_token]\nhost = \"tickets.example.org\"\nvariable = \"TICKETS\"\n\
             [hosts]\n\"tickets.example.org\" = \"http://127.0.0.1:8080/\"\n",
        )
        .expect("it is right");
        assert_eq!(read.config["tickets"]["limit"], 5);
        let secret = read.secrets.values().next().expect("there is one");
        assert_eq!(
            (secret.header.as_str(), secret.variable.as_str()),
            ("authorization", "TICKETS")
        );
        let origin = read.hosts.values().next().expect("there is one");
        assert_eq!(origin.as_str(), "http://127.0.0.1:8080");
    }

    #[test]
    fn an_origin_is_a_scheme_a_host_and_nothing_else() {
        for origin in [
            "",
            "tickets",
            "ftp://a",
            "https://",
            "https://a/path",
            "https://u@a",
            "https://a?q",
            "http://a b",
        ] {
            let refused = settings(&format!("[hosts]\n\"a.org\" = \"{origin}\"\n")).expect_err(origin);
            assert!(refused.contains("is no origin of a host"), "{refused}");
        }
        assert!(
            settings("[hosts]\n\"A.org\" = \"https://a\"\n").is_err(),
            "hosts are lower-case"
        );
        assert!(settings("[secrets.Token]\nhost = \"a\"\nvariable = \"A\"\n").is_err());
    }
}
