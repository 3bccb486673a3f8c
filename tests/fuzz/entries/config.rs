//! Hostile configuration: any text as the file and as the environment, and the edit that `tool init` makes of it.

use std::collections::BTreeMap;
use std::path::Path;

use toml_edit::DocumentMut;

use super::{CommonSettings, Environment, FORWARDED, ProviderChoice, edit, origin, parse, resolve_settings};
use input::Input;

#[path = "../input.rs"]
mod input;

/// Nothing panics, no list of settings shows a key, and what `tool init` leaves can be read where it could before.
pub fn configuration(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let text = input.text();
    let environment = environment(&String::from_utf8_lossy(input.rest()));
    let forwarded = environment.forwarded();
    assert!(forwarded.keys().all(|name| FORWARDED.contains(&name.as_str())));
    let _ = (
        super::backend_port(Path::new("/nonexistent"), &environment),
        environment.tool_home(),
        environment.scan_time(),
    );
    match parse(&text) {
        Ok(file) => {
            let settings = origin::list_settings(&file, Path::new("/h/config.toml"), Path::new("/h"), &environment);
            for setting in settings.iter().filter(|setting| setting.key.ends_with(".api_key")) {
                let shown = setting.value.as_str().unwrap_or_default();
                assert!(
                    shown.is_empty() || shown.starts_with("set, "),
                    "{shown:?} is shown of a key"
                );
            }
            let resolved = resolve_settings(file, &environment);
            let enabled = resolved.map(|settings| settings.providers.iter().filter(|each| each.enabled).count());
            assert!(enabled.is_err() || enabled == Ok(1));
            let again = parse(&text).expect("it was read before");
            let _ = CommonSettings::from_file(again, &environment);
        }
        Err(problem) => {
            let said = format!("{}{}", problem.message, problem.hint.unwrap_or_default());
            assert!(
                said.len() <= 8 * text.len() + 2_000,
                "a sentence of {} bytes",
                said.len()
            );
        }
    }
    let Ok(mut document) = text.parse::<DocumentMut>() else {
        return;
    };
    edit::apply_init(&mut document, &ProviderChoice::offline());
    if parse(&text).is_ok() {
        let file = parse(&document.to_string()).expect("an edit keeps a file readable");
        let enabled: Vec<_> = file
            .providers
            .iter()
            .filter(|(_, provider)| provider.is_enabled())
            .collect();
        assert_eq!(enabled.len(), 1, "{document}");
    }
}

/// `NAME=value`, a line each.
fn environment(text: &str) -> Environment {
    let variables: BTreeMap<String, String> = text
        .lines()
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    Environment::new(variables)
}

#[cfg(test)]
#[path = "../replay.rs"]
mod replay;

#[cfg(test)]
mod tests {
    super::replay::replay_targets!("../..", configuration);
}
