//! Attacks that never end, or that take without end.

use serde_json::{Map, Value, json};

use super::{KIB, MIB, flood, last, small_stage};
use crate::attacks::Expected::{Bounded, Busy};
use crate::attacks::{Ask, Attack, Play, Wants};

/// A schema of one page that describes 65,000 parts. With twice as many steps a check would never end.
fn doubling() -> Value {
    const STEPS: usize = 14;
    let mut steps: Map<String, Value> = (0..STEPS)
        .map(|step| {
            let next = json!({"$ref": format!("#/$defs/s{}", step + 1)});
            (format!("s{step}"), json!({"anyOf": [next, next]}))
        })
        .collect();
    steps.insert(format!("s{STEPS}"), json!({"type": "string"}));
    json!({"type": "object", "$defs": steps, "anyOf": [{"$ref": "#/$defs/s0"}]})
}

pub(super) const ATTACKS: &[Attack] = &[
    // ---- time ----
    last("spin", "compute for ever", &[Ask::new("spin")]),
    last(
        "spin_in_host_calls",
        "ask the host for ever",
        &[Ask::new("spin-in-host-calls")],
    ),
    last("sleep", "sleep for days", &[Ask::new("sleep")]),
    last(
        "sleep_for_ever",
        "wait for a time that never comes",
        &[Ask::new("sleep-for-ever")],
    ),
    last(
        "wait_in_stream",
        "wait in a stream for ever",
        &[Ask::new("wait-in-stream")],
    ),
    Attack::new(
        "crowd",
        "call more often than there are turns",
        Play::Crowd(Ask::new("nap").times(500), 4),
    )
    .wants(Wants::Room)
    .comes_to(Busy)
    .within(|limits| {
        limits.calls_concurrent = 1;
        limits.calls_waiting = 1;
    }),
    // ---- floods ----
    flood(
        "use_linear_memory",
        "use memory without end",
        &[Ask::new("memory").times(32)],
        "memory",
    )
    .within(|limits| limits.memory_bytes = 16 * MIB),
    flood(
        "flood_pieces",
        "answer in pieces without end",
        &[Ask::new("say").times(3)],
        "output",
    ),
    flood(
        "flood_citations",
        "cite without end",
        &[Ask::at("cite", "README.md").times(2000)],
        "limit",
    ),
    flood(
        "flood_media",
        "attach a diagram without end",
        &[Ask::at("attach", "text/vnd.mermaid").to("A-->B;").times(100_000)],
        "limit",
    ),
    flood(
        "attach_disguised",
        "pass a web page for an image",
        &[Ask::at("attach", "image/png").to("<script>").times(1)],
        "invalid-arguments",
    ),
    flood("use_tables", "use tables without end", &[Ask::new("present")], "tables")
        .within(|limits| limits.table_elements = 1),
    flood(
        "use_instances",
        "use instances without end",
        &[Ask::new("present")],
        "instances",
    )
    .within(|limits| limits.instances = 1),
    flood(
        "use_handles",
        "hold handles without end",
        &[Ask::new("handles").times(200)],
        "handles",
    )
    .within(|limits| limits.handles = 100),
    flood(
        "hoard_selections",
        "keep selections of files, each with globs of its own",
        &[Ask::new("selections").times(9)],
        "handles",
    ),
    flood(
        "use_files",
        "hold files open without end",
        &[Ask::at("open-files", "/repo/README.md").times(100)],
        "handles",
    ),
    flood(
        "use_random",
        "drain random numbers",
        &[Ask::new("random").times(16)],
        "random",
    )
    .within(|limits| limits.random_bytes = 8 * KIB),
    flood(
        "flood_answer",
        "answer without end",
        &[Ask::new("output").times(64 * KIB)],
        "output",
    )
    .within(|limits| limits.output_bytes = 32 * 1024)
    .wants(Wants::Text("xxxxxxxx")),
    flood(
        "flood_cursor",
        "make the model repeat without end",
        &[Ask::new("cursor").times(64 * KIB)],
        "output",
    )
    .wants(Wants::Text("xxxxxxxx")),
    Attack::calls(
        "doubling_schema",
        "have its arguments held to a schema that means itself twice at every step",
        &[Ask::new("present")],
    )
    .described(doubling)
    .comes_to(Bounded("not-ready"))
    .wants(Wants::Text("Invalid arguments")),
    flood(
        "flood_host_call",
        "make the host copy without end",
        &[Ask::new("output").times(512 * KIB)],
        "output",
    )
    .within(|limits| limits.host_call_bytes = 256 * 1024)
    .wants(Wants::Text("xxxxxxxx")),
    Attack::calls("flood_log", "fill the log", &[Ask::new("log").times(2_000)])
        .within(|limits| limits.log_bytes = 16 * 1024)
        .wants(Wants::Log(32 * KIB)),
    Attack::calls(
        "flood_stdout",
        "fill the log by printing",
        &[Ask::new("stdout").times(200)],
    )
    .within(|limits| limits.log_bytes = 16 * 1024)
    .wants(Wants::Log(32 * KIB)),
    flood(
        "read_without_end",
        "read without end",
        &[Ask::at("reread", "/repo/README.md").times(50)],
        "read",
    )
    .within(|limits| limits.read_bytes = 100),
    flood(
        "read_all_without_end",
        "read all files without end",
        &[Ask::at("read-all-until", "README.md").to("hello").times(50)],
        "read",
    )
    .within(|limits| limits.read_bytes = 100),
    flood(
        "walk_without_end",
        "list without end",
        &[Ask::at("walk", "/repo").times(20)],
        "entries",
    )
    .within(|limits| limits.entries = 100),
    flood(
        "stage_bytes",
        "propose without end",
        &[Ask::at("stage-bytes", "/stage/big").times(32)],
        "stage",
    )
    .within(small_stage),
    flood(
        "stage_again",
        "write and remove without end",
        &[Ask::at("stage-again", "/stage/big").times(32)],
        "stage",
    )
    .within(|limits| limits.staged_bytes = MIB),
    flood(
        "stage_hole",
        "propose a file that is one large hole",
        &[Ask::at("stage-hole", "/stage/big").times(2 * MIB)],
        "stage",
    )
    .within(small_stage),
    flood(
        "stage_size",
        "give a proposed file a large size",
        &[Ask::at("stage-size", "/stage/big").times(2 * MIB)],
        "stage",
    )
    .within(small_stage),
    flood(
        "stage_files",
        "propose files without end",
        &[Ask::at("stage-files", "/stage/file").times(20)],
        "stage",
    )
    .within(small_stage),
    flood(
        "stage_directories",
        "make directories without end",
        &[Ask::at("stage-directories", "/stage/place").times(20)],
        "stage",
    )
    .within(small_stage),
    flood(
        "many_deletions",
        "propose deletions without end",
        &[
            Ask::at("shown", "README.md"),
            Ask::at("many-deletions", "README.md").times(20),
        ],
        "stage",
    )
    .within(small_stage),
];
