//! Learns the context size of the model: asks the server before a request, and compares with the tokens that it counted
//! after.
//!
//! Local servers often load a model with a context that is far smaller than the model's own. Some cut the front of a
//! longer prompt silently, and with it instructions and tools. Nothing here changes a request: the builder of the
//! request gets the size, and the user is warned if the numbers contradict each other. `http` sends the questions.

use serde_json::Value;

use super::model_list::context_of;
use super::{Usage, address};
use tool_config::ProviderSettings;
use tool_core::api::ProviderName;

/// Asking a server for the size of its context, all places where it may stand together: a session waits for it.
pub(crate) const PROVIDER_CONTEXT_SECONDS_MAX: u64 = 2;

/// Estimated tokens of a prompt, from which on a server's count far below is a sign that the prompt was cut. Below it,
/// our estimate is mostly that of schemas and errs by more; the smallest usual context is 2048.
const TRUNCATION_ALARM_TOKENS_MIN: u64 = 2000;

/// Numbers outside this range are not taken for a context size.
const PLAUSIBLE: std::ops::RangeInclusive<u64> = 256..=100_000_000;

/// A place where a server may tell the context size.
pub(super) struct ContextPlace {
    pub(super) url: String,
    naming: EntryNaming,
    /// True if the server always serves a model with its whole context, so that the size in the list of models counts.
    is_whole: bool,
    /// Address of a request that loads the model; absent unless this place lists only loaded models.
    pub(super) load: Option<String>,
}

impl ContextPlace {
    /// The size that the answer from this place gives for a model.
    pub(super) fn size_in(&self, answer: &str, model: &str) -> Option<u64> {
        self.read(&serde_json::from_str(answer).unwrap_or_default(), model)
    }

    /// Reads the size for a model from an answer in any known form.
    fn read(&self, answer: &Value, model: &str) -> Option<u64> {
        let lists = [Some(answer), answer.get("data"), answer.get("models")];
        let size = match lists.into_iter().flatten().find_map(Value::as_array) {
            Some(entries) => {
                let entry = entry_of(entries, model, self.naming)?;
                size_of(entry).or_else(|| context_of(entry).filter(|_| self.is_whole))
            }
            None => ["/default_generation_settings/n_ctx", "/n_ctx"]
                .iter()
                .find_map(|pointer| parse_number(answer.pointer(pointer)?)),
        };
        size.filter(|size| PLAUSIBLE.contains(size))
    }
}

/// The places to ask, in order; nothing if the provider's URL cannot be parsed. `models_path` is that of its wire's list.
pub(super) fn list_places(settings: &ProviderSettings, models_path: &str) -> Option<Vec<ContextPlace>> {
    let (list, root) = (
        address::join_url(&settings.url, models_path),
        url_origin(&settings.url)?,
    );
    let is_whole = settings.name != ProviderName::Local;
    let place = |url, naming| ContextPlace {
        url,
        naming,
        is_whole,
        load: None,
    };
    // The usual list first; then what the known kinds of local servers tell elsewhere.
    Some(match settings.name {
        ProviderName::Hosted if !settings.quirks.has_model_list => vec![],
        ProviderName::Hosted | ProviderName::Router => vec![place(list, EntryNaming::Exact)],
        ProviderName::Local => vec![
            place(list, EntryNaming::OrOnly),
            place(format!("{root}/api/v1/models"), EntryNaming::OrOnly),
            place(format!("{root}/props"), EntryNaming::OrOnly),
            ContextPlace {
                load: Some(format!("{root}/api/generate")),
                ..place(format!("{root}/api/ps"), EntryNaming::Exact)
            },
        ],
    })
}

/// The URL's scheme, host and port.
pub(super) fn url_origin(url: &str) -> Option<String> {
    let parsed = reqwest::Url::parse(url).ok()?;
    Some(parsed.origin().ascii_serialization())
}

/// Rule that picks the model's entry from a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EntryNaming {
    /// The entry with the model's name.
    Exact,
    /// The entry with the model's name, or the only entry: such a server serves one model under any name.
    OrOnly,
}

