//! Creates models with a larger context through Ollama's own API, because its OpenAI-compatible API cannot set the size.

use serde_json::{Value, json};

use super::context_size::url_origin;
use super::setup_check::TRIAL_SECONDS_MAX;
use super::{Options, over_http};
use crate::context_size::PROVIDER_CONTEXT_SECONDS_MAX;
use crate::limits::{self, SHORT_CONTEXT_TOKENS};
use tool_config::ProviderSettings;
use tool_core::api::{ErrorKind, Problem, ProviderName};

/// A model that Ollama can create from the configured one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LargerModel {
    /// Its name.
    pub name: String,
    /// Tokens of its context: the smallest in which the model gets every skill in full, because memory use grows with
    /// it.
    pub tokens: u64,
    /// True if the server already has a model of this name, which is then used unchanged.
    pub is_there: bool,
}

/// Finds a larger model to create. `loaded` is the context in tokens with which Ollama has loaded the configured model.
/// Returns none for another server than Ollama, and for a model that takes no more than `loaded` tokens.
pub async fn find_larger_model(settings: &ProviderSettings, options: &Options, loaded: u64) -> Option<LargerModel> {
    if settings.name != ProviderName::Local || loaded >= SHORT_CONTEXT_TOKENS {
        return None;
    }
    let shown = show_model(settings, options, &settings.model).await?;
    let mut facts = shown["model_info"].as_object()?.iter();
    let own = facts.find_map(|(key, value)| value.as_u64().filter(|_| key.ends_with(".context_length")))?;
    let tokens = own.min(SHORT_CONTEXT_TOKENS);
    if tokens <= loaded {
        return None;
    }
    let name = format!("{}-{}k", settings.model, tokens / 1024);
    let is_there = show_model(settings, options, &name).await.is_some();
    Some(LargerModel { name, tokens, is_there })
}

/// What the server tells about one of its models. `None` if it has no such model.
async fn show_model(settings: &ProviderSettings, options: &Options, model: &str) -> Option<Value> {
    let url = format!("{}/api/show", url_origin(&settings.url)?);
    let bound = limits::seconds(PROVIDER_CONTEXT_SECONDS_MAX);
    let server = over_http(settings, options).ok()?;
    server.post_json(&url, &json!({"model": model}), bound).await
}

/// Creates the model, unless the server has one of its name. It shares the weights of the configured model.
pub async fn create_larger_model(
    settings: &ProviderSettings,
    options: &Options,
    larger: &LargerModel,
) -> Result<(), Problem> {
    if larger.is_there {
        return Ok(());
    }
    let url = format!("{}/api/create", url_origin(&settings.url).unwrap_or_default());
    let request = json!({
        "model": larger.name,
        "from": settings.model,
        "parameters": {"num_ctx": larger.tokens},
        "stream": false,
    });
    let bound = std::time::Duration::from_secs(TRIAL_SECONDS_MAX);
    let answer = over_http(settings, options)?.post_json(&url, &request, bound).await;
    if answer.is_some_and(|answer| answer["status"] == "success") {
        return Ok(());
    }
    let message = format!("The server did not create `{}`", larger.name);
    Err(Problem::new(ErrorKind::ProviderRejected, message)
        .with_hint("set OLLAMA_CONTEXT_LENGTH where the server is started, or choose another model"))
}
