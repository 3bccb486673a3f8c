//! A guest that uses what lies outside of a repository, as a skill of a team would: a server with a secret, settings, and
//! values that it keeps.

use serde::Deserialize;
use skill_sdk::serde_json::json;
use skill_sdk::{Descriptor, Failure, Handler, Host, HttpRequest, Outcome, export_skill};

/// The skill.
#[derive(Debug)]
pub struct Reaching;

#[derive(Debug, Deserialize)]
struct Arguments {
    #[serde(rename = "do")]
    deed: String,
    #[serde(default)]
    url: String,
    #[serde(default)]
    headers: Vec<String>,
    #[serde(default)]
    key: String,
    #[serde(default)]
    value: String,
}

impl Handler for Reaching {
    const EFFECTS: &'static [&'static str] = &[
        "http:tickets.example.org",
        "http:localhost",
        "http:127.0.0.1",
        "http:plain.example.org",
        "http-write:write.example.org",
        "config",
        "secret:tickets_token",
        "store",
    ];

    fn describe() -> Descriptor {
        Descriptor {
            name: "reaching",
            version: "1.0.0",
            description: "Reads tickets.",
            parameters: json!({
                "type": "object",
                "properties": {
                    "do": {"type": "string"},
                    "url": {"type": "string"},
                    "headers": {"type": "array", "items": {"type": "string"}},
                    "key": {"type": "string"},
                    "value": {"type": "string"},
                },
                "required": ["do"],
                "additionalProperties": false,
            }),
            effects: Self::EFFECTS,
        }
    }

    fn call(host: &dyn Host, arguments: &str) -> Result<Outcome, Failure> {
        answer(host, &skill_sdk::arguments(arguments)?).map(Outcome::text)
    }
}

fn answer(host: &dyn Host, arguments: &Arguments) -> Result<String, Failure> {
    let Arguments {
        deed,
        url,
        headers,
        key,
        value,
    } = arguments;
    Ok(match deed.as_str() {
        "config" => host.setting(key)?.unwrap_or_else(|| "none".to_owned()),
        "settings" => {
            let settings = host.settings()?;
            let settings: Vec<String> = settings.iter().map(|(key, value)| format!("{key}={value}")).collect();
            settings.join(" ")
        }
        "keep" => {
            host.keep_value(key, value.as_bytes())?;
            "kept".to_owned()
        }
        "kept" => match host.kept_value(key)? {
            Some(value) => String::from_utf8_lossy(&value).into_owned(),
            None => "none".to_owned(),
        },
        "keys" => host.kept_keys()?.join(" "),
        "forget" => {
            host.remove_value(key)?;
            "forgotten".to_owned()
        }
        method => {
            let mut request = HttpRequest::new(method, url).with_body(value.as_bytes());
            for header in headers {
                let (name, value) = header.split_once(": ").unwrap_or((header, ""));
                request = request.with_header(name, value);
            }
            let response = host.send_request(&request)?;
            let mut text = format!("{}\n", response.status);
            for (name, value) in &response.headers {
                text.push_str(&format!("{name}: {value}\n"));
            }
            text.push_str(&format!("\n{}", response.text()));
            // The key is the text to look for, backwards: so that the arguments are no find.
            let wanted: Vec<u8> = key.bytes().rev().collect();
            if !wanted.is_empty() {
                text.push_str(if holds(&wanted) {
                    "\nfound in memory"
                } else {
                    "\nnot in memory"
                });
            }
            text
        }
    })
}

/// True where the memory of this guest holds a text anywhere but at its own place.
#[cfg(target_family = "wasm")]
fn holds(wanted: &[u8]) -> bool {
    #![expect(unsafe_code, reason = "a guest reads its memory as it likes")]
    let pages = core::arch::wasm32::memory_size(0);
    let own = wanted.as_ptr() as usize;
    let mut at = 1_usize;
    while at + wanted.len() < pages * 65_536 {
        // SAFETY: all of it lies within the memory, which only grows.
        let is_there = (0..wanted.len())
            .all(|offset| unsafe { core::ptr::read_volatile((at + offset) as *const u8) == wanted[offset] });
        if is_there && at != own {
            return true;
        }
        at += 1;
    }
    false
}

#[cfg(not(target_family = "wasm"))]
fn holds(_: &[u8]) -> bool {
    false
}

export_skill!(Reaching);
