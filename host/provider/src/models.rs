//! The models that a provider offers, by its own list.

mod cache;

use std::time::Duration;

use reqwest::Method;
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
    let body = ask_list(provider).await;
    let body = body.map_err(|failure| failure.problem(provider.settings(), 0))?;
    Ok(identifiers(&body))
}

async fn ask_list(provider: &HttpProvider) -> Result<String, Failure> {
    let builder = provider
        .request(Method::GET, provider.wire().models_path())
        .map_err(|problem| Failure::new(Class::Rejected, problem.message))?;
    super::http::fetch(builder, Duration::from_secs(PROVIDER_MODELS_SECONDS_MAX)).await
}

/// The identifiers in the forms that lists have: `{"data": […]}`, `{"models": […]}` or a bare array, of objects with
/// `id` or `name`, or of strings. What its server says is no model for conversations is left out.
fn identifiers(body: &str) -> Vec<String> {
    let list: Value = serde_json::from_str(body).unwrap_or_default();
    let entries = [Some(&list), list.get("data"), list.get("models")]
        .into_iter()
        .flatten()
        .find_map(Value::as_array);
    let mut found = Vec::new();
    for entry in entries.into_iter().flatten().filter(|entry| converses(entry)) {
        let identifier = [Some(entry), entry.get("id"), entry.get("name")]
            .into_iter()
            .flatten()
            .find_map(Value::as_str);
        let Some(identifier) = identifier else { continue };
        let identifier = identifier.trim_start_matches("models/").to_owned();
        if found.len() < PROVIDER_MODELS_MAX && !found.contains(&identifier) {
            found.push(identifier);
        }
    }
    found
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
    use super::identifiers;

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
