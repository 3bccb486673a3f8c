//! Known vendors: URL, wire, key and quirks of each server.
//!
//! This is data. [`PRESETS`] is the one table. `[vendors.NAME]` of the user's file overrides a row of it; the rest of
//! the crate decides which value counts.

use tool_core::api::ProviderName;
use tool_core::text::{nearest_name, percent_encode};

use super::ProviderApi;

/// One row: how to reach a vendor unless the user's file overrides it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preset {
    /// Name in the configuration.
    pub name: &'static str,
    /// Name for people.
    pub title: &'static str,
    /// The provider of the specification to which it belongs.
    pub provider: ProviderName,
    /// Its wire.
    pub api: ProviderApi,
    /// Its base URL, with the placeholders `{region}`, `{region-}`, `{project}`, `{resource}` and `{model}`.
    pub url: &'static str,
    /// True if the server refuses requests without a key.
    pub needs_key: bool,
    /// The specification's variable for its key. It wins over the file.
    pub own_variable: Option<&'static str>,
    /// Usual variables for its key. The file wins over them.
    pub usual_variables: &'static [&'static str],
    /// Peculiarities of its server.
    pub quirks: Quirks,
}

/// Peculiarities of a server that a wire considers from the first request on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quirks {
    /// Header for the key, if it is not that of the wire.
    pub key_header: Option<&'static str>,
    /// Chat: the bound of the output is called `max_completion_tokens`, not `max_tokens`.
    pub has_completion_tokens: bool,
    /// Chat: the server accepts `stream_options`, which a stream needs to report usage.
    pub takes_stream_options: bool,
    /// Chat: effort and budget go into the object `reasoning`, not into `reasoning_effort`.
    pub has_reasoning_object: bool,
    /// The server lists its models.
    pub has_model_list: bool,
}

impl Quirks {
    /// A usual server of the chat wire.
    const PLAIN: Self = Self {
        key_header: None,
        has_completion_tokens: false,
        takes_stream_options: true,
        has_reasoning_object: false,
        has_model_list: true,
    };

    /// OpenAI's server of the chat wire.
    const OPENAI: Self = Self {
        has_completion_tokens: true,
        ..Self::PLAIN
    };

    const OPENROUTER: Self = Self {
        has_reasoning_object: true,
        ..Self::PLAIN
    };

    /// The assumed quirks of a provider's server without a vendor.
    pub const fn of_provider(provider: ProviderName) -> Self {
        match provider {
            ProviderName::Hosted => Self::OPENAI,
            ProviderName::Local => Self::PLAIN,
            ProviderName::Router => Self::OPENROUTER,
        }
    }
}

/// A vendor's own API with a key, on the chat wire.
const HOSTED: Preset = Preset {
    name: "",
    title: "",
    provider: ProviderName::Hosted,
    api: ProviderApi::Chat,
    url: "",
    needs_key: true,
    own_variable: None,
    usual_variables: &[],
    quirks: Quirks::PLAIN,
};

/// A server on this machine, on the chat wire.
const LOCAL: Preset = Preset {
    provider: ProviderName::Local,
    needs_key: false,
    ..HOSTED
};

