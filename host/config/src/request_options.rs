//! Options of every request to a provider: reasoning, temperature, bounds and extra headers.
//!
//! This module converts the file's values to types; each wire writes them in its format.

use std::collections::BTreeMap;
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use super::{Environment, Secret};

/// Request options that the user has set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestOptions {
    /// Amount of thinking before an answer.
    pub reasoning: Option<Reasoning>,
    /// Randomness of the answer.
    pub temperature: Option<Temperature>,
    /// Upper bound of the output tokens of one answer.
    pub max_output_tokens: Option<NonZeroU32>,
    /// Headers besides those of the wire. Their values are treated as keys.
    pub headers: Vec<ExtraHeader>,
}

impl RequestOptions {
    /// The lower of the user's bound and `other`, in tokens.
    pub fn output_bound(&self, other: Option<u32>) -> Option<u32> {
        let own = self.max_output_tokens.map(NonZeroU32::get);
        own.into_iter().chain(other).min()
    }

    /// The effort that the user has set, or the one nearest to the budget.
    pub fn effort(&self) -> Option<Effort> {
        self.reasoning.map(|reasoning| match reasoning {
            Reasoning::Effort(effort) => effort,
            Reasoning::Budget(tokens) => Effort::of_budget(tokens),
        })
    }
}

/// Amount of thinking.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reasoning {
    /// A level, which the model interprets.
    Effort(Effort),
    /// A number of tokens; 0 turns thinking off.
    Budget(u32),
}

/// A level of reasoning, by the names that the vendors use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effort {
    /// No reasoning.
    None,
    /// As little as the model can.
    Minimal,
    /// Little.
    Low,
    /// The default of most models.
    Medium,
    /// Much.
    High,
    /// More than high.
    Xhigh,
    /// As much as the model can.
    Max,
}

impl Effort {
    /// The level nearest to a budget, for wires without budgets.
    pub fn of_budget(tokens: u32) -> Self {
        match tokens {
            0 => Self::None,
            1..2_000 => Self::Low,
            2_000..8_000 => Self::Medium,
            8_000.. => Self::High,
        }
    }

    /// The name on every wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Minimal => "minimal",
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
            Self::Xhigh => "xhigh",
            Self::Max => "max",
        }
    }
}

/// A temperature from 0 to 2.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "f64")]
pub struct Temperature(f64);

/// The number is never NaN, so equality is total.
impl Eq for Temperature {}

impl Temperature {
    /// The number.
    pub fn value(self) -> f64 {
        self.0
    }
}

impl TryFrom<f64> for Temperature {
    type Error = &'static str;

    fn try_from(number: f64) -> Result<Self, Self::Error> {
        if (0.0..=2.0).contains(&number) {
            Ok(Self(number))
        } else {
            Err("a temperature lies between 0 and 2")
        }
    }
}

/// A header with its value in full.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExtraHeader {
    /// In lower case.
    pub name: String,
    /// The value, variables replaced.
    pub value: Secret,
}

/// Most extra headers of a provider. Gateways need one or two.
const HEADERS_MAX: usize = 16;

/// Headers that the transport itself sets.
const RESERVED: [&str; 10] = [
    "accept",
    "connection",
    "content-length",
    "content-type",
    "expect",
    "host",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Headers in which some servers expect their key.
const KEY_HEADERS: [&str; 4] = ["authorization", "x-api-key", "api-key", "x-goog-api-key"];

/// Reason why a header of the file cannot be sent. Contains no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum HeaderProblem {
    TooMany,
    Reserved(String),
    BadName(String),
    BadValue(String),
    Unset { header: String, variable: String },
}

/// True if one of the headers contains a key, so that no other key is needed.
pub(super) fn carries_key(headers: &BTreeMap<String, String>, key_header: Option<&str>) -> bool {
    headers.keys().any(|name| {
        let name = name.to_ascii_lowercase();
        KEY_HEADERS.contains(&name.as_str()) || key_header.is_some_and(|header| header.eq_ignore_ascii_case(&name))
    })
}

/// The headers with `${NAME}` replaced by the variable of that name.
pub(super) fn resolve_headers(
    headers: &BTreeMap<String, String>,
    environment: &Environment,
) -> Result<Vec<ExtraHeader>, HeaderProblem> {
    if headers.len() > HEADERS_MAX {
        return Err(HeaderProblem::TooMany);
    }
    headers
        .iter()
        .map(|(name, value)| resolve_header(name, value, environment))
        .collect()
}

