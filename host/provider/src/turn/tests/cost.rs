//! The bound of the cost, against providers that make each request as dear as it can be.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use proptest::prelude::*;

use super::*;
use tool_config::{PaidTokens, PriceRow};
use tool_core::api::Dollars;

/// A provider whose texts have so many tokens for each byte as it likes, at most one, and which writes as many tokens as
/// it may. It adds up what it takes.
struct Dear {
    price: TokenPrice,
    /// Tokens in a hundred bytes of each message.
    densities: Vec<u64>,
    /// Bytes of each answer.
    answers: Vec<usize>,
    /// True for each answer that is reported.
    reports: Vec<bool>,
    asked: AtomicUsize,
    taken_nanos: AtomicU64,
}

impl Provider for Dear {
    fn name(&self) -> &'static str {
        "router"
    }

    fn model(&self) -> &str {
        "dear"
    }

    fn stream<'a>(&'a self, request: ModelRequest<'a>, _cancel: CancellationToken) -> EventStream<'a> {
        let number = self.asked.fetch_add(1, Ordering::Relaxed);
        let of_messages = request.messages.iter().zip(self.densities.iter().cycle());
        let messages: u64 = of_messages
            .map(|(message, density)| message.bytes() as u64 * density / 100)
            .sum();
        let tools: usize = request.tools.iter().map(ToolSpec::bytes).sum();
        let tokens = PaidTokens {
            input: messages + (request.system.len() + tools) as u64,
            output: u64::from(request.max_tokens.expect("the output is bounded")),
            ..PaidTokens::default()
        };
        self.taken_nanos
            .fetch_add(self.price.cost_nanos(tokens), Ordering::Relaxed);
        let mut events = Vec::new();
        if self.reports[number % self.reports.len()] {
            events.push(ProviderEvent::Usage(Usage {
                input_tokens: tokens.input,
                output_tokens: tokens.output,
                ..Usage::default()
            }));
        }
        match self.answers.get(number) {
            Some(bytes) => {
                let arguments = json!({"number": number, "text": "x".repeat(*bytes)}).to_string();
                events.push(call(&format!("id{number}"), "echo", &arguments));
                events.push(stop(StopReason::ToolUse));
            }
            None => {
                events.push(text("Done."));
                events.push(stop(StopReason::EndTurn));
            }
        }
        Box::pin(stream::iter(events.into_iter().map(Ok)))
    }
}

fn run_dear(provider: &Dear, max: Dollars, begin: usize) -> TurnReport {
    let tools = Fakes::default();
    let messages = vec![Message::User {
        text: "x".repeat(begin),
    }];
    let mut turn = Turn::new(provider, &tools, &Silent, "Answer.", messages);
    turn.price = Some(provider.price);
    turn.cost_bound = Some(CostBound {
        price: provider.price,
        max,
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.expect("there is a runtime").block_on(run_turn(turn))
}

fn price(input: f64, output: f64) -> TokenPrice {
    let row = PriceRow {
        input,
        output,
        cache_read: None,
        cache_write: Some(input),
    };
    row.try_into().expect("it is a price")
}

proptest! {
    #[test]
    fn no_session_costs_more_than_its_bound(
        prices in (0u32..20, 0u32..80),
        densities in proptest::collection::vec(1u64..=100, 1..8),
        answers in proptest::collection::vec(0usize..4000, 0..8),
        reports in proptest::collection::vec(any::<bool>(), 1..4),
        max_cents in 1u64..200,
        begin in 0usize..20_000,
    ) {
        let provider = Dear {
            price: price(prices.0.into(), prices.1.into()),
            densities,
            answers,
            reports,
            asked: AtomicUsize::new(0),
            taken_nanos: AtomicU64::new(0),
        };
        // Output that is free is not bounded by the cost.
        prop_assume!(prices.1 > 0);
        let max = Dollars::from_nanos(max_cents * 10_000_000);
        let report = run_dear(&provider, max, begin);
        let taken = provider.taken_nanos.load(Ordering::Relaxed);
        prop_assert!(taken <= max.nanos(), "{taken} of {max}: {:?}", report.end);
        let told = report.usage.cost_nanos.unwrap_or(0);
        prop_assert!(told >= taken && told <= max.nanos(), "{told} are told, {taken} were taken");
    }
}

#[test]
fn a_bound_of_the_cost_ends_a_turn_before_the_request_that_could_exceed_it() {
    let provider = Dear {
        price: price(3.0, 15.0),
        densities: vec![25],
        answers: vec![2000; 20],
        reports: vec![true],
        asked: AtomicUsize::new(0),
        taken_nanos: AtomicU64::new(0),
    };
    let report = run_dear(&provider, Dollars::from_nanos(600_000_000), 8000);
    let Ok(TurnEnd::Exhausted(Budget::Cost { needed })) = report.end else {
        panic!("{:?}", report.end);
    };
    let told = report.usage.cost_nanos.expect("the price is known");
    assert_eq!(told, provider.taken_nanos.load(Ordering::Relaxed));
    assert!(report.steps >= 3 && told + needed.nanos() > 600_000_000, "{report:?}");
}