/// All known vendors, in the order of lists.
pub const PRESETS: [Preset; 23] = [
    Preset {
        name: "anthropic",
        title: "Anthropic",
        api: ProviderApi::Messages,
        url: "https://api.anthropic.com",
        own_variable: Some("HOSTED_API_KEY"),
        usual_variables: &["ANTHROPIC_API_KEY"],
        ..HOSTED
    },
    Preset {
        name: "openai",
        title: "OpenAI",
        api: ProviderApi::Responses,
        url: "https://api.openai.com/v1",
        own_variable: Some("VENDOR_B_API_KEY"),
        usual_variables: &["OPENAI_API_KEY"],
        quirks: Quirks::OPENAI,
        ..HOSTED
    },
    Preset {
        name: "gemini",
        title: "Google Gemini",
        api: ProviderApi::GenerateContent,
        url: "https://generativelanguage.googleapis.com",
        own_variable: Some("VENDOR_C_API_KEY"),
        usual_variables: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        ..HOSTED
    },
    Preset {
        name: "openrouter",
        title: "OpenRouter",
        provider: ProviderName::Router,
        url: "https://openrouter.ai/api/v1",
        own_variable: Some("ROUTER_API_KEY"),
        usual_variables: &["OPENROUTER_API_KEY"],
        quirks: Quirks::OPENROUTER,
        ..HOSTED
    },
    Preset {
        name: "ollama",
        title: "Ollama",
        url: "http://127.0.0.1:11434/v1",
        usual_variables: &["OLLAMA_API_KEY"],
        ..LOCAL
    },
    Preset {
        name: "lmstudio",
        title: "LM Studio",
        url: "http://127.0.0.1:1234/v1",
        usual_variables: &["LM_API_TOKEN"],
        ..LOCAL
    },
    Preset {
        name: "llamacpp",
        title: "llama.cpp",
        url: "http://127.0.0.1:8080/v1",
        usual_variables: &["LLAMA_API_KEY"],
        ..LOCAL
    },
    Preset {
        name: "vllm",
        title: "vLLM",
        url: "http://127.0.0.1:8000/v1",
        usual_variables: &["VLLM_API_KEY"],
        ..LOCAL
    },
    Preset {
        name: "azure",
        title: "Azure OpenAI",
        url: "https://{resource}.openai.azure.com/openai/v1",
        usual_variables: &["AZURE_OPENAI_API_KEY"],
        quirks: Quirks {
            key_header: Some("api-key"),
            ..Quirks::OPENAI
        },
        ..HOSTED
    },
    Preset {
        name: "bedrock",
        title: "Amazon Bedrock",
        url: "https://bedrock-mantle.{region}.api.aws/v1",
        usual_variables: &["AWS_BEARER_TOKEN_BEDROCK"],
        quirks: Quirks::OPENAI,
        ..HOSTED
    },
    Preset {
        name: "vertex",
        title: "Google Vertex AI",
        url: "https://{region-}aiplatform.googleapis.com/v1/projects/{project}/locations/{region}/endpoints/openapi",
        usual_variables: &["GOOGLE_OAUTH_ACCESS_TOKEN"],
        quirks: Quirks {
            has_model_list: false,
            ..Quirks::PLAIN
        },
        ..HOSTED
    },
    Preset {
        name: "mistral",
        title: "Mistral",
        url: "https://api.mistral.ai/v1",
        usual_variables: &["MISTRAL_API_KEY"],
        quirks: Quirks {
            takes_stream_options: false,
            ..Quirks::PLAIN
        },
        ..HOSTED
    },
    Preset {
        name: "groq",
        title: "Groq",
        url: "https://api.groq.com/openai/v1",
        usual_variables: &["GROQ_API_KEY"],
        quirks: Quirks::OPENAI,
        ..HOSTED
    },
    Preset {
        name: "deepseek",
        title: "DeepSeek",
        url: "https://api.deepseek.com/v1",
        usual_variables: &["DEEPSEEK_API_KEY"],
        ..HOSTED
    },
    Preset {
        name: "xai",
        title: "xAI",
        // "Use the Responses API. Chat Completions is deprecated" (docs.x.ai, November 2026).
        api: ProviderApi::Responses,
        url: "https://api.x.ai/v1",
        usual_variables: &["XAI_API_KEY"],
        quirks: Quirks::OPENAI,
        ..HOSTED
    },
    Preset {
        name: "together",
        title: "Together AI",
        url: "https://api.together.xyz/v1",
        usual_variables: &["TOGETHER_API_KEY"],
        ..HOSTED
    },
    Preset {
        name: "fireworks",
        title: "Fireworks AI",
        url: "https://api.fireworks.ai/inference/v1",
        usual_variables: &["FIREWORKS_API_KEY"],
        ..HOSTED
    },
    Preset {
        // huggingface/hub-docs, docs/inference-providers/hub-api.md and integrations/codex.md, read November 2026.
        name: "huggingface",
        title: "Hugging Face Inference Providers",
        url: "https://router.huggingface.co/v1",
        usual_variables: &["HF_TOKEN"],
        ..HOSTED
    },
    Preset {
        // inference-docs.cerebras.ai/resources/openai and /api-reference/chat-completions, read November 2026.
        name: "cerebras",
        title: "Cerebras",
        url: "https://api.cerebras.ai/v1",
        usual_variables: &["CEREBRAS_API_KEY"],
        quirks: Quirks::OPENAI,
        ..HOSTED
    },
    Preset {
        // platform.kimi.ai/docs/api/quickstart, read November 2026.
        name: "moonshot",
        title: "Moonshot AI (Kimi)",
        url: "https://api.moonshot.ai/v1",
        usual_variables: &["MOONSHOT_API_KEY"],
        ..HOSTED
    },
    Preset {
        // docs.z.ai/api-reference/introduction, read November 2026. It describes no list of models.
        name: "zai",
        title: "Z.AI",
        url: "https://api.z.ai/api/paas/v4",
        usual_variables: &["ZAI_API_KEY"],
        quirks: Quirks {
            has_model_list: false,
            ..Quirks::PLAIN
        },
        ..HOSTED
    },
    Preset {
        // alibabacloud.com/help, "OpenAI-compatible - Chat" of October 2026: each workspace has its own host. The page
        // describes no list of models.
        name: "qwen",
        title: "Alibaba Cloud Model Studio (Qwen)",
        url: "https://{resource}.{region}.maas.aliyuncs.com/compatible-mode/v1",
        usual_variables: &["DASHSCOPE_API_KEY"],
        quirks: Quirks {
            has_model_list: false,
            ..Quirks::PLAIN
        },
        ..HOSTED
    },
    Preset {
        name: "litellm",
        title: "LiteLLM proxy",
        provider: ProviderName::Router,
        url: "http://127.0.0.1:4000/v1",
        usual_variables: &["LITELLM_API_KEY"],
        ..LOCAL
    },
];

