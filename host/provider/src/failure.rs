//! Failures of a provider, and the one sentence that the user reads about each.
//!
//! Classification uses status and wording together, because servers disagree about both. A [`ProviderFailure`] may hold a
//! provider's own words; only [`ProviderFailure::problem`] shows them, and it removes the key that we sent.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use serde_json::Value;

use super::classify::classify_failure;
pub(super) use super::classify::{FailureClass, is_template_complaint};
use super::redact::scrub_text;
use super::retry_after;
use tool_config::{ProviderApi, ProviderSettings};
use tool_core::api::ProviderName;
use tool_core::api::{ErrorKind, Problem};

/// Longest quotation of a provider's own words in a message of ours: one line of a terminal or two.
pub(crate) const PROVIDER_QUOTE_CHARS_MAX: usize = 240;

/// Tool calls of one answer. A model asks for some dozens at most, and each piece of a stream is compared with all calls so
/// far.
pub(crate) const PROVIDER_CALLS_MAX: usize = 256;

/// Levels of objects, and of JSON within strings, that are unfolded in an upstream's error. Routers nest three errors,
/// each some four levels deep.
const ERROR_NESTING_MAX: usize = 16;

/// A failed request, before it is worded for the user.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ProviderFailure {
    pub(super) class: FailureClass,
    /// Status of the HTTP answer, or the one that an error within a stream names.
    pub(super) status: Option<u16>,
    /// One line: the provider's own words, or ours if it sent none.
    pub(super) said: String,
    /// How long the provider asks us to wait.
    pub(super) retry_after: Option<Duration>,
    /// Context size in tokens, if the provider names it.
    pub(super) context_tokens: Option<u64>,
    /// The option that the provider refuses.
    pub(super) refused_option: Option<RefusedOption>,
}

/// An option of requests that not every model takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RefusedOption {
    Temperature,
    Reasoning,
}

impl ProviderFailure {
    /// A failure that does not come from an answer.
    pub(super) fn new(class: FailureClass, said: impl Into<String>) -> Self {
        Self {
            class,
            status: None,
            said: said.into(),
            retry_after: None,
            context_tokens: None,
            refused_option: None,
        }
    }

    /// A failure from an HTTP answer without success.
    pub(super) fn from_answer(status: u16, body: &str, retry_after: Option<Duration>) -> Self {
        let failure = match serde_json::from_str::<Value>(body) {
            Ok(value) => Self::from_value(Some(status), &value),
            Err(_) => Self::from_text(status, body),
        };
        Self {
            retry_after: failure.retry_after.or(retry_after),
            ..failure
        }
    }

    /// A failure from the JSON of an error, in a body or within a stream.
    pub(super) fn from_value(status: Option<u16>, value: &Value) -> Self {
        let mut texts = Vec::new();
        collect_texts(value, ERROR_NESTING_MAX, &mut texts);
        let wording = texts.join("\n").to_lowercase();
        // A gateway may answer 200 and put the status of its upstream into the error.
        let status = status
            .filter(|status| *status >= 400)
            .or_else(|| status_of(value, ERROR_NESTING_MAX))
            .or(status_by_type(&wording));
        Self {
            class: classify_failure(status, &wording),
            status,
            said: one_line(&innermost_message(value, ERROR_NESTING_MAX).unwrap_or_else(|| "no reason given".into())),
            retry_after: retry_after_of(value),
            context_tokens: context_tokens_of(value, &wording),
            refused_option: refused_option(status, &wording),
        }
    }

    fn from_text(status: u16, body: &str) -> Self {
        let wording = body.to_lowercase();
        let said = if body.trim().is_empty() {
            "an empty answer".to_owned()
        } else {
            describe_body(body)
        };
        let class = match classify_failure(Some(status), &wording) {
            // A model server words its refusals as JSON; a bare 404 or 405 comes from another kind of server.
            FailureClass::Rejected | FailureClass::Server if matches!(status, 404 | 405 | 501) => {
                FailureClass::NotAServer
            }
            class => class,
        };
        Self {
            status: Some(status),
            context_tokens: context_tokens_of(&Value::Null, &wording),
            refused_option: refused_option(Some(status), &wording),
            ..Self::new(class, said)
        }
    }

