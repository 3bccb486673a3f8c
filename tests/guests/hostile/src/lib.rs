//! A guest that attacks: `{"attack": NAME}` does one thing that no skill may do, and tells what came of it.
//!
//! Answers start with `got ` where an attack worked, and with `refused: ` and the kind of the error where it did not;
//! an attack that the sandbox must end answers nothing at all.

mod attacks;
#[cfg(target_family = "wasm")]
mod outside;
#[cfg(not(target_family = "wasm"))]
#[path = "outside_native.rs"]
mod outside;
#[cfg(target_family = "wasm")]
mod raw;
#[cfg(not(target_family = "wasm"))]
#[path = "raw_native.rs"]
mod raw;

use serde::Deserialize;
use skill_sdk::serde_json::json;
use skill_sdk::{Descriptor, Failure, Handler, Host, Outcome, export_skill};

/// The skill.
#[derive(Debug)]
pub struct Hostile;

/// Attack to run.
#[derive(Debug, Deserialize)]
pub(crate) struct Arguments {
    pub(crate) attack: String,
    #[serde(default)]
    pub(crate) path: String,
    #[serde(default)]
    pub(crate) to: String,
    #[serde(default)]
    pub(crate) count: u64,
}

impl Handler for Hostile {
    const EFFECTS: &'static [&'static str] = &[
        "read-repository",
        "write-repository",
        "read-git",
        "http:granted.example.org",
        "http:second.example.org",
        "config",
        "secret:token",
        "store",
    ];

    fn describe() -> Descriptor {
        Descriptor {
            name: "hostile",
            version: "1.0.0",
            description: "Attacks the sandbox.",
            parameters: json!({
                "type": "object",
                "properties": {
                    "attack": {"type": "string"},
                    "path": {"type": "string"},
                    "to": {"type": "string"},
                    "count": {"type": "integer", "minimum": 0},
                },
                "required": ["attack"],
                "additionalProperties": false,
            }),
            effects: Self::EFFECTS,
        }
    }

    fn call(host: &dyn Host, arguments: &str) -> Result<Outcome, Failure> {
        attacks::run(host, &skill_sdk::arguments(arguments)?)
    }
}

export_skill!(Hostile);
