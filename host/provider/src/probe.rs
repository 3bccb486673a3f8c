//! Finds out the capabilities of the enabled provider with a few tiny turns, and names workarounds for those that it
//! lacks.
//!
//! Nothing here runs a tool: the model's calls are inspected and dropped. Each check is bounded in time, and a server
//! that cannot answer at all is asked once instead of once for each check.

mod remarks;

#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, PoisonError};

use futures_util::StreamExt;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use self::remarks::PRINTED;
use super::body::FrameTap;
use super::http::HttpProvider;
use super::models::fetch_models;
use super::sse::Frame;
use super::{
    Message, ModelRequest, Options, Provider, ProviderError, ProviderEvent, ToolCall, ToolSpec, Usage, over_http,
};
use crate::limits::{self, CONTEXT_TOKENS};
use tool_config::{ProviderApi, ProviderSettings};
use tool_core::api::ProviderName;

/// Most output tokens of one answer to a probe: a sentence or two calls, and some hundred tokens for models that think
/// first. A small model on a CPU writes as many within `PROBE_CHECK_SECONDS_MAX`.
const PROBE_OUTPUT_TOKENS: u32 = 1000;

/// One check of a probe. The first may have to wait until a large local model is loaded.
const PROBE_CHECK_SECONDS_MAX: u64 = 120;

/// Results of a probe.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProbeReport {
    /// One entry for each check, always the same six in the same order.
    pub checks: Vec<ProbeCheck>,
}

/// One check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProbeCheck {
    /// `streaming`, `one tool`, `parallel tools`, `empty arguments`, `context size`, `models`.
    pub name: &'static str,
    /// Outcome of the check.
    pub verdict: ProbeVerdict,
    /// Observation, workaround or cause of the failure. It is not a sentence and contains no key.
    pub detail: String,
}

/// Outcome of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProbeVerdict {
    /// The capability works as the wire specifies.
    Works,
    /// The capability differs from the wire, but a workaround compensates.
    WorkedAround,
    /// The capability is missing.
    Fails,
}

use ProbeVerdict::{Fails, WorkedAround, Works};

/// The checks that ask the model; the others ask the server.
const TURNS: [&str; 4] = ["streaming", "one tool", "parallel tools", "empty arguments"];
const CONTEXT: &str = "context size";
const MODELS: &str = "models";

/// Sends tiny turns to the provider, in the caller's own process. Takes seconds, or minutes if a model must be loaded
/// first.
pub async fn probe_provider(settings: &ProviderSettings, options: &Options) -> ProbeReport {
    if settings.api == ProviderApi::Analyst {
        return all_alike(Works, "the embedded analyst answers without a server");
    }
    let tap = FrameTap::default();
    let provider = match over_http(settings, options) {
        Ok(provider) => provider.tapped(Arc::clone(&tap)),
        Err(problem) => return all_alike(Fails, &problem.message),
    };
    let prober = Prober { provider, tap };
    let (streaming, is_reached) = prober.streaming().await;
    let mut checks = vec![streaming];
    let fallback = if is_reached { WorkedAround } else { Fails };
    if !is_reached {
        let skipped = TURNS[1..]
            .iter()
            .map(|name| build_check(name, Fails, "not tried, since streaming fails".to_owned()));
        checks.extend(skipped);
    } else {
        checks.push(prober.one_tool().await);
        checks.push(prober.parallel_tools().await);
        checks.push(prober.empty_arguments().await);
    }
    checks.push(prober.context_size(fallback).await);
    checks.push(prober.model_list(fallback).await);
    ProbeReport { checks }
}

fn build_check(name: &'static str, verdict: ProbeVerdict, detail: String) -> ProbeCheck {
    ProbeCheck { name, verdict, detail }
}

fn all_alike(verdict: ProbeVerdict, detail: &str) -> ProbeReport {
    let names = TURNS.into_iter().chain([CONTEXT, MODELS]);
    ProbeReport {
        checks: names
            .map(|name| build_check(name, verdict, detail.to_owned()))
            .collect(),
    }
}

struct Prober {
    provider: HttpProvider,
    tap: FrameTap,
}

/// The answer to one tiny turn.
#[derive(Default)]
struct ProbeAnswer {
    events: Vec<ProviderEvent>,
    frames: Vec<Frame>,
    /// Why there is no answer, or only half of one.
    failure: Option<String>,
}