    /// From text where an event of a stream should be: a server that could not go on, and says so in words.
    pub(super) fn from_stream_text(text: &str) -> Self {
        let class = match classify_failure(None, &text.to_lowercase()) {
            FailureClass::Rejected => FailureClass::Protocol,
            class => class,
        };
        let said = match class {
            FailureClass::Protocol => format!("an event is not JSON: {}", one_line(text)),
            _ => one_line(text),
        };
        Self::new(class, said)
    }

    /// A failure from a whole body that is neither a stream nor a JSON object, although its status is a success.
    pub(super) fn not_a_stream(status: u16, text: &str) -> Self {
        let class = match classify_failure(None, &text.to_lowercase()) {
            class @ (FailureClass::Template | FailureClass::NoTools | FailureClass::Overflow)
                if html_title(text).is_none() =>
            {
                class
            }
            _ => FailureClass::NotAServer,
        };
        Self {
            status: Some(status),
            ..Self::new(class, describe_body(text))
        }
    }

    /// An answer holds too many tool calls.
    pub(super) fn too_many_calls() -> Self {
        Self::new(
            FailureClass::Protocol,
            format!("it holds more than {PROVIDER_CALLS_MAX} tool calls"),
        )
    }

    /// True where the server refuses what went back to it with earlier answers: thinking, its signatures or its encrypted
    /// form. Refused options have words in common with this.
    pub(super) fn is_about_history(&self) -> bool {
        let said = self.said.to_lowercase();
        let names = |words: &[&str]| words.iter().any(|word| said.contains(word));
        self.class == FailureClass::Rejected
            && matches!(self.status, Some(400 | 404 | 422))
            && self.refused_option.is_none()
            && names(&["thinking", "thought", "signature", "reasoning", "encrypted content"])
    }

    /// True if the same request may succeed a little later, provided that no answer has begun.
    pub(super) fn is_retryable(&self) -> bool {
        match self.class {
            // Some servers word a rate limit as 413, but a real 413 cannot be waited out: the request stays as large.
            FailureClass::RateLimit => self.status.is_none_or(|status| matches!(status, 429 | 500..)),
            // The model is sampled anew, and usually writes a valid call.
            FailureClass::Server | FailureClass::Broken | FailureClass::Unreachable | FailureClass::MalformedCall => {
                true
            }
            _ => false,
        }
    }

    /// The sentence for the user. `estimate` is our own count of the request's tokens.
    pub(super) fn problem(&self, settings: &ProviderSettings, estimate: u64) -> Problem {
        let (code, message, hint) = self.words(settings, estimate);
        let scrub = |text: String| scrub_text(&text, settings);
        Problem::new(code, scrub(message)).with_hint(scrub(hint))
    }

    /// True if a local server is still loading the model.
    pub(super) fn is_loading(&self) -> bool {
        self.status == Some(503) && self.said.to_lowercase().contains("loading model")
    }

    /// The reason for trying again, as half a sentence.
    pub(super) fn reason(&self, settings: &ProviderSettings) -> String {
        let reason = match (self.class, self.status) {
            (FailureClass::RateLimit, _) => self.rate_limit(),
            (FailureClass::MalformedCall, _) => "The provider could not read the model's tool call".to_owned(),
            (_, Some(status)) => format!("The provider answered {}", status_line(status)),
            (FailureClass::Broken, None) => "The connection broke off".to_owned(),
            _ => format!("The connection failed ({})", self.said),
        };
        scrub_text(&reason, settings)
    }

    fn rate_limit(&self) -> String {
        format!("Rate limit exceeded: {}", status_line(self.status.unwrap_or(429)))
    }

