//! Bound of what a turn costs: no request is made that could exceed it, as far as prices and tokens are known.
//!
//! A token is a byte of text or more. So the bytes of a request bound its tokens from above; once the provider has
//! counted one request, only what was added since then is bounded in this way.

use serde_json::Value;

use super::bounds::OUTPUT_TOKENS_MIN;
use crate::{DATA_RULE, Message, ModelRequest, Usage};
use tool_config::TokenPrice;
use tool_core::api::Dollars;

/// Tokens that a template or a provider may add to each message and to each tool.
const FRAME_TOKENS: usize = 64;

/// Bytes of the labels around a tool's result, the names of its origin apart.
const LABEL_BYTES: usize = 512;

/// Tokens that a provider may add to a request: its own instructions for the use of tools.
const PREAMBLE_TOKENS: u64 = 1024;

/// Most output tokens of a request, where the bound pays for more. Every current model takes as many; a longer answer
/// would only lift the bound that must be kept free for it.
const OUTPUT_TOKENS_MAX: u64 = 16_384;

/// Bound of a turn's cost, with the price by which it is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CostBound {
    /// Price of the model's tokens.
    pub price: TokenPrice,
    /// Cost of all requests together, at most.
    pub max: Dollars,
}

/// A request whose tokens the provider has counted.
#[derive(Debug, Clone, Copy)]
pub(super) struct CountedRequest {
    bytes: usize,
    input_tokens: u64,
}

impl CountedRequest {
    /// The request that a usage report is about; `None` if the report is our own estimate.
    pub(super) fn from_usage(request: &ModelRequest<'_>, usage: &Usage) -> Option<Self> {
        (!usage.estimated).then(|| Self {
            bytes: bytes_of(request),
            input_tokens: usage.input_tokens,
        })
    }
}

/// Bounds of one request under a bound of the cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RequestBound {
    /// Input tokens, at most.
    pub(super) input_tokens: u64,
    /// Output tokens that may be requested; `None` if output is free.
    pub(super) output_tokens: Option<u64>,
    /// True if the bound of the cost is what limits the output.
    pub(super) is_lowered: bool,
}

impl CostBound {
    /// Bounds of the next request, after so much was spent; else the cost that it could have.
    pub(super) fn next(
        &self,
        spent_nanos: u64,
        request: &ModelRequest<'_>,
        counted: Option<CountedRequest>,
    ) -> Result<RequestBound, Dollars> {
        let input_tokens = input_tokens_max(request, counted);
        let input_nanos = self.price.input_cost_max(input_tokens);
        let left = self.max.nanos().saturating_sub(spent_nanos);
        let least = self.most_nanos(input_tokens, Some(OUTPUT_TOKENS_MIN));
        if least > left {
            return Err(Dollars::from_nanos(least));
        }
        let affordable = self.price.affordable_output(left - input_nanos);
        Ok(RequestBound {
            input_tokens,
            output_tokens: affordable.map(|tokens| tokens.min(OUTPUT_TOKENS_MAX)),
            is_lowered: affordable.is_some_and(|tokens| tokens < OUTPUT_TOKENS_MAX),
        })
    }

    /// Highest cost of a request with so many tokens.
    pub(super) fn most_nanos(&self, input_tokens: u64, output_tokens: Option<u64>) -> u64 {
        let output = tool_config::PaidTokens {
            output: output_tokens.unwrap_or(0),
            ..Default::default()
        };
        let input = self.price.input_cost_max(input_tokens);
        input.saturating_add(self.price.cost_nanos(output))
    }
}

fn input_tokens_max(request: &ModelRequest<'_>, counted: Option<CountedRequest>) -> u64 {
    let bytes = bytes_of(request);
    match counted {
        Some(counted) => counted.input_tokens + bytes.saturating_sub(counted.bytes) as u64,
        None => PREAMBLE_TOKENS + bytes as u64,
    }
}

/// Bytes of a request, with room for the text around its parts.
fn bytes_of(request: &ModelRequest<'_>) -> usize {
    let tools: usize = request.tools.iter().map(|tool| tool.bytes() + FRAME_TOKENS).sum();
    let messages: usize = request.messages.iter().map(message_bytes).sum();
    request.system.len() + DATA_RULE.len() + tools + messages
}

fn message_bytes(message: &Message) -> usize {
    let further = match message {
        Message::User { .. } => 0,
        Message::Assistant { tool_calls, opaque, .. } => {
            let opaque = match opaque {
                Value::Null => 0,
                data => data.to_string().len(),
            };
            let ids: usize = tool_calls.iter().map(|call| call.id.len() + FRAME_TOKENS).sum();
            opaque + ids
        }
        Message::ToolResults { results } => {
            let labels = results.iter().map(|result| {
                let origin = match &result.origin {
                    crate::TextOrigin::Outside(places) => places.iter().map(String::len).sum(),
                    _ => 0,
                };
                LABEL_BYTES + result.name.len() + result.call_id.len() + origin
            });
            labels.sum()
        }
    };
    message.bytes() + further + FRAME_TOKENS
}

#[cfg(test)]
mod tests {
    use super::*;
    use tool_config::PriceRow;

    fn bound(dollars: f64) -> CostBound {
        let row = PriceRow {
            input: 1.0,
            output: 10.0,
            cache_read: None,
            cache_write: Some(1.0),
        };
        CostBound {
            price: row.try_into().expect("it is a price"),
            max: dollars.try_into().expect("it is a sum"),
        }
    }

    fn request(messages: &[Message]) -> ModelRequest<'_> {
        ModelRequest {
            system: "",
            messages,
            tools: &[],
            max_tokens: None,
            mark: crate::new_mark(),
        }
    }

    #[test]
    fn the_first_request_counts_a_token_for_each_byte() {
        let messages = [Message::User { text: "x".repeat(9000) }];
        let request = request(&messages);
        let input = PREAMBLE_TOKENS + (9000 + FRAME_TOKENS + DATA_RULE.len()) as u64;
        let fits = bound(0.1).next(0, &request, None).expect("there is room");
        assert_eq!(fits.input_tokens, input);
        // A dollar buys a million tokens of input or a tenth of that of output.
        assert_eq!(fits.output_tokens, Some((100_000 - input) / 10));
        assert!(fits.is_lowered);
        let least = input + 10 * OUTPUT_TOKENS_MIN;
        assert_eq!(
            bound(0.01).next(0, &request, None),
            Err(Dollars::from_nanos(least * 1000))
        );
        let ample = bound(10.0).next(0, &request, None).expect("there is room");
        assert_eq!(
            (ample.output_tokens, ample.is_lowered),
            (Some(OUTPUT_TOKENS_MAX), false)
        );
    }

    #[test]
    fn after_a_counted_request_only_the_rest_is_counted_by_bytes() {
        let first = [Message::User { text: "x".repeat(9000) }];
        let usage = Usage {
            input_tokens: 2500,
            ..Usage::default()
        };
        let counted = CountedRequest::from_usage(&request(&first), &usage);
        let second = [first[0].clone(), Message::from_model("y".repeat(100))];
        let next = bound(0.1).next(50_000_000, &request(&second), counted);
        let input = 2500 + 100 + FRAME_TOKENS as u64;
        assert_eq!(next.map(|next| next.input_tokens), Ok(input));
        let estimate = Usage {
            estimated: true,
            ..usage
        };
        assert!(CountedRequest::from_usage(&request(&first), &estimate).is_none());
    }
}
