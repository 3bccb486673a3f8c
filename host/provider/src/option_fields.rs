//! Puts the user's options into the form of each wire: reasoning, temperature, and the bound of the output.
//!
//! An option that is not set does not appear in a request, because some servers refuse options that they do not know.

use serde_json::{Value, json};

use tool_config::{Effort, Quirks, Reasoning, RequestOptions};

/// Fewest tokens of thinking that the Messages wire accepts, and fewest that are left for the answer.
const MESSAGES_THINKING_MIN: u64 = 1024;

/// Chat Completions.
pub(super) fn shape_chat(body: &mut Value, options: &RequestOptions, quirks: &Quirks) {
    set_temperature(body, options);
    match options.reasoning {
        Some(Reasoning::Budget(tokens)) if quirks.has_reasoning_object => {
            body["reasoning"] = json!({"max_tokens": tokens});
        }
        Some(Reasoning::Effort(effort)) if quirks.has_reasoning_object => {
            body["reasoning"] = json!({"effort": effort.name()});
        }
        _ => {
            if let Some(effort) = options.effort() {
                body["reasoning_effort"] = json!(effort.name());
            }
        }
    }
}

/// How a model of the Messages API thinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MessagesThinking {
    /// False once the model has refused to choose by itself how much it thinks.
    pub(super) is_adaptive: bool,
    /// False once the server has refused to show it.
    pub(super) is_shown: bool,
    /// True once the model has thought without being asked.
    pub(super) is_usual: bool,
}

impl MessagesThinking {
    /// The model decides how much it thinks. Current models show their thinking only if asked to.
    fn adaptive(self) -> Value {
        let mut thinking = json!({"type": "adaptive"});
        if self.is_shown {
            thinking["display"] = "summarized".into();
        }
        thinking
    }
}

/// The Messages API.
pub(super) fn shape_messages(body: &mut Value, options: &RequestOptions, thinking: MessagesThinking) {
    set_temperature(body, options);
    match options.reasoning {
        Some(Reasoning::Effort(Effort::None) | Reasoning::Budget(0)) => {
            body["thinking"] = json!({"type": "disabled"});
        }
        Some(Reasoning::Effort(effort)) => {
            if thinking.is_adaptive {
                body["thinking"] = thinking.adaptive();
            }
            let level = match effort {
                Effort::Minimal => Effort::Low,
                other => other,
            };
            body["output_config"] = json!({"effort": level.name()});
        }
        Some(Reasoning::Budget(tokens)) => {
            // The budget is part of the bound, and some of the bound must be left for the answer.
            let bound = body["max_tokens"].as_u64().unwrap_or(0);
            let tokens = u64::from(tokens).min(bound.saturating_sub(MESSAGES_THINKING_MIN));
            if tokens >= MESSAGES_THINKING_MIN {
                body["thinking"] = json!({"type": "enabled", "budget_tokens": tokens});
            }
        }
        None if thinking.is_usual && thinking.is_adaptive => body["thinking"] = thinking.adaptive(),
        None => {}
    }
}

/// The Responses API knows only efforts: a budget is mapped to the nearest effort.
pub(super) fn shape_responses(body: &mut Value, options: &RequestOptions) {
    set_temperature(body, options);
    if let Some(effort) = options.effort() {
        body["reasoning"]["effort"] = json!(effort.name());
    }
}

/// generateContent has all options in `generationConfig`.
pub(super) fn shape_generate_content(body: &mut Value, options: &RequestOptions, max_tokens: Option<u32>) {
    let mut settings = json!({});
    if let Some(bound) = options.output_bound(max_tokens) {
        settings["maxOutputTokens"] = json!(bound);
    }
    set_temperature(&mut settings, options);
    match options.reasoning {
        Some(Reasoning::Budget(tokens)) => settings["thinkingConfig"] = json!({"thinkingBudget": tokens}),
        Some(Reasoning::Effort(Effort::None)) => settings["thinkingConfig"] = json!({"thinkingBudget": 0}),
        Some(Reasoning::Effort(effort)) => {
            let level = match effort {
                Effort::Xhigh | Effort::Max => Effort::High,
                other => other,
            };
            settings["thinkingConfig"] = json!({"thinkingLevel": level.name()});
        }
        None => {}
    }
    if settings.as_object().is_some_and(|settings| !settings.is_empty()) {
        body["generationConfig"] = settings;
    }
}

