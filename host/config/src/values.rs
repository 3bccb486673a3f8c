//! Values of the configuration with a fixed set of words: their place in the file, whether they are known, and the
//! nearest known word. The parser checks the types.

use super::layer::{Sourced, ValueLayer};
use super::line_and_column;
use tool_core::api::{ErrorKind, Problem};
use tool_core::text::nearest_name;

/// Returns the position of a value of a table, as `line 3, column 7`: of an item of a list, or else of the value of the
/// key. `None` if it cannot be found.
pub fn place_of(text: &str, table: &str, key: &str, item: Option<&str>) -> Option<String> {
    let document = toml_edit::Document::parse(text).ok()?;
    let value = document.get(table)?.get(key)?;
    let mut within = value.as_array().into_iter().flatten();
    let named = within.find(|value| value.as_str() == item);
    let span = named.and_then(toml_edit::Value::span).or_else(|| value.span());
    Some(line_and_column(text, Some(span?)))
}

const LEVELS: [&str; 6] = ["ERROR", "WARN", "INFO", "DEBUG", "TRACE", "OFF"];

/// Checks a level, or a list of `module=level`: a wrong word would silence the log without an error.
pub(super) fn check_log_level(level: &Sourced<String>, text: &str) -> Result<(), Problem> {
    let is_level = |level: &str| LEVELS.iter().any(|known| known.eq_ignore_ascii_case(level));
    let is_right = |part: &str| is_level(part.rsplit_once('=').map_or(part, |(_, level)| level).trim());
    if level.value.split(',').map(str::trim).all(is_right) {
        return Ok(());
    }
    let (what, place) = match level.layer {
        ValueLayer::Environment(name) => (name.to_owned(), None),
        _ => (
            "`level` of [logging]".to_owned(),
            place_of(text, "logging", "level", None),
        ),
    };
    let mut hint = format!("levels are {}", LEVELS.join(", "));
    if let Some(near) = nearest_name(&level.value.to_ascii_uppercase(), LEVELS) {
        hint = format!("did you mean `{near}`? {hint}");
    }
    if let Some(place) = place {
        hint = format!("{place} of config.toml: {hint}");
    }
    let message = format!("{what} is no level of the log: `{}`", level.value);
    Err(Problem::new(ErrorKind::ConfigInvalid, message).with_hint(hint))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use crate::{Environment, config_path, load_settings};

    fn environment(variables: &[(&str, &str)]) -> Environment {
        let owned = variables
            .iter()
            .map(|&(name, value)| (name.to_owned(), value.to_owned()));
        Environment::new(owned.collect::<BTreeMap<_, _>>())
    }

    #[test]
    fn a_level_that_is_none_is_said_with_its_place_and_the_nearest() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let load_with = |level: &str, variables: &[(&str, &str)]| {
            let text =
                format!("[providers.local]\nurl = \"builtin:analyst\"\nenabled = true\n[logging]\nlevel = \"{level}\"");
            std::fs::write(config_path(home.path()), text).expect("the folder is writable");
            load_settings(home.path(), &environment(variables))
                .map_err(|problem| format!("{}\nhint: {}", problem.message, problem.hint.unwrap_or_default()))
        };
        for level in ["DEBUG", "warn", "off", "host=debug,INFO"] {
            assert!(load_with(level, &[]).is_ok(), "{level}");
        }
        insta::assert_snapshot!(load_with("DEBG", &[]).expect_err("it is none"), @"
        `level` of [logging] is no level of the log: `DEBG`
        hint: line 5, column 9 of config.toml: did you mean `DEBUG`? levels are ERROR, WARN, INFO, DEBUG, TRACE, OFF
        ");
        insta::assert_snapshot!(load_with("INFO", &[("TOOL_LOG_LEVEL", "LOUD")]).expect_err("it is none"), @"
        TOOL_LOG_LEVEL is no level of the log: `LOUD`
        hint: levels are ERROR, WARN, INFO, DEBUG, TRACE, OFF
        ");
    }
}
