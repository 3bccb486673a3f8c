//! Refusals of providers in the words of their APIs, all of which quote the key: message, hint and exit code in one
//! table.

use serde_json::{Value, json};
use tool_model_server::{Round, ScriptedStatus, ServerStep};

use super::faults::no_key_anywhere;
use super::{CHAT, GENERATE_CONTENT, KEY, LOCAL, MESSAGES, RESPONSES, ROUTER, Wire, repository, serve};
use crate::support::Home;

/// One refusal of a vendor.
struct Refusal {
    vendor: &'static str,
    wire: Wire,
    status: u16,
    /// The wait that the provider asks for, in seconds.
    retry_after: Option<&'static str>,
    body: Value,
}

fn refusal(vendor: &'static str, wire: Wire, status: u16, body: Value) -> Refusal {
    Refusal {
        vendor,
        wire,
        status,
        retry_after: None,
        body,
    }
}

fn anthropic(kind: &str, message: &str) -> Value {
    json!({"type": "error", "error": {"type": kind, "message": format!("{message} [{KEY}]")}})
}

fn openai(code: &str, message: &str) -> Value {
    let message = format!("{message} [{KEY}]");
    json!({"error": {"message": message, "type": "invalid_request_error", "param": null, "code": code}})
}

fn google(code: u16, status: &str, message: &str) -> Value {
    json!({"error": {"code": code, "message": format!("{message} [{KEY}]"), "status": status}})
}

fn router(code: u16, message: &str) -> Value {
    json!({"error": {"code": code, "message": format!("{message} [{KEY}]")}})
}

fn refusals() -> Vec<Refusal> {
    let moderated = json!({"error": {"code": 403, "message": format!("Your input was flagged [{KEY}]"),
        "metadata": {"reasons": ["violence"], "provider_name": "OpenAI"}}});
    let only_responses = "This model is only supported in v1/responses and not in v1/chat/completions.";
    let prompt_is_too_long = "prompt is too long: 210000 tokens > 200000 maximum";
    // A local server was sent no key that it could quote.
    let auto_tool_choice = "\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set";
    let mut all = vec![
        refusal(
            "Anthropic",
            MESSAGES,
            401,
            anthropic("authentication_error", "invalid x-api-key"),
        ),
        refusal(
            "OpenAI",
            RESPONSES,
            401,
            openai("invalid_api_key", "Incorrect API key provided"),
        ),
        refusal(
            "Gemini",
            GENERATE_CONTENT,
            400,
            google(
                400,
                "INVALID_ARGUMENT",
                "API key not valid. Please pass a valid API key.",
            ),
        ),
        refusal("OpenRouter", ROUTER, 401, router(401, "No auth credentials found")),
        refusal("OpenRouter", ROUTER, 402, router(402, "Insufficient credits")),
        refusal(
            "OpenAI",
            CHAT,
            429,
            openai("insufficient_quota", "You exceeded your current quota"),
        ),
        refusal(
            "Anthropic",
            MESSAGES,
            404,
            anthropic("not_found_error", "model: scripted"),
        ),
        refusal(
            "OpenAI",
            RESPONSES,
            404,
            openai("model_not_found", "The model `scripted` does not exist"),
        ),
        refusal("Mistral", CHAT, 400, openai("1500", "Invalid model: scripted")),
        refusal(
            "LiteLLM",
            ROUTER,
            400,
            openai("400", "Invalid model name passed in model=scripted"),
        ),
        refusal(
            "Azure",
            CHAT,
            404,
            openai("DeploymentNotFound", "The API deployment does not exist"),
        ),
        refusal(
            "Together",
            CHAT,
            404,
            openai("model_not_available", "Unable to access model scripted"),
        ),
        refusal("OpenRouter", ROUTER, 403, moderated),
        refusal(
            "OpenAI",
            RESPONSES,
            403,
            openai(
                "unsupported_country_region_territory",
                "Country, region, or territory not supported",
            ),
        ),
        refusal(
            "Google",
            GENERATE_CONTENT,
            403,
            google(
                403,
                "PERMISSION_DENIED",
                "Generative Language API has not been used in project 7",
            ),
        ),
        refusal(
            "Bedrock",
            CHAT,
            403,
            openai("access_denied", "You don't have access to the model"),
        ),
        refusal("OpenAI", CHAT, 404, openai("", only_responses)),
        refusal(
            "Anthropic",
            MESSAGES,
            400,
            anthropic("invalid_request_error", prompt_is_too_long),
        ),
        refusal(
            "vLLM",
            LOCAL,
            400,
            json!({"error": {"message": auto_tool_choice, "code": 400}}),
        ),
        refusal(
            "Groq",
            CHAT,
            429,
            openai("rate_limit_exceeded", "Rate limit reached for tokens per day"),
        ),
        refusal("Anthropic", MESSAGES, 529, anthropic("overloaded_error", "Overloaded")),
    ];
    // Waits that are longer than a user's patience end a session at once.
    for late in all.iter_mut().rev().take(2) {
        late.retry_after = Some("7200");
    }
    all
}

#[test]
fn twenty_refusals_say_what_the_provider_said_and_no_key() {
    let times = regex::Regex::new(r"at \d{4}-\d\d-\d\d \d\d:\d\d UTC|127\.0\.0\.1:\d+").expect("a constant");
    let mut table = String::new();
    for Refusal {
        vendor,
        wire,
        status,
        retry_after,
        body,
    } in refusals()
    {
        let said = ScriptedStatus {
            headers: retry_after
                .map(|seconds| ("retry-after".to_owned(), seconds.to_owned()))
                .into_iter()
                .collect(),
            ..ScriptedStatus::new(status, body)
        };
        let server = serve([Round::new([ServerStep::Status(said)])]);
        let (home, repository) = (Home::configured(&wire.config(&server, "")), repository());
        let finished = wire.run(&home, &repository, &["explain", "."]);
        no_key_anywhere(&home, &repository, &finished);
        let from = finished.stderr.find("[error]").expect("it failed");
        let told = times.replace_all(finished.stderr[from..].trim_end(), "[…]");
        table.push_str(&format!("{vendor} {status}, exit code {}\n{told}\n\n", finished.code));
    }
    insta::assert_snapshot!("refusals", table);
}