impl Preset {
    /// The vendor of this name.
    pub fn find_by_name(name: &str) -> Option<&'static Self> {
        static ALL: [Preset; PRESETS.len()] = PRESETS;
        ALL.iter().find(|preset| preset.name == name)
    }

    /// The vendor of a provider without `vendor` and `url` on this wire.
    pub(super) fn implied_by_wire(provider: ProviderName, api: ProviderApi) -> Option<&'static Self> {
        match (provider, api) {
            (ProviderName::Hosted, ProviderApi::Messages) => Self::find_by_name("anthropic"),
            (ProviderName::Hosted, ProviderApi::Chat | ProviderApi::Responses) => Self::find_by_name("openai"),
            (ProviderName::Hosted, ProviderApi::GenerateContent) => Self::find_by_name("gemini"),
            (ProviderName::Router, _) => Self::find_by_name("openrouter"),
            _ => None,
        }
    }

    /// All variables that may hold its key, in order of precedence.
    pub fn variables(&self) -> impl Iterator<Item = &'static str> {
        self.own_variable
            .into_iter()
            .chain(self.usual_variables.iter().copied())
    }

    /// The settings that its URL needs: `region`, `project`, `resource`.
    pub fn parts(&self) -> impl Iterator<Item = &'static str> {
        UrlParts::NAMES
            .into_iter()
            .filter(|name| self.url.contains(&format!("{{{name}}}")))
    }
}

/// The nearest preset name, else all names.
pub fn suggest_vendor(name: &str) -> String {
    let names = PRESETS.map(|preset| preset.name);
    match nearest_name(name, names) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("known vendors: {}", names.join(", ")),
    }
}

