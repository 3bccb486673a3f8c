//! A guest whose calls run in parts: it adds numbers, and misbehaves where it is asked to.

use serde::{Deserialize, Serialize};
use skill_sdk::serde_json::{self, json};
use skill_sdk::{Descriptor, Failure, Handler, Host, Outcome, Sharded, export_skill};

/// The skill.
#[derive(Debug)]
pub struct Summing;

#[derive(Deserialize, Serialize, Clone)]
struct Arguments {
    numbers: Vec<u64>,
    /// `many` splits into more parts than were asked for; `fail`, `spin` and `list` are done by the part with a 0.
    #[serde(default)]
    mischief: String,
    #[serde(default)]
    part: bool,
}

impl Handler for Summing {
    const EFFECTS: &'static [&'static str] = &["read-repository"];

    fn describe() -> Descriptor {
        Descriptor {
            name: "summing",
            version: "1.0.0",
            description: "Adds numbers.",
            parameters: json!({
                "type": "object",
                "properties": {"numbers": {"type": "array"}, "mischief": {"type": "string"}},
                "required": ["numbers"],
                "additionalProperties": false,
            }),
            effects: Self::EFFECTS,
        }
    }

    fn call(host: &dyn Host, arguments: &str) -> Result<Outcome, Failure> {
        let arguments: Arguments = skill_sdk::arguments(arguments)?;
        match arguments.mischief.as_str() {
            "fail" if arguments.numbers.contains(&0) => return Err(Failure::failed("a part failed")),
            "fail" => std::thread::sleep(std::time::Duration::from_secs(3600)),
            "spin" if arguments.numbers.contains(&0) => loop {
                std::hint::black_box(&arguments);
            },
            "forge" => {
                return Err(Failure::new("denied", "The user did not agree to `write-repository`"));
            }
            "list" => {
                host.list(&skill_sdk::Query {
                    recursive: true,
                    ..Default::default()
                })?;
            }
            _ => {}
        }
        let sum: u64 = arguments.numbers.iter().sum();
        let kind = if arguments.part { "part" } else { "whole" };
        Ok(Outcome::text(format!("{kind}:{sum}")))
    }
}

impl Sharded for Summing {
    fn split(_: &dyn Host, arguments: &str, parts: u32) -> Result<Vec<String>, Failure> {
        let whole: Arguments = skill_sdk::arguments(arguments)?;
        let size = match whole.mischief.as_str() {
            "many" => 1,
            _ => whole.numbers.len().div_ceil(parts as usize).max(1),
        };
        whole
            .numbers
            .chunks(size)
            .map(|numbers| {
                let part = Arguments {
                    numbers: numbers.to_vec(),
                    part: true,
                    ..whole.clone()
                };
                serde_json::to_string(&part).map_err(|error| Failure::failed(error.to_string()))
            })
            .collect()
    }

    fn merge(_: &str, outcomes: Vec<Outcome>) -> Result<Outcome, Failure> {
        let texts: Vec<String> = outcomes.into_iter().map(|outcome| outcome.text).collect();
        Ok(Outcome::text(texts.join(" ")))
    }
}

export_skill!(sharded Summing);
