//! `list_files`: directory contents, with sizes.

use serde::Deserialize;
use skill_sdk::serde_json::json;
use skill_sdk::{Descriptor, Failure, Host, Outcome, Query, Skill, export_skill};

/// The skill.
#[derive(Debug)]
pub struct ListFiles;

#[derive(Deserialize)]
struct Arguments {
    #[serde(default)]
    path: String,
}

impl Skill for ListFiles {
    fn describe() -> Descriptor {
        Descriptor {
            name: "list_files",
            version: "1.0.0",
            description: "Lists a directory.",
            parameters: json!({"type": "object", "properties": {"path": {"type": "string"}}}),
            effects: &["read-repository"],
        }
    }

    fn call(host: &dyn Host, arguments: &str) -> Result<Outcome, Failure> {
        let arguments: Arguments = skill_sdk::arguments(arguments)?;
        let entries = host.list(&Query {
            under: arguments.path,
            ..Query::default()
        })?;
        let paths: Vec<String> = entries.into_iter().map(|entry| entry.path).collect();
        Ok(Outcome::text(paths.join("\n")))
    }
}

export_skill!(ListFiles);