    fn words(&self, settings: &ProviderSettings, estimate: u64) -> (ErrorKind, String, String) {
        let said = &self.said;
        let quoted = format!("the provider says: {said}");
        let (model, url, peer) = (
            &settings.model,
            without_credentials(&settings.url),
            url_peer(&settings.url),
        );
        match self.class {
            FailureClass::Authentication => (
                ErrorKind::AuthenticationFailed,
                "Authentication failed: Invalid API key".to_owned(),
                format!("{}; the provider says: {}", key_advice(settings), without_keys(said)),
            ),
            FailureClass::Forbidden => (
                ErrorKind::ProviderRejected,
                format!("The provider refused access: {}", self.what_came()),
                format!(
                    "your key may be right: check what your account may use at {peer}, its region, and the provider's rules"
                ),
            ),
            FailureClass::Payment => (
                ErrorKind::ProviderCredits,
                "The provider's credits or quota are used up".to_owned(),
                format!("check the plan and billing of the account; {quoted}"),
            ),
            FailureClass::RateLimit => (
                ErrorKind::RateLimited,
                self.rate_limit(),
                match self.time_to_come_back(Utc::now()) {
                    Some(time) => format!("{time}; {quoted}"),
                    None => format!("wait 60 seconds or change the plan; {quoted}"),
                },
            ),
            FailureClass::Overflow => (
                ErrorKind::ContextLengthExceeded,
                match self.context_tokens {
                    Some(tokens) => format!("Context length exceeded: {tokens} tokens"),
                    None => format!("Context length exceeded: about {estimate} tokens were sent"),
                },
                self.overflow_hint(settings),
            ),
            FailureClass::UnknownModel => (
                ErrorKind::ModelNotFound,
                format!("Model not found: {model}"),
                format!("set `model` to an identifier that {peer} offers (`tool init`, or `--model`); {quoted}"),
            ),
            FailureClass::WrongEndpoint => (
                ErrorKind::ProviderRejected,
                format!(
                    "The model `{model}` does not work with `api = \"{}\"`: {said}",
                    settings.api.name()
                ),
                match settings.api {
                    ProviderApi::Chat => {
                        "use a model for chats, or set `api = \"responses\"` in [providers.hosted] of config.toml \
                         (`tool init --provider hosted --api responses --model MODEL`)"
                    }
                    _ => "use another model, or another `api` in [providers.hosted] of config.toml",
                }
                .to_owned(),
            ),
            FailureClass::MalformedCall => (
                ErrorKind::ProviderRejected,
                format!(
                    "The provider could not read the model's tool call: {}",
                    self.what_came()
                ),
                "run the operation again, or choose another model".to_owned(),
            ),
            FailureClass::NoTools => (
                ErrorKind::ToolsUnsupported,
                format!("The model `{model}` cannot call tools here: {said}"),
                "choose a model with tool support; a llama.cpp server needs `--jinja`, a vLLM server \
                 `--enable-auto-tool-choice --tool-call-parser NAME`"
                    .to_owned(),
            ),
            FailureClass::Template => (
                ErrorKind::ToolsUnsupported,
                format!("The model's chat template failed: {said}"),
                "load a model whose template knows tools, or start the server with another template \
                 (llama.cpp: `--jinja --chat-template-file FILE`)"
                    .to_owned(),
            ),
            FailureClass::NotAServer => (
                ErrorKind::NotAModelServer,
                format!("No model server at {url}: it answered {}", self.what_came()),
                match (self.status, settings.name) {
                    // Some servers know no other answer to a model that they do not have.
                    (Some(404), ProviderName::Local | ProviderName::Router) => {
                        "check `url` and `model`: the path that is appended to `url` must exist there (most end in \
                         `/v1`), and the server must have the model"
                    }
                    _ => "check `url`: the path that is appended to it must exist there (most end in `/v1`)",
                }
                .to_owned(),
            ),
            FailureClass::Redirect => (
                ErrorKind::NotAModelServer,
                format!("The provider at {url} redirects elsewhere: {said}"),
                "set `url` to the final address; a redirect is never followed, because it would carry the key along"
                    .to_owned(),
            ),
            FailureClass::Refused => (
                ErrorKind::ConnectionRefused,
                format!("Connection refused: {peer}"),
                match settings.name {
                    ProviderName::Local => "start the local model server, or set its `url` with `tool init`",
                    _ => "check the network and `url`",
                }
                .to_owned(),
            ),
            FailureClass::Unreachable => (
                ErrorKind::ProviderUnreachable,
                format!("Could not reach {peer}: {said}"),
                "check the network, the proxy settings and `url`".to_owned(),
            ),
            FailureClass::UnknownIssuer => (
                ErrorKind::ProviderUnreachable,
                format!("Could not reach {peer}: an authority that is not known here has signed its certificate"),
                format!(
                    "name the file with the certificate of that authority: `ca_file` in {} of config.toml, or the variable \
                     SSL_CERT_FILE for one call",
                    match &settings.vendor {
                        Some(vendor) => format!("[vendors.{vendor}]"),
                        None => format!("[providers.{}]", settings.name),
                    }
                ),
            ),
            FailureClass::OtherUser => (
                ErrorKind::ProviderOtherUser,
                format!("Nothing was sent: the server at {said}"),
                format!(
                    "start your own server there, or set its `url`; if you trust that user, set `trust_loopback_user` to \
                     that user's name or number in [providers.{}] of config.toml",
                    settings.name
                ),
            ),
            FailureClass::Timeout => (
                ErrorKind::ProviderTimeout,
                format!("The provider at {peer} stopped answering: {said}"),
                "a large model may need longer to load; try again, or use a smaller one".to_owned(),
            ),
            FailureClass::Broken | FailureClass::Protocol => (
                ErrorKind::ProviderStream,
                format!("The provider's answer is incomplete: {said}"),
                "run the operation again; no tool ran for the answer that broke off".to_owned(),
            ),
            FailureClass::Empty => (
                ErrorKind::ProviderEmptyAnswer,
                format!("The model server at {peer} sent an empty answer"),
                format!(
                    "about {estimate} tokens were sent, perhaps more than the context the model was loaded with: load \
                     it with a larger one, or target fewer or smaller files"
                ),
            ),
            FailureClass::Server => (
                ErrorKind::ProviderUnavailable,
                format!("The provider is not available: it answered {}", self.what_came()),
                match self.time_to_come_back(Utc::now()) {
                    Some(time) => time,
                    None => "try again in a few minutes".to_owned(),
                },
            ),
            FailureClass::Rejected => (
                ErrorKind::ProviderRejected,
                format!("The provider refused the request: {}", self.what_came()),
                self.rejected_hint(settings),
            ),
        }
    }

