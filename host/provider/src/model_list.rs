//! Reads a provider's list of models, in every form that servers give it.

use serde::Serialize;
use serde_json::Value;

use tool_config::{PriceRow, TokenPrice};
use tool_core::text::reveal_line;

/// Most models that are kept. The largest router lists about 500.
const PROVIDER_MODELS_MAX: usize = 2000;

/// A model as its provider's list describes it. A field is `None` if the list does not give it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ListedModel {
    /// Its identifier.
    pub id: String,
    /// Context in tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_tokens: Option<u64>,
    /// Price of a million input tokens, in US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input_price: Option<f64>,
    /// Price of a million output tokens, in US dollars.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_price: Option<f64>,
    /// Price of a million input tokens read from the cache, in US dollars.
    #[serde(skip)]
    pub(super) cache_read_price: Option<f64>,
    /// Price of a million input tokens written to the cache, in US dollars.
    #[serde(skip)]
    pub(super) cache_write_price: Option<f64>,
    /// True if a request costs something besides its tokens.
    #[serde(skip)]
    pub(super) has_request_price: bool,
    /// Time when it appeared, in seconds since 1970.
    #[serde(skip)]
    pub(super) created: Option<u64>,
}

impl ListedModel {
    /// Price of its tokens; `None` if the list has none, or if more than tokens is charged for.
    pub(super) fn token_price(&self) -> Option<TokenPrice> {
        let row = PriceRow {
            input: self.input_price?,
            output: self.output_price?,
            cache_read: self.cache_read_price,
            cache_write: self.cache_write_price,
        };
        row.try_into().ok().filter(|_| !self.has_request_price)
    }
}

pub(super) fn parse_identifiers(body: &str) -> Vec<String> {
    parse_models(body).into_iter().map(|model| model.id).collect()
}

/// The models of a list in any known form: `{"data": […]}`, `{"models": […]}` or a bare array, of objects with `id` or
/// `name`, or of strings. Models that the server marks as unfit for conversations are left out.
pub(super) fn parse_models(body: &str) -> Vec<ListedModel> {
    let list: Value = serde_json::from_str(body).unwrap_or_default();
    let entries = [Some(&list), list.get("data"), list.get("models")]
        .into_iter()
        .flatten()
        .find_map(Value::as_array);
    let mut found: Vec<ListedModel> = Vec::new();
    for entry in entries.into_iter().flatten().filter(|entry| can_converse(entry)) {
        let identifier = [Some(entry), entry.get("id"), entry.get("name")]
            .into_iter()
            .flatten()
            .find_map(Value::as_str);
        let Some(identifier) = identifier else { continue };
        // A name is printed on lines of its own; a server must not be able to print further lines or control the
        // terminal with it.
        let identifier = reveal_line(identifier.trim_start_matches("models/"));
        if found.len() < PROVIDER_MODELS_MAX && found.iter().all(|model| model.id != identifier) {
            found.push(ListedModel {
                context_tokens: context_of(entry),
                input_price: price_per_million(entry, "/pricing/prompt"),
                output_price: price_per_million(entry, "/pricing/completion"),
                cache_read_price: price_per_million(entry, "/pricing/input_cache_read"),
                cache_write_price: price_per_million(entry, "/pricing/input_cache_write"),
                has_request_price: price_per_million(entry, "/pricing/request").is_some_and(|price| price > 0.0),
                created: entry.get("created").and_then(Value::as_u64),
                id: identifier,
            });
        }
    }
    found
}

/// The context size of a model, by the names that lists use for it.
pub(super) fn context_of(entry: &Value) -> Option<u64> {
    const PLACES: [&str; 8] = [
        "/context_length",
        "/context_window",
        "/max_model_len",
        "/max_context_length",
        "/max_input_tokens",
        "/inputTokenLimit",
        "/meta/n_ctx_train",
        "/capabilities/limits/max_context_window_tokens",
    ];
    let tokens = PLACES.iter().find_map(|place| entry.pointer(place)?.as_u64());
    tokens.filter(|tokens| *tokens > 0)
}

/// Converts a price for one token, which routers write as text, to one for a million.
fn price_per_million(entry: &Value, place: &str) -> Option<f64> {
    let value = entry.pointer(place)?;
    let one = value.as_f64().or_else(|| value.as_str()?.parse().ok())?;
    Some(one * 1e6).filter(|price| price.is_finite() && *price >= 0.0)
}

/// False if an entry lists its methods and generating content is not among them.
fn can_converse(entry: &Value) -> bool {
    match entry.get("supportedGenerationMethods").and_then(Value::as_array) {
        Some(methods) => methods.iter().any(|method| method == "generateContent"),
        None => true,
    }
}

#[cfg(test)]
mod tests {
    use super::{ListedModel, parse_identifiers, parse_models};

    #[test]
    fn an_identifier_is_one_line_of_characters_that_can_be_seen() {
        let body = r#"[{"id": "m\u001b]52;c;aGFjaw==\u0007\u202e::error::pwn\n##[command]x"}]"#;
        let shown = "m<U+001B>]52;c;aGFjaw==<U+0007><U+202E>::error::pwn<U+000A>##[command]x";
        assert_eq!(parse_identifiers(body), [shown]);
    }

    #[test]
    fn context_and_price_are_read_where_a_list_has_them() {
        let body = r#"{"data":[
            {"id":"a/b","context_length":200000,"pricing":{"prompt":"0.000003","completion":"0.000015"},"created":7},
            {"id":"c","max_model_len":4096},{"name":"models/g","inputTokenLimit":1048576},
            {"id":"d","context_length":0,"pricing":{"prompt":"free"}}]}"#;
        let model = |id: &str, context_tokens| ListedModel {
            id: id.to_owned(),
            context_tokens,
            ..ListedModel::default()
        };
        let mut models = parse_models(body);
        let prices = (models[0].input_price.take(), models[0].output_price.take());
        assert!(prices.0.is_some_and(|price| (price - 3.0).abs() < 1e-9), "{prices:?}");
        assert!(prices.1.is_some_and(|price| (price - 15.0).abs() < 1e-9), "{prices:?}");
        assert_eq!(models[0].created.take(), Some(7));
        assert_eq!(
            models,
            [
                model("a/b", Some(200_000)),
                model("c", Some(4096)),
                model("g", Some(1_048_576)),
                model("d", None)
            ]
        );
    }

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
            assert_eq!(parse_identifiers(body), ["a", "b"], "{body}");
        }
        for body in ["", "<html>", "{}", "null", r#"{"data":{}}"#] {
            assert!(parse_identifiers(body).is_empty(), "{body}");
        }
    }

    #[test]
    fn models_of_an_endless_list_are_the_first_ones() {
        let many: Vec<String> = (0..3_000).map(|number| format!("m{number}")).collect();
        let body = serde_json::to_string(&many).expect("it is JSON");
        assert_eq!(parse_identifiers(&body), many[..super::PROVIDER_MODELS_MAX]);
    }
}
