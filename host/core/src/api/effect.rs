//! Effects that a skill may cause, and the grants that name them.
//!
//! Some effects carry an argument, such as the host of a connection. They are parsed once, into [`Effect`]; later code
//! does not compare text.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use arrayvec::ArrayString;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::openapi::schema::{ObjectBuilder, Type};
use utoipa::openapi::{RefOr, Schema};

use super::Problem;
use crate::api::ErrorKind;
use crate::text::nearest_name;

/// Longest host in an effect: a name of the DNS and a port.
const HOST_BYTES_MAX: usize = 253 + ":65535".len();

const SECRET_NAME_BYTES_MAX: usize = 64;

/// Matches every host in a grant.
const ANY_HOST: &str = "*";

/// Something that a skill may cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Effect {
    /// Read files.
    ReadRepository,
    /// Propose changes of files.
    WriteRepository,
    /// Read git's state.
    ReadGit,
    /// Commit.
    CommitGit,
    /// Run tests.
    RunProcess,
    /// Add packages.
    Install,
    /// Send requests with the methods GET and HEAD to one host.
    Http(HostName),
    /// Send requests with other methods to one host.
    HttpWrite(HostName),
    /// Read the settings that the user has written for the skill.
    Config,
    /// Send a secret of the user, in one header to one host.
    Secret(SecretName),
    /// Keep values from call to call.
    Store,
}

impl Effect {
    /// Effects without an argument, in the order of the contract.
    pub const PLAIN: [Self; 8] = [
        Self::ReadRepository,
        Self::WriteRepository,
        Self::ReadGit,
        Self::CommitGit,
        Self::RunProcess,
        Self::Install,
        Self::Config,
        Self::Store,
    ];

    /// The forms of all effects, for messages.
    pub const FORMS: &str = "read-repository, write-repository, read-git, commit-git, run-process, install, http:HOST, \
                             http-write:HOST, config, secret:NAME, store";

    /// The name in `wit/skill.wit` and on the command line, without its argument.
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadRepository => "read-repository",
            Self::WriteRepository => "write-repository",
            Self::ReadGit => "read-git",
            Self::CommitGit => "commit-git",
            Self::RunProcess => "run-process",
            Self::Install => "install",
            Self::Http(_) => "http",
            Self::HttpWrite(_) => "http-write",
            Self::Config => "config",
            Self::Secret(_) => "secret",
            Self::Store => "store",
        }
    }

    fn argument(&self) -> Option<&str> {
        match self {
            Self::Http(host) | Self::HttpWrite(host) => Some(host.as_str()),
            Self::Secret(name) => Some(name.as_str()),
            _ => None,
        }
    }

    /// Effects in one line, separated by commas.
    pub fn join_names(effects: &[Self]) -> String {
        effects.iter().map(Self::to_string).collect::<Vec<_>>().join(", ")
    }

    /// True for every effect except reading.
    pub fn changes_something(self) -> bool {
        matches!(
            self,
            Self::WriteRepository | Self::CommitGit | Self::RunProcess | Self::Install | Self::HttpWrite(_)
        )
    }

    /// True for an effect that lasts or reaches beyond the repository's files. In a tainted conversation it needs
    /// separate consent.
    pub fn reaches_further(self) -> bool {
        matches!(self, Self::CommitGit | Self::Install | Self::HttpWrite(_))
    }

    /// True for an effect that reaches other machines.
    pub fn reaches_network(self) -> bool {
        matches!(self, Self::Install | Self::Http(_) | Self::HttpWrite(_))
    }

    fn parse(text: &str, takes_any_host: bool) -> Option<Self> {
        let host = |text: &str| match text {
            ANY_HOST if takes_any_host => Some(HostName::any_host()),
            text => text.parse().ok(),
        };
        match text.split_once(':') {
            Some(("http", of)) => Some(Self::Http(host(of)?)),
            Some(("http-write", of)) => Some(Self::HttpWrite(host(of)?)),
            Some(("secret", name)) => Some(Self::Secret(name.parse().ok()?)),
            _ => Self::PLAIN.into_iter().find(|effect| effect.name() == text),
        }
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())?;
        match self.argument() {
            Some(argument) => write!(formatter, ":{argument}"),
            None => Ok(()),
        }
    }
}

impl FromStr for Effect {
    type Err = Problem;

    fn from_str(text: &str) -> Result<Self, Problem> {
        Self::parse(text, false).ok_or_else(|| {
            Problem::new(ErrorKind::InvalidPolicy, format!("Unknown effect `{text}`"))
                .with_hint(format!("effects are {}", Self::FORMS))
        })
    }
}

impl Serialize for Effect {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Effect {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse()
            .map_err(|problem: Problem| serde::de::Error::custom(problem.message))
    }
}

