//! A guest that proposes many changes in one call, as a rename over a whole package would.

use std::collections::BTreeMap;
use std::fs;

use serde::Deserialize;
use skill_sdk::serde_json::json;
use skill_sdk::{Descriptor, Failure, Handler, Host, Outcome, export_skill};

/// The skill.
#[derive(Debug)]
pub struct Bundle;

/// The files with their new contents, and those that go.
#[derive(Debug, Deserialize)]
struct Arguments {
    files: BTreeMap<String, String>,
    #[serde(default)]
    deletions: Vec<String>,
}

impl Handler for Bundle {
    const EFFECTS: &'static [&'static str] = &["read-repository", "write-repository"];

    fn describe() -> Descriptor {
        Descriptor {
            name: "bundle",
            version: "1.0.0",
            description: "Writes and deletes many files at once.",
            parameters: json!({
                "type": "object",
                "properties": {
                    "files": {"type": "object", "additionalProperties": {"type": "string"}},
                    "deletions": {"type": "array", "items": {"type": "string"}},
                },
                "required": ["files"],
                "additionalProperties": false,
            }),
            effects: Self::EFFECTS,
        }
    }

    fn call(host: &dyn Host, arguments: &str) -> Result<Outcome, Failure> {
        let Arguments { files, deletions } = skill_sdk::arguments(arguments)?;
        let failed = |error: std::io::Error| Failure::new("failed", error.to_string());
        for (path, content) in &files {
            let place = host.stage().join(path);
            if let Some(folder) = place.parent() {
                fs::create_dir_all(folder).map_err(failed)?;
            }
            fs::write(place, content).map_err(failed)?;
        }
        let text = format!("{} written, {} deleted", files.len(), deletions.len());
        Ok(Outcome {
            deletions,
            ..Outcome::text(text)
        })
    }
}

export_skill!(Bundle);
