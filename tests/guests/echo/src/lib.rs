//! A guest that answers with its arguments: the least that a skill can do.

use skill_sdk::serde_json::json;
use skill_sdk::{Descriptor, Failure, Handler, Host, Outcome, export_skill};

/// The skill.
#[derive(Debug)]
pub struct Echo;

impl Handler for Echo {
    const EFFECTS: &'static [&'static str] = &[];

    fn describe() -> Descriptor {
        Descriptor {
            name: "echo",
            version: "1.0.0",
            description: "Answers with its arguments.",
            parameters: json!({"type": "object", "properties": {"text": {"type": "string"}}}),
            effects: Self::EFFECTS,
        }
    }

    fn call(_: &dyn Host, arguments: &str) -> Result<Outcome, Failure> {
        Ok(Outcome::text(arguments))
    }
}

export_skill!(Echo);