impl utoipa::PartialSchema for Effect {
    fn schema() -> RefOr<Schema> {
        let plain = Self::PLAIN.map(Self::name).join("|");
        let pattern = format!("{plain}|http:{HOST_PATTERN}|http-write:{HOST_PATTERN}|secret:{SECRET_PATTERN}");
        text_schema("Something that a skill may cause.", &pattern)
    }
}

impl utoipa::ToSchema for Effect {
    fn name() -> Cow<'static, str> {
        "Effect".into()
    }
}

/// Pattern of hosts in a schema. Every match is a host, but [`HostName`] also accepts longer ones.
const HOST_PATTERN: &str =
    r"[a-z0-9]([a-z0-9-]{0,29}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,29}[a-z0-9])?){0,5}(:([1-9][0-9]{3}|[1-5][0-9]{4}))?";

/// Names of secrets in a schema.
const SECRET_PATTERN: &str = "[a-z][a-z0-9_-]{0,63}";

fn text_schema(description: &str, pattern: &str) -> RefOr<Schema> {
    ObjectBuilder::new()
        .schema_type(Type::String)
        .pattern(Some(format!("^({pattern})$")))
        .description(Some(description))
        .into()
}

/// A host in an effect: a lower-case name or an IPv4 address, with a port unless it is that of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostName(ArrayString<HOST_BYTES_MAX>);

impl HostName {
    fn any_host() -> Self {
        Self(ArrayString::from(ANY_HOST).expect("one byte fits"))
    }

    fn is_any(&self) -> bool {
        self.as_str() == ANY_HOST
    }

    /// The host and its port, as they are written.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// The text is not a valid host, or not a valid name of a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentError {
    /// It is not a host.
    #[error("a host is a lower-case name or an IPv4 address, with `:PORT` where the port is not 443")]
    Host,
    /// It is no name of a secret.
    #[error(
        "the name of a secret has lower-case letters, digits, `_` and `-`, begins with a letter, and has at most 64 bytes"
    )]
    SecretName,
}

impl FromStr for HostName {
    type Err = ArgumentError;

    fn from_str(text: &str) -> Result<Self, ArgumentError> {
        let (name, port) = match text.split_once(':') {
            Some((name, port)) => (name, Some(port)),
            None => (text, None),
        };
        let is_label = |label: &str| {
            let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
            !label.is_empty() && !label.starts_with('-') && !label.ends_with('-') && label.bytes().all(is_letter)
        };
        // Each host has one form: no leading zeros, and no default port.
        let is_port = |port: &str| {
            port.parse::<u16>()
                .is_ok_and(|number| number != 443 && number.to_string() == port)
        };
        if name.split('.').all(is_label) && port.is_none_or(is_port) {
            ArrayString::from(text).map(Self).map_err(|_| ArgumentError::Host)
        } else {
            Err(ArgumentError::Host)
        }
    }
}

impl<'de> Deserialize<'de> for HostName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Name of a secret of the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SecretName(ArrayString<SECRET_NAME_BYTES_MAX>);

impl SecretName {
    /// The name.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl fmt::Display for SecretName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl FromStr for SecretName {
    type Err = ArgumentError;

    fn from_str(text: &str) -> Result<Self, ArgumentError> {
        let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-');
        if text.starts_with(|first: char| first.is_ascii_lowercase()) && text.bytes().all(is_letter) {
            ArrayString::from(text).map(Self).map_err(|_| ArgumentError::SecretName)
        } else {
            Err(ArgumentError::SecretName)
        }
    }
}

impl<'de> Deserialize<'de> for SecretName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// Value of `allow` and `deny`: an effect, or an effect after untrusted text has entered the conversation. A grant may
/// name every host, as in `http:*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Grant {
    effect: Effect,
    is_tainted: bool,
}

impl Grant {
    /// The granted effect.
    pub fn effect(self) -> Effect {
        self.effect
    }

    /// True if it is about tainted conversations only.
    pub fn is_tainted(self) -> bool {
        self.is_tainted
    }

    /// True if it names the effect, or every host of its kind.
    pub fn names(self, effect: Effect) -> bool {
        match (self.effect, effect) {
            (Effect::Http(of), Effect::Http(_)) | (Effect::HttpWrite(of), Effect::HttpWrite(_)) if of.is_any() => true,
            (named, effect) => named == effect,
        }
    }

    /// True if it applies to an effect in a conversation, tainted or not.
    pub fn covers(self, effect: Effect, is_tainted: bool) -> bool {
        self.names(effect) && (is_tainted || !self.is_tainted)
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.effect.fmt(formatter)?;
        formatter.write_str(if self.is_tainted { TAINTED } else { "" })
    }
}

const TAINTED: &str = ":tainted";

impl FromStr for Grant {
    type Err = Problem;

