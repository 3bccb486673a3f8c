//! Token counts, and the chunks that carry them.

use super::*;

#[test]
fn chat_12_usage_chunk_with_empty_or_null_choices() {
    for choices in [json!([]), json!(null)] {
        let usage = json!({"choices": choices, "usage": {
            "prompt_tokens": 20, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 16},
        }});
        let decoded = decode(&[content("Hi"), finish("stop"), usage, done()]);
        let expected = Usage {
            input_tokens: 20,
            cached_tokens: 16,
            output_tokens: 3,
            cache_write_tokens: 0,
            estimated: false,
            cost_nanos: None,
        };
        assert_eq!(decoded.usage(), [expected]);
    }
}

#[test]
fn chat_12_usage_in_every_chunk_twice_or_never() {
    let with = |mut chunk: Value, usage: Value| {
        chunk["usage"] = usage;
        chunk
    };
    let decoded = decode(&[
        with(content("H"), counts(20, 1)),
        with(content("i"), counts(20, 2)),
        with(finish("stop"), counts(20, 2)),
        with(json!({"choices": []}), counts(20, 3)),
        with(json!({"choices": []}), json!(null)),
    ]);
    assert_eq!(decoded.usage().len(), 1, "the last count is the count");
    assert_eq!(
        (decoded.usage()[0].input_tokens, decoded.usage()[0].output_tokens),
        (20, 3)
    );
    // Never, and the zeros of servers that do not count: the loop estimates.
    assert_eq!(decode(&[content("Hi"), finish("stop")]).usage(), []);
    assert_eq!(decode(&[content("Hi"), with(finish("stop"), counts(0, 0))]).usage(), []);
}

#[test]
fn chat_12_usage_in_odd_forms() {
    let counted =
        |usage: Value| decode(&[content("Hi"), finish("stop"), json!({"choices": [], "usage": usage})]).usage();
    let of = |input_tokens, cached_tokens, output_tokens| {
        vec![Usage {
            input_tokens,
            cached_tokens,
            output_tokens,
            ..Usage::default()
        }]
    };
    for (usage, expected) in [
        (json!({"prompt_tokens": 20.0, "completion_tokens": "3"}), of(20, 0, 3)),
        (
            json!({"input_tokens": 20, "output_tokens": 3, "input_tokens_details": {"cached_tokens": 8}}),
            of(20, 8, 3),
        ),
        (
            json!({"prompt_tokens": 20, "completion_tokens": 3, "prompt_cache_hit_tokens": 8}),
            of(20, 8, 3),
        ),
        (
            json!({"prompt_tokens": 20, "total_tokens": 23, "prompt_tokens_details": null}),
            of(20, 0, 3),
        ),
        (json!({"completion_tokens": 3, "total_tokens": 23}), of(20, 0, 3)),
        (json!({"prompt_tokens": -1, "completion_tokens": null}), vec![]),
        (json!("none"), vec![]),
    ] {
        assert_eq!(counted(usage.clone()), expected, "{usage}");
    }
    let mut in_choice = finish("stop");
    in_choice["choices"][0]["usage"] = counts(20, 3);
    assert_eq!(decode(&[content("Hi"), in_choice]).usage(), of(20, 0, 3));
    let mut timed = finish("stop");
    timed["timings"] = json!({"prompt_n": 4, "cache_n": 16, "predicted_n": 3, "predicted_ms": 9.5});
    assert_eq!(decode(&[content("Hi"), timed]).usage(), of(20, 16, 3));
    // Half a report: the other half is estimated, and marked.
    let half = counted(json!({"prompt_tokens": 20, "completion_tokens": 0}));
    assert_eq!(
        (half[0].input_tokens, half[0].output_tokens, half[0].estimated),
        (20, 1, true)
    );
}

#[test]
fn chat_12_further_choices_are_left_alone() {
    let other = json!({"choices": [{"index": 1, "delta": {"content": "other"}, "finish_reason": "length"}]});
    let decoded = decode(&[content("Hi"), other, finish("stop")]);
    assert_eq!(
        (decoded.text().as_str(), decoded.stop()),
        ("Hi", Some(StopReason::EndTurn))
    );
}

#[test]
fn chat_12_a_chunk_without_delta() {
    let decoded = decode(&[
        content("Hi"),
        json!({"choices": [{"index": 0, "finish_reason": ""}]}),
        json!({"choices": [{"index": 0, "delta": null}]}),
        json!({"choices": [{"index": 0, "finish_reason": "stop"}]}),
    ]);
    assert_eq!(
        (decoded.text().as_str(), decoded.stop()),
        ("Hi", Some(StopReason::EndTurn))
    );
}

#[test]
fn chat_12_a_server_that_does_not_stream_is_read_too() {
    let decoded = decode(&[json!({
        "choices": [{"message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}],
        "usage": counts(4, 1),
    })]);
    assert_eq!(
        (decoded.text().as_str(), decoded.stop()),
        ("Hi", Some(StopReason::EndTurn))
    );
}
