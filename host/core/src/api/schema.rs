//! Schemas that no derive can express: maps with a closed set of names.

use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{AdditionalProperties, Object, ObjectBuilder, Schema, SchemaType, Type};
use utoipa::{PartialSchema, ToSchema};

use super::Overrides;

/// Any JSON object.
///
/// A component of its own: generators of clients name an object within an event by the event's title, and meet some of
/// them twice.
pub(super) struct JsonObject;

impl PartialSchema for JsonObject {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .description(Some("Any JSON object."))
            .additional_properties(Some(AdditionalProperties::FreeForm(true)))
            .into()
    }
}

impl ToSchema for JsonObject {}

/// Most characters of a pattern of [`SelectionRequest`](super::SelectionRequest): more than real paths have.
pub const PATTERN_CHARS_MAX: usize = 1024;

/// Schema of a pattern for paths. Not every string that it allows is a glob.
pub(super) struct PathPattern;

impl PartialSchema for PathPattern {
    fn schema() -> RefOr<Schema> {
        let text = ObjectBuilder::new().schema_type(SchemaType::Type(Type::String));
        text.description(Some("A path, or a glob, from the root."))
            .min_length(Some(1))
            .max_length(Some(PATTERN_CHARS_MAX))
            // Without its leading `./` and its trailing `/`, the pattern would be empty.
            .pattern(Some("[^./]"))
            .into()
    }
}

impl ToSchema for PathPattern {}

/// Variable with the user's own test command. Quotes group words as in a shell, and no shell runs.
pub const TEST_COMMAND: &str = "TOOL_TEST_COMMAND";

/// Variable with the form of that command's results: `exit`, `junit:GLOB`, `tap` or `json:RUNNER`.
pub const TEST_RESULTS: &str = "TOOL_TEST_RESULTS";

/// Names of the environment variables that configure the product or that recipes may see. A client sends these with a
/// session, those that `headers` of the user's configuration name, and no others.
pub const FORWARDED: [&str; 78] = [
    "HOSTED_API_KEY",
    "VENDOR_B_API_KEY",
    "VENDOR_C_API_KEY",
    "ROUTER_API_KEY",
    "ANTHROPIC_API_KEY",
    "OPENAI_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
    "OPENROUTER_API_KEY",
    "OLLAMA_API_KEY",
    "LM_API_TOKEN",
    "LLAMA_API_KEY",
    "VLLM_API_KEY",
    "AZURE_OPENAI_API_KEY",
    "AWS_BEARER_TOKEN_BEDROCK",
    "GOOGLE_OAUTH_ACCESS_TOKEN",
    "MISTRAL_API_KEY",
    "GROQ_API_KEY",
    "DEEPSEEK_API_KEY",
    "XAI_API_KEY",
    "TOGETHER_API_KEY",
    "FIREWORKS_API_KEY",
    "HF_TOKEN",
    "CEREBRAS_API_KEY",
    "MOONSHOT_API_KEY",
    "ZAI_API_KEY",
    "DASHSCOPE_API_KEY",
    "LITELLM_API_KEY",
    "HOSTED_MODEL",
    "TOOL_LOG_LEVEL",
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "VIRTUAL_ENV",
    "GIT_AUTHOR_NAME",
    "GIT_AUTHOR_EMAIL",
    "GIT_AUTHOR_DATE",
    "GIT_COMMITTER_NAME",
    "GIT_COMMITTER_EMAIL",
    "GIT_COMMITTER_DATE",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "ALL_PROXY",
    "all_proxy",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "PIP_CERT",
    "PIP_CONFIG_FILE",
    "CARGO_HOME",
    "RUSTUP_HOME",
    "GOMODCACHE",
    "GOCACHE",
    "GRADLE_USER_HOME",
    "GEM_HOME",
    "BUNDLE_PATH",
    "COMPOSER_CACHE_DIR",
    "MIX_HOME",
    "HEX_HOME",
    "NUGET_PACKAGES",
    TEST_COMMAND,
    TEST_RESULTS,
    "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL",
    "PIP_FIND_LINKS",
    "PIP_NO_INDEX",
    "PIP_TRUSTED_HOST",
    "PIP_PROXY",
    "NPM_CONFIG_REGISTRY",
    "NPM_CONFIG_USERCONFIG",
    "npm_config_registry",
    "npm_config_userconfig",
];

impl PartialSchema for Overrides {
    fn schema() -> RefOr<Schema> {
        let names = ObjectBuilder::new()
            .schema_type(SchemaType::Type(Type::String))
            .enum_values(Some(FORWARDED));
        ObjectBuilder::new()
            .description(Some(
                "Environment variables of the session's starter that matter, by name. Never journalled, never shown. A \
                 variable that `headers` of the user's configuration names may be sent, too.",
            ))
            .property_names(Some(names.build()))
            .additional_properties(Some(AdditionalProperties::RefOr(RefOr::T(
                Object::with_type(Type::String).into(),
            ))))
            .into()
    }
}

impl ToSchema for Overrides {}