fn resolve_header(name: &str, value: &str, environment: &Environment) -> Result<ExtraHeader, HeaderProblem> {
    let lower = name.to_ascii_lowercase();
    if RESERVED.contains(&lower.as_str()) {
        return Err(HeaderProblem::Reserved(name.to_owned()));
    }
    if !is_header_name(&lower) {
        return Err(HeaderProblem::BadName(name.to_owned()));
    }
    let mut text = String::new();
    for piece in split_pieces(value) {
        match piece {
            ValuePiece::Text(piece) => text.push_str(piece),
            ValuePiece::Variable(variable) => {
                text.push_str(environment.get(variable).ok_or_else(|| HeaderProblem::Unset {
                    header: name.to_owned(),
                    variable: variable.to_owned(),
                })?)
            }
        }
    }
    let is_sendable = |c: char| c == '\t' || (' '..='~').contains(&c);
    let text = text.trim();
    if text.is_empty() || !text.chars().all(is_sendable) {
        return Err(HeaderProblem::BadValue(name.to_owned()));
    }
    Ok(ExtraHeader {
        name: lower,
        value: Secret::new(text),
    })
}

/// The variables in the values of headers.
pub(super) fn header_variables(headers: &BTreeMap<String, String>) -> impl Iterator<Item = &str> {
    headers
        .values()
        .flat_map(|value| split_pieces(value))
        .filter_map(|piece| match piece {
            ValuePiece::Variable(name) => Some(name),
            ValuePiece::Text(_) => None,
        })
}

/// A piece of a value as written.
enum ValuePiece<'a> {
    Text(&'a str),
    Variable(&'a str),
}

/// Splits a value at every `${NAME}`. A dollar sign without a valid name in braces is literal.
fn split_pieces(value: &str) -> Vec<ValuePiece<'_>> {
    let mut pieces = Vec::new();
    let (mut rest, mut from) = (value, 0);
    while let Some(at) = rest[from..].find("${").map(|at| from + at) {
        let name = rest[at + 2..].split_once('}').map(|(name, _)| name);
        match name.filter(|name| is_variable_name(name)) {
            Some(name) => {
                pieces.push(ValuePiece::Text(&rest[..at]));
                pieces.push(ValuePiece::Variable(name));
                rest = &rest[at + name.len() + 3..];
                from = 0;
            }
            None => from = at + 2,
        }
    }
    pieces.push(ValuePiece::Text(rest));
    pieces
}

/// True for a name that a shell accepts for a variable.
fn is_variable_name(name: &str) -> bool {
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    begins && name.len() <= 100 && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// True for a name of a header, in lower case.
pub(super) fn is_header_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    !name.is_empty() && name.len() <= 100 && name.chars().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(name: &str, value: &str) -> Result<String, HeaderProblem> {
        let variables = [("TOKEN", "t0ken"), ("LINES", "a\nb")];
        let owned = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let environment = Environment::new(owned.into());
        let headers = BTreeMap::from([(name.to_owned(), value.to_owned())]);
        let resolved = resolve_headers(&headers, &environment)?;
        Ok(format!("{}: {}", resolved[0].name, resolved[0].value.expose()))
    }

    #[test]
    fn a_value_may_name_variables() {
        assert_eq!(resolved("X-Title", "tool").as_deref(), Ok("x-title: tool"));
        assert_eq!(
            resolved("Authorization", "Bearer ${TOKEN}").as_deref(),
            Ok("authorization: Bearer t0ken")
        );
        assert_eq!(resolved("x", "${TOKEN}-${TOKEN}").as_deref(), Ok("x: t0ken-t0ken"));
        for plain in ["$TOKEN", "${}", "${TOKEN", "${a b}", "a${"] {
            assert_eq!(resolved("x", plain), Ok(format!("x: {plain}")), "{plain}");
        }
        assert_eq!(resolved("x", "${a b}${TOKEN}").as_deref(), Ok("x: ${a b}t0ken"));
    }

    #[test]
    fn a_header_that_cannot_be_sent_is_named_without_its_value() {
        let unset = HeaderProblem::Unset {
            header: "x".into(),
            variable: "NONE".into(),
        };
        assert_eq!(resolved("x", "${NONE}"), Err(unset));
        assert_eq!(resolved("Host", "h"), Err(HeaderProblem::Reserved("Host".into())));
        assert_eq!(resolved("a b", "h"), Err(HeaderProblem::BadName("a b".into())));
        for value in ["", "é", "${LINES}"] {
            assert_eq!(resolved("x", value), Err(HeaderProblem::BadValue("x".into())));
        }
    }

    #[test]
    fn the_lower_bound_counts() {
        let mut options = RequestOptions::default();
        assert_eq!(options.output_bound(None), None);
        assert_eq!(options.output_bound(Some(7)), Some(7));
        options.max_output_tokens = NonZeroU32::new(5);
        assert_eq!(options.output_bound(Some(7)), Some(5));
        assert_eq!(options.output_bound(Some(3)), Some(3));
    }
}
