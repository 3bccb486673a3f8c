//! The JSON of a script where it has a short form: a bare status or a bare wait.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde::{Deserialize as DeriveDeserialize, Serialize};
use serde_json::Value;

use super::ScriptedStatus;

/// The forms in which servers say when to retry. In JSON, a number means `seconds` and a text `header`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RetryAfter {
    /// `Retry-After` with a number, which may have a fraction.
    Seconds(f64),
    /// `Retry-After-Ms`.
    Ms(u64),
    /// `Retry-After` with a date so many seconds after the answer.
    DateIn(u64),
    /// In the body of the wire's own error object: `error.metadata.retry_after_seconds`, or a `RetryInfo`.
    Body(f64),
    /// `Retry-After` with this text.
    Header(String),
}

/// `retry_after` in its long form, a map in the file.
#[derive(DeriveDeserialize)]
#[serde(rename = "RetryAfter", rename_all = "snake_case")]
enum LongRetryAfter {
    Seconds(f64),
    Ms(u64),
    DateIn(u64),
    Body(f64),
    Header(String),
}

#[derive(DeriveDeserialize)]
#[serde(deny_unknown_fields)]
struct LongStatus {
    code: u16,
    retry_after: Option<RetryAfter>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    message: Option<String>,
    #[serde(default)]
    body: Value,
}

impl<'de> Deserialize<'de> for RetryAfter {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RetryAfterVisitor)
    }
}

impl<'de> Deserialize<'de> for ScriptedStatus {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StatusVisitor)
    }
}

struct RetryAfterVisitor;

impl<'de> Visitor<'de> for RetryAfterVisitor {
    type Value = RetryAfter;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("seconds, a header's text, or one of `seconds`, `ms`, `date_in`, `body`, `header`")
    }

    fn visit_u64<E: Error>(self, seconds: u64) -> Result<RetryAfter, E> {
        u32::try_from(seconds)
            .map(|seconds| RetryAfter::Seconds(seconds.into()))
            .map_err(E::custom)
    }

    fn visit_f64<E: Error>(self, seconds: f64) -> Result<RetryAfter, E> {
        Ok(RetryAfter::Seconds(seconds))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<RetryAfter, E> {
        Ok(RetryAfter::Header(text.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RetryAfter, A::Error> {
        let long = LongRetryAfter::deserialize(MapAccessDeserializer::new(map))?;
        Ok(match long {
            LongRetryAfter::Seconds(seconds) => RetryAfter::Seconds(seconds),
            LongRetryAfter::Ms(milliseconds) => RetryAfter::Ms(milliseconds),
            LongRetryAfter::DateIn(seconds) => RetryAfter::DateIn(seconds),
            LongRetryAfter::Body(seconds) => RetryAfter::Body(seconds),
            LongRetryAfter::Header(text) => RetryAfter::Header(text),
        })
    }
}

struct StatusVisitor;

impl<'de> Visitor<'de> for StatusVisitor {
    type Value = ScriptedStatus;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a status, or an object with `code`")
    }

    fn visit_u64<E: Error>(self, code: u64) -> Result<ScriptedStatus, E> {
        let code = u16::try_from(code).map_err(E::custom)?;
        Ok(ScriptedStatus::new(code, Value::Null))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ScriptedStatus, A::Error> {
        let long = LongStatus::deserialize(MapAccessDeserializer::new(map))?;
        Ok(ScriptedStatus {
            code: long.code,
            retry_after: long.retry_after,
            headers: long.headers,
            message: long.message,
            body: long.body,
        })
    }
}
