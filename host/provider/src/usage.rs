//! Reads token counts as servers of the two OpenAI wires report them.

use serde_json::Value;

use super::Usage;
use super::wire::read_count;

/// The counts of a report, under any of their names. A report of zeros comes from a server that does not count.
pub(super) fn read_usage(value: &Value) -> Option<Usage> {
    let number = |pointers: &[&str]| pointers.iter().find_map(|pointer| read_count(value.pointer(pointer)?));
    let total = number(&["/total_tokens"]).unwrap_or(0);
    let output = number(&["/completion_tokens", "/output_tokens"]);
    let input = number(&["/prompt_tokens", "/input_tokens"]);
    let usage = Usage {
        input_tokens: input.unwrap_or(total.saturating_sub(output.unwrap_or(0))),
        cached_tokens: number(&[
            "/prompt_tokens_details/cached_tokens",
            "/input_tokens_details/cached_tokens",
            "/prompt_cache_hit_tokens",
            "/cached_tokens",
        ])
        .unwrap_or(0),
        output_tokens: output.unwrap_or(total.saturating_sub(input.unwrap_or(total))),
        cost_nanos: read_cost(value),
        ..Usage::default()
    };
    (usage.input_tokens + usage.output_tokens > 0).then_some(usage)
}

/// A router's price of the request in US dollars; where it only passed the user's own key on, what the vendor takes.
fn read_cost(usage: &Value) -> Option<u64> {
    let dollars = |pointer: &str| usage.pointer(pointer).and_then(Value::as_f64);
    let own_key = usage.get("is_byok").and_then(Value::as_bool).unwrap_or(false);
    let upstream = dollars("/cost_details/upstream_inference_cost").filter(|_| own_key);
    let cost = dollars("/cost")? + upstream.unwrap_or(0.0);
    (cost.is_finite() && cost >= 0.0).then(|| (cost * 1e9).round() as u64)
}

/// One kind of local server counts only in its timings, and there counts cached tokens separately.
pub(super) fn read_timings(timings: &Value) -> Option<Usage> {
    let number = |key: &str| timings.get(key).and_then(read_count).unwrap_or(0);
    let usage = Usage {
        input_tokens: number("prompt_n") + number("cache_n"),
        cached_tokens: number("cache_n"),
        output_tokens: number("predicted_n"),
        ..Usage::default()
    };
    (usage.input_tokens + usage.output_tokens > 0).then_some(usage)
}