/// Values for the placeholders of a URL.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct UrlParts<'a> {
    pub(super) region: Option<&'a str>,
    pub(super) project: Option<&'a str>,
    pub(super) resource: Option<&'a str>,
}

/// The placeholder for the model, which may change within a session.
pub(super) const MODEL: &str = "{model}";

/// A URL with the model put in.
pub(super) fn fill_model(url: &str, model: &str) -> String {
    url.replace(MODEL, &percent_encode(model, SEGMENT))
}

impl<'a> UrlParts<'a> {
    const NAMES: [&'static str; 3] = ["region", "project", "resource"];

    fn of(&self, name: &str) -> Option<&'a str> {
        match name {
            "region" | "region-" => self.region,
            "project" => self.project,
            "resource" => self.resource,
            _ => None,
        }
    }

    /// Replaces every placeholder in the URL except `{model}`. The error is the name of the missing setting. Other text
    /// in braces stays.
    pub(super) fn fill(&self, url: &str) -> Result<String, &'static str> {
        const PLACEHOLDERS: [(&str, &str); 4] = [
            ("{region-}", "region"),
            ("{region}", "region"),
            ("{project}", "project"),
            ("{resource}", "resource"),
        ];
        let mut filled = url.to_owned();
        for (placeholder, name) in PLACEHOLDERS {
            if !filled.contains(placeholder) {
                continue;
            }
            let value = self.of(name).ok_or(name)?;
            let text = match placeholder {
                // The vendor's global endpoint has no region in its host name.
                "{region-}" if value == "global" => String::new(),
                "{region-}" => format!("{value}-"),
                _ => percent_encode(value, SEGMENT),
            };
            filled = filled.replace(placeholder, &text);
        }
        Ok(filled)
    }
}

/// True for a value that may become part of a host name or of a path.
pub(super) fn is_url_part(value: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
    !value.is_empty() && value.len() <= 100 && value.chars().all(allowed)
}

/// Characters besides letters and digits that are not encoded in one segment of a path.
const SEGMENT: &str = "-._~:";

#[cfg(test)]
mod tests {
    use tool_core::api::FORWARDED;

    use super::*;

    #[test]
    fn every_preset_has_a_name_and_its_variables_reach_a_session() {
        for preset in PRESETS {
            assert_eq!(Preset::find_by_name(preset.name), Some(&preset));
            assert!(!preset.title.is_empty() && preset.url.starts_with("http"), "{preset:?}");
            assert!(!preset.needs_key || preset.variables().next().is_some(), "{preset:?}");
            for variable in preset.variables() {
                assert!(FORWARDED.contains(&variable), "{variable}");
            }
        }
    }

    #[test]
    fn no_two_vendors_share_a_variable() {
        let mut all: Vec<&str> = PRESETS.iter().flat_map(Preset::variables).collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }

    #[test]
    fn placeholders_are_filled_or_the_missing_setting_is_named() {
        let parts = UrlParts {
            region: Some("europe-west4"),
            project: Some("shop"),
            resource: Some("mine"),
        };
        let vertex = Preset::find_by_name("vertex").expect("it is there").url;
        assert_eq!(
            parts.fill(vertex).as_deref(),
            Ok(
                "https://europe-west4-aiplatform.googleapis.com/v1/projects/shop/locations/europe-west4/endpoints/openapi"
            )
        );
        let global = UrlParts {
            region: Some("global"),
            ..parts
        };
        assert_eq!(
            global.fill(vertex).as_deref(),
            Ok("https://aiplatform.googleapis.com/v1/projects/shop/locations/global/endpoints/openapi")
        );
        assert_eq!(
            fill_model("https://h/{model}?v={else}", "a/b c"),
            "https://h/a%2Fb%20c?v={else}"
        );
        assert_eq!(UrlParts::default().fill(vertex), Err("region"));
        let azure = Preset::find_by_name("azure").expect("it is there");
        assert_eq!(azure.parts().collect::<Vec<_>>(), ["resource"]);
    }
}