    fn rejected_hint(&self, settings: &ProviderSettings) -> String {
        let (name, options) = (settings.name.name(), &settings.options);
        match self.refused_option {
            Some(RefusedOption::Temperature) if options.temperature.is_some() => {
                format!("leave out `temperature` in [providers.{name}] of config.toml")
            }
            Some(RefusedOption::Reasoning) if options.reasoning.is_some() => {
                format!("leave out `reasoning_effort` and `thinking_budget` in [providers.{name}] of config.toml")
            }
            _ if self.is_about_history() => {
                "start a new conversation: `tool ask`, or the command of another operation".to_owned()
            }
            _ => format!("check `model` and `url` of the provider {name}"),
        }
    }

    /// Advice to come back at the time that the provider names, if that is later than we wait.
    fn time_to_come_back(&self, now: DateTime<Utc>) -> Option<String> {
        let wait = self.retry_after.filter(|wait| *wait > retry_after::longest_wait())?;
        let time = now + TimeDelta::from_std(wait).ok()?;
        Some(format!(
            "try again at {}, in {}: the provider asks for this wait",
            time.format("%Y-%m-%d %H:%M UTC"),
            round_wait(wait)
        ))
    }

    fn overflow_hint(&self, settings: &ProviderSettings) -> String {
        let local = match settings.name {
            ProviderName::Local => ", or load the model with a larger context",
            _ => "",
        };
        format!("target fewer or smaller files{local}; the provider says: {}", self.said)
    }

    fn what_came(&self) -> String {
        match self.status {
            Some(status) => format!("{} ({})", status_line(status), self.said),
            None => self.said.clone(),
        }
    }
}