impl ProbeAnswer {
    fn pieces(&self) -> usize {
        let is_text = |event: &&ProviderEvent| matches!(event, ProviderEvent::Text(_));
        self.events.iter().filter(is_text).count()
    }

    fn calls(&self) -> Vec<&ToolCall> {
        let calls = self.events.iter().filter_map(|event| match event {
            ProviderEvent::ToolCall(call) => Some(call),
            _ => None,
        });
        calls.collect()
    }

    fn usage(&self) -> Option<Usage> {
        self.events.iter().find_map(|event| match event {
            ProviderEvent::Usage(usage) => Some(*usage),
            _ => None,
        })
    }

    fn printed_call(&self) -> bool {
        self.events
            .iter()
            .any(|event| matches!(event, ProviderEvent::TextCall { .. }))
    }
}

impl Prober {
    /// Also returns false if the model sent no part of an answer: more questions would be useless.
    async fn streaming(&self) -> (ProbeCheck, bool) {
        let answer = self
            .ask("Count from one to ten, in words, separated by commas.", &[])
            .await;
        let is_part = |event: &ProviderEvent| {
            matches!(
                event,
                ProviderEvent::Text(_) | ProviderEvent::Reasoning(_) | ProviderEvent::ToolCall(_)
            )
        };
        let is_reached = answer.failure.is_none() || answer.events.iter().any(is_part);
        (self.judge_stream(answer), is_reached)
    }

    fn judge_stream(&self, answer: ProbeAnswer) -> ProbeCheck {
        let name = TURNS[0];
        if let Some(failure) = answer.failure {
            return build_check(name, Fails, failure);
        }
        let pieces = answer.pieces();
        if pieces == 0 {
            return build_check(name, Fails, "the model said nothing".to_owned());
        }
        let mut said = remarks::of_stream(self.provider.settings().api, &answer.frames);
        if pieces == 1 {
            said.push("the answer came in one piece: nothing can be shown while it is written");
        }
        let counts = answer.usage().map(|usage| {
            let estimated = if usage.estimated { " (estimated)" } else { "" };
            format!(
                ", {} tokens in, {} out{estimated}",
                usage.input_tokens, usage.output_tokens
            )
        });
        let plural = if pieces == 1 { "" } else { "s" };
        let seen = format!("{pieces} piece{plural}{}", counts.unwrap_or_default());
        judge_check(name, seen, &said)
    }

    async fn one_tool(&self) -> ProbeCheck {
        let name = TURNS[1];
        let answer = self
            .ask("Call the tool `weather` for the city Oslo.", &[weather_tool()])
            .await;
        match find_objection(&answer, "weather", &self.provider.settings()) {
            Some(objection) => build_check(name, Fails, objection),
            None => self.judged_call(name, "called with its argument".to_owned(), &answer),
        }
    }

    async fn parallel_tools(&self) -> ProbeCheck {
        let name = TURNS[2];
        let question =
            "Call the tool `weather` twice in one message: once for the city Oslo and once for the city Lima.";
        let answer = self.ask(question, &[weather_tool()]).await;
        if let Some(objection) = find_objection(&answer, "weather", &self.provider.settings()) {
            return build_check(name, Fails, objection);
        }
        match answer.calls().len() {
            1 => {
                let detail = "one call at a time: the next one is asked for in another round";
                build_check(name, WorkedAround, detail.to_owned())
            }
            calls => self.judged_call(name, format!("{calls} calls in one answer"), &answer),
        }
    }

    async fn empty_arguments(&self) -> ProbeCheck {
        let name = TURNS[3];
        let clock = ToolSpec {
            name: "clock".to_owned(),
            description: "Tells the time. Takes no arguments.".to_owned(),
            parameters: json!({"type": "object", "properties": {}}),
        };
        let answer = self.ask("Call the tool `clock`.", &[clock]).await;
        match find_objection(&answer, "clock", &self.provider.settings()) {
            Some(objection) => build_check(name, Fails, objection),
            None => self.judged_call(name, "called without arguments".to_owned(), &answer),
        }
    }

    /// `fallback` is the verdict if the capability is missing and the server answers at all.
    async fn context_size(&self, fallback: ProbeVerdict) -> ProbeCheck {
        let unknown = format!("{CONTEXT_TOKENS} tokens are assumed");
        match self.provider.context_tokens().await {
            Some(tokens) => build_check(CONTEXT, Works, format!("{tokens} tokens")),
            None if self.provider.settings().name == ProviderName::Hosted => {
                build_check(CONTEXT, Works, format!("not asked of a vendor: {unknown}"))
            }
            None => {
                let detail = format!("the server does not tell it: {unknown}, and its own count tells what it cut");
                build_check(CONTEXT, fallback, detail)
            }
        }
    }

