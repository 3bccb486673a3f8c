//! Failures of providers as the user reads them: message, hint and exit code, each with the provider's own words.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use crate::failure::ProviderFailure;
use tool_config::{ProviderApi, ProviderSettings, Secret};
use tool_core::api::ProviderName;

/// The key that was sent. Every provider here quotes it, and no reader may see it.
const KEY: &str = "sk-live-0f1e2d3c4b5a69788796a5b4c3d2e1f0";

struct Case {
    /// The server, and its reason.
    name: &'static str,
    provider: ProviderName,
    api: ProviderApi,
    status: u16,
    body: Value,
    retry_after_seconds: Option<u64>,
}

fn case(name: &'static str, api: ProviderApi, status: u16, body: Value) -> Case {
    let provider = match name.split(':').next() {
        Some("OpenRouter" | "Together" | "Groq") => ProviderName::Router,
        Some("LiteLLM" | "vLLM" | "llama.cpp") => ProviderName::Local,
        _ => ProviderName::Hosted,
    };
    Case {
        name,
        provider,
        api,
        status,
        body,
        retry_after_seconds: None,
    }
}

fn openai(kind: &str, code: &str, message: &str) -> Value {
    json!({"error": {"message": message, "type": kind, "param": null, "code": code}})
}

fn anthropic(kind: &str, message: &str) -> Value {
    json!({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"})
}

fn google(code: u16, status: &str, message: &str) -> Value {
    json!({"error": {"code": code, "message": message, "status": status}})
}

/// The words are those of the vendors' documentation and of public reports.
fn cases() -> Vec<Case> {
    let quoted = |words: &str| format!("{words} {KEY}");
    let chat = |name, status, body| case(name, ProviderApi::Chat, status, body);
    let mut cases = vec![
        chat(
            "OpenAI: key",
            401,
            openai(
                "invalid_request_error",
                "invalid_api_key",
                &quoted("Incorrect API key provided:"),
            ),
        ),
        case(
            "Anthropic: key",
            ProviderApi::Messages,
            401,
            anthropic("authentication_error", "invalid x-api-key"),
        ),
        case(
            "Gemini: key",
            ProviderApi::GenerateContent,
            400,
            google(
                400,
                "INVALID_ARGUMENT",
                "API key not valid. Please pass a valid API key.",
            ),
        ),
        case(
            "Bedrock: key",
            ProviderApi::Messages,
            403,
            json!({"message": "The security token included in the request is invalid."}),
        ),
        chat(
            "OpenAI: country",
            403,
            openai(
                "request_forbidden",
                "unsupported_country_region_territory",
                "Country, region, or territory not supported",
            ),
        ),
        chat(
            "OpenRouter: moderation",
            403,
            json!({"error": {"code": 403, "message": "Input was flagged by moderation",
            "metadata": {"reasons": ["violence"], "flagged_input": "kill the process"}}}),
        ),
        case(
            "Google: API off",
            ProviderApi::GenerateContent,
            403,
            google(
                403,
                "PERMISSION_DENIED",
                "Generative Language API has not been used in project 1 before or it is disabled.",
            ),
        ),
        case(
            "Vertex: IAM",
            ProviderApi::GenerateContent,
            403,
            google(
                403,
                "PERMISSION_DENIED",
                "Permission 'aiplatform.endpoints.predict' denied on resource '//aiplatform.googleapis.com/projects/p'",
            ),
        ),
        case(
            "Bedrock: model access",
            ProviderApi::Messages,
            403,
            json!({"message": "You don't have access to the model with the specified model ID."}),
        ),
        case(
            "Anthropic: model",
            ProviderApi::Messages,
            404,
            anthropic("not_found_error", "model: claude-sonet-4-5"),
        ),
        chat(
            "LiteLLM: model",
            400,
            openai(
                "invalid_request_error",
                "400",
                "/chat/completions: Invalid model name passed in model=nope. Call `/v1/models` to view available models.",
            ),
        ),
        chat(
            "Mistral: model",
            400,
            json!({"object": "error", "message": "Invalid model: nope", "type": "invalid_model",
            "code": "1500"}),
        ),
        chat(
            "Azure: deployment",
            404,
            json!({"error": {"code": "DeploymentNotFound",
            "message": "The API deployment for this resource does not exist."}}),
        ),
        chat(
            "Together: model",
            404,
            openai(
                "invalid_request_error",
                "x",
                "Unable to access model nope. Please visit our models page.",
            ),
        ),
        chat(
            "OpenAI: Responses only",
            404,
            openai(
                "invalid_request_error",
                "x",
                "This model is only supported in v1/responses and not in v1/chat/completions.",
            ),
        ),
        chat(
            "OpenAI: no chat model",
            404,
            openai(
                "invalid_request_error",
                "x",
                "This is not a chat model and thus not supported in the v1/chat/completions endpoint.",
            ),
        ),
        chat(
            "OpenAI: quota",
            429,
            openai(
                "insufficient_quota",
                "insufficient_quota",
                "You exceeded your current quota, please check your plan and billing details.",
            ),
        ),
        chat(
            "Groq: call",
            400,
            json!({"error": {"message": "Failed to call a function. Please adjust your prompt.",
            "type": "invalid_request_error", "code": "tool_use_failed", "failed_generation": "<function=read_file"}}),
        ),
        case(
            "Anthropic: overloaded",
            ProviderApi::Messages,
            529,
            anthropic("overloaded_error", "Overloaded"),
        ),
        case(
            "Anthropic: too long",
            ProviderApi::Messages,
            400,
            anthropic(
                "invalid_request_error",
                "prompt is too long: 210000 tokens > 200000 maximum",
            ),
        ),
        chat(
            "llama.cpp: template",
            500,
            json!({"error": {"code": 500, "type": "server_error",
            "message": "Value is not callable: null at row 1 of the chat template"}}),
        ),
    ];
    cases.push(Case {
        retry_after_seconds: Some(3_600),
        ..chat(
            "OpenAI: rate limit",
            429,
            openai("requests", "rate_limit_exceeded", "Rate limit reached for requests."),
        )
    });
    cases
}

fn told(case: &Case) -> String {
    let settings = ProviderSettings {
        api_key: Some(Secret::new(KEY)),
        ..ProviderSettings::new(case.provider, case.api, "https://models.example/v1", "nope")
    };
    let mut body = case.body.clone();
    // A server that repeats the headers of the request.
    body["debug"] = format!("authorization: Bearer {KEY}").into();
    let wait = case.retry_after_seconds.map(Duration::from_secs);
    let failure = ProviderFailure::from_answer(case.status, &body.to_string(), wait);
    let problem = failure.problem(&settings, 1_000);
    let (message, hint) = (problem.message, problem.hint.unwrap_or_default());
    for shown in [&message, &hint, &failure.reason(&settings)] {
        assert!(!shown.contains(KEY), "{}: {shown}", case.name);
    }
    let said = failure.said.replace(KEY, "***");
    assert!(
        message.contains(&said) || hint.contains(&said),
        "{}: `{said}` is not quoted in `{message}`, `{hint}`",
        case.name
    );
    let exit = problem.kind.exit_code();
    format!("{}\n  exit {exit}: {message}\n  hint: {hint}\n", case.name)
}

#[test]
fn provider_failures_name_the_reason_in_the_providers_own_words() {
    let mut table = String::new();
    for case in cases() {
        write!(table, "{}", told(&case)).expect("a string takes everything");
    }
    let time = regex::Regex::new(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC").expect("a constant");
    insta::assert_snapshot!(time.replace_all(&table, "TIME"), @r#"
    OpenAI: key
      exit 1: Authentication failed: Invalid API key
      hint: run `tool init` again, or set VENDOR_B_API_KEY in the environment; the provider says: Incorrect API key provided: ***
    Anthropic: key
      exit 1: Authentication failed: Invalid API key
      hint: run `tool init` again, or set HOSTED_API_KEY in the environment; the provider says: invalid x-api-key
    Gemini: key
      exit 1: Authentication failed: Invalid API key
      hint: run `tool init` again, or set VENDOR_C_API_KEY in the environment; the provider says: API key not valid. Please pass a valid API key
    Bedrock: key
      exit 1: Authentication failed: Invalid API key
      hint: run `tool init` again, or set HOSTED_API_KEY in the environment; the provider says: The security token included in the request is invalid
    OpenAI: country
      exit 1: The provider refused access: 403 Forbidden (Country, region, or territory not supported)
      hint: your key may be right: check what your account may use at models.example:443, its region, and the provider's rules
    OpenRouter: moderation
      exit 1: The provider refused access: 403 Forbidden (Input was flagged by moderation)
      hint: your key may be right: check what your account may use at models.example:443, its region, and the provider's rules
    Google: API off
      exit 1: The provider refused access: 403 Forbidden (Generative Language API has not been used in project 1 before or it is disabled)
      hint: your key may be right: check what your account may use at models.example:443, its region, and the provider's rules
    Vertex: IAM
      exit 1: The provider refused access: 403 Forbidden (Permission 'aiplatform.endpoints.predict' denied on resource '//aiplatform.googleapis.com/projects/p')
      hint: your key may be right: check what your account may use at models.example:443, its region, and the provider's rules
    Bedrock: model access
      exit 1: The provider refused access: 403 Forbidden (You don't have access to the model with the specified model ID)
      hint: your key may be right: check what your account may use at models.example:443, its region, and the provider's rules
    Anthropic: model
      exit 1: Model not found: nope
      hint: set `model` to an identifier that models.example:443 offers (`tool init`, or `--model`); the provider says: model: claude-sonet-4-5
    LiteLLM: model
      exit 1: Model not found: nope
      hint: set `model` to an identifier that models.example:443 offers (`tool init`, or `--model`); the provider says: /chat/completions: Invalid model name passed in model=nope. Call `/v1/models` to view available models
    Mistral: model
      exit 1: Model not found: nope
      hint: set `model` to an identifier that models.example:443 offers (`tool init`, or `--model`); the provider says: Invalid model: nope
    Azure: deployment
      exit 1: Model not found: nope
      hint: set `model` to an identifier that models.example:443 offers (`tool init`, or `--model`); the provider says: The API deployment for this resource does not exist
    Together: model
      exit 1: Model not found: nope
      hint: set `model` to an identifier that models.example:443 offers (`tool init`, or `--model`); the provider says: Unable to access model nope. Please visit our models page
    OpenAI: Responses only
      exit 1: The model `nope` does not work with `api = "chat"`: This model is only supported in v1/responses and not in v1/chat/completions
      hint: use a model for chats, or set `api = "responses"` in [providers.hosted] of config.toml (`tool init --provider hosted --api responses --model MODEL`)
    OpenAI: no chat model
      exit 1: The model `nope` does not work with `api = "chat"`: This is not a chat model and thus not supported in the v1/chat/completions endpoint
      hint: use a model for chats, or set `api = "responses"` in [providers.hosted] of config.toml (`tool init --provider hosted --api responses --model MODEL`)
    OpenAI: quota
      exit 1: The provider's credits or quota are used up
      hint: check the plan and billing of the account; the provider says: You exceeded your current quota, please check your plan and billing details
    Groq: call
      exit 1: The provider could not read the model's tool call: 400 Bad Request (Failed to call a function. Please adjust your prompt)
      hint: run the operation again, or choose another model
    Anthropic: overloaded
      exit 1: The provider is not available: it answered 529 Overloaded (Overloaded)
      hint: try again in a few minutes
    Anthropic: too long
      exit 1: Context length exceeded: 200000 tokens
      hint: target fewer or smaller files; the provider says: prompt is too long: 210000 tokens > 200000 maximum
    llama.cpp: template
      exit 1: The model's chat template failed: Value is not callable: null at row 1 of the chat template
      hint: load a model whose template knows tools, or start the server with another template (llama.cpp: `--jinja --chat-template-file FILE`)
    OpenAI: rate limit
      exit 1: Rate limit exceeded: 429 Too Many Requests
      hint: try again at TIME, in 60 minutes: the provider asks for this wait; the provider says: Rate limit reached for requests
    "#);
}