/// A long wait in words, never shorter than the real one.
fn round_wait(wait: Duration) -> String {
    let minutes = wait.as_secs().div_ceil(60);
    match minutes {
        0..=120 => format!("{minutes} minutes"),
        121..=2_880 => format!("{} hours", minutes.div_ceil(60)),
        _ => format!("{} days", minutes.div_ceil(24 * 60)),
    }
}

/// A status as text, such as `429 Too Many Requests`.
fn status_line(status: u16) -> String {
    let reason = match status {
        529 => Some("Overloaded"),
        _ => axum::http::StatusCode::from_u16(status)
            .ok()
            .and_then(|status| status.canonical_reason()),
    };
    match reason {
        Some(reason) => format!("{status} {reason}"),
        None => status.to_string(),
    }
}

/// The option that a refusal names. What it says about the thinking of earlier answers is about the conversation.
fn refused_option(status: Option<u16>, wording: &str) -> Option<RefusedOption> {
    let names = |words: &[&str]| words.iter().any(|word| wording.contains(word));
    if !matches!(status, Some(400 | 422)) {
        return None;
    }
    let is_about_history = names(&[
        "signature",
        "reasoning_content",
        "reasoning item",
        "'reasoning'",
        "encrypted",
        "thinking block",
        "`thinking`",
    ]);
    let is_about_reasoning = names(&[
        "effort",
        "thinking_budget",
        "thinkingbudget",
        "thinking.type",
        "thinking mode",
        "thinking_level",
        "thinkinglevel",
        "thinking_config",
        "does not support thinking",
        "does not support reasoning",
    ]);
    // Only the name of a field counts, not words of the request that the server repeats.
    let is_about_temperature = wording.lines().any(|line| line.trim() == "temperature")
        || names(&[
            "`temperature`",
            "'temperature'",
            "\"temperature\"",
            "temperature is ",
            "temperature: ",
            "temperature must ",
            "temperature does ",
        ]);
    if is_about_temperature {
        Some(RefusedOption::Temperature)
    } else if is_about_reasoning && !is_about_history {
        Some(RefusedOption::Reasoning)
    } else {
        None
    }
}

/// A text that may itself be JSON, perhaps after some words of introduction.
fn find_json(text: &str) -> Option<Value> {
    let start = text.find(['{', '['])?;
    let value = serde_json::Deserializer::from_str(&text[start..])
        .into_iter::<Value>()
        .next()?
        .ok()?;
    (value.is_object() || value.is_array()).then_some(value)
}

fn collect_texts(value: &Value, depth: usize, texts: &mut Vec<String>) {
    if depth == 0 {
        return;
    }
    match value {
        Value::String(text) => {
            if let Some(inner) = find_json(text) {
                collect_texts(&inner, depth - 1, texts);
            }
            texts.push(text.clone());
        }
        Value::Array(items) => items.iter().for_each(|item| collect_texts(item, depth - 1, texts)),
        Value::Object(fields) => fields.values().for_each(|item| collect_texts(item, depth - 1, texts)),
        _ => {}
    }
}

/// The innermost message of nested errors, which comes from the server that knew the reason.
fn innermost_message(value: &Value, depth: usize) -> Option<String> {
    if depth == 0 {
        return None;
    }
    match value {
        Value::String(text) => find_json(text)
            .and_then(|inner| innermost_message(&inner, depth - 1))
            .or_else(|| (!text.trim().is_empty()).then(|| text.clone())),
        Value::Array(items) => items.iter().find_map(|item| innermost_message(item, depth - 1)),
        Value::Object(fields) => [
            "metadata", "raw", "error", "errors", "message", "detail", "msg", "title",
        ]
        .iter()
        .filter_map(|key| fields.get(*key))
        .find_map(|inner| innermost_message(inner, depth - 1)),
        _ => None,
    }
}

/// `code` or `status` of an error, as a number or its digits.
fn status_of(value: &Value, depth: usize) -> Option<u16> {
    if depth == 0 {
        return None;
    }
    let fields = match value {
        Value::Array(items) => items.first()?.as_object()?,
        value => value.as_object()?,
    };
    let own = ["code", "status", "status_code"]
        .iter()
        .find_map(|key| match fields.get(*key)? {
            Value::Number(number) => number.as_u64().and_then(|number| u16::try_from(number).ok()),
            Value::String(text) => text.parse().ok(),
            _ => None,
        });
    own.filter(|status| (400..600).contains(status))
        .or_else(|| fields.get("error").and_then(|error| status_of(error, depth - 1)))
}

