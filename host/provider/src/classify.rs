//! Kinds of failure, recognised by status and wording together, because servers disagree about both.

/// Kinds of failure that lead to different sentences or different retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FailureClass {
    Authentication,
    /// Access is denied for another reason than the key: a filter, a region, a permission, a service that is off.
    Forbidden,
    Payment,
    RateLimit,
    Overflow,
    UnknownModel,
    /// The model exists and does not speak this wire.
    WrongEndpoint,
    NoTools,
    /// The provider could not read the call that the model wrote.
    MalformedCall,
    Template,
    NotAServer,
    Redirect,
    Refused,
    Unreachable,
    /// The server's certificate is by an authority that is not known here.
    UnknownIssuer,
    OtherUser,
    Broken,
    Timeout,
    Protocol,
    Empty,
    Server,
    Rejected,
}

/// Names the place of a failure by status and lower-case wording.
pub(super) fn classify_failure(status: Option<u16>, wording: &str) -> FailureClass {
    let says = |words: &[&str]| words.iter().any(|word| wording.contains(word));
    match status {
        Some(401) => return FailureClass::Authentication,
        Some(402) => return FailureClass::Payment,
        _ => {}
    }
    if says(&PAYMENT_WORDING) {
        return FailureClass::Payment;
    }
    // Before the overflow class: "too many tokens per minute" is not a prompt that is too long.
    if status == Some(429) || says(&RATE_LIMIT_WORDING) {
        return FailureClass::RateLimit;
    }
    if status == Some(403) {
        return classify_403(wording);
    }
    if says(&["tool_use_failed"]) {
        return FailureClass::MalformedCall;
    }
    if status == Some(413) || says(&OVERFLOW_WORDING) {
        return FailureClass::Overflow;
    }
    if says(&BAD_KEY_WORDING) {
        return FailureClass::Authentication;
    }
    if matches!(status, None | Some(400 | 404 | 405 | 422)) && says(&WRONG_ENDPOINT_WORDING) {
        return FailureClass::WrongEndpoint;
    }
    if says(&NO_TOOLS_WORDING) {
        return FailureClass::NoTools;
    }
    if matches!(status, None | Some(400 | 404 | 422)) && is_unknown_model(wording) {
        return FailureClass::UnknownModel;
    }
    if says(&TEMPLATE_WORDING) {
        return FailureClass::Template;
    }
    match status {
        Some(408 | 500..) => FailureClass::Server,
        Some(404 | 405) => FailureClass::NotAServer,
        _ => FailureClass::Rejected,
    }
}

/// Vendors use 403 for bad keys, for models that an account may not use, and for everything that they forbid.
fn classify_403(wording: &str) -> FailureClass {
    if BAD_KEY_WORDING.iter().any(|word| wording.contains(word)) {
        FailureClass::Authentication
    } else if wording.contains("model_not_found") {
        FailureClass::UnknownModel
    } else {
        FailureClass::Forbidden
    }
}

const PAYMENT_WORDING: [&str; 4] = [
    "insufficient_quota",
    "credit balance",
    "insufficient credits",
    "billing_error",
];

const RATE_LIMIT_WORDING: [&str; 6] = [
    "rate limit",
    "rate_limit",
    "ratelimit",
    "too many requests",
    "per minute",
    "resource_exhausted",
];

/// Words of OpenAI and xAI, Gemini, Anthropic, and Bedrock about a key that is wrong, expired, revoked or missing.
const BAD_KEY_WORDING: [&str; 13] = [
    "invalid_api_key",
    "invalid api key",
    "incorrect api key",
    "api_key_invalid",
    "api key not valid",
    "api key is invalid",
    "api key expired",
    "api key was reported as leaked",
    "invalid x-api-key",
    "authentication_error",
    "unregistered callers",
    "security token included in the request is",
    "no api key",
];

const OVERFLOW_WORDING: [&str; 14] = [
    "context_length_exceeded",
    "context length",
    "context size",
    "context window",
    "context_window",
    "exceed_context_size_error",
    "maximum context",
    "prompt is too long",
    "prompt too long",
    "input is too long",
    "input token count",
    "request_too_large",
    "n_keep >= n_ctx",
    "number of tokens to keep from the initial prompt is greater",
];

/// Words of OpenAI and Azure about a model of another endpoint.
const WRONG_ENDPOINT_WORDING: [&str; 7] = [
    "not accessible via the /chat/completions",
    "only supported in v1/responses",
    "not a chat model",
    "use /v1/responses",
    "not supported in the v1/chat/completions",
    "operation does not work with the specified model",
    "not supported with the responses api",
];

const NO_TOOLS_WORDING: [&str; 6] = [
    "does not support tool",
    "support tool use",
    "enable-auto-tool-choice",
    "tools param requires",
    "does not support function",
    "tool calling is not supported",
];

const TEMPLATE_WORDING: [&str; 5] = [
    "jinja",
    "chat template",
    "chat_template",
    "error rendering prompt",
    "failed to apply template",
];

/// A server's complaint about its template where the answer should be. A model's own words may mention one, but do not
/// begin so.
pub(super) fn is_template_complaint(answer: &str) -> bool {
    const BEGINNINGS: [&str; 4] = [
        "error rendering prompt",
        "jinja exception",
        "failed to apply template",
        "error: jinja",
    ];
    let answer = answer
        .trim_start()
        .trim_start_matches("[ERROR]")
        .trim_start()
        .to_lowercase();
    BEGINNINGS.iter().any(|beginning| answer.starts_with(beginning))
}

fn is_unknown_model(wording: &str) -> bool {
    const MISSING: [&str; 12] = [
        "not found",
        "not exist",
        "not a valid model",
        "no such model",
        "unknown model",
        "invalid model",
        "unable to access model",
        "model identifier is invalid",
        "model_not_found",
        "is not supported for generatecontent",
        "failed to load model",
        "no endpoints found",
    ];
    // Azure calls a model a deployment; Anthropic answers `not_found_error` and nothing but `model: NAME`.
    wording.contains("deploymentnotfound")
        || wording.contains("no endpoints found")
        || (wording.contains("not_found_error") && wording.contains("model: "))
        || (wording.contains("model") && MISSING.iter().any(|word| wording.contains(word)))
}
