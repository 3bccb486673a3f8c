//! Bounds of each request by the tokens and the money that its turn has left, and the count of both.

use super::cost::{CountedRequest, RequestBound};
use super::{Budget, ModelRound, TurnState, TurnStep, TurnStop};
use crate::limits;
use crate::{ModelRequest, Usage, estimated_tokens};
use tool_config::{PaidTokens, TokenPrice};
use tool_core::api::Dollars;

/// Output tokens without which a request is not worth its input: some sentences.
pub(super) const OUTPUT_TOKENS_MIN: u64 = 64;

/// Output tokens below which the rest of a session's tokens becomes the output bound of a request. Every model in use
/// takes this much; above it the model's own bound is the better one.
const OUTPUT_TOKENS_LOWERED: u64 = 4_096;

impl TurnState<'_> {
    /// Most tokens of a request, in our own estimate of four bytes a token. If the model's tokenizer makes more tokens of
    /// the same text, the bound is lower.
    pub(super) fn conversation_tokens_max(&self) -> u64 {
        self.rate
            .estimate(limits::conversation_tokens(self.turn.context_tokens))
    }

    /// Most bytes of a tool result: a fifth of a small context, because the newest result is never dropped.
    pub(super) fn result_bytes_max(&self) -> usize {
        let context = self.turn.context_tokens;
        if context >= limits::SHORT_CONTEXT_TOKENS {
            return limits::TOOL_RESULT_BYTES_MAX;
        }
        limits::TOOL_RESULT_BYTES_MAX.min(self.rate.bytes(context / 5))
    }

    /// Tokens that the turn may still use; `None` for any number.
    pub(super) fn tokens_left(&self) -> Option<u64> {
        let used = self.usage.input_tokens + self.usage.output_tokens;
        self.turn.tokens_max.map(|max| max.saturating_sub(used))
    }

    /// The output bound of the next request, and the bound of the turn that makes it lower than a model's own.
    pub(super) fn output_bound(&self, cost: Option<RequestBound>) -> (Option<u32>, Option<Budget>) {
        let (bound, lowered_by) = self.output_bound_by_tokens(self.next_request().estimated_tokens());
        let affordable = cost.and_then(|cost| cost.output_tokens);
        let affordable = affordable.map(|tokens| u32::try_from(tokens).unwrap_or(u32::MAX));
        match affordable {
            Some(tokens) if bound.is_none_or(|bound| tokens < bound) => {
                let is_lowered = cost.is_some_and(|cost| cost.is_lowered);
                let by_cost = Budget::Cost {
                    needed: Dollars::default(),
                };
                (Some(tokens), is_lowered.then_some(by_cost))
            }
            _ => (bound, lowered_by),
        }
    }

    fn output_bound_by_tokens(&self, input: u64) -> (Option<u32>, Option<Budget>) {
        let usual = self.turn.output_tokens_max;
        let left = self.tokens_left().map(|left| left.saturating_sub(input));
        let left = left.filter(|left| *left < OUTPUT_TOKENS_LOWERED);
        match left.map(|left| u32::try_from(left).unwrap_or(u32::MAX)) {
            Some(left) if usual.is_none_or(|usual| left < usual) => (Some(left), Some(Budget::Tokens { needed: 0 })),
            _ => (usual, None),
        }
    }

    /// Bounds of the next request under the bound of the cost, where there is one.
    pub(super) fn cost_of_next(&self) -> Result<Option<RequestBound>, TurnStop> {
        let Some(bound) = self.turn.cost_bound else {
            return Ok(None);
        };
        let spent = self.usage.cost_nanos.unwrap_or(0);
        match bound.next(spent, &self.next_request(), self.counted) {
            Ok(cost) => Ok(Some(cost)),
            Err(needed) => Err(TurnStop::Exhausted(Budget::Cost { needed })),
        }
    }

    /// Adds what a request cost: as reported, else as estimated. A request that never reached a model costs nothing.
    pub(super) fn count_usage(&mut self, request: &ModelRequest<'_>, round: &ModelRound) {
        let text_bytes = self.said_in(round).len();
        let spoke = round.stop.is_some() || text_bytes > 0;
        let usage = round.usage.or_else(|| {
            spoke.then(|| Usage {
                input_tokens: request.estimated_tokens(),
                output_tokens: estimated_tokens(text_bytes + round.call_bytes()),
                estimated: true,
                ..Usage::default()
            })
        });
        let Some(usage) = usage else { return };
        if self.turn.cost_bound.is_some() {
            self.counted = CountedRequest::from_usage(request, &usage).or(self.counted);
        }
        let usage = match (round.most_nanos, self.turn.price) {
            // Under a bound, tokens that the provider has not counted cost as much as they can.
            (Some(most), _) if usage.estimated && usage.cost_nanos.is_none() => Usage {
                cost_nanos: Some(most),
                ..usage
            },
            (_, Some(price)) => add_cost(usage, price),
            _ => usage,
        };
        self.usage = self.usage.plus(usage);
        self.turn.observer.step(TurnStep::Usage(self.usage));
    }
}

/// Adds the cost by a price to counts whose cost the provider has not reported.
fn add_cost(usage: Usage, price: TokenPrice) -> Usage {
    let tokens = PaidTokens {
        input: usage.input_tokens,
        cache_read: usage.cached_tokens,
        cache_write: usage.cache_write_tokens,
        output: usage.output_tokens,
    };
    Usage {
        cost_nanos: usage.cost_nanos.or(Some(price.cost_nanos(tokens))),
        ..usage
    }
}