/// The status that a named type of error means, for streams that give no number.
fn status_by_type(wording: &str) -> Option<u16> {
    const TYPES: [(&str, u16); 12] = [
        ("overloaded_error", 529),
        ("rate_limit_error", 429),
        ("authentication_error", 401),
        ("permission_error", 403),
        ("billing_error", 402),
        ("not_found_error", 404),
        ("timeout_error", 408),
        ("invalid_request_error", 400),
        ("request_too_large", 413),
        ("api_error", 500),
        ("server_error", 500),
        ("overloaded", 529),
    ];
    TYPES
        .iter()
        .find(|(name, _)| wording.contains(name))
        .map(|(_, status)| *status)
}

/// Wait that an error asks for: a router in `metadata`, another vendor among `details`, as `"34.5s"`.
fn retry_after_of(value: &Value) -> Option<Duration> {
    let value = value.get(0).unwrap_or(value);
    let error = value.get("error").unwrap_or(value);
    let metadata = error
        .get("metadata")
        .and_then(|metadata| metadata.get("retry_after_seconds"));
    let mut details = error.get("details").and_then(Value::as_array).into_iter().flatten();
    let seconds = metadata.or_else(|| details.find_map(|detail| detail.get("retryDelay")))?;
    let seconds = seconds.as_f64().or_else(|| {
        let text = seconds.as_str()?.trim();
        text.strip_suffix('s').unwrap_or(text).parse().ok()
    })?;
    Some(retry_after::bound_wait(seconds))
}

/// The size of the context: a field of its own, or the number that the sentence names as the maximum.
fn context_tokens_of(value: &Value, wording: &str) -> Option<u64> {
    let field = ["/error/n_ctx", "/n_ctx", "/error/context_length"]
        .iter()
        .find_map(|pointer| value.pointer(pointer)?.as_u64());
    field.or_else(|| {
        const AFTER: [&str; 7] = [
            "context length is ",
            "context length of ",
            "context length of only ",
            "context size (",
            "context window of ",
            "number of tokens allowed (",
            "> ",
        ];
        AFTER.iter().find_map(|lead| {
            let rest = &wording[wording.find(lead)? + lead.len()..];
            let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            rest[..digits].parse().ok()
        })
    })
}

/// The failure for a page or a text in place of a stream.
fn describe_body(body: &str) -> String {
    match html_title(body) {
        Some(title) => format!("an HTML page, \"{title}\""),
        None => one_line(body),
    }
}

/// The title of an HTML page; `None` for other text.
fn html_title(body: &str) -> Option<String> {
    let start = body.trim_start().get(..256).unwrap_or(body.trim_start()).to_lowercase();
    if !(start.starts_with("<!doctype html") || start.starts_with("<html") || start.contains("<html")) {
        return None;
    }
    // ASCII lower case keeps every byte at its offset.
    let lower = body.to_ascii_lowercase();
    let title = lower.find("<title>").and_then(|open| {
        let from = open + "<title>".len();
        let to = from + lower[from..].find("</title>")?;
        Some(one_line(&body[from..to]))
    });
    Some(title.unwrap_or_else(|| "untitled".to_owned()))
}

/// Makes a provider's words fit for a message: one line, without control characters, of bounded length.
pub(super) fn one_line(text: &str) -> String {
    let clean: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let words: Vec<&str> = clean.split_whitespace().collect();
    let line = words.join(" ");
    if line.chars().count() <= PROVIDER_QUOTE_CHARS_MAX {
        return line.trim_end_matches('.').to_owned();
    }
    let cut: String = line.chars().take(PROVIDER_QUOTE_CHARS_MAX).collect();
    format!("{cut}…")
}