fn entry_of<'v>(entries: &'v [Value], model: &str, naming: EntryNaming) -> Option<&'v Value> {
    let is_named = |entry: &Value| {
        let instances = entry.get("loaded_instances").and_then(Value::as_array);
        let mut names = ["id", "key", "name", "model"]
            .into_iter()
            .filter_map(|key| entry.get(key)?.as_str())
            .map(|name| name.trim_start_matches("models/"));
        let mut loaded = instances
            .into_iter()
            .flatten()
            .filter_map(|instance| instance.get("id")?.as_str());
        names.any(|name| name == model) || loaded.any(|name| name == model)
    };
    let named = entries.iter().find(|entry| is_named(entry));
    named.or(match entries {
        [only] if naming == EntryNaming::OrOnly => Some(only),
        _ => None,
    })
}

/// Context size of an entry. The loaded size takes precedence over the model's own.
fn size_of(entry: &Value) -> Option<u64> {
    let at = |pointer: &str| entry.pointer(pointer).and_then(parse_number);
    let instances = entry.get("loaded_instances").and_then(Value::as_array);
    let loaded = instances.into_iter().flatten();
    let loaded = loaded.filter_map(|instance| parse_number(instance.pointer("/config/context_length")?));
    let told = loaded.min().or_else(|| at("/loaded_context_length"));
    let told = told.or_else(|| at("/meta/n_ctx")).or_else(|| at("/max_model_len"));
    told.or_else(|| {
        // A router's list names the model's own size and that of the vendor who serves it.
        let sizes = [at("/context_length"), at("/top_provider/context_length")];
        sizes.into_iter().flatten().min()
    })
}

fn parse_number(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.trim().parse().ok())
}

/// Address at which a local llama.cpp tells what its chat template can do; none if the list of models shows another server.
pub(super) fn template_place(settings: &ProviderSettings, list: &str) -> Option<String> {
    if settings.name != ProviderName::Local || !list.contains(LLAMA_CPP) {
        return None;
    }
    Some(format!("{}/props", url_origin(&settings.url)?))
}

/// The owner of models in a list of llama.cpp.
const LLAMA_CPP: &str = "\"llamacpp\"";

/// True if the properties of a server say that its chat template leaves tools out.
pub(super) fn drops_tools(properties: &str) -> bool {
    let properties: Value = serde_json::from_str(properties).unwrap_or_default();
    properties["chat_template_caps"]["supports_tools"] == false
}

/// The text of a request's tools and messages, which a server's template turns into the prompt.
pub(super) fn prompt_text(body: &Value) -> String {
    let parts = ["tools", "messages"].into_iter().filter_map(|key| body[key].as_array());
    let text = |part: &Value| match (&part["role"], &part["content"], &part["tool_calls"]) {
        (Value::String(role), Value::String(content), Value::Null) => format!("{role}\n{content}\n"),
        _ => part.to_string(),
    };
    parts.flatten().map(text).collect()
}

/// The count in the answer of a tokenizer: a number, or the length of its list of tokens.
pub(super) fn tokens_counted(answer: &Value) -> Option<u64> {
    let listed = || answer["tokens"].as_array().map(|tokens| tokens.len() as u64);
    answer["count"].as_u64().or_else(listed).filter(|count| *count > 0)
}

/// The message for a request that is longer than the context.
pub(super) fn too_long(estimate: u64, context: u64) -> Option<String> {
    (estimate > context).then(|| {
        format!(
            "About {estimate} tokens are sent, and the model was loaded with a context of {context}: its front may be \
             cut off. Load the model with a larger context, or target fewer or smaller files."
        )
    })
}

