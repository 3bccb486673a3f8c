//! Hostile components and models: any bytes as a component, any schema with any arguments.

use serde_json::Value;

use super::{RawArguments, arguments, component};
use input::Input;

#[path = "../input.rs"]
mod input;

/// A component is refused with a bounded sentence or has a surface.
pub fn components(bytes: &[u8]) {
    if let Err(reason) = component::inspect_component(bytes) {
        assert!(!reason.is_empty() && reason.len() <= 8 * bytes.len() + 1_000);
    }
}

/// Arguments that pass a schema are an object; others are answered with a bounded sentence.
pub fn arguments(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let schema = input.text();
    let given = input.text();
    let Ok(schema) = serde_json::from_str::<Value>(&schema) else {
        return;
    };
    let Ok(validator) = arguments::compile_schema(&schema) else {
        return;
    };
    // Reading them leniently ends, and what comes out of it fits.
    let root = std::path::Path::new("/repo");
    if let Ok(read) = arguments::check_call("skill", &validator, &RawArguments::Text(&given), root) {
        let again = arguments::check_arguments("skill", &validator, &RawArguments::Value(&read.value));
        assert_eq!(again.ok(), Some(read.value), "what a skill gets fits its schema");
    }
    match arguments::check_arguments("skill", &validator, &RawArguments::Text(&given)) {
        Ok(value) => {
            assert!(value.is_object());
            let again = arguments::check_arguments("skill", &validator, &RawArguments::Value(&value));
            assert_eq!(again.ok(), Some(value), "what passed passes again");
        }
        Err(error) => {
            let said = error.to_string();
            let bound = 2_000 + 8 * schema.to_string().len();
            assert!(said.len() < bound, "a sentence of {} bytes: {said}", said.len());
        }
    }
}

#[cfg(test)]
#[path = "../replay.rs"]
mod replay;

#[cfg(test)]
mod tests {
    super::replay::replay_targets!("../..", arguments components);
}
