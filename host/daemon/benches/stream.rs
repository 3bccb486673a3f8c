//! Cost of streaming a token: `cargo bench --workspace --bench stream`, a thousand tokens each.
//!
//! In: a provider's bytes become frames, and these become JSON; the baseline splits the same bytes at empty lines. Out:
//! an event becomes the line that a client gets; the baseline writes the same bytes without knowing JSON. How much of a
//! whole session this is, `scripts/bench stream` tells.

use std::fmt::Write;
use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use serde_json::Value;
use tool_core::api::Event;
use tool_provider::sse::Framer;

const TOKENS: usize = 1000;

fn frames(bytes: &[u8], read_bytes: usize) -> usize {
    let (mut framer, mut frames) = (Framer::default(), Vec::new());
    let mut count = 0;
    for part in bytes.chunks(read_bytes) {
        framer.feed(part, &mut frames).expect("no frame is too large");
        count += frames.drain(..).filter(|frame| !frame.data.is_empty()).count();
    }
    count
}

fn incoming(criterion: &mut Criterion) {
    let token = r#"{"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"word "}}]}"#;
    let stream = format!("data: {token}\n\n").repeat(TOKENS);
    for (name, read_bytes) in [("64 KiB a read", 64 * 1024), ("a packet a token", token.len() + 8)] {
        assert_eq!(frames(stream.as_bytes(), read_bytes), TOKENS);
        criterion.bench_function(&format!("frames, {name}"), |bench| {
            bench.iter(|| frames(black_box(stream.as_bytes()), read_bytes));
        });
    }
    criterion.bench_function("frames, split natively", |bench| {
        bench.iter(|| {
            black_box(stream.as_str())
                .split("\n\n")
                .filter(|frame| !frame.is_empty())
                .count()
        });
    });
    criterion.bench_function("the JSON of the frames", |bench| {
        bench.iter(|| {
            (0..TOKENS)
                .filter_map(|_| serde_json::from_str::<Value>(black_box(token)).ok())
                .count()
        });
    });
}

fn outgoing(criterion: &mut Criterion) {
    let event = Event::Token {
        content: "word ".to_owned(),
    };
    criterion.bench_function("events as JSON", |bench| {
        bench.iter(|| {
            let written = |_| serde_json::to_string(black_box(&event)).map_or(0, |text| text.len());
            (0..TOKENS).map(written).sum::<usize>()
        });
    });
    criterion.bench_function("events, formatted natively", |bench| {
        bench.iter(|| {
            let mut text = String::new();
            for _ in 0..TOKENS {
                let _ = write!(text, r#"{{"type":"token","content":"{}"}}"#, black_box("word "));
            }
            text.len()
        });
    });
}

criterion_group!(benches, incoming, outgoing);
criterion_main!(benches);
