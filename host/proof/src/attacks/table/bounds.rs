//! Attacks that never end, or that take without end.

use serde_json::{Map, Value, json};

use super::{KIB, MIB, flood, last, small_stage};
use crate::attacks::ExpectedRefusal::{Bounded, Busy};
use crate::attacks::{Attack, AttackGoal, AttackMethod, GuestRequest};

/// A schema of one page that describes 65,000 parts. With twice as many steps a check would never end.
fn build_doubling_schema() -> Value {
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
    last("spin", "compute for ever", &[GuestRequest::new("spin")]),
    last(
        "spin_in_host_calls",
        "ask the host for ever",
        &[GuestRequest::new("spin-in-host-calls")],
    ),
    last("sleep", "sleep for days", &[GuestRequest::new("sleep")]),
    last(
        "sleep_for_ever",
        "wait for a time that never comes",
        &[GuestRequest::new("sleep-for-ever")],
    ),
    last(
        "wait_in_stream",
        "wait in a stream for ever",
        &[GuestRequest::new("wait-in-stream")],
    ),
    Attack::new(
        "crowd",
        "call more often than there are turns",
        AttackMethod::Crowd(GuestRequest::new("nap").times(500), 4),
    )
    .wants(AttackGoal::Room)
    .comes_to(Busy)
    .within(|limits| {
        limits.calls_concurrent = 1;
        limits.calls_waiting = 1;
    }),
    // ---- floods ----
    flood(
        "use_linear_memory",
        "use memory without end",
        &[GuestRequest::new("memory").times(32)],
        "memory",
    )
    .within(|limits| limits.memory_bytes = 16 * MIB),
    flood(
        "flood_pieces",
        "answer in pieces without end",
        &[GuestRequest::new("say").times(3)],
        "output",
    ),
    flood(
        "flood_citations",
        "cite without end",
        &[GuestRequest::at("cite", "README.md").times(2000)],
        "limit",
    ),
    flood(
        "flood_media",
        "attach a diagram without end",
        &[GuestRequest::at("attach", "text/vnd.mermaid")
            .to("A-->B;")
            .times(100_000)],
        "limit",
    ),
    flood(
        "attach_disguised",
        "pass a web page for an image",
        &[GuestRequest::at("attach", "image/png").to("<script>").times(1)],
        "invalid-arguments",
    ),
    flood(
        "use_tables",
        "use tables without end",
        &[GuestRequest::new("present")],
        "tables",
    )
    .within(|limits| limits.table_elements = 1),
    flood(
        "use_instances",
        "use instances without end",
        &[GuestRequest::new("present")],
        "instances",
    )
    .within(|limits| limits.instances = 1),
    flood(
        "use_handles",
        "hold handles without end",
        &[GuestRequest::new("handles").times(200)],
        "handles",
    )
    .within(|limits| limits.handles = 100),
    flood(
        "hoard_selections",
        "keep selections of files, each with globs of its own",
        &[GuestRequest::new("selections").times(9)],
        "handles",
    ),
    flood(
        "use_files",
        "hold files open without end",
        &[GuestRequest::at("open-files", "/repo/README.md").times(100)],
        "handles",
    ),
    flood(
        "use_random",
        "drain random numbers",
        &[GuestRequest::new("random").times(16)],
        "random",
    )
    .within(|limits| limits.random_bytes = 8 * KIB),
    flood(
        "flood_answer",
        "answer without end",
        &[GuestRequest::new("output").times(64 * KIB)],
        "output",
    )
    .within(|limits| limits.output_bytes = 32 * 1024)
    .wants(AttackGoal::Text("xxxxxxxx")),
    flood(
        "flood_cursor",
        "make the model repeat without end",
        &[GuestRequest::new("cursor").times(64 * KIB)],
        "output",
    )
    .wants(AttackGoal::Text("xxxxxxxx")),
    Attack::calls(
        "doubling_schema",
        "have its arguments held to a schema that means itself twice at every step",
        &[GuestRequest::new("present")],
    )
    .described(build_doubling_schema)
    .comes_to(Bounded("not-ready"))
    .wants(AttackGoal::Text("Invalid arguments")),
    flood(
        "flood_host_call",
        "make the host copy without end",
        &[GuestRequest::new("output").times(512 * KIB)],
        "output",
    )
    .within(|limits| limits.host_call_bytes = 256 * 1024)
    .wants(AttackGoal::Text("xxxxxxxx")),
    Attack::calls("flood_log", "fill the log", &[GuestRequest::new("log").times(2_000)])
        .within(|limits| limits.log_bytes = 16 * 1024)
        .wants(AttackGoal::Log(32 * KIB)),
    Attack::calls(
        "flood_stdout",
        "fill the log by printing",
        &[GuestRequest::new("stdout").times(200)],
    )
    .within(|limits| limits.log_bytes = 16 * 1024)
    .wants(AttackGoal::Log(32 * KIB)),
    flood(
        "read_without_end",
        "read without end",
        &[GuestRequest::at("reread", "/repo/README.md").times(50)],
        "read",
    )
    .within(|limits| limits.read_bytes = 100),
    flood(
        "read_all_without_end",
        "read all files without end",
        &[GuestRequest::at("read-all-until", "README.md").to("hello").times(50)],
        "read",
    )
    .within(|limits| limits.read_bytes = 100),
    flood(
        "walk_without_end",
        "list without end",
        &[GuestRequest::at("walk", "/repo").times(20)],
        "entries",
    )
    .within(|limits| limits.entries = 100),
    flood(
        "stage_bytes",
        "propose without end",
        &[GuestRequest::at("stage-bytes", "/stage/big").times(32)],
        "stage",
    )
    .within(small_stage),
    flood(
        "stage_again",
        "write and remove without end",
        &[GuestRequest::at("stage-again", "/stage/big").times(32)],
        "stage",
    )
    .within(|limits| limits.staged_bytes = MIB),
    flood(
        "stage_hole",
        "propose a file that is one large hole",
        &[GuestRequest::at("stage-hole", "/stage/big").times(2 * MIB)],
        "stage",
    )
    .within(small_stage),
    flood(
        "stage_size",
        "give a proposed file a large size",
        &[GuestRequest::at("stage-size", "/stage/big").times(2 * MIB)],
        "stage",
    )
    .within(small_stage),
    flood(
        "stage_files",
        "propose files without end",
        &[GuestRequest::at("stage-files", "/stage/file").times(20)],
        "stage",
    )
    .within(small_stage),
    flood(
        "stage_directories",
        "make directories without end",
        &[GuestRequest::at("stage-directories", "/stage/place").times(20)],
        "stage",
    )
    .within(small_stage),
    flood(
        "many_deletions",
        "propose deletions without end",
        &[
            GuestRequest::at("shown", "README.md"),
            GuestRequest::at("many-deletions", "README.md").times(20),
        ],
        "stage",
    )
    .within(small_stage),
];
