//! The models that a provider offers, by its own list.

mod cache;

use std::time::Duration;

use reqwest::Method;

use super::failure::{FailureClass, ProviderFailure};
use super::http::HttpProvider;
use super::model_list::{ListedModel, parse_identifiers, parse_models};
use super::redact::scrub_text;
use super::{Options, over_http};
use tool_config::{ProviderApi, ProviderSettings};
use tool_core::api::Problem;

pub use cache::ModelCache;

/// Longest wait for the model list. It is shown beside something else, which must not wait for it.
const PROVIDER_MODELS_SECONDS_MAX: u64 = 2;

/// Asks the provider for its models, for at most 2 seconds. Identifiers come in the provider's order, without
/// repetitions. The analyst offers itself.
pub async fn list_models(settings: &ProviderSettings) -> Result<Vec<String>, Problem> {
    models_with(settings, &Options::default()).await
}

/// Like [`list_models()`], through a proxy if the options name one.
pub async fn models_with(settings: &ProviderSettings, options: &Options) -> Result<Vec<String>, Problem> {
    if settings.api == ProviderApi::Analyst {
        return Ok(vec![settings.model.clone()]);
    }
    fetch_models(&over_http(settings, options)?).await
}

/// Asks the provider for its models as [`models_with`] does, with what its list says about each. If the list has dates,
/// the newest models come first. Models whose names show that they are not for conversations are left out.
pub async fn describe_models(settings: &ProviderSettings, options: &Options) -> Result<Vec<ListedModel>, Problem> {
    if settings.api == ProviderApi::Analyst {
        let id = settings.model.clone();
        return Ok(vec![ListedModel {
            id,
            ..ListedModel::default()
        }]);
    }
    let mut models = parse_models(&fetch_list(&over_http(settings, options)?).await?);
    models.retain(|model| !is_for_another_purpose(&model.id));
    models.sort_by_key(|model| std::cmp::Reverse(model.created));
    Ok(models)
}

/// Parts of the names of models that cannot hold conversations. Vendors list them among the others.
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
    /// See [`list_models`]. `None` if the server has no list.
    pub models: Option<Vec<String>>,
    /// True if the server is on this machine and the kernel does not tell which user receives the data for it.
    pub receiver_is_unknown: bool,
}

/// Asks the provider's server for its models, and checks which user receives the request.
pub async fn inspect_server(settings: &ProviderSettings, options: &Options) -> Result<ServerReport, Problem> {
    let provider = over_http(settings, options)?;
    let models = match ask_list(&provider).await {
        Ok(body) => Some(parse_identifiers(&body)),
        // Some gateways serve only requests and have no list.
        Err(failure)
            if failure.class == FailureClass::NotAServer && matches!(failure.status, Some(404 | 405 | 501)) =>
        {
            None
        }
        Err(failure) => return Err(failure.problem(settings, 0)),
    };
    Ok(ServerReport {
        models,
        receiver_is_unknown: provider.receiver_is_unknown(),
    })
}

/// See [`list_models`].
pub(super) async fn fetch_models(provider: &HttpProvider) -> Result<Vec<String>, Problem> {
    Ok(parse_identifiers(&fetch_list(provider).await?))
}

/// The list as its server sends it.
async fn fetch_list(provider: &HttpProvider) -> Result<String, Problem> {
    let body = ask_list(provider).await;
    body.map_err(|failure| failure.problem(&provider.settings(), 0))
}

/// A server without a list is not asked. One that repeats what it was sent is asked without the user's keys.
async fn ask_list(provider: &HttpProvider) -> Result<String, ProviderFailure> {
    if !provider.settings().quirks.has_model_list {
        return Ok(String::new());
    }
    let builder = provider
        .request(Method::GET, provider.wire().models_path())
        .await
        .map_err(|problem| ProviderFailure::new(FailureClass::Rejected, problem.message))?;
    let body = super::http::fetch_text(builder, Duration::from_secs(PROVIDER_MODELS_SECONDS_MAX)).await?;
    Ok(scrub_text(&body, &provider.settings()))
}

#[cfg(test)]
mod tests {
    use super::is_for_another_purpose;

    #[test]
    fn models_that_make_no_conversations_are_known_by_their_names() {
        assert!(is_for_another_purpose("text-embedding-3-large") && !is_for_another_purpose("gpt-5.2"));
    }
}
