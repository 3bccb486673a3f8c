//! Checks for a set-up before it writes anything: which local servers run, and whether a model answers.

use std::time::Duration;

use futures_util::StreamExt;
use reqwest::Method;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::http::fetch_text;
use super::model_list::parse_models;
use super::{ListedModel, Message, ModelRequest, Options, Provider, ProviderError, ProviderEvent, over_http};
use tool_config::ProviderSettings;
use tool_core::api::{ErrorKind, Problem, ProviderName};

/// Longest wait for a local server's list of models. A running server answers within milliseconds.
const LOCAL_SERVER_MS: u64 = 700;

/// Longest wait for the answer to a trial's one request. A large local model may have to be loaded first.
pub(super) const TRIAL_SECONDS_MAX: u64 = 120;

/// Output tokens of a trial: models that think first need some hundred.
const TRIAL_OUTPUT_TOKENS: u32 = 1024;

/// The models of a server on this machine, asked without a key; `None` if nothing there answers as a model server does.
pub async fn find_local_server(settings: &ProviderSettings) -> Option<Vec<ListedModel>> {
    let keyless = ProviderSettings {
        api_key: None,
        api_key_command: Vec::new(),
        ..settings.clone()
    };
    let provider = over_http(&keyless, &Options::default()).ok()?;
    let builder = provider
        .request(Method::GET, provider.wire().models_path())
        .await
        .ok()?;
    let body = fetch_text(builder, Duration::from_millis(LOCAL_SERVER_MS)).await.ok()?;
    let list: serde_json::Value = serde_json::from_str(&body).ok()?;
    list.get("data").or_else(|| list.get("models"))?.as_array()?;
    Some(parse_models(&body))
}

/// Sends one tiny request. Fails with the provider's reason if the model does not answer.
pub async fn try_out(settings: &ProviderSettings, options: &Options) -> Result<(), Problem> {
    let provider = over_http(settings, options)?;
    let messages = [Message::User {
        text: "Answer with the one word OK.".to_owned(),
    }];
    let request = ModelRequest {
        system: "You take part in a test of a connection.",
        messages: &messages,
        tools: &[],
        max_tokens: (settings.name != ProviderName::Local).then_some(TRIAL_OUTPUT_TOKENS),
        mark: crate::new_mark(),
    };
    let cancel = CancellationToken::new();
    let answered = async {
        let mut stream = provider.stream(request, cancel.clone());
        while let Some(item) = stream.next().await {
            match item {
                Ok(ProviderEvent::Stop { .. }) => return Ok(()),
                Ok(_) => {}
                Err(ProviderError::Failed(problem)) => return Err(problem),
                Err(ProviderError::Cancelled) => break,
            }
        }
        Err(Problem::new(ErrorKind::ProviderStream, "The model gave no answer"))
    };
    timeout(Duration::from_secs(TRIAL_SECONDS_MAX), answered)
        .await
        .unwrap_or_else(|_| {
            let message = format!("The model did not answer within {TRIAL_SECONDS_MAX} s");
            Err(Problem::new(ErrorKind::ProviderTimeout, message)
                .with_hint("a large model may still be loading; try again"))
        })
}