/// `host:port` of a base URL.
pub(super) fn url_peer(url: &str) -> String {
    let Ok(parsed) = reqwest::Url::parse(url) else {
        return without_credentials(url);
    };
    match (parsed.host_str(), parsed.port_or_known_default()) {
        (Some(host), Some(port)) => format!("{host}:{port}"),
        _ => without_credentials(url),
    }
}

/// A URL as it may be shown: without a user name and a password in it, and without a query.
pub(super) fn without_credentials(url: &str) -> String {
    let Ok(mut parsed) = reqwest::Url::parse(url) else {
        return "the configured `url`".to_owned();
    };
    // The setters fail only for URLs that cannot hold user and password.
    let _ = parsed.set_username("");
    let _ = parsed.set_password(None);
    parsed.set_query(None);
    parsed.as_str().trim_end_matches('/').to_owned()
}

/// Advice for a refused or missing key.
fn key_advice(settings: &ProviderSettings) -> String {
    let place = key_place(settings);
    match (settings.name, &settings.api_key) {
        // Most local servers want none, and this one was sent none.
        (ProviderName::Local, None) => format!("this server wants a key: set {place}"),
        _ => format!("run `tool init` again, or set {place}"),
    }
}

/// The words about a refused key, without anything that looks like a key: a server may repeat a part of ours, or name
/// another one.
fn without_keys(said: &str) -> String {
    const KEY_CHARS_MIN: usize = 16;
    let is_key = |word: &str| word.len() >= KEY_CHARS_MIN && word.bytes().any(|byte| byte.is_ascii_digit());
    let words = said.split(' ').map(|word| if is_key(word) { "***" } else { word });
    words.collect::<Vec<_>>().join(" ")
}

fn key_place(settings: &ProviderSettings) -> String {
    if settings.vendor.is_some() {
        return settings.key_places.clone();
    }
    let variable = match (settings.name, settings.api) {
        (ProviderName::Router, _) => "ROUTER_API_KEY",
        (ProviderName::Local, _) => return "`api_key` under `[providers.local]` in ~/.tool/config.toml".to_owned(),
        (ProviderName::Hosted, ProviderApi::Chat | ProviderApi::Responses) => "VENDOR_B_API_KEY",
        (ProviderName::Hosted, ProviderApi::GenerateContent) => "VENDOR_C_API_KEY",
        (ProviderName::Hosted, _) => "HOSTED_API_KEY",
    };
    format!("{variable} in the environment")
}

#[cfg(test)]
mod unit {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_key_that_a_server_repeats_is_not_shown() {
        let said = "Incorrect API key provided: sk-proj-****0123. Get one at https://platform.example/keys";
        let shown = "Incorrect API key provided: *** Get one at https://platform.example/keys";
        assert_eq!(without_keys(said), shown);
    }

    #[test]
    fn a_long_wait_is_told_as_a_time() {
        let now = DateTime::from_timestamp(1_800_000_000, 0).expect("a time");
        let failure = |seconds| ProviderFailure {
            retry_after: Some(Duration::from_secs(seconds)),
            ..ProviderFailure::new(FailureClass::RateLimit, "slow down")
        };
        assert_eq!(failure(60).time_to_come_back(now), None, "we wait that long");
        let said = |seconds| failure(seconds).time_to_come_back(now).expect("it is long");
        assert_eq!(
            said(3_600),
            "try again at 2027-01-15 09:00 UTC, in 60 minutes: the provider asks for this wait"
        );
        assert!(
            said(86_400).contains("2027-01-16 08:00 UTC, in 24 hours:"),
            "{}",
            said(86_400)
        );
        assert!(said(86_400 * 30).contains("in 30 days:"));
    }

    #[test]
    fn errors_within_errors_are_unfolded_up_to_a_bound() {
        let nested =
            |levels: usize| (0..levels).fold(json!({"message": "the innermost"}), |inner, _| json!({"error": inner}));
        assert_eq!(ProviderFailure::from_value(Some(400), &nested(3)).said, "the innermost");
        assert_ne!(
            ProviderFailure::from_value(Some(400), &nested(4 * ERROR_NESTING_MAX)).said,
            "the innermost"
        );
    }
}
