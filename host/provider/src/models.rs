//! The models that a provider offers, by its own list.

mod cache;

use std::time::Duration;

use reqwest::Method;
use serde::Serialize;
use serde_json::Value;

use super::failure::{Class, Failure};
use super::http::HttpProvider;
use super::{Options, over_http};
use tool_config::{Api, ProviderSettings};
use tool_core::api::Problem;

pub use cache::ModelCache;

/// Reading the model list: it is shown beside something else and must not make the user wait.
const PROVIDER_MODELS_SECONDS_MAX: u64 = 2;

/// Longest model list that is kept. The largest router lists some 500.
const PROVIDER_MODELS_MAX: usize = 2000;

/// Asks the provider for its models, for at most 2 seconds. Identifiers come in the provider's order, without
/// repetitions. The analyst offers itself.
pub async fn models(settings: &ProviderSettings) -> Result<Vec<String>, Problem> {
    models_with(settings, &Options::default()).await
}

/// Like [`models()`], by way of a proxy where the options name one.
pub async fn models_with(settings: &ProviderSettings, options: &Options) -> Result<Vec<String>, Problem> {
    if settings.api == Api::Analyst {
        return Ok(vec![settings.model.clone()]);
    }
    listed(&over_http(settings, options)?).await
}

/// A model as its provider's list describes it. What a list does not say is absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ListedModel {
    /// Its identifier.
    pub id: String,
    /// Tokens of its context.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_tokens: Option<u64>,
    /// Price of a million input tokens, in US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_price: Option<f64>,
    /// Price of a million output tokens, in US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_price: Option<f64>,
    /// Time when it appeared, in seconds since 1970.
    #[serde(skip)]
    created: Option<u64>,
}

/// Asks the provider for its models as [`models_with`] does, with what its list says about each. The newest come first
/// where the list says when they appeared; models that are by their names not for conversations are left out.
pub async fn describe_models(settings: &ProviderSettings, options: &Options) -> Result<Vec<ListedModel>, Problem> {
    if settings.api == Api::Analyst {
        let id = settings.model.clone();
        return Ok(vec![ListedModel {
            id,
            ..ListedModel::default()
        }]);
    }
    let mut models = described(&fetch_list(&over_http(settings, options)?).await?);
    models.retain(|model| !is_for_another_purpose(&model.id));
    models.sort_by_key(|model| std::cmp::Reverse(model.created));
    Ok(models)
}

/// Parts of the names of models that make no conversations; vendors list them among the others.
const OTHER_PURPOSES: [&str; 16] = [
    "embed",
    "tts",
    "whisper",
    "dall-e",
    "moderation",
    "transcribe",
    "realtime",
    "audio",
    "image",
    "rerank",
    "sora",
    "babbage",
    "davinci",
    "guard",
    "ocr",
    "lyria",
];

fn is_for_another_purpose(id: &str) -> bool {
    let id = id.to_ascii_lowercase();
    OTHER_PURPOSES.iter().any(|part| id.contains(part))
}

/// The models that a provider's server offers, and whether the kernel names the user that runs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerReport {
    /// See [`models`]; absent where the server has no list.
    pub models: Option<Vec<String>>,
    /// True where the server is on this machine and the kernel does not tell which user receives what is sent to it.
    pub receiver_is_unknown: bool,
}

/// Asks the provider's server for its models, and checks which user receives the request.
pub async fn inspect_server(settings: &ProviderSettings, options: &Options) -> Result<ServerReport, Problem> {
    let provider = over_http(settings, options)?;
    let models = match ask_list(&provider).await {
        Ok(body) => Some(identifiers(&body)),
        // Some gateways serve requests alone.
        Err(failure) if failure.class == Class::NotAServer && matches!(failure.status, Some(404 | 405 | 501)) => None,
        Err(failure) => return Err(failure.problem(settings, 0)),
    };
    Ok(ServerReport {
        models,
        receiver_is_unknown: provider.receiver_is_unknown(),
    })
}

/// See [`models`].
pub(super) async fn listed(provider: &HttpProvider) -> Result<Vec<String>, Problem> {
    Ok(identifiers(&fetch_list(provider).await?))
}

/// The list as its server sends it.
async fn fetch_list(provider: &HttpProvider) -> Result<String, Problem> {
    let body = ask_list(provider).await;
    body.map_err(|failure| failure.problem(&provider.settings(), 0))
}

/// A server that has no list is not asked.
async fn ask_list(provider: &HttpProvider) -> Result<String, Failure> {
    if !provider.settings().quirks.has_model_list {
        return Ok(String::new());
    }
    let builder = provider
        .request(Method::GET, provider.wire().models_path())
        .await
        .map_err(|problem| Failure::new(Class::Rejected, problem.message))?;
    super::http::fetch(builder, Duration::from_secs(PROVIDER_MODELS_SECONDS_MAX)).await
}

fn identifiers(body: &str) -> Vec<String> {
    described(body).into_iter().map(|model| model.id).collect()
}