    fn from_str(text: &str) -> Result<Self, Problem> {
        let (name, is_tainted) = match text.strip_suffix(TAINTED) {
            Some(name) => (name, true),
            None => (text, false),
        };
        let effect = Effect::parse(name, true).filter(|effect| !is_tainted || effect.reaches_further());
        effect.map(|effect| Self { effect, is_tainted }).ok_or_else(|| {
            let mut hint = format!(
                "effects are {}; commit-git:tainted, install:tainted and http-write:HOST:tainted go further",
                Effect::FORMS
            );
            let known = Effect::PLAIN.map(Effect::name).into_iter();
            if let Some(near) = nearest_name(text, known.chain(["commit-git:tainted", "install:tainted"])) {
                hint = format!("did you mean `{near}`? {hint}");
            }
            Problem::new(ErrorKind::InvalidPolicy, format!("Unknown effect `{text}`")).with_hint(hint)
        })
    }
}

impl Serialize for Grant {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Grant {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse()
            .map_err(|problem: Problem| serde::de::Error::custom(problem.message))
    }
}

impl utoipa::PartialSchema for Grant {
    fn schema() -> RefOr<Schema> {
        let plain = Effect::PLAIN.map(Effect::name).join("|");
        let host = format!("({HOST_PATTERN}|\\*)");
        let tainted = format!("(commit-git|install|http-write:{host}){TAINTED}");
        let pattern = format!("{plain}|http:{host}|http-write:{host}|secret:{SECRET_PATTERN}|{tainted}");
        let description =
            "An effect, or an effect after untrusted text has entered the conversation; `*` is every host.";
        text_schema(description, &pattern)
    }
}

/// Schema of an effect that a client is asked about: one that changes something.
pub(super) struct AskedEffect;

impl utoipa::PartialSchema for AskedEffect {
    fn schema() -> RefOr<Schema> {
        let plain = Effect::PLAIN.into_iter().filter(|effect| effect.changes_something());
        let plain: Vec<&str> = plain.map(Effect::name).collect();
        let host = format!("({HOST_PATTERN}|\\*)");
        let pattern = format!("({}|http-write:{host})", plain.join("|"));
        text_schema("An effect that changes something; `*` is every host.", &pattern)
    }
}

impl utoipa::ToSchema for AskedEffect {}

impl utoipa::ToSchema for Grant {
    fn name() -> Cow<'static, str> {
        "Grant".into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_effect_is_written_as_it_was_read() {
        for text in [
            "read-repository",
            "install",
            "config",
            "store",
            "http:api.example.org",
            "http:localhost",
            "http-write:10.0.0.1:8080",
            "secret:tickets_token",
        ] {
            let effect: Effect = text.parse().expect("it is one");
            assert_eq!(effect.to_string(), text);
            let written = serde_json::to_string(&effect).expect("it is text");
            assert_eq!(serde_json::from_str::<Effect>(&written).expect("it is one"), effect);
        }
    }

    #[test]
    fn an_argument_has_one_form() {
        let long = format!("http:{}", "a".repeat(HOST_BYTES_MAX + 1));
        let longer = format!("secret:{}", "a".repeat(SECRET_NAME_BYTES_MAX + 1));
        for text in [
            "http",
            "http:",
            "http:*",
            "http:API.example.org",
            "http:api..example.org",
            "http:api.example.org.",
            "http:-a",
            "http:a_b",
            "http:a/b",
            "http:user@a",
            "http:a:443",
            "http:a:080",
            "http:a:65536",
            "http:a:1:2",
            "http:[::1]",
            "http:b\u{fc}cher.de",
            "secret",
            "secret:",
            "secret:Token",
            "secret:1",
            "config:x",
            "store:x",
            &long,
            &longer,
        ] {
            assert!(text.parse::<Effect>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_grant_names_one_host_or_every_host_of_its_kind() {
        let grant = |text: &str| text.parse::<Grant>().expect("it is one");
        let effect = |text: &str| text.parse::<Effect>().expect("it is one");
        let read = effect("http:a.org");
        assert!(grant("http:a.org").covers(read, false));
        assert!(grant("http:*").covers(read, true));
        for other in [
            "http:b.org",
            "http-write:a.org",
            "http-write:*",
            "http:a.org:8443",
            "config",
        ] {
            assert!(!grant(other).names(read), "{other}");
        }
        let tainted = grant("http-write:a.org:8443:tainted");
        assert_eq!(tainted.to_string(), "http-write:a.org:8443:tainted");
        let write = effect("http-write:a.org:8443");
        assert!(tainted.covers(write, true) && !tainted.covers(write, false));
        for none in ["http:a.org:tainted", "store:tainted", "http-write:tainted", "secret:*"] {
            assert!(none.parse::<Grant>().is_err(), "{none}");
        }
    }
}