fn set_temperature(body: &mut Value, options: &RequestOptions) {
    if let Some(temperature) = options.temperature {
        body["temperature"] = json!(temperature.value());
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use tool_core::api::ProviderName;

    use super::*;

    const ADAPTIVE: MessagesThinking = MessagesThinking {
        is_adaptive: true,
        is_shown: true,
        is_usual: false,
    };

    fn options(reasoning: Option<Reasoning>) -> RequestOptions {
        RequestOptions {
            reasoning,
            temperature: Some(0.5.try_into().expect("it is between 0 and 2")),
            max_output_tokens: NonZeroU32::new(9000),
            headers: Vec::new(),
        }
    }

    fn shaped(shape: impl Fn(&mut Value, &RequestOptions), reasoning: Reasoning) -> Value {
        let mut body = json!({"max_tokens": 9000});
        shape(&mut body, &options(Some(reasoning)));
        assert!(
            body["temperature"] == 0.5 || body["generationConfig"]["temperature"] == 0.5,
            "{body}"
        );
        body
    }

    #[test]
    fn nothing_is_sent_that_the_user_did_not_set() {
        let (mut body, none) = (json!({}), RequestOptions::default());
        shape_chat(&mut body, &none, &Quirks::of_provider(ProviderName::Local));
        shape_messages(&mut body, &none, ADAPTIVE);
        shape_generate_content(&mut body, &none, None);
        assert_eq!(body, json!({}));
    }

    #[test]
    fn chat_takes_an_effort_in_one_of_two_forms() {
        let form = |provider| {
            move |body: &mut Value, options: &RequestOptions| shape_chat(body, options, &Quirks::of_provider(provider))
        };
        let low = Reasoning::Effort(Effort::Low);
        assert_eq!(shaped(form(ProviderName::Hosted), low)["reasoning_effort"], "low");
        assert_eq!(
            shaped(form(ProviderName::Router), low)["reasoning"],
            json!({"effort": "low"})
        );
        let budget = Reasoning::Budget(2000);
        assert_eq!(
            shaped(form(ProviderName::Router), budget)["reasoning"],
            json!({"max_tokens": 2000})
        );
    }

    #[test]
    fn messages_takes_an_effort_or_a_budget_below_the_bound() {
        let form = |body: &mut Value, options: &RequestOptions| shape_messages(body, options, ADAPTIVE);
        let high = shaped(form, Reasoning::Effort(Effort::High));
        assert_eq!(high["thinking"], json!({"type": "adaptive", "display": "summarized"}));
        assert_eq!(high["output_config"], json!({"effort": "high"}));
        let old = MessagesThinking {
            is_adaptive: false,
            ..ADAPTIVE
        };
        let older = |body: &mut Value, options: &RequestOptions| shape_messages(body, options, old);
        assert_eq!(shaped(older, Reasoning::Effort(Effort::High)).get("thinking"), None);
        let thinking = |reasoning| shaped(form, reasoning)["thinking"].clone();
        assert_eq!(thinking(Reasoning::Effort(Effort::None)), json!({"type": "disabled"}));
        assert_eq!(thinking(Reasoning::Budget(0)), json!({"type": "disabled"}));
        assert_eq!(
            thinking(Reasoning::Budget(4000)),
            json!({"type": "enabled", "budget_tokens": 4000})
        );
        assert_eq!(
            thinking(Reasoning::Budget(64_000)),
            json!({"type": "enabled", "budget_tokens": 7976})
        );
    }

    #[test]
    fn generate_content_takes_a_level_or_a_budget() {
        let form = |body: &mut Value, options: &RequestOptions| shape_generate_content(body, options, Some(700));
        let config = |reasoning| shaped(form, reasoning)["generationConfig"].clone();
        assert_eq!(
            config(Reasoning::Effort(Effort::Max)),
            json!({"maxOutputTokens": 700, "temperature": 0.5, "thinkingConfig": {"thinkingLevel": "high"}})
        );
        assert_eq!(
            config(Reasoning::Effort(Effort::None))["thinkingConfig"],
            json!({"thinkingBudget": 0})
        );
        assert_eq!(
            config(Reasoning::Budget(512))["thinkingConfig"],
            json!({"thinkingBudget": 512})
        );
    }
}