/// The message for an answer whose server counted far fewer tokens than we sent.
pub(super) fn cut_in_silence(estimate: u64, usage: &Usage) -> Option<String> {
    // If more tokens came from the cache than in total, the server does not count cached tokens.
    let counted = if usage.cached_tokens > usage.input_tokens {
        usage.input_tokens.saturating_add(usage.cached_tokens)
    } else {
        usage.input_tokens
    };
    let counts = !usage.estimated && usage.input_tokens > 0;
    let suspicious = counts && estimate > TRUNCATION_ALARM_TOKENS_MIN && counted < estimate / 2;
    suspicious.then(|| {
        format!(
            "The server read {} tokens of a prompt of about {estimate}: it may have cut the front in silence, \
             instructions and tools first. Load the model with a larger context, or target fewer or smaller files.",
            usage.input_tokens
        )
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn place(naming: EntryNaming, is_whole: bool) -> ContextPlace {
        ContextPlace {
            url: String::new(),
            naming,
            is_whole,
            load: None,
        }
    }

    #[test]
    fn local_21_the_size_is_read_in_every_form() {
        for (answer, expected) in [
            (
                json!({"data": [{"id": "m", "meta": {"n_ctx": 4096, "n_ctx_train": 131_072}}]}),
                Some(4096),
            ),
            (json!({"data": [{"id": "m", "meta": {"n_ctx_train": 131_072}}]}), None),
            (json!({"data": [{"id": "m", "max_model_len": 32_768}]}), Some(32_768)),
            (
                json!({"data": [{"id": "m", "loaded_context_length": 8192, "max_context_length": 131_072}]}),
                Some(8192),
            ),
            (json!({"data": [{"id": "m", "max_context_length": 131_072}]}), None),
            (
                json!({"data": [{"id": "m", "context_length": 200_000, "top_provider": {"context_length": 64_000}}]}),
                Some(64_000),
            ),
            (json!({"data": [{"id": "m", "context_length": "8192"}]}), Some(8192)),
            (
                json!({"data": [{"id": "a", "max_model_len": 1}, {"id": "m", "max_model_len": 512}]}),
                Some(512),
            ),
            (json!({"data": [{"id": "a", "max_model_len": 512}, {"id": "b"}]}), None),
            (json!([{"id": "other", "max_model_len": 512}]), Some(512)),
            (json!({"n_ctx": 1024}), Some(1024)),
            (json!({"data": [{"id": "m", "max_model_len": 0}]}), None),
            (json!({"data": [{"id": "m", "max_model_len": -1}]}), None),
            (json!({"data": []}), None),
            (json!(null), None),
        ] {
            assert_eq!(
                place(EntryNaming::OrOnly, false).read(&answer, "m"),
                expected,
                "{answer}"
            );
        }
        let other = json!({"models": [{"name": "other", "context_length": 512}]});
        assert_eq!(place(EntryNaming::Exact, false).read(&other, "m"), None);
    }

    #[test]
    fn a_hosted_models_own_size_is_read_in_every_form() {
        for entry in [
            json!({"id": "m", "context_length": 32_768}),
            json!({"id": "m", "max_model_len": 32_768}),
            json!({"id": "m", "context_window": 32_768}),
            json!({"id": "m", "meta": {"n_ctx": 32_768, "n_ctx_train": 131_072}}),
            json!({"id": "m", "loaded_context_length": 32_768, "max_context_length": 131_072}),
            json!({"id": "m", "max_context_length": 32_768}),
            json!({"id": "m", "max_input_tokens": 32_768}),
            json!({"name": "models/m", "inputTokenLimit": 32_768}),
            json!({"id": "m", "capabilities": {"limits": {"max_context_window_tokens": 32_768}}}),
        ] {
            let list = json!({"data": [{"id": "other", "context_length": 512}, entry]});
            assert_eq!(place(EntryNaming::Exact, true).read(&list, "m"), Some(32_768), "{list}");
        }
        let none = json!({"data": [{"id": "m", "object": "model"}]});
        assert_eq!(place(EntryNaming::Exact, true).read(&none, "m"), None);
    }

    #[test]
    fn local_21_a_short_prompt_raises_no_alarm() {
        let counted = Usage {
            input_tokens: 10,
            ..Usage::default()
        };
        assert_eq!(cut_in_silence(TRUNCATION_ALARM_TOKENS_MIN, &counted), None);
        assert!(cut_in_silence(TRUNCATION_ALARM_TOKENS_MIN + 1, &counted).is_some());
    }
}