    async fn model_list(&self, fallback: ProbeVerdict) -> ProbeCheck {
        let model = self.provider.model();
        match fetch_models(&self.provider).await {
            Ok(list) if list.iter().any(|listed| listed == model) => {
                let count = list.len();
                build_check(MODELS, Works, format!("{count} listed, `{model}` among them"))
            }
            Ok(list) => {
                let detail = format!(
                    "{} listed, `{model}` not among them: it is asked for all the same",
                    list.len()
                );
                build_check(MODELS, WorkedAround, detail)
            }
            Err(problem) => {
                let detail = format!("no list ({}): only the configured model is shown", problem.message);
                build_check(MODELS, fallback, detail)
            }
        }
    }

    fn judged_call(&self, name: &'static str, seen: String, answer: &ProbeAnswer) -> ProbeCheck {
        let mut said = remarks::of_calls(self.provider.settings().api, &answer.frames);
        if answer
            .calls()
            .iter()
            .any(|call| call.id.starts_with(super::chat::PRINTED_ID))
        {
            said = vec![PRINTED];
        }
        judge_check(name, seen, &said)
    }

    async fn ask(&self, question: &str, tools: &[ToolSpec]) -> ProbeAnswer {
        let bound = limits::seconds(PROBE_CHECK_SECONDS_MAX);
        let mut answer = ProbeAnswer::default();
        self.tapped().clear();
        let asked = timeout(bound, self.read(question, tools, &mut answer)).await;
        if asked.is_err() {
            answer.failure = Some(format!("no whole answer within {PROBE_CHECK_SECONDS_MAX} s"));
        }
        answer.frames = std::mem::take(&mut *self.tapped());
        answer
    }

    async fn read(&self, question: &str, tools: &[ToolSpec], answer: &mut ProbeAnswer) {
        let messages = [Message::User {
            text: question.to_owned(),
        }];
        let request = ModelRequest {
            system: "You take part in a test of an interface. Do exactly what the user asks, and nothing else.",
            messages: &messages,
            tools,
            max_tokens: Some(PROBE_OUTPUT_TOKENS),
            mark: crate::new_mark(),
        };
        let mut stream = self.provider.stream(request, CancellationToken::new());
        while let Some(item) = stream.next().await {
            match item {
                Ok(event) => answer.events.push(event),
                Err(ProviderError::Failed(problem)) => answer.failure = Some(problem.message),
                Err(ProviderError::Cancelled) => answer.failure = Some("cancelled".to_owned()),
            }
        }
    }

    fn tapped(&self) -> std::sync::MutexGuard<'_, Vec<Frame>> {
        Mutex::lock(&self.tap).unwrap_or_else(PoisonError::into_inner)
    }
}

fn weather_tool() -> ToolSpec {
    ToolSpec {
        name: "weather".to_owned(),
        description: "Tells the weather of a city.".to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {"city": {"type": "string", "description": "Name of the city."}},
            "required": ["city"],
        }),
    }
}

fn judge_check(name: &'static str, seen: String, remarks: &[&str]) -> ProbeCheck {
    match remarks {
        [] => build_check(name, Works, seen),
        remarks => build_check(name, WorkedAround, format!("{seen}; {}", remarks.join("; "))),
    }
}

/// Why an answer is not a call of the requested tool.
fn find_objection(answer: &ProbeAnswer, tool: &str, settings: &ProviderSettings) -> Option<String> {
    if let Some(failure) = &answer.failure {
        return Some(failure.clone());
    }
    let calls = answer.calls();
    if calls.is_empty() {
        let provider = settings.name;
        return Some(if answer.printed_call() {
            format!(
                "the model prints its tool calls as text; `text_calls = true` in [providers.{provider}] of config.toml \
                 lets them count"
            )
        } else {
            "the model answered without calling the tool".to_owned()
        });
    }
    calls.iter().find_map(|call| {
        let is_object = matches!(serde_json::from_str(&call.arguments), Ok(Value::Object(_)));
        match (call.name == tool, is_object) {
            (false, _) => Some(format!("the model called `{}`, which it was not offered", call.name)),
            (true, false) => Some("the arguments of the call are no JSON object".to_owned()),
            (true, true) => None,
        }
    })
}