/// The models in the forms that lists have: `{"data": […]}`, `{"models": […]}` or a bare array, of objects with
/// `id` or `name`, or of strings. What its server says is no model for conversations is left out.
pub(super) fn described(body: &str) -> Vec<ListedModel> {
    let list: Value = serde_json::from_str(body).unwrap_or_default();
    let entries = [Some(&list), list.get("data"), list.get("models")]
        .into_iter()
        .flatten()
        .find_map(Value::as_array);
    let mut found: Vec<ListedModel> = Vec::new();
    for entry in entries.into_iter().flatten().filter(|entry| converses(entry)) {
        let identifier = [Some(entry), entry.get("id"), entry.get("name")]
            .into_iter()
            .flatten()
            .find_map(Value::as_str);
        let Some(identifier) = identifier else { continue };
        let identifier = identifier.trim_start_matches("models/").to_owned();
        if found.len() < PROVIDER_MODELS_MAX && found.iter().all(|model| model.id != identifier) {
            found.push(ListedModel {
                context_tokens: context_of(entry),
                input_price: price(entry, "/pricing/prompt"),
                output_price: price(entry, "/pricing/completion"),
                created: entry.get("created").and_then(Value::as_u64),
                id: identifier,
            });
        }
    }
    found
}

/// The size of a model's context, by the names that lists have for it.
fn context_of(entry: &Value) -> Option<u64> {
    const PLACES: [&str; 8] = [
        "/context_length",
        "/context_window",
        "/max_model_len",
        "/max_context_length",
        "/max_input_tokens",
        "/inputTokenLimit",
        "/meta/n_ctx_train",
        "/capabilities/limits/max_context_window_tokens",
    ];
    let tokens = PLACES.iter().find_map(|place| entry.pointer(place)?.as_u64());
    tokens.filter(|tokens| *tokens > 0)
}

/// A price for one token, which routers write as text, as that of a million.
fn price(entry: &Value, place: &str) -> Option<f64> {
    let value = entry.pointer(place)?;
    let one = value.as_f64().or_else(|| value.as_str()?.parse().ok())?;
    Some(one * 1e6).filter(|price| price.is_finite() && *price >= 0.0)
}

/// False where an entry lists its methods, and generating content is none of them.
fn converses(entry: &Value) -> bool {
    match entry.get("supportedGenerationMethods").and_then(Value::as_array) {
        Some(methods) => methods.iter().any(|method| method == "generateContent"),
        None => true,
    }
}

#[cfg(test)]
mod tests {
    use super::{ListedModel, described, identifiers, is_for_another_purpose};

    #[test]
    fn context_and_price_are_read_where_a_list_has_them() {
        let body = r#"{"data":[
            {"id":"a/b","context_length":200000,"pricing":{"prompt":"0.000003","completion":"0.000015"},"created":7},
            {"id":"c","max_model_len":4096},{"name":"models/g","inputTokenLimit":1048576},
            {"id":"d","context_length":0,"pricing":{"prompt":"free"}}]}"#;
        let model = |id: &str, context_tokens| ListedModel {
            id: id.to_owned(),
            context_tokens,
            ..ListedModel::default()
        };
        let mut models = described(body);
        let prices = (models[0].input_price.take(), models[0].output_price.take());
        assert!(prices.0.is_some_and(|price| (price - 3.0).abs() < 1e-9), "{prices:?}");
        assert!(prices.1.is_some_and(|price| (price - 15.0).abs() < 1e-9), "{prices:?}");
        assert_eq!(models[0].created.take(), Some(7));
        assert_eq!(
            models,
            [
                model("a/b", Some(200_000)),
                model("c", Some(4096)),
                model("g", Some(1_048_576)),
                model("d", None)
            ]
        );
        assert!(is_for_another_purpose("text-embedding-3-large") && !is_for_another_purpose("gpt-5.2"));
    }

    #[test]
    fn models_are_read_in_every_form_of_list() {
        for body in [
            r#"{"object":"list","data":[{"id":"a"},{"id":"b"},{"id":"a"},{"no":1}]}"#,
            r#"{"models":[{"name":"models/a"},{"name":"b"}]}"#,
            r#"{"models":[{"name":"models/a","supportedGenerationMethods":["countTokens","generateContent"]},
                {"name":"models/e","supportedGenerationMethods":["embedContent"]},{"name":"models/b"}]}"#,
            r#"[{"id":"a"},{"id":"b"}]"#,
            r#"["a","b"]"#,
        ] {
            assert_eq!(identifiers(body), ["a", "b"], "{body}");
        }
        for body in ["", "<html>", "{}", "null", r#"{"data":{}}"#] {
            assert!(identifiers(body).is_empty(), "{body}");
        }
    }

    #[test]
    fn models_of_an_endless_list_are_the_first_ones() {
        let many: Vec<String> = (0..3_000).map(|number| format!("m{number}")).collect();
        let body = serde_json::to_string(&many).expect("it is JSON");
        assert_eq!(identifiers(&body), many[..super::PROVIDER_MODELS_MAX]);
    }
}
